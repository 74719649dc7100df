"""The shell's tools: commands run only in the sandbox, with time limits; viewers see their output while they run."""

import asyncio
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import Field

from drone.agent.ports.journal import GrowingCall, TextDelta
from drone.agent.turns.toolset import Output, Preview
from drone.checkpoints.diff import on_one_line
from drone.checkpoints.recording import NOTHING_CHANGED, CallChanges
from drone.egress.egress import Egress, ProxiedNetwork
from drone.sandbox.bubblewrap import PATH, Bubblewrap, Profile
from drone.sandbox.child import Bounds, EndedProgram
from drone.sandbox.places.paths import PathMissing
from drone.tools.files.listing import with_nearest, workspace_of
from drone.tools.frame.aftermath import Aftermath
from drone.tools.frame.display_text import controls_refused
from drone.tools.frame.jobs import BackgroundJob, Jobs, JobState, TooManyJobs
from drone.tools.frame.terminal import Overwriting
from drone.tools.frame.tool import FunctionTool, ToolContext, ToolFailed, threads_of, tool
from drone.tools.shell.answers import (
    changed_fields,
    end_fields,
    job_fields,
    lost_job_fields,
    note_refused,
    output_fields,
    refused_fields,
    too_many_jobs,
)
from drone.tools.shell.output import CapturedOutput, Live, OutputText, captured, output_text
from mcc.contracts.journal import Outcome
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import Text, to_json
from mcc.redaction import Redactor

RUN_SHELL = "run_shell"

SECONDS = 120.0
"""The time limit of a foreground command when its call names none."""

MOST_SECONDS = 1_800.0
MOST_WAIT = 300.0
_GRACE = 600.0
"""What a command that took all its time leaves for the look at what it changed."""

_COMMAND_BYTES = 100_000
"""Below Linux's limit on a single program argument, 128 KiB."""

Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS)]


@dataclass(frozen=True, slots=True)
class Shell:
    """The shell inside this machine's sandbox; `problem` says why commands cannot run, None if they can.

    `egress` None: commands reach no host.
    """

    sandbox: Bubblewrap | None
    program: str = "sh"
    problem: str | None = None
    egress: Egress | None = None

    @property
    def is_networked(self) -> bool:
        """Whether commands may reach any host."""
        return self.egress is not None and self.egress.network("") is not None

    def network(self, context: ToolContext) -> ProxiedNetwork | None:
        """The network of one command, None if it may reach no host."""
        order_id = threads_of(context).order_id
        return None if self.egress is None else self.egress.network(order_id, context.egress)

    @classmethod
    def found(cls, sandbox: Bubblewrap | None) -> "Shell":
        """The shell in this sandbox; runs a command once as a test, which takes some 20 ms."""
        if sandbox is None:
            return cls(None, problem="bubblewrap (bwrap) is not installed, and commands run only inside its sandbox.")
        program = "bash" if shutil.which("bash", path=PATH) else "sh"
        return cls(sandbox, program, sandbox.problem((program, "-c", "true")))


NO_SHELL = Shell(None, problem="No sandbox was looked for.")


@dataclass(frozen=True, slots=True)
class _Command:
    """A checked command; `cwd` is relative to the workspace and without links."""

    text: str
    cwd: str
    profile: Profile
    seconds: float
    network: ProxiedNetwork | None = None
    background: bool = False

    @property
    def description(self) -> str:
        """The command in full and exactly; in the last line how and where it runs, and for how long."""
        where = "" if self.cwd == "." else f" in {on_one_line(self.cwd)}"
        end = "until the order ends"
        if not math.isinf(self.seconds):
            end = f"{'in the background, ' if self.background else ''}at most {str(self.seconds).removesuffix('.0')} s"
        return f"$ {self.text}\n[{self.profile.name}{where}, {end}]"


