"""The JSON fields in which models see a command's end, output and refused hosts; the same for foreground and jobs."""

import signal
from collections.abc import Mapping

from drone.checkpoints.recording import CallChanges
from drone.egress.egress import ProxiedNetwork
from drone.sandbox.child import EndedProgram
from drone.tools.frame.display_text import display_path
from drone.tools.frame.jobs import BackgroundJob, JobState
from drone.tools.frame.tool import ToolContext
from drone.tools.shell.output import OutputText
from mcc.contracts.journal import AgentStep
from mcc.transcript.previews import handle_of

_MAX_PATHS = 100
"""Changed paths that are listed."""


def changed_fields(closed: CallChanges) -> Mapping[str, object]:
    """The paths that a command changed: the first of them, and the number of the others; those of them that no revert
    brings back, and what is not watched, where there is any."""
    beyond = len(closed.paths) - _MAX_PATHS
    more: dict[str, object] = {"changed_beside_these": beyond} if beyond > 0 else {}
    if closed.not_kept:
        more["not_brought_back"] = [*map(display_path, closed.not_kept[:_MAX_PATHS])]
    if closed.unwatched:
        more["unwatched"] = closed.unwatched
    return {"changed": [*map(display_path, closed.paths[:_MAX_PATHS])], **more}


def output_fields(text: OutputText, artifact: str | None) -> Mapping[str, object]:
    """The output; `artifact` is the digest of the whole output where `text` shows only a part."""
    return {"output": text.shown, "bytes": text.size, "artifact": handle_of(artifact) if artifact else None}


def end_fields(ended: EndedProgram) -> Mapping[str, object]:
    """How a command ended. A shell reports a program ended by a signal as the status 128 plus the signal's number."""
    name: str | None = None
    if ended.status > 128:
        name = next((known.name for known in signal.Signals if known == ended.status - 128), None)
    code = None if ended.timed_out else ended.status
    more: dict[str, object] = {"undone": ended.undone} if ended.undone else {}
    if ended.ran_out_of_memory:
        more["out_of_memory"] = "Something of it was killed: all of it together may not have more memory."
    return {"exit_code": code, "signal": name, "timed_out": ended.timed_out, **more}


def job_fields(job: BackgroundJob) -> Mapping[str, object]:
    """A job's state, without its output."""
    end: Mapping[str, object] = {"exit_code": None, "signal": None, "timed_out": False}
    if job.ended is not None:
        end = {**end_fields(job.ended), **({} if job.state is JobState.EXITED else {"exit_code": None})}
    seconds = round(job.seconds, 1)
    return {"job": job.handle, "state": job.state.value, **end, "seconds": seconds, "command": job.command[:200]}


def lost_job_fields(handle: str) -> Mapping[str, object]:
    """The state of a job that an earlier drone of the order ran."""
    why = "The drone that ran it is gone, and the job with it; what it had said stands only in earlier results."
    return {"job": handle, "state": JobState.LOST.value, "message": why}


def too_many_jobs(most: int) -> str:
    """The message for a job that would exceed the limit `most`."""
    if not most:
        return "Nothing runs in the background here: the operator allows no jobs. Run it in the foreground."
    limit = f"{most} jobs of this order run already, and it may have no more"
    return f"{limit}: stop one with shell_jobs, or wait until one has ended."


REFUSED = "network_refused"


def refused_fields(network: ProxiedNetwork | None) -> Mapping[str, object]:
    """The hosts that a command was refused, and a problem of its network; empty if there are none."""
    if network is None:
        return {}
    denied = {"refused": list(network.denied)} if network.denied else {}
    return {**denied, **({"network_problem": network.problem} if network.problem else {})}


def note_refused(network: ProxiedNetwork | None, context: ToolContext) -> None:
    """Note the hosts that a command was refused as a step of the agent's record; call it once the command has ended."""
    if network is None or not network.denied or context.turn is None:
        return
    message = f"a command asked for hosts that it may not reach, and was refused: {', '.join(network.denied)}"
    context.turn.journal.note(context.origin, AgentStep(name=REFUSED, message=message))
