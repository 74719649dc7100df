"""Runs tests as a user without rights: `python -m tests.hostile.as_a_user UID ARGUMENT…`, with pytest's arguments.

This process, and none that it starts, may still read every file: the interpreter may lie where that user cannot look.
"""

import ctypes
import os
import struct
import sys

import pytest

PR_SET_KEEPCAPS, PR_SET_DUMPABLE = 8, 4
VERSION_3 = 0x20080522
READ_ALL = 1 << 2
"""CAP_DAC_READ_SEARCH."""


def become(uid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    held = struct.pack("=6I", READ_ALL, READ_ALL, 0, 0, 0, 0)
    if libc.capset(struct.pack("=Ii", VERSION_3, 0), held):
        raise OSError(ctypes.get_errno(), "the capabilities cannot be set")
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


if __name__ == "__main__":
    become(int(sys.argv[1]))
    sys.exit(pytest.main(sys.argv[2:]))
