"""Bubblewrap: the profile in which foreign programs run, how many at once, and whether this machine can make it."""

import asyncio
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing

from drone.sandbox.child import Bounds, Ended, Leash, run
from drone.sandbox.custody import Custody
from drone.sandbox.paths import Workspace
from drone.sandbox.private import Private

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

_NAMESPACES = ("user", "pid", "ipc", "uts", "net")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_TRIAL_SECONDS = 10.0
_AT_ONCE = 8
_EACH = 4

_SAME = 'test "$(stat -c %d:%i .)" = "$0" || { echo "The workspace was moved meanwhile; try again." >&2; exit 125; }'
_ONLY_THERE = ("sh", "-c", f'{_SAME}; exec "$@"')
"""Starts a command if the current directory has this device and inode."""

Hidden = Mapping[str, bool]
"""What is private, by its path in the sandbox, and whether it is a directory."""

Look = Callable[[Callable[[], Hidden]], Awaitable[Hidden]]
"""Looks where that holds up nobody: the disk may be slow."""


async def _at_once(look: Callable[[], Hidden]) -> Hidden:
    return look()


class Bubblewrap:
    """Runs programs without network, with nothing but the system and one workspace to read, and nothing to write to.

    Namespaces of their own for users, processes, IPC, host name and network; no capability, no new privilege; a private
    /tmp that is gone afterwards. They die with this process, and are held back while it may not act (`custody`). At
    most 8 run at once, of one order 4, and one of each whatever the others take; further ones wait.
    """

    def __init__(self, program: str, custody: Custody | None = None, *, by_descriptor: bool = True) -> None:
        """`by_descriptor`: this bubblewrap takes the workspace's descriptor; an older one is told where that is, and
        the command starts only if it was still there when it was mounted."""
        self.custody = custody or Custody()
        self._program = program
        self._by_descriptor = by_descriptor
        self._system = tuple(_system())
        self._slots = ProgramSlots(_EACH, _AT_ONCE)

    @classmethod
    def found(cls, path: str | None = None) -> "Bubblewrap | None":
        """The `bwrap` of `path` (colon-separated, None = the environment's PATH), if there is one."""
        program = shutil.which("bwrap", path=path)
        return None if program is None else cls(program, by_descriptor=_takes_descriptors(program))

    async def run(
        self,
        argv: Sequence[str],
        workspace: Workspace,
        bounds: Bounds,
        *,
        environment: Mapping[str, str] | None = None,
        instead: Mapping[str, bytes] | None = None,
        look: Look = _at_once,
    ) -> Ended:
        """Run `argv` in the workspace, which is read-only. Raises OSError when bubblewrap cannot be started.

        `environment` is added to `ENVIRONMENT`. `instead`: files of the workspace (relative paths) that the child sees
        with another content. In place of what is private it sees empty directories and files; `look` finds that.
        """
        async with self._slots.taken(workspace.fd):
            hidden = await look(lambda: _hidden(workspace))
            files = {path: b"" for path, is_directory in hidden.items() if not is_directory}
            shown = {f"{WORKSPACE}/{name}": content for name, content in (instead or {}).items()}
            with closing(Leash()) as leash, closing(_Overlays({**shown, **files})) as overlays:
                masks = (_mask(path) for path, is_directory in hidden.items() if is_directory)
                options = (
                    *leash.options,
                    *self._profile(workspace, environment or {}),
                    *overlays.options,
                    *(word for mask in masks for word in mask),
                )
                command = (self._program, *options, "--", *self._started(argv, workspace))
                return await run(command, leash, bounds, self.custody, (workspace.fd, *overlays.descriptors))

    def problem(self, argv: Sequence[str] = ("true",)) -> str | None:
        """Why this command cannot be run here, None when it can: it is tried. Blocks for some 20 ms."""
        system = Workspace("/usr")
        command = (self._program, *self._profile(system, {}), "--", *self._started(argv, system))
        try:
            tried = subprocess.run(
                command, capture_output=True, timeout=_TRIAL_SECONDS, env={}, check=False, pass_fds=(system.fd,)
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{self._program} does not work: {error}"
        if tried.returncode:
            said = tried.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
            return f"{self._program} cannot make a sandbox here: {said or f'exit status {tried.returncode}'}"
        return None

    def _started(self, argv: Sequence[str], workspace: Workspace) -> Sequence[str]:
        if self._by_descriptor:
            return argv
        status = os.fstat(workspace.fd)
        return (*_ONLY_THERE, f"{status.st_dev}:{status.st_ino}", *argv)

    def _workspace(self, workspace: Workspace) -> Sequence[str]:
        if self._by_descriptor:
            return ("--ro-bind-fd", str(workspace.fd), WORKSPACE)
        return ("--ro-bind", os.readlink(f"/proc/self/fd/{workspace.fd}"), WORKSPACE)

    def _profile(self, workspace: Workspace, environment: Mapping[str, str]) -> tuple[str, ...]:
        return (
            *(f"--unshare-{name}" for name in _NAMESPACES),
            "--unshare-cgroup-try",
            "--die-with-parent",
            "--new-session",
            *("--cap-drop", "ALL"),
            "--clearenv",
            *(word for pair in {**ENVIRONMENT, **environment}.items() for word in ("--setenv", *pair)),
            *self._system,
            *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
            *self._workspace(workspace),
            *("--remount-ro", "/"),
            *("--chdir", WORKSPACE),
        )


class _Overlays:
    """Contents that take the place of files, each in memory behind a descriptor of its own."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._files = {path: _in_memory(content) for path, content in contents.items()}

    @property
    def options(self) -> tuple[str, ...]:
        places = ((str(fd), path) for path, fd in self._files.items())
        return tuple(word for place in places for word in ("--ro-bind-data", *place))

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(self._files.values())

    def close(self) -> None:
        for fd in self._files.values():
            os.close(fd)


def _mask(directory: str) -> Sequence[str]:
    """An empty directory in place of one that is seen in the sandbox."""
    return ("--tmpfs", directory, "--remount-ro", directory)


def _takes_descriptors(program: str) -> bool:
    try:
        usage = subprocess.run((program, "--help"), capture_output=True, timeout=_TRIAL_SECONDS, env={}, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return True
    return b"--ro-bind-fd" in usage.stdout + usage.stderr


def _in_memory(content: bytes) -> int:
    fd = os.memfd_create("overlay")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _hidden(workspace: Workspace) -> Hidden:
    below = {f"{WORKSPACE}/{name}": is_directory for name, is_directory in workspace.hidden()}
    return below | dict(_in_the_system(workspace.private))


def _in_the_system(private: Private) -> Iterator[tuple[str, bool]]:
    """What is private and lies among programs and libraries, below /usr/src for example; whether it is a directory."""
    for directory in _SYSTEM if private else ():
        try:
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            yield from ((f"{directory}/{name}", is_directory) for name, is_directory in private.names_in(fd))
        finally:
            os.close(fd)


def _system() -> Iterator[str]:
    """Programs and libraries, laid out as they are outside; of /etc only where the libraries are."""
    for directory in _SYSTEM:
        if os.path.islink(directory):
            yield from ("--symlink", os.readlink(directory), directory)
        elif os.path.isdir(directory):
            yield from ("--ro-bind", directory, directory)
    yield from ("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache")


class ProgramSlots:
    """A holder has one slot for certain, and up to `each` while fewer than `in_all` are taken.

    So an order whose programs take their time holds up its own, and nobody else's. Use on one event loop only.
    """

    def __init__(self, each: int, in_all: int) -> None:
        self._each = each
        self._in_all = in_all
        self._held: Counter[int] = Counter()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def taken(self, holder: int) -> AsyncIterator[None]:
        """A slot, once there is one."""
        while not self._may(holder):
            await self._changed.wait()
        self._held[holder] += 1
        try:
            yield
        finally:
            self._held[holder] -= 1
            if not self._held[holder]:
                del self._held[holder]
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def _may(self, holder: int) -> bool:
        own = self._held[holder]
        return not own or (own < self._each and self._held.total() < self._in_all)
