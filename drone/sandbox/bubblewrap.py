"""Bubblewrap: runs foreign programs in a sandbox, a few at once, and tells whether this machine can make one."""

import asyncio
import errno
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import replace
from typing import Unpack

from drone.sandbox import seccomp
from drone.sandbox.child import Begun, Bounds, Ended, First, Launch, Leash, run, to_the_end
from drone.sandbox.command import Call, Command, CommandLine, How, Maker, Seen, looked_after, looked_at
from drone.sandbox.custody import Custody
from drone.sandbox.guard import FIXED, Guard
from drone.sandbox.limits import DEFAULT, Limits
from drone.sandbox.meter import Meter, Metered
from drone.sandbox.paths import Workspace
from drone.sandbox.placeholders import Placeholders
from drone.sandbox.profile import PATH, WORKSPACE, Mount, Profile
from drone.sandbox.program_slots import ProgramSlots
from drone.sandbox.protected import Protected
from mcc.processors import PROCESSORS

__all__ = ["PATH", "WORKSPACE", "Bubblewrap", "Mount", "Profile", "Running"]

_TRIAL_SECONDS = 10.0
_AT_ONCE = 8
_EACH = 4


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


class Bubblewrap:
    """Runs programs with nothing but the system and one workspace to read, and nothing to write to unless a profile
    says so; without network unless it says so.

    Namespaces of their own for users, processes, IPC, host name and network, and no further ones; no capability, no new
    privilege, none of the system calls of `drone.sandbox.seccomp`; a private /tmp that is gone afterwards. They die
    with this process, and are held back while it may not act (`custody`). Of those that are waited for (`run`), at most
    8 run at once, of one order 4, and one of each whatever the others take; further ones wait.
    """

    def __init__(
        self,
        program: str,
        custody: Custody | None = None,
        *,
        by_descriptor: bool = True,
        limits: Limits = DEFAULT,
        protected: Protected = FIXED,
    ) -> None:
        """`by_descriptor`: this bubblewrap takes the workspace's descriptor; an older one is told where that is, and
        the command starts only if it was still there when it was mounted."""
        self.custody = custody or Custody()
        self.meter = Meter(limits)
        self.protected = protected
        self._placeholders = Placeholders()
        self._maker = Maker(program, limits, by_descriptor)
        self._slots = ProgramSlots(_EACH, _AT_ONCE)
        self._beside: set[asyncio.Task[Ended]] = set()

    @classmethod
    def found(
        cls, path: str | None = None, limits: Limits = DEFAULT, protected: Protected = FIXED
    ) -> "Bubblewrap | None":
        """The `bwrap` of `path` (colon-separated, None = the environment's PATH), if there is one."""
        program = shutil.which("bwrap", path=path)
        if program is None:
            return None
        return cls(program, by_descriptor=_takes_descriptors(program), limits=limits, protected=protected)

    async def run(
        self,
        argv: Sequence[str],
        workspace: Workspace,
        bounds: Bounds,
        *,
        merged: bool = False,
        told: Callable[[bytes], None] | None = None,
        **how: Unpack[How],
    ) -> Ended:
        """Run `argv` to its end, as `Call` says. Raises OSError when bubblewrap cannot be started.

        `merged`: both outputs, in their order, as `stdout`. `told` hears each piece of them.
        """
        async with self._slots.taken(workspace.fd):
            return await self._held(Call(argv, workspace, bounds, **how), Launch((), merged=merged, told=told))

    async def start(
        self,
        argv: Sequence[str],
        workspace: Workspace,
        bounds: Bounds,
        *,
        merged: bool = False,
        told: Callable[[bytes], None] | None = None,
        stdin: bool = False,
        **how: Unpack[How],
    ) -> Running:
        """The same, without waiting for its end: what is running then is the caller's to end. How many of these there
        are, the caller bounds.

        `stdin`: its input and output are streams of the caller's, and of its output nothing is kept or told.
        """
        call = Call(argv, workspace, bounds, **how)
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

    async def _held(self, call: Call, launch: Launch, begun: "asyncio.Future[Begun] | None" = None) -> Ended:
        """Run it, with all that is needed for it as long as it runs."""
        if call.workspace.is_gone:
            raise OSError(errno.ENOENT, "the directory that it would run in was deleted")
        if call.profile.egress is not None:
            await call.profile.egress.prepare()
        guard = Guard(self.protected, self._placeholders, by_descriptor=self._maker.by_descriptor)
        told: tuple[str, ...] = ()
        try:
            looking = call.look(lambda: looked_at(call, guard))
            # What is put into a workspace is known only when that has come to its end.
            private = await (to_the_end(looking) if call.profile.write else looking)
            with ExitStack() as held:
                leash = held.enter_context(closing(Leash()))
                command = held.enter_context(closing(self._command(call, Seen(private, guard), leash.options)))
                metered = held.enter_context(closing(self.meter.metered(ours=call.profile.ours)))
                async with _before(call.profile, metered) as before:
                    ready = replace(launch, argv=command.argv, fds=command.descriptors, before=before)
                    ready = replace(ready, limits=self._of_each())
                    ready = replace(ready, environment=command.environment)
                    ended = await run(ready, leash, call.bounds, self.custody, begun)
                ended = replace(ended, ran_out_of_memory=metered.ran_out_of_memory)
        finally:
            told = await to_the_end(looked_after(call, guard))
        return replace(ended, undone=told)

    def _of_each(self) -> Mapping[int, int]:
        return self.limits.of_each(together=self.meter.holds("memory"))

    def _command(self, call: Call, seen: Seen, leash: Sequence[str]) -> CommandLine:
        return Command(self._maker, call, seen, leash)

    @property
    def program(self) -> str:
        return self._maker.program

    @property
    def limits(self) -> Limits:
        return self._maker.limits

    def problem(self, argv: Sequence[str] = ("true",)) -> str | None:
        """Why this command cannot be run here, None when it can: it is tried. Blocks for some 20 ms.

        Where the kernel does not let a sandbox give up namespaces for users, it is made without: the filter of system
        calls refuses them as well.
        """
        if seccomp.program() is None:
            return f"there is no filter of system calls for this kind of machine ({os.uname().machine})"
        said = self._tried(argv)
        if said is not None and self._maker.disables_userns:
            whole, self._maker = self._maker, replace(self._maker, disables_userns=False)
            if (said := self._tried(argv)) is not None:
                self._maker = whole
        return said

    def _tried(self, argv: Sequence[str]) -> str | None:
        call = Call(argv, Workspace("/usr"), Bounds(_TRIAL_SECONDS))
        with closing(Command(self._maker, call, Seen({}))) as command:
            try:
                with PROCESSORS.all_available():
                    tried = subprocess.run(
                        command.argv,
                        capture_output=True,
                        timeout=_TRIAL_SECONDS,
                        env={},
                        check=False,
                        pass_fds=command.descriptors,
                    )
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"{self.program} does not work: {error}"
        if tried.returncode:
            said = tried.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
            return f"{self.program} cannot make a sandbox here: {said or f'exit status {tried.returncode}'}"
        return None


@asynccontextmanager
async def _before(profile: Profile, metered: Metered) -> AsyncIterator[Callable[[First], Awaitable[None]]]:
    """What is done before the program begins; its way out is closed when it has ended."""
    network = profile.egress

    async def before(first: First) -> None:
        await metered.hold(first)
        if network is not None:
            await network.attach(first.fd)

    try:
        yield before
    finally:
        if network is not None:
            await network.detach()


def _takes_descriptors(program: str) -> bool:
    try:
        with PROCESSORS.all_available():
            usage = subprocess.run(
                (program, "--help"), capture_output=True, timeout=_TRIAL_SECONDS, env={}, check=False
            )
    except (OSError, subprocess.TimeoutExpired):
        return True
    return b"--ro-bind-fd" in usage.stdout + usage.stderr
