"""Bubblewrap: runs foreign programs in a sandbox, a few at once, and tells whether this machine can make one."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass

from drone.sandbox.child import Begun, Bounds, Ended, First, Launch, Leash, run
from drone.sandbox.custody import Custody
from drone.sandbox.paths import Workspace
from drone.sandbox.private import Private
from drone.sandbox.profile import (
    PATH,
    READ_ONLY,
    SYSTEM,
    WORKSPACE,
    Mount,
    Profile,
    mounted,
    only_there,
    options,
    workspace_mount,
)
from drone.sandbox.program_slots import ProgramSlots

__all__ = ["PATH", "WORKSPACE", "Bubblewrap", "Mount", "Profile", "Running"]

_TRIAL_SECONDS = 10.0
_AT_ONCE = 8
_EACH = 4

Hidden = Mapping[str, bool]
"""What is private, by its path in the sandbox, and whether it is a directory."""

Look = Callable[[Callable[[], Hidden]], Awaitable[Hidden]]
"""Looks where that holds up nobody: the disk may be slow."""


async def _at_once(look: Callable[[], Hidden]) -> Hidden:
    return look()


class Running:
    """A program that goes on beside its caller, until it ends, its time is over, or it is killed with all it started.

    `stdin` and `stdout` are there when it was started with them; whoever takes them reads, or the program waits.
    """

    def __init__(self, ended: asyncio.Task[Ended], begun: Begun | None) -> None:
        self._ended = ended
        self._begun = begun
        self.stdin = begun.stdin if begun else None
        self.stdout = begun.stdout if begun else None

    async def wait(self) -> Ended:
        """What came of it. Whoever is cancelled here leaves it running."""
        return await asyncio.shield(self._ended)

    async def kill(self) -> Ended:
        """End all of it, unless it has ended, and wait until it is gone."""
        if self._begun is not None and not self._ended.done():
            self._begun.kill()
        return await self.wait()


@dataclass(frozen=True, slots=True)
class _Call:
    """One program, as it is asked for."""

    argv: Sequence[str]
    workspace: Workspace
    bounds: Bounds
    profile: Profile
    environment: Mapping[str, str]
    instead: Mapping[str, bytes]
    look: Look
    cwd: str
    mounts: Sequence[Mount]

    @property
    def mounted(self) -> tuple[Mount, ...]:
        return (workspace_mount(self.workspace, self.profile), *self.mounts)


class Bubblewrap:
    """Runs programs with nothing but the system and one workspace to read, and nothing to write to unless a profile
    says so; without network unless it says so.

    Namespaces of their own for users, processes, IPC, host name and network; no capability, no new privilege; a private
    /tmp that is gone afterwards. They die with this process, and are held back while it may not act (`custody`). Of
    those that are waited for (`run`), at most 8 run at once, of one order 4, and one of each whatever the others take;
    further ones wait.
    """

    def __init__(self, program: str, custody: Custody | None = None, *, by_descriptor: bool = True) -> None:
        """`by_descriptor`: this bubblewrap takes the workspace's descriptor; an older one is told where that is, and
        the command starts only if it was still there when it was mounted."""
        self.custody = custody or Custody()
        self.program = program
        self._by_descriptor = by_descriptor
        self._slots = ProgramSlots(_EACH, _AT_ONCE)
        self._beside: set[asyncio.Task[Ended]] = set()

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
        profile: Profile = READ_ONLY,
        environment: Mapping[str, str] | None = None,
        instead: Mapping[str, bytes] | None = None,
        look: Look = _at_once,
        cwd: str = ".",
        merged: bool = False,
        told: Callable[[bytes], None] | None = None,
        mounts: Sequence[Mount] = (),
    ) -> Ended:
        """Run `argv` to its end in `cwd`, a directory of the workspace (relative, without links). Raises OSError when
        bubblewrap cannot be started.

        `environment` is added to `ENVIRONMENT`. `instead`: files of the workspace (relative paths), or of a mount
        (absolute ones), that the child sees with another content. In place of what is private it sees empty directories
        and files; `look` finds that.
        `merged`: both outputs, in their order, as `stdout`. `told` hears each piece of them. `mounts`: further
        directories; they stay the caller's.
        """
        call = _Call(argv, workspace, bounds, profile, environment or {}, instead or {}, look, cwd, mounts)
        async with self._slots.taken(workspace.fd):
            return await self._held(call, Launch((), merged=merged, told=told))

    async def start(
        self,
        argv: Sequence[str],
        workspace: Workspace,
        bounds: Bounds,
        *,
        profile: Profile = READ_ONLY,
        environment: Mapping[str, str] | None = None,
        instead: Mapping[str, bytes] | None = None,
        look: Look = _at_once,
        cwd: str = ".",
        merged: bool = False,
        told: Callable[[bytes], None] | None = None,
        mounts: Sequence[Mount] = (),
        stdin: bool = False,
    ) -> Running:
        """The same, without waiting for its end: what is running then is the caller's to end. How many of these there
        are, the caller bounds.

        `stdin`: its input and output are streams of the caller's, and of its output nothing is kept or told.
        """
        call = _Call(argv, workspace, bounds, profile, environment or {}, instead or {}, look, cwd, mounts)
        begun: asyncio.Future[Begun] = asyncio.get_running_loop().create_future()
        ended = asyncio.create_task(self._held(call, Launch((), piped=stdin, merged=merged, told=told), begun))
        self._beside.add(ended)
        ended.add_done_callback(self._beside.discard)
        try:
            await asyncio.wait((begun, ended), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            ended.cancel()
            await asyncio.wait((ended,))
            raise
        if not begun.done():
            ended.result()
        return Running(ended, begun.result() if begun.done() else None)

    async def _held(self, call: _Call, launch: Launch, begun: "asyncio.Future[Begun] | None" = None) -> Ended:
        """Run it, with all that is needed for it as long as it runs."""
        hidden = await call.look(lambda: _hidden(call.workspace))
        files = {path: b"" for path, is_directory in hidden.items() if not is_directory}
        shown = {os.path.join(WORKSPACE, name): content for name, content in call.instead.items()}
        network = call.profile.egress
        given = dict(network.files) if network else {}
        with ExitStack() as held:
            leash = held.enter_context(closing(Leash()))
            over, new = (held.enter_context(closing(_Overlays(contents))) for contents in ({**shown, **files}, given))
            masks = (word for path, is_directory in hidden.items() if is_directory for word in _mask(path))
            words = (
                *leash.options,
                *self._profile(call, new.options),
                *over.options,
                *masks,
            )
            fds = (*(mount.fd for mount in call.mounted), *over.descriptors, *new.descriptors)
            async with _attached(call.profile) as before:
                command = (self.program, *words, "--", *self._started(call))
                ready = Launch(command, fds, launch.piped, launch.merged, launch.told, before)
                return await run(ready, leash, call.bounds, self.custody, begun)

    def problem(self, argv: Sequence[str] = ("true",)) -> str | None:
        """Why this command cannot be run here, None when it can: it is tried. Blocks for some 20 ms."""
        system = Workspace("/usr")
        call = _Call(argv, system, Bounds(_TRIAL_SECONDS), READ_ONLY, {}, {}, _at_once, ".", ())
        command = (self.program, *self._profile(call, ()), "--", *self._started(call))
        try:
            tried = subprocess.run(
                command, capture_output=True, timeout=_TRIAL_SECONDS, env={}, check=False, pass_fds=(system.fd,)
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{self.program} does not work: {error}"
        if tried.returncode:
            said = tried.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
            return f"{self.program} cannot make a sandbox here: {said or f'exit status {tried.returncode}'}"
        return None

    def _started(self, call: _Call) -> Sequence[str]:
        return call.argv if self._by_descriptor else (*only_there(call.mounted), *call.argv)

    def _profile(self, call: _Call, files: Sequence[str]) -> tuple[str, ...]:
        network = call.profile.egress
        return (
            *options({**call.environment, **(network.environment if network else {})}),
            *mounted(call.mounted, by_descriptor=self._by_descriptor),
            *files,
            *("--remount-ro", "/"),
            *("--chdir", os.path.join(WORKSPACE, call.cwd) if call.cwd != "." else WORKSPACE),
        )


@asynccontextmanager
async def _attached(profile: Profile) -> AsyncIterator[Callable[[First], Awaitable[None]] | None]:
    """What is done before the program begins, and undone when it has ended."""
    network = profile.egress
    if network is None:
        yield None
        return
    try:
        yield lambda first: network.attach(first.fd)
    finally:
        await network.detach()


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
    for directory in SYSTEM if private else ():
        try:
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            yield from ((f"{directory}/{name}", is_directory) for name, is_directory in private.names_in(fd))
        finally:
            os.close(fd)
