"""How a command, its output and what it was refused are told to a model: as JSON, the same for jobs and for those that
are waited for."""

import signal
from collections.abc import Mapping, Sequence

from drone.agent.artifacts import handle_of
from drone.egress.egress import ProxiedNetwork
from drone.sandbox.child import Ended
from drone.tools.command_output import OutputText
from drone.tools.display_text import display_path
from drone.tools.jobs import Job, JobState
from drone.tools.tool import ToolContext
from mcc.contracts.journal import AgentStep

_PATHS = 100
"""Changed paths that are told."""


def listed(paths: Sequence[str]) -> Mapping[str, object]:
    """The paths that it changed, of many the first."""
    beyond = len(paths) - _PATHS
    more = {"changed_beside_these": beyond} if beyond > 0 else {}
    return {"changed": [*map(display_path, paths[:_PATHS])], **more}


def told(text: OutputText, artifact: str | None) -> Mapping[str, object]:
    """What it said; `artifact` is the digest of the whole of it."""
    return {"output": text.shown, "bytes": text.size, "artifact": handle_of(artifact) if artifact else None}


def end_of(ended: Ended) -> Mapping[str, object]:
    """How it ended: a status above 128 is how a shell says which signal ended a program."""
    name: str | None = None
    if ended.status > 128:
        name = next((one.name for one in signal.Signals if one == ended.status - 128), None)
    code = None if ended.timed_out else ended.status
    more: dict[str, object] = {"undone": ended.undone} if ended.undone else {}
    if ended.ran_out_of_memory:
        more["out_of_memory"] = "Something of it was killed: all of it together may not have more memory."
    return {"exit_code": code, "signal": name, "timed_out": ended.timed_out, **more}


def brief(job: Job) -> Mapping[str, object]:
    """How a job stands, without its output."""
    end: Mapping[str, object] = {"exit_code": None, "signal": None, "timed_out": False}
    if job.ended is not None:
        end = {**end_of(job.ended), **({} if job.state is JobState.EXITED else {"exit_code": None})}
    seconds = round(job.seconds, 1)
    return {"job": job.handle, "state": job.state.value, **end, "seconds": seconds, "command": job.command[:200]}


def lost(handle: str) -> Mapping[str, object]:
    """A job of another drone."""
    why = "The drone that ran it is gone, and the job with it; what it had said stands only in earlier results."
    return {"job": handle, "state": JobState.LOST.value, "message": why}


def too_many(most: int) -> str:
    """Why no further job begins."""
    if not most:
        return "Nothing runs in the background here: the operator allows no jobs. Run it in the foreground."
    may = f"{most} jobs of this order run already, and it may have no more"
    return f"{may}: stop one with shell_jobs, or wait until one has ended."


REFUSED = "network_refused"


def refused_by(network: ProxiedNetwork | None) -> Mapping[str, object]:
    """For the answer of a command that has ended; nothing where nothing was refused."""
    if network is None:
        return {}
    denied = {"refused": list(network.denied)} if network.denied else {}
    return {**denied, **({"network_problem": network.problem} if network.problem else {})}


def note_refused(network: ProxiedNetwork | None, context: ToolContext) -> None:
    """A step of the record, once the command has ended."""
    if network is None or not network.denied or context.turn is None:
        return
    names = ", ".join(network.denied)
    said = f"a command asked for hosts that it may not reach, and was refused: {names}"
    context.turn.journal.note(context.origin, AgentStep(name=REFUSED, message=said))
