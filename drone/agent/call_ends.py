"""Parts of running one reply's tool calls: serializing some of them, normalizing arguments, building their ends."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from drone.agent.messages import ToolSpec
from drone.agent.toolset import Output
from mcc.contracts.blocks import ToolCall
from mcc.contracts.fence import fenced
from mcc.contracts.journal import Outcome, ToolFinished, ToolStarted
from mcc.contracts.shape import lean_copy

OUTCOME_UNKNOWN = (
    "The outcome of this call is not known: the process that ran it was lost, and it may or may not have had its "
    "effect. It is not run again by itself. Look whether it had, before you repeat it."
)


def outcome_unknown(call: ToolStarted) -> ToolFinished:
    """The end of a call that a lost drone had started."""
    return ToolFinished(
        call_id=call.call_id,
        name=call.name,
        content=OUTCOME_UNKNOWN,
        is_error=True,
        outcome=Outcome.OUTCOME_UNKNOWN,
    )


class InOrder:
    """Serializes these calls in their order; lets all others pass at once."""

    def __init__(self, call_ids: Sequence[str]) -> None:
        self._over = {call_id: asyncio.Event() for call_id in call_ids}
        self._before = dict(zip(call_ids[1:], call_ids, strict=False))

    @asynccontextmanager
    async def turn_of(self, call_id: str) -> AsyncIterator[None]:
        if call_id in self._before:
            await self._over[self._before[call_id]].wait()
        try:
            yield
        finally:
            if call_id in self._over:
                self._over[call_id].set()


_NULL = ("null", "None", '""', '"null"')


def normalized(call: ToolCall, spec: ToolSpec | None) -> ToolCall:
    """The call with its arguments as an object. Null is none at all for a tool that requires none; a bare JSON string
    becomes the only argument of a subagent's tool that has just that one; any other call is returned unchanged."""
    sent = call.arguments
    if spec is not None and isinstance(sent, str) and sent.strip() in _NULL and not spec.parameters.get("required"):
        return call.model_copy(update={"arguments": {}})
    if spec is None or not isinstance(sent, str) or not sent.startswith('"') or (sole := _only_argument(spec)) is None:
        return call
    try:
        return call.model_copy(update={"arguments": {sole: json.loads(sent)}})
    except ValueError:
        return call


def _only_argument(spec: ToolSpec) -> str | None:
    """Name of the only required argument of a delegation tool, when that is a string."""
    if spec.group != "delegation":
        return None
    required, known = spec.parameters.get("required"), spec.parameters.get("properties")
    if not isinstance(required, list | tuple) or len(required) != 1 or not isinstance(known, Mapping):
        return None
    described = known.get(required[0])
    return str(required[0]) if isinstance(described, Mapping) and described.get("type") == "string" else None


def refusal(said: str, outcome: Outcome = Outcome.ERROR) -> Output:
    """An error result written by the runtime itself, hence trusted."""
    return Output(said, is_error=True, outcome=outcome, untrusted=False)


def finished(call: ToolCall, output: Output, started: float, *, untrusted: bool) -> ToolFinished:
    """The end of a call; untrusted content is fenced. `started`: `time.monotonic()` at its start."""
    ended = ToolFinished(
        call_id=call.call_id,
        name=call.name,
        content=fenced(output.content, call.call_id) if untrusted else output.content,
        is_error=output.is_error,
        outcome=output.outcome,
        seconds=round(time.monotonic() - started, 6),
        subagent_ids=output.subagent_ids,
        artifact=output.artifact,
        untrusted=untrusted,
        images=output.images,
        files=output.files,
        exit_code=output.exit_code,
        job=output.job,
        found=output.found,
    )
    return lean_copy(ended)
