"""Bubblewrap: runs untrusted programs in a sandbox, a bounded number at once, and tests whether this machine can."""

import asyncio
import errno
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import replace
from typing import Unpack

from drone.sandbox import seccomp
from drone.sandbox.child import Bounds, EndedProgram, FirstProcess, Launch, Leash, StartedProgram, run, to_the_end
from drone.sandbox.command import (
    CallOptions,
    CommandLine,
    Preparation,
    ProgramCall,
    SandboxCommand,
    SandboxProgram,
    inspect_mounts,
    restore_protected,
    umask_of,
)
from drone.sandbox.custody import Custody
from drone.sandbox.limits import DEFAULT, ProgramLimits
from drone.sandbox.meter import Meter, Metered
from drone.sandbox.places.paths import Workspace
from drone.sandbox.profile import PATH, WORKSPACE, Mount, Profile
from drone.sandbox.protection.guard import FIXED, PathGuard
from drone.sandbox.protection.placeholders import Placeholders
from drone.sandbox.protection.protected import Protected
from mcc.processors import PROCESSORS

__all__ = ["PATH", "WORKSPACE", "Bubblewrap", "Mount", "Profile", "Running"]

_TRIAL_SECONDS = 10.0
_AT_ONCE = 8
_EACH = 4


class Running:
    """A program that runs in the background until it ends, exceeds its time, or is killed with all that it started.

    `stdin` and `stdout` are set when it was started with them. The caller must read `stdout`: the program blocks when
    the pipe is full.
    """

    def __init__(self, ended: asyncio.Task[EndedProgram], begun: StartedProgram | None) -> None:
        self._ended = ended
        self._begun = begun
        self.stdin = begun.stdin if begun else None
        self.stdout = begun.stdout if begun else None

    async def wait(self) -> EndedProgram:
        """Wait for its end. Cancelling the wait leaves the program running."""
        return await asyncio.shield(self._ended)

    async def kill(self) -> EndedProgram:
        """Kill it with all its processes, unless it has ended, and wait until they are gone."""
        if self._begun is not None and not self._ended.done():
            self._begun.kill()
        return await self.wait()


class ProgramSlots:
    """How many programs run at once: each holder has one slot for certain, and up to `each` while fewer than `in_all`
    are taken.

    An order with slow programs therefore delays only its own. Use on one event loop only.
    """

    def __init__(self, each: int, in_all: int) -> None:
        self._each = each
        self._in_all = in_all
        self._held: Counter[int] = Counter()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def taken(self, holder: int) -> AsyncIterator[None]:
        """Wait for a slot, and hold it inside."""
        while not self._is_free(holder):
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

    def _is_free(self, holder: int) -> bool:
        own = self._held[holder]
        return not own or (own < self._each and self._held.total() < self._in_all)