class ShellTools:
    """`run_shell` and `shell_jobs` for all orders; each call sees the jobs of its own order."""

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
        checked = await self._checked(context, command, cwd, timeout_seconds, background)
        return Preview("text", checked.description)

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
        checked = await self._checked(context, command, cwd, timeout_seconds, background)
        if context.checkpoints is not None and checked.profile.write:
            await context.checkpoints.before(context.call_id)
        if background:
            return await self._run_in_background(checked, context)
        return await self._run_in_foreground(checked, context)

    async def _run_in_foreground(self, command: _Command, context: ToolContext) -> Output:
        output, live = captured(), _live(context)

        def receive(piece: bytes) -> None:
            output.add(piece)
            live.feed(piece)

        began = asyncio.get_running_loop().time()
        try:
            ended = await self._run(command, context, receive)
        finally:
            live.close()
        seconds = asyncio.get_running_loop().time() - began
        after = _aftermath(context, ended)
        text = await _text_of(output, context, after)
        artifact = await after.recorded(_whole_as_artifact(text, context), None)
        answer = {
            **end_fields(ended),
            "seconds": round(seconds, 1),
            **output_fields(text, artifact),
            "profile": command.profile.name,
            **changed_fields(await after.recorded(_changed(context, command.profile), NOTHING_CHANGED)),
            **refused_fields(command.network),
            "job": None,
        }
        note_refused(command.network, context)
        outcome = Outcome.TIMEOUT if ended.timed_out else Outcome.OK
        code = None if ended.timed_out else ended.status
        return after.told(Output(to_json(answer).decode(), outcome=outcome, artifact=artifact, exit_code=code))

    async def _run(self, command: _Command, context: ToolContext, receive: Callable[[bytes], None]) -> EndedProgram:
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
                on_output=receive,
            )
        except OSError as error:
            raise ToolFailed(f"The command could not be started: {error.strerror or error}.") from error

    def _argv(self, command: _Command) -> tuple[str, ...]:
        return (self._shell.program, "-c", "--", command.text)

    async def _run_in_background(self, command: _Command, context: ToolContext) -> Output:
        jobs = _jobs(context)
        try:
            job = await jobs.begin(lambda handle: self._start(handle, command, context))
        except TooManyJobs:
            raise ToolFailed(too_many_jobs(jobs.most), Outcome.DENIED) from None
        except OSError as error:
            raise ToolFailed(f"The command could not be started: {error.strerror or error}.") from error
        answer = {"job": job.handle, "state": job.state.value, "profile": job.profile}
        return Output(to_json(answer).decode(), job=job.handle)

    async def _start(self, handle: str, command: _Command, context: ToolContext) -> BackgroundJob:
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
            on_output=output.add,
        )

        async def changes(ended: EndedProgram | None) -> tuple[CallChanges, str]:
            note_refused(command.network, context)
            after = _aftermath(context, ended)
            closed = await after.recorded(_changed(context, command.profile), NOTHING_CHANGED)
            return closed, after.line

        return BackgroundJob(
            handle,
            command.text,
            command.profile.name,
            output,
            running,
            workspace,
            partial(_agent_cancelled, context),
            changes,
            refused=partial(refused_fields, command.network),
        )

    # `execute`, because such calls run in the order of the reply: a job that an earlier call of it starts then exists.
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
            await jobs.wait([known.handle for known in jobs.all if not known.over], wait_seconds)
            listed = [*map(lost_job_fields, jobs.lost), *map(job_fields, jobs.all)]
            return Output(to_json({"jobs": listed}).decode())
        if (known := jobs.get(job)) is None:
            if job in jobs.lost:
                return Output(to_json(lost_job_fields(job)).decode())
            handles = ", ".join((*jobs.lost, *(known.handle for known in jobs.all))) or "none"
            raise ToolFailed(f"There is no job {job[:100]!a}; the jobs of this order: {handles}.")
        if stop:
            await known.stop()
        await jobs.wait([known.handle], MOST_WAIT if stop else wait_seconds)
        return replace(await _job_output(known, context), tainted=self._shell.is_networked)

    async def _checked(
        self, context: ToolContext, command: str, cwd: str, seconds: float | None, background: bool
    ) -> _Command:
        """The command of a call's arguments. Raises `ToolFailed` and `PathError`."""
        workspace = workspace_of(context)
        _check_text(command)

        def resolved() -> str:
            try:
                return workspace.own_name(cwd) or "."
            except PathMissing as missing:
                raise with_nearest(workspace, missing, cwd) from missing

        directory = await threads_of(context).tool(resolved)
        network = self._shell.network(context)
        limit = seconds or (math.inf if background else SECONDS)
        profile = Profile(not context.read_only, network)
        return _Command(command, directory, profile, limit, network, background)


