"""This room is for acting: the tool calls of one reply, side by side, each with its entries."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from drone.agent.budget import Allowance
from drone.agent.messages import ToolResult, ToolSpec
from drone.agent.mishap import mishap
from drone.agent.ports import Call, Journal, Output, ToolSet
from mcc.contracts.journal import Origin, Outcome, ToolFinished, ToolStarted
from mcc.contracts.record import ToolCall


@dataclass(frozen=True, slots=True)
class Acted:
    """Results in the order of the calls. `unwritten` goes into the journal with the next entry of the record."""

    results: tuple[ToolResult, ...]
    unwritten: ToolFinished


class Hands:
    """Runs the tool calls of one record, at most `width` at a time."""

    def __init__(self, tools: ToolSet, journal: Journal, origin: Origin, allowance: Allowance, width: int) -> None:
        self._tools = tools
        self._journal = journal
        self._origin = origin
        self._allowance = allowance
        self._width = width
        self._specs: dict[str, ToolSpec] = {spec.name: spec for spec in tools.specs()}

    def starting(self, calls: tuple[ToolCall, ...], round_number: int) -> tuple[ToolStarted, ...]:
        """The entries to commit before any of the calls runs."""
        return tuple(
            ToolStarted(
                call_id=call.call_id,
                provider_id=call.provider_id,
                round=round_number,
                index=index,
                name=call.name,
                arguments=call.arguments,
                idempotent=self._is_idempotent(call.name),
            )
            for index, call in enumerate(calls)
        )

    def _is_idempotent(self, name: str) -> bool:
        spec = self._specs.get(name)
        return spec is not None and spec.idempotent

    async def act(self, calls: tuple[ToolCall, ...]) -> Acted:
        """Run calls whose start is committed. Each result is committed when it comes, the last one by the caller."""
        if len(calls) == 1:
            finished = await self._one(calls[0])
            return Acted((_result(finished),), finished)
        width = asyncio.Semaphore(self._width)
        finished_calls: dict[str, ToolFinished] = {}

        async def one(call: ToolCall) -> None:
            async with width:
                finished = await self._one(call)
            finished_calls[call.call_id] = finished
            if len(finished_calls) < len(calls):
                await self._journal.write(self._origin, finished)

        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(one(call))
        except ExceptionGroup as stopped:
            raise stopped.exceptions[0] from None
        *_, last = finished_calls.values()
        return Acted(tuple(_result(finished_calls[call.call_id]) for call in calls), last)

    async def _one(self, call: ToolCall) -> ToolFinished:
        """The call's result; whatever the tool does, the model is told and the turn goes on. Raises `JournalError`."""
        started = time.monotonic()
        try:
            return _finished(call, await self._run(call), started)
        except BaseException as error:
            said = f"The tool {call.name} broke: {mishap(error)}"
            return _finished(call, Output(said, is_error=True, outcome=Outcome.ERROR), started)

    async def _run(self, call: ToolCall) -> Output:
        if not isinstance(call.arguments, Mapping):
            return Output(
                f"The arguments of {call.name} must be one JSON object; what was sent is not: {call.arguments[:200]}",
                is_error=True,
                outcome=Outcome.ERROR,
            )
        if not self._allowance.take_tool_call():
            allowed = self._allowance.share.tool_calls
            return Output(
                f"The limit tool_calls ({allowed}) is reached: no tool runs any more. Answer with what you have.",
                is_error=True,
                outcome=Outcome.DENIED,
            )
        return await self._tools.call(Call(call.call_id, call.name, call.arguments, self._origin))


def _finished(call: ToolCall, output: Output, started: float) -> ToolFinished:
    return ToolFinished(
        call_id=call.call_id,
        name=call.name,
        content=output.content,
        is_error=output.is_error,
        outcome=output.outcome,
        seconds=round(time.monotonic() - started, 6),
        subagent_ids=output.subagent_ids,
    )


def _result(finished: ToolFinished) -> ToolResult:
    return ToolResult(finished.call_id, finished.name, finished.content, finished.is_error)
