"""Running commands: in the sandbox alone, with what they say kept, shown while they run, and bounded."""

import asyncio
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import Field

from drone.agent.journal import GrowingCall, TextDelta
from drone.agent.toolset import Output, Preview
from drone.egress.egress import Egress, ProxiedNetwork
from drone.sandbox.bubblewrap import PATH, Bubblewrap, Profile
from drone.sandbox.child import Bounds, Ended
from drone.sandbox.paths import PathMissing
from drone.tools.command_answers import brief, end_of, listed, lost, note_refused, refused_by, told, too_many
from drone.tools.command_output import CapturedOutput, Live, OutputText, captured, said
from drone.tools.display_text import display_path
from drone.tools.files import with_nearest, workspace_of
from drone.tools.jobs import Job, Jobs, JobState, TooManyJobs
from drone.tools.tool import FunctionTool, ToolContext, ToolFailed, threads_of, tool
from mcc.contracts.journal import Outcome
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import Text, to_json
from mcc.redaction import Redactor

RUN_SHELL = "run_shell"

SECONDS = 120.0
"""A command's time when its call does not say how much."""

MOST_SECONDS = 1_800.0
MOST_WAIT = 300.0
_GRACE = 30.0
_COMMAND_BYTES = 100_000
"""One argument of a program has at most 128 KiB."""

Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS)]


@dataclass(frozen=True, slots=True)
class Shell:
    """The shell of this machine's sandbox; `problem` says why no command runs here, None when they do. `egress` None:
    no command reaches anything."""

    sandbox: Bubblewrap | None
    program: str = "sh"
    problem: str | None = None
    egress: Egress | None = None

    @property
    def is_networked(self) -> bool:
        """Whether there is a host that commands may reach."""
        return self.egress is not None and self.egress.network("") is not None

    def network(self, context: ToolContext) -> ProxiedNetwork | None:
        """The way out of one command."""
        order_id = threads_of(context).order_id
        return None if self.egress is None else self.egress.network(order_id, context.egress)

    @classmethod
    def found(cls, sandbox: Bubblewrap | None) -> "Shell":
        """Tries it once, which takes some 20 ms."""
        if sandbox is None:
            return cls(None, problem="bubblewrap (bwrap) is not installed, and commands run only inside its sandbox.")
        program = "bash" if shutil.which("bash", path=PATH) else "sh"
        return cls(sandbox, program, sandbox.problem((program, "-c", "true")))


NO_SHELL = Shell(None, problem="No sandbox was looked for.")


@dataclass(frozen=True, slots=True)
class _Command:
    """A command that may be run, and where: `cwd` is relative to the workspace and without links."""

    text: str
    cwd: str
    profile: Profile
    seconds: float
    network: ProxiedNetwork | None = None

    @property
    def in_words(self) -> str:
        where = "" if self.cwd == "." else f" in {display_path(self.cwd)}"
        end = "until the order ends" if math.isinf(self.seconds) else f"at most {self.seconds:g} s"
        return f"$ {self.text}\n[{self.profile.name}{where}, {end}]"


