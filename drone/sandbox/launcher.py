"""The launcher: starts a program in container mode, where the drone's container is the sandbox, and kills its children.

Run by its path with nothing but the standard library: INFO_FD BLOCK_FD FILTER_FD DIRECTORY_FD CWD PROGRAM ARGUMENT…
It follows bubblewrap's protocol: it writes the program's pid to INFO_FD, and starts the program when BLOCK_FD can be
read. It is the subreaper of the program: orphaned descendants become its children, and it kills them when the program
has ended. The program gets this process's environment.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
PR_CAPBSET_DROP, CAP_FSETID, CAP_SETFCAP = 24, 4, 31
SECCOMP_MODE_FILTER = 2
NOT_STARTED = 127


class SeccompProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def begin(block: int, code: bytes, place: tuple[int, str], argv: list[str]) -> None:
    """Runs in the child: set the limits and the filter, then exec the program. Does not return."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # Of root's capabilities the program gets at its start only those of this set. Without these two it gives no file
    # capabilities, and a setuid file that it writes to loses that bit.
    for capability in (CAP_FSETID, CAP_SETFCAP):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if not os.read(block, 1):
        os._exit(NOT_STARTED)
    os.fchdir(place[0])
    os.chdir(place[1])
    if code:
        program = SeccompProgram(len(code) // 8, code)
        if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
            raise OSError(ctypes.get_errno(), "the filter of system calls cannot be set")
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execvp(argv[0], argv)


def descendants() -> list[int]:
    """The pids of all processes below this one."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    known, pending = [], [os.getpid()]
    while pending:
        pending += (below := children.get(pending.pop(), []))
        known += below
    return known


def end_all() -> None:
    """Kill all descendants, again until there is none."""
    while True:
        for pid in descendants():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main(arguments: list[str]) -> int:
    info, block, filter_fd, directory = map(int, arguments[:4])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with open(filter_fd, "rb") as file:
        code = file.read()
    first = os.fork()
    if first == 0:
        try:
            os.close(info)
            begin(block, code, (directory, arguments[4]), arguments[5:])
        except OSError as error:
            os.write(2, f"{arguments[5]}: {error.strerror}\n".encode())
        finally:
            os._exit(NOT_STARTED)
    os.write(info, f'{{"child-pid": {first}}}\n'.encode())
    for fd in (info, block, directory):
        os.close(fd)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == first:
            break
    end_all()
    code_of = os.waitstatus_to_exitcode(status)
    return code_of if code_of >= 0 else 128 - code_of


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