def _check_text(command: str) -> None:
    """Raise `ToolFailed` if this text cannot be a command."""
    if not command.strip():
        raise ToolFailed("The command is empty.")
    if (refused := controls_refused("The command", command)) is not None:
        raise ToolFailed(refused)
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise ToolFailed("The command is not valid Unicode.") from None
    if size > _COMMAND_BYTES:
        raise ToolFailed(
            f"The command has {size:,} bytes, and a command line may have {_COMMAND_BYTES:,}: write it into a file, "
            "and run that."
        )


def _jobs(context: ToolContext) -> Jobs:
    if context.jobs is None:
        raise ToolFailed("There is no order here whose background jobs these could be.")
    return context.jobs


def _redactor(context: ToolContext) -> Redactor:
    return context.turn.redactor if context.turn else Redactor()


def _live(context: ToolContext) -> Live:
    def send(offset: int, text: str) -> None:
        if context.turn is not None:
            call = GrowingCall(None, RUN_SHELL)
            context.turn.journal.delta(
                context.origin, TextDelta("tool.progress", 0, 0, offset, text, call, context.call_id)
            )

    return Live(send, _redactor(context))


def _agent_cancelled(context: ToolContext) -> bool:
    """Whether the agent that made this call was cancelled since."""
    record = context.turn.tree.begun(context.origin.record_id) if context.turn else None
    ended = None if record is None else record.finished
    return ended is not None and ended.status == RecordStatus.CANCELLED


def _aftermath(context: ToolContext, ended: EndedProgram | None) -> Aftermath:
    after = Aftermath(context.turn, context.stop)
    for why in () if ended is None else ended.unfinished:
        after.add(why)
    return after


async def _text_of(output: Overwriting, context: ToolContext, after: Aftermath) -> OutputText:
    kept, redactor = CapturedOutput.of(output), _redactor(context)
    text = await after.recorded(threads_of(context).tool(output_text, kept, redactor), None)
    # Blocks for some milliseconds, which is better than a command without its output.
    return output_text(kept, redactor) if text is None else text


async def _changed(context: ToolContext, profile: Profile) -> CallChanges:
    if context.checkpoints is None or not profile.write:
        return NOTHING_CHANGED
    return await context.checkpoints.changed()


async def _whole_as_artifact(text: OutputText, context: ToolContext) -> str | None:
    """Keep the whole output as an artifact, and return its digest, if `shown` is only a part."""
    if text.whole is None or context.artifacts is None:
        return None
    return await context.artifacts.keep(text.whole)


async def _job_output(job: BackgroundJob, context: ToolContext) -> Output:
    after = Aftermath(context.turn)
    text = await _text_of(job.output, context, after)
    if job.over and job.artifact is None:
        job.artifact = await after.recorded(_whole_as_artifact(text, context), None)
    answer = {
        **job_fields(job),
        **output_fields(text, job.artifact),
        "profile": job.profile,
        **changed_fields(job.changed),
        **job.refused(),
    }
    code = job.ended.status if job.ended is not None and job.state is JobState.EXITED else None
    told = f"{to_json(answer).decode()}\n{job.not_recorded}" if job.not_recorded else to_json(answer).decode()
    return after.told(Output(told, artifact=job.artifact, exit_code=code))
