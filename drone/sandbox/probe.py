"""The probe: tests the walls of a sandbox from inside. Its source text runs in there, with the standard library only.

Its argument is JSON: `namespaces` outside, the size limit of /tmp in `tmp_bytes`, the limit of `processes`. It prints
JSON: for each tested wall null when it stands, otherwise the reason why it does not.
"""

import ctypes
import errno
import json
import os
import socket
import sys
from collections.abc import Callable

KEYCTL = {"x86_64": 250, "aarch64": 219}
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NOWHERE = ("192.0.2.1", 9)
"""An address that no host has (RFC 5737), and the discard port."""


def namespaces(outside: dict[str, str]) -> str | None:
    same = [name for name, link in outside.items() if os.readlink(f"/proc/self/ns/{name}") == link]
    return f"shared with the drone: {', '.join(same)}" if same else None


def no_userns_inside(libc: ctypes.CDLL) -> str | None:
    for flag in (CLONE_NEWUSER, CLONE_NEWUSER | CLONE_NEWNET):
        if libc.unshare(flag) == 0:
            return "a program can make a namespace in which it has all rights"
    return None


def seccomp(libc: ctypes.CDLL) -> str | None:
    with open("/proc/self/status") as lines:
        if "Seccomp:\t2\n" not in lines:
            return "no filter holds"
    number = KEYCTL.get(os.uname().machine)
    if number and (libc.syscall(number, 0, -3, 1) != -1 or ctypes.get_errno() != errno.EPERM):
        return "a keyring can be reached"
    for name in ("AF_VSOCK", "AF_NETLINK", "AF_PACKET", "AF_ALG"):
        if opened(getattr(socket, name, -1), socket.SOCK_RAW) or opened(getattr(socket, name, -1), socket.SOCK_STREAM):
            return f"a socket of {name} can be opened"
    return None


def opened(family: int, kind: int) -> bool:
    try:
        socket.socket(family, kind).close()
    except OSError:
        return False
    return True


def unix_sockets() -> str | None:
    if opened(socket.AF_UNIX, socket.SOCK_STREAM) or opened(socket.AF_UNIX, socket.SOCK_DGRAM):
        return "sockets of files can be reached"
    one, other = socket.socketpair()
    one.close()
    other.close()
    return None


def tmp_cap(most: int) -> str | None:
    for place in ("/tmp", "/dev/shm"):
        found = os.statvfs(place)
        if found.f_blocks * found.f_frsize > most:
            return f"{place} has {found.f_blocks * found.f_frsize:,} bytes"
    return "/dev can be written" if made("/dev/made") else None


def made(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        return False
    return True


def protected() -> str | None:
    written = [path for path in ("mcc.toml", ".git/config", ".git/hooks/pre-commit") if made(path)]
    if written:
        return f"{', '.join(written)} can be written"
    return None if made("plain") else "nothing can be written to the workspace"


def egress() -> str | None:
    with socket.socket() as way:
        way.settimeout(0.2)
        try:
            way.connect(NOWHERE)
        except TimeoutError:
            return "there is a way out of the network"
        except OSError as error:
            return None if error.errno == errno.ENETUNREACH else f"the network answers: {error.strerror}"
    return "there is a way out of the network"


def processes(most: int) -> str | None:
    """Whether `pid_max` of the pid namespace bounds root's processes. The caller ignores the answer where a control
    group counts them."""
    with open("/proc/sys/kernel/pid_max") as number:
        own = int(number.read()) <= max(301, most + 1)
    return None if own else "the kernel does not count the processes of root, as which the drone runs"


def main(argument: str) -> None:
    asked = json.loads(argument)
    libc = ctypes.CDLL(None, use_errno=True)
    tried: dict[str, Callable[[], str | None]] = {
        "namespaces": lambda: namespaces(asked["namespaces"]),
        "seccomp": lambda: seccomp(libc),
        "unix_sockets": unix_sockets,
        "tmp_cap": lambda: tmp_cap(asked["tmp_bytes"]),
        "protected": protected,
        "egress": egress,
        "no_userns_inside": lambda: no_userns_inside(libc),
    }
    found = {}
    for name, look in tried.items():
        try:
            found[name] = look()
        except (OSError, ValueError) as error:
            found[name] = f"it could not be tried: {error}"
    found["processes"] = processes(asked["processes"])
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
