"""This room is for delegation: the tool `subagent`, whose body runs another agent in the same loop."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from drone.agent.agent import Agent
from drone.agent.messages import ToolSpec
from drone.agent.ports import Call, Output
from drone.agent.report import Report
from drone.agent.turn import Task, Turn, title_of
from mcc.contracts.ids import child_record_id
from mcc.contracts.journal import Outcome
from mcc.contracts.record import RecordStatus

SUBAGENT = "subagent"


Hire: TypeAlias = Callable[[str, int], Agent]
"""Makes the agent of an offered type for a child at a depth."""


class Delegation:
    """The tool set of one record that may delegate. Children beyond `limits.concurrency` wait for a place."""

    def __init__(self, turn: Turn, offered: Mapping[str, str], hire: Hire, *, depth: int) -> None:
        self._turn = turn
        self._offered = offered
        self._hire = hire
        self._depth = depth
        self._places = asyncio.Semaphore(turn.budget.limits.concurrency)
        self._spec = _spec(offered)

    def specs(self) -> Sequence[ToolSpec]:
        return (self._spec,)

    async def call(self, call: Call) -> Output:
        wrong = self._wrong(call.arguments)
        if wrong is not None:
            return Output(wrong, is_error=True, outcome=Outcome.ERROR)
        if self._depth >= self._turn.budget.limits.depth:
            return _denied(f"The limit depth ({self._turn.budget.limits.depth}) is reached: do this work yourself.")
        if not self._turn.budget.take_spawn():
            return _denied(f"The limit spawns ({self._turn.budget.limits.spawns}) is reached: do this work yourself.")
        async with self._places:
            return await self._delegate(call)

    async def _delegate(self, call: Call) -> Output:
        prompt = str(call.arguments["prompt"])
        agent = self._hire(str(call.arguments["agent_type"]), self._depth + 1)
        task = Task(
            prompt=prompt,
            record_id=child_record_id(call.call_id),
            title=str(call.arguments.get("title") or title_of(prompt)),
            parent_id=call.origin.record_id,
            call_id=call.call_id,
            depth=self._depth + 1,
        )
        return _told(await agent.run(task, self._turn))

    def _wrong(self, arguments: Mapping[str, object]) -> str | None:
        """What is wrong with the arguments, in words for the model; None when they are right."""
        unknown = sorted(set(arguments) - {"agent_type", "prompt", "title"})
        if unknown:
            return f"subagent takes agent_type, prompt and title; it does not know {', '.join(unknown)}."
        kind = arguments.get("agent_type")
        if not isinstance(kind, str) or kind not in self._offered:
            return f"agent_type must be one of {', '.join(self._offered)}; {kind!r} is none of them."
        if not isinstance(arguments.get("prompt"), str) or not str(arguments["prompt"]).strip():
            return "prompt must be a text that tells the subagent all it needs: it sees nothing of this conversation."
        if not isinstance(arguments.get("title", ""), str | None):
            return "title must be a short text."
        return None


def _told(report: Report) -> Output:
    """What the parent learns of a child: its final text, or why it stopped and how far it came."""
    ids = (report.record_id,)
    if report.completed:
        return Output(report.text, subagent_ids=ids)
    so_far = f" What it had so far:\n{report.text}" if report.text else " It had nothing to tell yet."
    if report.status is RecordStatus.LIMIT_REACHED:
        return Output(f"The subagent stopped short: {report.error}.{so_far}", is_error=True, subagent_ids=ids)
    return Output(
        f"The subagent failed: {report.error}.{so_far}", is_error=True, outcome=Outcome.ERROR, subagent_ids=ids
    )


def _denied(why: str) -> Output:
    return Output(why, is_error=True, outcome=Outcome.DENIED)


def _spec(offered: Mapping[str, str]) -> ToolSpec:
    known = "\n".join(f"- {name}: {description}" for name, description in offered.items())
    return ToolSpec(
        name=SUBAGENT,
        description=(
            "Delegate one self-contained piece of work to a subagent and get its final answer back. The subagent sees "
            "only your prompt. Several calls in one reply run side by side.\n" + known
        ),
        parameters={
            "type": "object",
            "properties": {
                "agent_type": {"type": "string", "enum": list(offered), "description": "Which subagent to ask."},
                "prompt": {"type": "string", "description": "The whole task, with all context that it needs."},
                "title": {"type": "string", "description": "A few words for people who watch."},
            },
            "required": ["agent_type", "prompt"],
            "additionalProperties": False,
        },
        group="delegation",
        idempotent=False,
    )