class ShellTools:
    """`run_shell` and `shell_jobs` for every order: the jobs are those of the order that a call comes from."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def tools(self) -> tuple[FunctionTool, ...]:
        run = FunctionTool(self.run_shell)
        run.spec = replace(run.spec, reads_as="shell_read", networked=self._shell.is_networked)
        return (run, FunctionTool(self.shell_jobs))

    async def preview(
        self,
        context: ToolContext,
        command: Text,
        cwd: Text = ".",
        timeout_seconds: Seconds | None = None,
        background: bool = False,
    ) -> Preview:
        """The command as it would run."""
        asked = await self._checked(context, command, cwd, timeout_seconds or _until(background))
        return Preview("text", asked.in_words)

    @tool(group="shell_write", effects="execute", seconds=MOST_SECONDS + _GRACE, preview=preview)
    async def run_shell(
        self,
        context: ToolContext,
        command: Text,
        cwd: Text = ".",
        timeout_seconds: Seconds | None = None,
        background: bool = False,
    ) -> Output:
        """Run a bash command in the workspace, without a terminal or input.

        Args:
            cwd: Where to run it.
            timeout_seconds: When it is killed; 120 in the foreground.
            background: Do not wait: shell_jobs shows and stops it. It ends with the order.
        """
        asked = await self._checked(context, command, cwd, timeout_seconds or _until(background))
        if context.checkpoints is not None and asked.profile.write:
            await context.checkpoints.before(context.call_id)
        if background:
            return await self._begun(asked, context)
        return await self._ran(asked, context)

    async def _ran(self, command: _Command, context: ToolContext) -> Output:
        output, live = captured(), _live(context)

        def hear(piece: bytes) -> None:
            output.add(piece)
            live.hear(piece)

        began = asyncio.get_running_loop().time()
        try:
            ended = await self._run(command, context, hear)
        finally:
            live.close()
        seconds = asyncio.get_running_loop().time() - began
        text = await threads_of(context).tool(said, CapturedOutput.of(output), _redactor(context))
        artifact = await _kept(text, context)
        answer = {
            **end_of(ended),
            "seconds": round(seconds, 1),
            **told(text, artifact),
            "profile": command.profile.name,
            **listed(await _changed(context, command.profile)),
            **refused_by(command.network),
            "job": None,
        }
        note_refused(command.network, context)
        outcome = Outcome.TIMEOUT if ended.timed_out else Outcome.OK
        code = None if ended.timed_out else ended.status
        return Output(to_json(answer).decode(), outcome=outcome, artifact=artifact, exit_code=code)

    async def _run(self, command: _Command, context: ToolContext, told: Callable[[bytes], None]) -> Ended:
        assert self._shell.sandbox is not None
        bounds = Bounds(command.seconds, 0, 0)
        try:
            return await self._shell.sandbox.run(
                self._argv(command),
                workspace_of(context),
                bounds,
                profile=command.profile,
                cwd=command.cwd,
                look=threads_of(context).tool,
                merged=True,
                told=told,
            )
        except OSError as error:
            raise ToolFailed(f"The command could not be started: {error.strerror or error}.") from error

    def _argv(self, command: _Command) -> tuple[str, ...]:
        return (self._shell.program, "-c", "--", command.text)

    async def _begun(self, command: _Command, context: ToolContext) -> Output:
        jobs = _jobs(context)

        async def make(handle: str) -> Job:
            return await self._started(handle, command, context)

        try:
            job = await jobs.begin(make)
        except TooManyJobs:
            raise ToolFailed(too_many(jobs.most), Outcome.DENIED) from None
        except OSError as error:
            raise ToolFailed(f"The command could not be started: {error.strerror or error}.") from error
        answer = {"job": job.handle, "state": job.state.value, "profile": job.profile}
        return Output(to_json(answer).decode(), job=job.handle)

    async def _started(self, handle: str, command: _Command, context: ToolContext) -> Job:
        assert self._shell.sandbox is not None
        output = captured()
        workspace = workspace_of(context)
        running = await self._shell.sandbox.start(
            self._argv(command),
            workspace,
            Bounds(command.seconds, 0, 0),
            profile=command.profile,
            cwd=command.cwd,
            look=threads_of(context).tool,
            merged=True,
            told=output.add,
        )

        async def changes() -> tuple[str, ...]:
            note_refused(command.network, context)
            return await _changed(context, command.profile)

        name = command.profile.name
        job = Job(handle, command.text, name, output, running, workspace, _unwanted(context), changes)
        job.refused = partial(refused_by, command.network)
        return job

    # Calls of tools that execute run in the order of the reply, so that what the reply begins is there.
    @tool(group="shell_read", effects="execute", idempotent=True, seconds=MOST_WAIT + _GRACE)
    async def shell_jobs(
        self,
        context: ToolContext,
        job: Text | None = None,
        wait_seconds: Annotated[float, Field(ge=0, le=MOST_WAIT)] = 0,
        stop: bool = False,
    ) -> Output:
        """List the background jobs of the order, or show one with its output so far.

        Args:
            wait_seconds: Wait so long for its end.
            stop: Kill it.
        """
        jobs = _jobs(context)
        if job is None:
            if stop:
                raise ToolFailed("Name the job to stop.")
            await jobs.wait([one.handle for one in jobs.all if not one.over], wait_seconds)
            listed = [*map(lost, jobs.lost), *map(brief, jobs.all)]
            return Output(to_json({"jobs": listed}).decode())
        if (known := jobs.get(job)) is None:
            if job in jobs.lost:
                return Output(to_json(lost(job)).decode())
            there = ", ".join((*jobs.lost, *(one.handle for one in jobs.all))) or "none"
            raise ToolFailed(f"There is no job {job[:100]!a}; the jobs of this order: {there}.")
        if stop:
            await known.stop()
        await jobs.wait([known.handle], MOST_WAIT if stop else wait_seconds)
        return await _shown(known, context)

    async def _checked(self, context: ToolContext, command: str, cwd: str, seconds: float) -> _Command:
        """Raises `ToolFailed` and `PathError`."""
        name = await _directory(context, command, cwd)
        network = self._shell.network(context)
        return _Command(command, name, Profile(not context.read_only, network), seconds, network)


def _until(background: bool) -> float:
    return math.inf if background else SECONDS


async def _directory(context: ToolContext, command: str, cwd: str) -> str:
    """Where a command may run, by its name in the workspace. Raises `ToolFailed` and `PathError`."""
    workspace = workspace_of(context)
    if not command.strip():
        raise ToolFailed("The command is empty.")
    if "\0" in command:
        raise ToolFailed("The command has a NUL in it, which no command line can have.")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise ToolFailed("The command is not valid Unicode.") from None
    if size > _COMMAND_BYTES:
        raise ToolFailed(
            f"The command has {size:,} bytes, and a command line may have {_COMMAND_BYTES:,}: write it into a file, "
            "and run that."
        )

    def resolved() -> str:
        try:
            return workspace.own_name(cwd) or "."
        except PathMissing as missing:
            raise with_nearest(workspace, missing, cwd) from missing

    return await threads_of(context).tool(resolved)


def _jobs(context: ToolContext) -> Jobs:
    if context.jobs is None:
        raise ToolFailed("There is no order here whose background jobs these could be.")
    return context.jobs


def _redactor(context: ToolContext) -> Redactor:
    return context.turn.redactor if context.turn else Redactor()


def _live(context: ToolContext) -> Live:
    def tell(offset: int, text: str) -> None:
        if context.turn is not None:
            call = GrowingCall(None, RUN_SHELL)
            context.turn.journal.delta(
                context.origin, TextDelta("tool.progress", 0, 0, offset, text, call, context.call_id)
            )

    return Live(tell, _redactor(context))


def _unwanted(context: ToolContext) -> Callable[[], bool]:
    """Whether the agent that began a job was cancelled meanwhile."""

    def unwanted() -> bool:
        record = context.turn.tree.begun(context.origin.record_id) if context.turn else None
        ended = None if record is None else record.finished
        return ended is not None and ended.status == RecordStatus.CANCELLED

    return unwanted


async def _changed(context: ToolContext, profile: Profile) -> tuple[str, ...]:
    if context.checkpoints is None or not profile.write:
        return ()
    return await context.checkpoints.changed()


async def _kept(text: OutputText, context: ToolContext) -> str | None:
    """The digest of the whole output, where a model is told less of it."""
    if text.whole is None or context.artifacts is None:
        return None
    return await context.artifacts.kept(text.whole)


async def _shown(job: Job, context: ToolContext) -> Output:
    text = await threads_of(context).tool(said, CapturedOutput.of(job.output), _redactor(context))
    if job.over and job.artifact is None:
        job.artifact = await _kept(text, context)
    answer = {
        **brief(job),
        **told(text, job.artifact),
        "profile": job.profile,
        **listed(job.changed),
        **job.refused(),
    }
    code = job.ended.status if job.ended is not None and job.state is JobState.EXITED else None
    return Output(to_json(answer).decode(), artifact=job.artifact, exit_code=code)
