"""Parts of running one reply's tool calls: serializing some of them, reading arguments, building their ends."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from drone.agent.turns.toolset import Output
from mcc.contracts.blocks import ToolCall
from mcc.contracts.fact import Fact
from mcc.contracts.fence import fenced
from mcc.contracts.journal import AgentStep, Outcome, ToolFinished, ToolStarted
from mcc.contracts.shape import lean_copy, now, unchecked
from mcc.contracts.similar import close_matches
from mcc.definitions.rights import TOOL_GROUPS
from mcc.rules.reading import read_as
from mcc.transcript.messages import ToolSpec

_FINISH_TOOLS = frozenset(TOOL_GROUPS["finish"])

NAME = 200
"""Most characters of an unknown tool's name that are compared and repeated to the model."""

OUTCOME_UNKNOWN = (
    "The outcome of this call is not known: the process that ran it was lost, and it may or may not have had its "
    "effect. It is not repeated by itself. Check whether it had, before you repeat it."
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
                # However the call ended: a cancelled one must not hold up those behind it.
                self._over[call_id].set()


class FirstStarts:
    """When the calls of one reply began. `begun_at`: the ids and times of those that another drone had begun, so that
    a call which was taken over counts as a whole."""

    def __init__(self, begun_at: Mapping[str, datetime]) -> None:
        at, tick = now(), time.monotonic()
        # Drones on two machines need not agree on the time: no call takes less than none.
        self._ticks = {call_id: tick - max(0.0, (at - began).total_seconds()) for call_id, began in begun_at.items()}

    def __contains__(self, call: ToolCall) -> bool:
        return call.call_id in self._ticks

    def of(self, call: ToolCall) -> float:
        """The start of the call on the clock of `time.monotonic()`: now, unless another drone had begun it."""
        return self._ticks.get(call.call_id, time.monotonic())


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call with its arguments as they were read; `notes` say what was read as something else than was sent."""

    call: ToolCall
    notes: tuple[str, ...] = ()
    is_finish: bool = False

    def start(self, round_: int, index: int, idempotent: bool) -> ToolStarted:
        """The start of the call, the one with this `index` in the reply of this round."""
        return unchecked(
            ToolStarted,
            call_id=self.call.call_id,
            provider_id=self.call.provider_id,
            round=round_,
            index=index,
            name=self.call.name,
            arguments=self.call.arguments,
            idempotent=idempotent,
            approval_id=None,
        )

    def started(self, start: ToolStarted) -> tuple[Fact, ...]:
        """The entries of the call's start; a finish tool's notes are warnings of its check."""
        if not self.notes or self.is_finish:
            return (start,)
        return AgentStep(name=READ_DIFFERENTLY, message=f"{start.name}: {'; '.join(self.notes)}."), start

    def telling(self, output: Output) -> Output:
        """The output, of an error with the notes: what was read differently may be what went wrong."""
        if not self.notes or not output.is_error or output.subagent_ids:
            return output
        return replace(output, content=f"{output.content}\n(As read: {'; '.join(self.notes)}.)")


READ_DIFFERENTLY = "arguments_read"
"""Name of the step that says what of a call's arguments was read as something else than was sent."""


def read_call(call: ToolCall, spec: ToolSpec | None, roots: Sequence[str] = ()) -> ReadCall:
    """The call with its arguments as the tool's schema admits them (`mcc.rules.reading`), and with paths below one of
    the workspace's `roots` relative to it: a rule about a path must not depend on its spelling.

    Text that is no object becomes one only where it can mean one: a bare JSON string is the only argument of a
    subagent's tool that has just that one, and null means no arguments where none is required.
    """
    sent = call.arguments
    if spec is None:
        return ReadCall(call)
    arguments = _as_object(sent, spec) if isinstance(sent, str) else sent
    if arguments is None:
        return ReadCall(call)
    is_finish = spec.group == "finish"
    read = read_as(spec.accepted or spec.parameters, arguments, spec.name, is_result=is_finish)
    value = _with_relative_paths(read.value, roots) if roots and spec.group in _OF_WORKSPACES else read.value
    if value is not sent:
        call = call.model_copy(update={"arguments": value})
    return ReadCall(call, read.notes, is_finish)


_OF_WORKSPACES = frozenset(
    {"workspace_read", "workspace_write", "diff_read", "git_read", "git_write", "shell_read", "shell_write"}
)
_PATHS = frozenset({"path", "paths", "cwd", "source", "target"})
"""The arguments of the tools of these groups that are paths."""


def _with_relative_paths(arguments: Mapping[str, object], roots: Sequence[str]) -> Mapping[str, object]:
    named = {name: given for name, given in arguments.items() if name in _PATHS}
    relative = {name: _relative(given, roots) for name, given in named.items()}
    return arguments if relative == named else {**arguments, **relative}


def _relative(given: object, roots: Sequence[str]) -> object:
    if isinstance(given, list):
        return [_relative(item, roots) for item in given]
    if not isinstance(given, str) or not given.startswith("/"):
        return given
    parts = [part for part in given.split("/") if part not in ("", ".")]
    for root in roots:
        base = [part for part in root.split("/") if part not in ("", ".")]
        if parts[: len(base)] == base:
            return "/".join(parts[len(base) :]) or "."
    return given


def _as_object(sent: str, spec: ToolSpec) -> Mapping[str, object] | None:
    """The arguments that a text can mean; None where that is not certain."""
    if sent.strip() in _NOTHING:
        return None if spec.parameters.get("required") else {}
    if not sent.startswith('"') or (sole := _only_argument(spec)) is None:
        return None
    try:
        return {sole: json.loads(sent)}
    except ValueError:
        return None


_NOTHING = frozenset({"null", "None", "[]", '""', '"null"', '"{}"'})
"""Arguments as models send them for none."""


def _only_argument(spec: ToolSpec) -> str | None:
    """Name of the only required argument of a delegation tool, when that is a string."""
    if spec.group != "delegation":
        return None
    required, known = spec.parameters.get("required"), spec.parameters.get("properties")
    if not isinstance(required, list | tuple) or len(required) != 1 or not isinstance(known, Mapping):
        return None
    described = known.get(required[0])
    return str(required[0]) if isinstance(described, Mapping) and described.get("type") == "string" else None


READ_FIRST = (
    "Not checked yet: somebody wrote to you in the meantime, or subagents of yours ended. Read that, then hand your "
    "result in again."
)


def refusal(said: str, outcome: Outcome = Outcome.ERROR) -> Output:
    """An error result written by the runtime itself, hence trusted."""
    return Output(said, is_error=True, outcome=outcome, untrusted=False)


def finished(call: ToolCall, output: Output, started: float, *, untrusted: bool, outside: bool = False) -> ToolFinished:
    """The end of a call; untrusted content is fenced. `started`: `time.monotonic()` at its start
    (`FirstStarts`). `outside`: whether its tool brings text from outside."""
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
        tainted=output.tainted or (untrusted and outside),
        background=output.background,
        delivered=output.delivered,
    )
    return lean_copy(ended)


def unknown(name: str, there: Sequence[ToolSpec], *, has_gate: bool) -> str:
    """The answer to a call of a tool that the agent does not have; `there` are those that it has."""
    if name in _FINISH_TOOLS and not has_gate:
        return f"You need no tool to finish: your reply without a tool call is your result. {available_tools(there)}"
    near = close_matches(name[:NAME], [spec.name for spec in there], n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"There is no tool {name[:NAME]!r} here.{hint} {available_tools(there)}"


def available_tools(there: Sequence[ToolSpec]) -> str:
    names = ", ".join(spec.name for spec in there)
    return f"You have: {names}." if names else "You have no tools."


def what_is_left(finish: Sequence[ToolSpec]) -> str:
    """What an agent without tool calls left can still do; `finish` are the tools of its gate."""
    if not finish:
        return "no tool runs any more. Answer"
    return f"no tool but {' and '.join(spec.name for spec in finish)} runs any more. Finish"
