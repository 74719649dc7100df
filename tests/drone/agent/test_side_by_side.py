"""Concurrent parts: the first failure ends the others, and leaves no cancellation in the waiting task."""

import asyncio

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.agent.ports.report import Cause
from drone.agent.spending.budget import Budget
from drone.agent.subagents.subagent import SubAgent, SubAgentTool
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.threads import side_by_side
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.limits import Limits
from mcc.transcript.messages import ToolSpec


async def test_the_first_failure_ends_the_others_and_is_raised_as_it_is() -> None:
    ended = list[str]()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        async with side_by_side() as start:
            start(waits)
            start(fails)
    assert ended == ["waits"]


async def test_a_part_that_fails_while_all_is_waited_for_leaves_no_cancellation_behind() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("late")

    with pytest.raises(KeyError):
        async with side_by_side() as start:
            start(fails)
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_who_cancels_the_task_that_waits_ends_the_parts_and_is_not_lost() -> None:
    begun = asyncio.Event()

    async def waits() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def whole() -> None:
        async with side_by_side() as start:
            start(waits)

    waiting = asyncio.create_task(whole())
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


class Queue:
    """Two calls, the second waiting for the first, whose child is cancelled at the moment it may start."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._first = asyncio.Event()

    def specs(self) -> tuple[ToolSpec, ...]:
        return (ToolSpec("step", "", {"type": "object"}),)

    async def call(self, call: StartedCall) -> Output:
        asyncio.get_running_loop().call_soon(self._let_go, call.origin.record_id or "")
        await self._first.wait()
        return Output("one step")

    def _let_go(self, record_id: str) -> None:
        self._first.set()
        asyncio.get_running_loop().call_soon(self._turn.router.cancel, record_id, "enough")


async def test_a_child_that_is_cancelled_between_its_calls_leaves_its_parent_able_to_be_cancelled() -> None:
    turn = Turn.begun(MemoryJournal("order"), Budget(Limits(parallel_tool_calls=1)))
    child = AgentRuntime(
        AgentDefinition(name="child", prompt="Work."),
        model=ScriptedModel([Line(calls=(call("step"), call("step")))]),
        tools=Queue(turn),
    )

    async def play(ask: Ask) -> Said:
        if len(ask.messages) == 1:
            return Line(calls=(call("child", input="go"),))
        asyncio.get_running_loop().call_soon(turn.router.cancel, "r1", "a person cancelled it")
        await asyncio.Event().wait()
        return "never"

    master = AgentRuntime(
        AgentDefinition(name="master", prompt="Lead."), model=ScriptedModel(play), tools=SubAgentTool(SubAgent(child))
    )
    report = await master.run(Task("go", "r1"), turn)
    assert report.cause is Cause.CANCELLED