class Bubblewrap:
    """Runs programs that can read only the system directories and one workspace. Writing and network need a profile
    that grants them.

    Programs get namespaces of their own for users, processes, IPC, host name and network, and cannot make further
    ones. They have no capabilities, gain no privileges, are refused the system calls of `drone.sandbox.seccomp`, and
    see a private /tmp that is deleted afterwards. They die with this process, and are stopped while it may not act
    (`custody`). At most 8 programs started by `run` run at once, 4 of them of one order; every order can always run
    one. Further programs wait.
    """

    def __init__(
        self,
        program: str,
        custody: Custody | None = None,
        *,
        by_descriptor: bool = True,
        limits: ProgramLimits = DEFAULT,
        protected: Protected = FIXED,
    ) -> None:
        """`by_descriptor`: this bubblewrap mounts the workspace by its descriptor. An older one mounts it by path, and
        the command starts only if that path was still the same directory when it was mounted."""
        self.custody = custody or Custody()
        self.meter = Meter(limits)
        self.protected = protected
        self._placeholders = Placeholders()
        self._sandbox_program = SandboxProgram(program, limits, by_descriptor)
        self._slots = ProgramSlots(_EACH, _AT_ONCE)
        self._background: set[asyncio.Task[EndedProgram]] = set()

    @classmethod
    def found(
        cls, path: str | None = None, limits: ProgramLimits = DEFAULT, protected: Protected = FIXED
    ) -> "Bubblewrap | None":
        """The `bwrap` on `path` (colon-separated, None = the environment's PATH); None where it is not installed."""
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
        on_output: Callable[[bytes], None] | None = None,
        **options: Unpack[CallOptions],
    ) -> EndedProgram:
        """Run `argv` to its end, as `ProgramCall` describes. Raises OSError when bubblewrap cannot be started.

        `merged`: stdout and stderr interleaved, as `stdout`. `on_output` is called with each piece of the output.
        """
        async with self._slots.taken(workspace.fd):
            return await self._run(
                ProgramCall(argv, workspace, bounds, **options), Launch((), merged=merged, on_output=on_output)
            )

    async def start(
        self,
        argv: Sequence[str],
        workspace: Workspace,
        bounds: Bounds,
        *,
        merged: bool = False,
        on_output: Callable[[bytes], None] | None = None,
        stdin: bool = False,
        **options: Unpack[CallOptions],
    ) -> Running:
        """Start `argv` as `run` does, without waiting for its end. The caller must end the program, and must bound how
        many it starts.

        `stdin`: the program's input and output are streams for the caller; its output is then neither kept nor passed
        to `on_output`.
        """
        call = ProgramCall(argv, workspace, bounds, **options)
        begun: asyncio.Future[StartedProgram] = asyncio.get_running_loop().create_future()
        ended = asyncio.create_task(self._run(call, Launch((), piped=stdin, merged=merged, on_output=on_output), begun))
        self._background.add(ended)
        ended.add_done_callback(self._background.discard)
        try:
            await asyncio.wait((begun, ended), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            ended.cancel()
            await asyncio.wait((ended,))
            raise
        if not begun.done():
            ended.result()
        return Running(ended, begun.result() if begun.done() else None)

    async def _run(
        self, call: ProgramCall, launch: Launch, begun: "asyncio.Future[StartedProgram] | None" = None
    ) -> EndedProgram:
        """Run one call: set up guard, leash, command line and meter, and tear them down in every case."""
        if call.workspace.is_gone:
            raise OSError(errno.ENOENT, "the directory that it would run in was deleted")
        if call.profile.egress is not None:
            await call.profile.egress.prepare()
        guard = PathGuard(self.protected, self._placeholders, by_descriptor=self._sandbox_program.by_descriptor)
        ended: EndedProgram | None = None
        undone: tuple[str, ...] = ()
        unfinished: list[str] = []
        try:
            looking = call.look(lambda: inspect_mounts(call, guard))
            # A guard puts placeholders into the workspace; only a finished inspection knows which ones to remove.
            private = await (to_the_end(looking) if call.profile.write else looking)
            with ExitStack() as held:
                leash = held.enter_context(closing(Leash()))
                command = held.enter_context(closing(self._command(call, Preparation(private, guard), leash.options)))
                metered = held.enter_context(closing(self.meter.metered(ours=call.profile.ours)))
                async with _before(call.profile, metered) as before:
                    ready = replace(
                        launch,
                        argv=command.argv,
                        fds=command.descriptors,
                        limits=self._process_limits(),
                        before=before,
                        environment=command.environment,
                        umask=umask_of(call.workspace.fd),
                    )
                    guard.watch()
                    ended = await run(ready, leash, call.bounds, self.custody, begun)
                    ended = replace(ended, ran_out_of_memory=metered.ran_out_of_memory)
        except Exception as problem:
            if ended is None:
                raise
            # The program ran to its end: what follows that must not pass for a program that never started.
            unfinished.append(f"its sandbox could not be cleared away: {problem}")
        finally:
            try:
                undone = await to_the_end(restore_protected(call, guard))
            except Exception as problem:
                if ended is None:
                    raise
                unfinished.append(f"its changes to protected files could not be looked for: {problem}")
        return replace(ended, undone=undone, unfinished=tuple(unfinished))

    def _process_limits(self) -> Mapping[int, int]:
        """Limits of each process (`RLIMIT_…`)."""
        return self.limits.of_each(together=self.meter.holds("memory"))

    def _command(self, call: ProgramCall, prepared: Preparation, leash: Sequence[str]) -> CommandLine:
        return SandboxCommand(self._sandbox_program, call, prepared, leash)

    @property
    def program(self) -> str:
        return self._sandbox_program.path

    @property
    def limits(self) -> ProgramLimits:
        return self._sandbox_program.limits

    def problem(self, argv: Sequence[str] = ("true",)) -> str | None:
        """Why this command cannot run in a sandbox here, None when it can. Runs it to find out, and blocks for some
        20 ms.

        Where the kernel does not support bubblewrap's --disable-userns, that option is dropped for all later programs:
        the filter of system calls refuses new user namespaces as well.
        """
        if seccomp.program() is None:
            return f"there is no filter of system calls for this kind of machine ({os.uname().machine})"
        problem = self._try(argv)
        if problem is not None and self._sandbox_program.disables_userns:
            full_program = self._sandbox_program
            self._sandbox_program = replace(full_program, disables_userns=False)
            if (problem := self._try(argv)) is not None:
                self._sandbox_program = full_program
        return problem

    def _try(self, argv: Sequence[str]) -> str | None:
        """Run the command in a sandbox over /usr; the problem, None where it succeeded."""
        call = ProgramCall(argv, Workspace("/usr"), Bounds(_TRIAL_SECONDS))
        with closing(SandboxCommand(self._sandbox_program, call, Preparation({}))) as command:
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
            message = tried.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
            return f"{self.program} cannot make a sandbox here: {message or f'exit status {tried.returncode}'}"
        return None


@asynccontextmanager
async def _before(profile: Profile, metered: Metered) -> AsyncIterator[Callable[[FirstProcess], Awaitable[None]]]:
    """The hook that runs before the program starts: it applies limits and attaches the network, which is detached at
    the end."""
    network = profile.egress

    async def before(first: FirstProcess) -> None:
        await metered.hold(first)
        if network is not None:
            await network.attach(first.fd)

    try:
        yield before
    finally:
        if network is not None:
            await network.detach()


def _takes_descriptors(program: str) -> bool:
    """Whether this bubblewrap knows --ro-bind-fd."""
    try:
        with PROCESSORS.all_available():
            usage = subprocess.run(
                (program, "--help"), capture_output=True, timeout=_TRIAL_SECONDS, env={}, check=False
            )
    except (OSError, subprocess.TimeoutExpired):
        return True
    return b"--ro-bind-fd" in usage.stdout + usage.stderr
