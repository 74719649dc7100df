"""What a sandbox lets its program do, and the options of bubblewrap that make it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from drone.sandbox.below import path_of
from drone.sandbox.limits import Limits
from drone.sandbox.network import Network
from drone.sandbox.paths import Workspace
from drone.sandbox.worktree import COMMON, GIT, Worktree

WORKSPACE = "/workspace"
"""Where the workspace is, for whatever runs in the sandbox."""

PATH = "/usr/local/bin:/usr/bin:/bin"
ENVIRONMENT: Mapping[str, str] = {
    "PATH": PATH,
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
}
"""All that is in a child's environment, whatever is in ours."""

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Programs and libraries."""

_MOUNTED = frozenset({WORKSPACE, GIT, COMMON, *SYSTEM, "/etc", "/proc", "/dev", "/tmp"})
_NAMESPACES = ("user", "pid", "ipc", "uts", "net")


@dataclass(frozen=True, slots=True)
class Profile:
    """`write`: the workspace may be changed, but for what is protected. `egress`: the way out, None = no network.

    `ours`: it is a program of this installation that does what it is told, git. Its processes are not counted where
    that takes time.
    """

    write: bool = False
    egress: Network | None = None
    ours: bool = False

    @property
    def name(self) -> str:
        """As people, rules and approvals know it: `read-only`, `workspace-write`, `+network` behind it."""
        return f"{'workspace-write' if self.write else 'read-only'}{'' if self.egress is None else '+network'}"


READ_ONLY = Profile()


@dataclass(frozen=True, slots=True)
class Mount:
    """A further directory, open as `fd`, that is seen at the absolute path `at`."""

    fd: int
    at: str
    write: bool = False


def options(environment: Mapping[str, str], limits: Limits, *, disable_userns: bool = True) -> tuple[str, ...]:
    """All but what is mounted of the workspace, and what is done last."""
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
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", str(limits.shared_bytes), "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev"),
        *("--size", str(limits.tmp_bytes), "--tmpfs", "/tmp"),
    )


def mounted(mounts: Sequence[Mount], *, by_descriptor: bool) -> tuple[str, ...]:
    return tuple(word for mount in mounts for word in _mounted(mount, by_descriptor))


def _mounted(mount: Mount, by_descriptor: bool) -> tuple[str, ...]:
    kind = "--bind" if mount.write else "--ro-bind"
    if by_descriptor:
        return (f"{kind}-fd", str(mount.fd), mount.at)
    return (kind, path_of(mount.fd) or "", mount.at)


_SAME = 'test "$(stat -c %d:%i "$1")" = "$2" || { echo "The workspace was moved meanwhile; try again." >&2; exit 125; }'
_ONLY_THERE = ("sh", "-c", f'while test "$1" != --; do {_SAME}; shift 2; done; shift; exec "$@"', "sh")
"""Starts a command if each directory has this device and inode."""


def only_there(mounts: Sequence[Mount]) -> tuple[str, ...]:
    """What a command begins with that is started only where these directories are what was opened.

    For a bubblewrap that takes no descriptors, and mounts what has the directory's name by then.
    """
    return (*_ONLY_THERE, *(word for mount in mounts for word in (mount.at, _identity(mount.fd))), "--")


def _identity(fd: int) -> str:
    status = os.fstat(fd)
    return f"{status.st_dev}:{status.st_ino}"


def workspace_mount(workspace: Workspace, profile: Profile) -> Mount:
    return Mount(workspace.fd, WORKSPACE, profile.write)


def spelled(workspace: Workspace) -> Iterator[str]:
    """The workspace by its own absolute paths as well, which its files may name: scripts of a virtual environment do.

    They are links in the sandbox's own root, to be made before anything is mounted there. Where a path leads into what
    is mounted there is none, nor in /tmp, which stays empty.
    """
    asked, real = map(os.path.normpath, workspace.spellings)
    own = [asked] if isinstance(workspace, Worktree) else [real]
    if os.path.commonpath((asked, real)) not in (asked, real):
        own.append(asked)
    for path in dict.fromkeys(own):
        top = f"/{path.strip('/').partition('/')[0]}"
        if top not in _MOUNTED and path.count("/") > 1:
            yield from ("--symlink", WORKSPACE, path)


def _system() -> Iterator[str]:
    """Programs and libraries, laid out as they are outside; of /etc only where the libraries are, and which of several
    programs goes by a name such as `cc` or `awk`."""
    for directory in SYSTEM:
        if os.path.islink(directory):
            yield from ("--symlink", os.readlink(directory), directory)
        elif os.path.isdir(directory):
            yield from ("--ro-bind", directory, directory)
    for path in ("/etc/ld.so.cache", "/etc/alternatives"):
        yield from ("--ro-bind-try", path, path)
