"""The probe: tests the walls of a sandbox from inside. Its source text runs in there, with the standard library only.

Its argument is JSON: the walls to test in `walls`, `namespaces` outside, the size limit of /tmp in `tmp_bytes`, the
limit of `processes`, and in `modes` the numbers of the system calls that give a file a mode. It prints JSON: for each
tested wall null when it stands, otherwise the reason why it does not. It writes to its working directory.
"""

import ctypes
import errno
import json
import os
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterator

KEYCTL = {"x86_64": 250, "aarch64": 219}
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NOWHERE = ("192.0.2.1", 9)
"""An address that no host has (RFC 5737), and the discard port."""


MOST_TRIED = 5_000
"""Files of one mounted directory that are opened to find one that can be written."""

ELSEWHERE = ("fd", "task", "map_files", "cwd", "root", "exe")
"""Entries of a process's directory in /proc that lead to other files, or repeat it for each thread."""

AT_FDCWD = -100
SETUID, SETGID = stat.S_ISUID | 0o755, stat.S_ISGID | 0o755
CAPABILITY = b"\x00\x00\x00\x02" + b"\xff" * 4 + b"\x00" * 12
"""Capabilities of a file in the kernel's form (VFS_CAP_REVISION_2)."""


def namespaces(outside: dict[str, str]) -> str | None:
    same = [name for name, link in outside.items() if os.readlink(f"/proc/self/ns/{name}") == link]
    return f"shared with the drone: {', '.join(same)}" if same else None


def no_userns_inside(libc: ctypes.CDLL) -> str | None:
    for flag in (CLONE_NEWUSER, CLONE_NEWUSER | CLONE_NEWNET):
        if libc.unshare(flag) == 0:
            return "a program can make a namespace in which it has all rights"
    return None


def proc_readonly() -> str | None:
    if (found := writable("/proc/sys")) is not None:
        return f"settings of the kernel can be changed, such as {found}"
    found = next(filter(None, map(writable, mounts("/proc"))), None)
    return None if found is None else f"{found} can be written"


def sys_readonly() -> str | None:
    found = next(filter(None, map(writable, mounts("/sys"))), None)
    return None if found is None else f"{found} can be written"


def mounts(top: str) -> list[str]:
    """This directory, and what is mounted below it."""
    with open("/proc/self/mounts", errors="replace") as lines:
        places = {line.split()[1].encode().decode("unicode_escape") for line in lines}
    return [top, *sorted(place for place in places if place.startswith(f"{top}/"))]


def writable(top: str) -> str | None:
    """A file of this directory that can be opened for writing, which changes nothing yet; None where there is none.
    What is mounted below it is left out where it is another file system."""
    for _, path in zip(range(MOST_TRIED), files(top), strict=False):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY))
        except OSError as error:
            if error.errno == errno.EROFS:
                return None
        else:
            return path
    return None


def files(top: str) -> Iterator[str]:
    """The regular files below a directory; of the processes only this one's."""
    directory = f"{top}/{os.getpid()}"
    for path, directories, names in os.walk(top):
        if path == "/proc":
            directories[:] = [name for name in directories if not name.isdigit()] + [str(os.getpid())]
        if path == directory:
            directories[:] = [name for name in directories if name not in ELSEWHERE]
        directories[:] = [name for name in directories if not os.path.ismount(os.path.join(path, name))]
        for name in names:
            if os.path.isfile(file := os.path.join(path, name)) and not os.path.islink(file):
                yield file


def no_setid(libc: ctypes.CDLL, calls: dict[str, int]) -> str | None:
    """Tries each call that gives a file a mode, and looks for what came of it."""
    plain = os.open("given", os.O_RDWR | os.O_CREAT, 0o755)
    for mode in (SETUID, SETGID):
        how = struct.pack("=QQQ", os.O_CREAT | os.O_WRONLY, mode, 0)
        for name, call in calls.items():
            path = f"by-{name}".encode()
            arguments: tuple[object, ...] = {
                "chmod": (b"given", mode),
                "creat": (path, mode),
                "fchmod": (plain, mode),
                "fchmodat": (AT_FDCWD, b"given", mode),
                "fchmodat2": (AT_FDCWD, b"given", mode, 0),
                "mkdir": (path, mode),
                "mkdirat": (AT_FDCWD, path, mode),
                "mknod": (path, stat.S_IFREG | mode, 0),
                "mknodat": (AT_FDCWD, path, stat.S_IFREG | mode, 0),
                "open": (path, os.O_CREAT | os.O_WRONLY, mode),
                "openat": (AT_FDCWD, path, os.O_CREAT | os.O_WRONLY, mode),
                "openat2": (AT_FDCWD, path, how, len(how)),
            }[name]
            libc.syscall(call, *arguments)
            if any(os.lstat(made).st_mode & (stat.S_ISUID | stat.S_ISGID) for made in os.listdir(".")):
                return f"a program can make a file with setuid or setgid ({name})"
    try:
        os.setxattr("given", "security.capability", CAPABILITY)
    except OSError:
        return None
    return "a program can give a file capabilities"


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
        "processes": lambda: processes(asked["processes"]),
        "proc_readonly": proc_readonly,
        "sys_readonly": sys_readonly,
        "no_setid": lambda: no_setid(libc, asked["modes"]),
        "no_userns_inside": lambda: no_userns_inside(libc),
    }
    results = {}
    for name in asked["walls"]:
        try:
            results[name] = tried[name]()
        except (OSError, ValueError) as error:
            results[name] = f"it could not be tried: {error}"
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
