"""The seccomp filter (classic BPF) that refuses system calls to every program in a sandbox."""

import errno
import platform
import struct
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple, TypeAlias

NUMBERS: Mapping[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
"""Calls refused with EPERM whatever their arguments: name → number on x86_64, number on aarch64."""

HIDDEN: Mapping[str, tuple[int | None, int | None]] = {"clone3": (435, 435), "openat2": (437, 437)}
"""Calls that get ENOSYS, so that the C library falls back to older ones: their arguments lie in memory, where a filter
cannot see them."""

Modes: TypeAlias = Mapping[str, tuple[int | None, int | None, int, int | None]]

MODES: Modes = {
    "chmod": (90, None, 1, None),
    "creat": (85, None, 1, None),
    "fchmod": (91, 52, 1, None),
    "fchmodat": (268, 53, 2, None),
    "fchmodat2": (452, 452, 2, None),
    "mkdir": (83, None, 1, None),
    "mkdirat": (258, 34, 2, None),
    "mknod": (133, None, 1, None),
    "mknodat": (259, 33, 2, None),
    "open": (2, None, 2, 1),
    "openat": (257, 56, 3, 2),
}
"""Calls that give a file a mode, refused with EPERM for one with setuid or setgid: name → number on x86_64, number on
aarch64, index of the mode among the arguments, index of the flags without which the mode means nothing."""

LAST = 469
"""The newest call that this list considers (file_setattr, Linux 6.17). Newer calls, and all of x32, get ENOSYS."""


class Architecture(NamedTuple):
    """`column`: index into `NUMBERS`. `audit`: the architecture's id as the kernel passes it to the filter. The others
    are numbers of calls whose arguments the filter examines."""

    column: int
    audit: int
    clone: int
    ioctl: int
    socket: int
    socketpair: int


ARCHITECTURES: Mapping[str, Architecture] = {
    "x86_64": Architecture(0, 0xC000003E, clone=56, ioctl=16, socket=41, socketpair=53),
    "aarch64": Architecture(1, 0xC00000B7, clone=220, ioctl=29, socket=198, socketpair=199),
}

_NEW_NAMESPACES = 0x7E02_0000
"""The CLONE_NEW… flags for mount, cgroup, UTS, IPC, user, pid and network namespaces."""

_UNIX, _INET, _INET6 = 1, 2, 10
_STREAM, _SEQPACKET, _KIND_OF_SOCKET = 1, 5, 0xF
_SETUID_SETGID = 0o6000
_MAKES_A_FILE = 0o100 | 0o20000000
"""O_CREAT, and O_TMPFILE without O_DIRECTORY, whose value differs between machine types."""

_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

_LOAD, _AND, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in the filter's input (`struct seccomp_data`); the lower half of an argument comes first."""

_KILL, _ALLOW, _ERRNO = 0x8000_0000, 0x7FFF_0000, 0x0005_0000


class _Step(NamedTuple):
    """One instruction. `then` and `other` are the labels to jump to, "" = the next instruction."""

    code: int
    value: int
    then: str = ""
    other: str = ""
    label: str = ""


@cache
def program(machine: str = platform.machine(), *, any_mode: bool = False) -> bytes | None:
    """The filter for this machine type, in the form of bubblewrap's `--seccomp`; None where there is none for it.

    A call of another architecture kills the process, as the same numbers mean other calls there. `any_mode`: files may
    be given any mode, which git needs where a group shares a repository: it hands setgid on to new directories.
    """
    architecture = ARCHITECTURES.get(machine)
    return None if architecture is None else _assembled(list(_steps(architecture, {} if any_mode else MODES)))


def _steps(one: Architecture, modes: Modes) -> Iterator[_Step]:
    yield _Step(_LOAD, _ARCHITECTURE)
    yield _Step(_EQUAL, one.audit, other="kill")
    yield _Step(_LOAD, _NUMBER)
    yield _Step(_GREATER, LAST, then="missing")
    for numbers in HIDDEN.values():
        if (number := numbers[one.column]) is not None:
            yield _Step(_EQUAL, number, then="missing")
    for name in ("clone", "ioctl", "socket", "socketpair"):
        yield _Step(_EQUAL, getattr(one, name), then=name)
    for name, call in modes.items():
        if (number := call[one.column]) is not None:
            yield _Step(_EQUAL, number, then=name)
    for numbers in NUMBERS.values():
        if (number := numbers[one.column]) is not None:
            yield _Step(_EQUAL, number, then="refuse")
    yield _Step(_RETURN, _ALLOW)
    yield from _argument_checks()
    yield from _mode_checks(one, modes)
    yield _Step(_RETURN, _ALLOW, label="allow")
    yield _Step(_RETURN, _ERRNO | errno.EPERM, label="refuse")
    yield _Step(_RETURN, _ERRNO | errno.ENOSYS, label="missing")
    yield _Step(_RETURN, _KILL, label="kill")


def _argument_checks() -> Iterator[_Step]:
    """The calls that are allowed or refused by their arguments."""
    yield _Step(_LOAD, _ARGUMENTS, label="clone")
    yield _Step(_ANY_BIT, _NEW_NAMESPACES, then="refuse", other="allow")
    # These two put input into a terminal, which the user's shell would execute afterwards.
    yield _Step(_LOAD, _ARGUMENTS + 8, label="ioctl")
    yield _Step(_EQUAL, _TIOCSTI, then="refuse")
    yield _Step(_EQUAL, _TIOCLINUX, then="refuse", other="allow")
    # AF_UNIX is refused as well: a socket file in the workspace or a mount may lead to a service of the host.
    yield _Step(_LOAD, _ARGUMENTS, label="socket")
    yield _Step(_EQUAL, _INET, then="allow")
    yield _Step(_EQUAL, _INET6, then="allow", other="refuse")
    yield _Step(_LOAD, _ARGUMENTS, label="socketpair")
    yield _Step(_EQUAL, _UNIX, other="refuse")
    yield _Step(_LOAD, _ARGUMENTS + 8)
    yield _Step(_AND, _KIND_OF_SOCKET)
    # Datagram pairs are refused: one end could be connected anew, to a named socket outside.
    yield _Step(_EQUAL, _STREAM, then="allow")
    yield _Step(_EQUAL, _SEQPACKET, then="allow", other="refuse")


def _mode_checks(one: Architecture, modes: Modes) -> Iterator[_Step]:
    for name, call in modes.items():
        if call[one.column] is None:
            continue
        mode, flags = call[2:]
        if flags is not None:
            yield _Step(_LOAD, _ARGUMENTS + 8 * flags, label=name)
            yield _Step(_ANY_BIT, _MAKES_A_FILE, other="allow")
        yield _Step(_LOAD, _ARGUMENTS + 8 * mode, label=name if flags is None else "")
        yield _Step(_ANY_BIT, _SETUID_SETGID, then="refuse", other="allow")


def _assembled(steps: list[_Step]) -> bytes:
    places = {step.label: at for at, step in enumerate(steps) if step.label}

    def jump(at: int, label: str) -> int:
        return places[label] - at - 1 if label else 0

    return b"".join(
        struct.pack("=HBBI", step.code, jump(at, step.then), jump(at, step.other), step.value)
        for at, step in enumerate(steps)
    )
