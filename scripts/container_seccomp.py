"""`deploy/seccomp.json`: what a drone's container may ask of the kernel so that bubblewrap works in it.

It is the sandbox's own list (`drone/sandbox/seccomp.py`) without what bubblewrap needs to make a sandbox.
"""

import json
from pathlib import Path

from drone.sandbox.seccomp import NUMBERS

FILE = Path(__file__).parents[1] / "deploy" / "seccomp.json"

NEEDED = frozenset({"mount", "umount2", "pivot_root", "unshare", "setns"})
"""To make a sandbox; what runs in one is refused them again."""

FAMILIES = {"AF_ALG": 38, "AF_VSOCK": 40}
"""Sockets that nothing in the container opens. That of the kernel's network (AF_NETLINK) brings up a sandbox's own."""


def profile() -> str:
    refused = {"names": sorted(NUMBERS.keys() - NEEDED), "action": "SCMP_ACT_ERRNO", "errnoRet": 1}
    sockets = [
        {
            "names": ["socket"],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": 1,
            "args": [{"index": 0, "value": family, "op": "SCMP_CMP_EQ"}],
        }
        for family in FAMILIES.values()
    ]
    whole = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": [refused, *sockets],
    }
    return json.dumps(whole, indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(profile())
