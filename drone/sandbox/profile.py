"""Profiles: what a sandbox lets its program do, and the bubblewrap options for it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from drone.sandbox.limits import ProgramLimits
from drone.sandbox.places.mounts import path_of
from drone.sandbox.places.paths import MOUNTED, Workspace
from drone.sandbox.places.worktree import COMMON, GIT, Worktree

WORKSPACE = MOUNTED
"""The path of the workspace inside the sandbox."""

PATH = "/usr/local/bin:/usr/bin:/bin"
ENVIRONMENT: Mapping[str, str] = {
    "PATH": PATH,
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
}
"""The whole environment of a program; nothing of the drone's own environment is passed on."""

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Directories with programs and libraries, which every sandbox sees."""

_MOUNTED = frozenset({WORKSPACE, GIT, COMMON, *SYSTEM, "/etc", "/proc", "/dev", "/tmp"})
_NAMESPACES = ("user", "pid", "ipc", "uts", "net")


class Network(Protocol):
    """The way out of one sandbox: how one program reaches the few hosts that it may reach. Without one, the sandbox has
    an empty network namespace."""

    async def prepare(self) -> None:
        """Called before everything else here. Raises OSError where there is no way out."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for the program."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """Read-only files in the sandbox: absolute path → content."""

    async def attach(self, first: int) -> None:
        """Open the way before the program starts. `first` is a pidfd of the sandbox's first process, whose namespaces
        exist by then. Raises OSError where that fails; the program is then not started.
        """

    async def detach(self) -> None:
        """Close the way: the program has ended, or never started."""

    @property
    def denied(self) -> Sequence[str]:
        """The hosts that the program was refused, each as `host:port`; complete once it is detached."""


@dataclass(frozen=True, slots=True)
class Profile:
    """`write`: the program may change the workspace, except protected paths. `egress`: its network, None = none.

    `ours`: a program of this installation that does just what MCC tells it to, which is git. Its processes are not
    counted where counting takes time, and it may give directories setgid, as it does in a repository that a group
    shares.
    """

    write: bool = False
    egress: Network | None = None
    ours: bool = False

    @property
    def name(self) -> str:
        """The name that people, rules and approvals use: `read-only` or `workspace-write`, `+network` behind it."""
        return f"{'workspace-write' if self.write else 'read-only'}{'' if self.egress is None else '+network'}"


READ_ONLY = Profile()


@dataclass(frozen=True, slots=True)
class Mount:
    """A further directory, open as `fd`, mounted in the sandbox at the absolute path `at`."""

    fd: int
    at: str
    write: bool = False


def options(environment: Mapping[str, str], limits: ProgramLimits, *, disable_userns: bool = True) -> tuple[str, ...]:
    """Bubblewrap options, except those that mount the workspace and those that must come last."""
    return (
        *(f"--unshare-{name}" for name in _NAMESPACES),
        "--unshare-cgroup-try",
        *(("--disable-userns",) if disable_userns else ()),
        "--die-with-parent",
        "--new-session",
        *("--cap-drop", "ALL"),
        "--clearenv",
        *(word for pair in {**ENVIRONMENT, **environment}.items() for word in ("--setenv", *pair)),
        *_system(),
        # A process whose user id is the machine's root may write sysctls without any capability.
        *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"),
        *("--size", str(limits.shared_bytes), "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev"),
        *("--size", str(limits.tmp_bytes), "--tmpfs", "/tmp"),
    )


def mounted(mounts: Sequence[Mount], *, by_descriptor: bool) -> Iterator[str]:
    """Bubblewrap options that mount these directories, by descriptor or by path."""
    for mount in mounts:
        kind = "--bind" if mount.write else "--ro-bind"
        if by_descriptor:
            yield from (f"{kind}-fd", str(mount.fd), mount.at)
        else:
            yield from (kind, path_of(mount.fd) or "", mount.at)


_SAME = 'test "$(stat -c %d:%i "$1")" = "$2" || { echo "The workspace was moved meanwhile; try again." >&2; exit 125; }'
_IF_UNMOVED = ("sh", "-c", f'while test "$1" != --; do {_SAME}; shift 2; done; shift; exec "$@"', "sh")
"""Shell command that starts another one if each directory has the given device and inode."""


def if_unmoved(mounts: Sequence[Mount]) -> tuple[str, ...]:
    """Prefix of a command that starts it only if these mount points show the directories that were opened.

    For a bubblewrap that cannot mount descriptors and mounts by path: another directory may have that path by then.
    """
    statuses = ((mount.at, os.fstat(mount.fd)) for mount in mounts)
    return (*_IF_UNMOVED, *(word for at, now in statuses for word in (at, f"{now.st_dev}:{now.st_ino}")), "--")


def workspace_mount(workspace: Workspace, profile: Profile) -> Mount:
    return Mount(workspace.fd, WORKSPACE, profile.write)


def own_paths(workspace: Workspace) -> Iterator[str]:
    """Bubblewrap options that make the workspace reachable by its own absolute paths too: its files may contain those
    paths, as the scripts of a virtual environment do.

    Each is a symbolic link in the sandbox's root, made before anything is mounted there. A path that leads into a
    mounted directory gets none, and neither does one in /tmp, which stays empty.
    """
    asked, real = map(os.path.normpath, workspace.spellings[:2])
    paths = [asked] if isinstance(workspace, Worktree) else [real]
    if os.path.commonpath((asked, real)) not in (asked, real):
        paths.append(asked)
    for path in dict.fromkeys(paths):
        top = f"/{path.strip('/').partition('/')[0]}"
        if top not in _MOUNTED and path.count("/") > 1:
            yield from ("--symlink", WORKSPACE, path)


def _system() -> Iterator[str]:
    """Programs and libraries, laid out as outside. Of /etc only the linker's cache of libraries, and the alternatives
    that say which program a name such as `cc` or `awk` means."""
    for directory in SYSTEM:
        if os.path.islink(directory):
            yield from ("--symlink", os.readlink(directory), directory)
        elif os.path.isdir(directory):
            yield from ("--ro-bind", directory, directory)
    for path in ("/etc/ld.so.cache", "/etc/alternatives"):
        yield from ("--ro-bind-try", path, path)
