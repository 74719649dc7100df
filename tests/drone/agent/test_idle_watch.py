"""When a tree is idle: all its activities wait, at least one of them for a person or a clock."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from drone.agent.control.agent_control import AgentControl
from drone.agent.control.idle_watch import LONGEST_WAIT, Block, IdleWatch, combined
from drone.agent.spending.budget import Budget
from drone.agent.state.restraints import Restraints
from drone.agent.turns.toolset import Output, StartedCall
from drone.models.scripted import Line, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.entry import Origin
from mcc.contracts.limits import Limits
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason
from mcc.testing import FakeClock
from mcc.transcript.messages import ToolSpec
from tests.drone.agent.refused_tree import Refusing, settled, standing
from tests.drone.agent.steered_tree import MASTER, TWO, SteeredTree, delegate, end_of, two_at_work
from tests.faults.simulation.leaping import simulated

LATER = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
PAUSED = Block(WaitingReason.PAUSED, "it is paused")
ASKED = Block(WaitingReason.APPROVAL, "it asks whether it may")
LIMITED = Block(WaitingReason.RATE_LIMIT, "it is refused", LATER)


def told(idle: IdleWatch) -> list[bool]:
    """The calls of a watcher from now on."""
    heard: list[bool] = []
    idle.watch(heard.append)
    return heard


def test_a_tree_without_strands_or_without_anything_to_wait_for_does_not_stand_still() -> None:
    idle = IdleWatch()
    assert not idle.is_idle
    with idle.moving("a"), idle.waiting("a"):
        assert not idle.is_idle
    assert not idle.is_idle


def test_one_strand_that_moves_keeps_the_tree_from_standing_still() -> None:
    idle = IdleWatch()
    heard = told(idle)
    with idle.moving("a"), idle.blocked("a", PAUSED):
        assert idle.is_idle
        with idle.moving("b"):
            assert not idle.is_idle
            with idle.blocked("b", ASKED):
                assert idle.is_idle and idle.blocks == [PAUSED, ASKED]
        assert idle.is_idle
    assert not idle.is_idle and idle.blocks == []
    assert heard == [True, False, True, False, True, False]


def test_a_strand_that_waits_for_blocked_ones_counts_as_blocked_however_often_it_waits() -> None:
    idle = IdleWatch()
    with idle.moving("parent"), idle.waiting("parent"), idle.waiting("parent"):
        with idle.moving("child"), idle.blocked("child", PAUSED):
            assert idle.is_idle
        assert not idle.is_idle


def test_strands_that_are_not_known_neither_move_nor_keep_still() -> None:
    idle = IdleWatch()
    with idle.moving("a"), idle.waiting("b"), idle.waiting(None), idle.blocked("c", PAUSED):
        assert not idle.is_idle
    with idle.blocked("c", PAUSED):
        assert idle.is_idle


def test_a_strand_moves_once_however_often_it_says_so() -> None:
    idle = IdleWatch()
    with idle.moving("a"), idle.moving("a"), idle.blocked("a", PAUSED):
        assert idle.is_idle


def test_whoever_watches_is_told_no_more_after_its_time_and_the_first_is_told_first() -> None:
    idle = IdleWatch()
    heard: list[str] = []
    idle.watch(lambda stands: heard.append(f"first {stands}"))
    with idle.moving("a"):
        with idle.watched(lambda stands: heard.append(f"second {stands}")), idle.blocked("a", PAUSED):
            pass
        with idle.blocked("a", PAUSED):
            pass
    assert heard == ["first True", "second True", "first False", "second False", "first True", "first False"]


def test_what_a_paused_agent_waits_for_is_its_pause_whatever_else_holds_it_up() -> None:
    idle, restraints = IdleWatch(), Restraints()
    agent_control = AgentControl(Origin(record_id="r1", parent_id="r0", agent="scout", depth=1), None, restraints)
    with idle.moving("r1", agent_control.block), idle.blocked("r1", LIMITED):
        assert combined(idle.blocks) == LIMITED
        restraints.paused = True
        block = combined(idle.blocks)
    assert (block.reason, block.until) == (WaitingReason.PAUSED, None)
    assert block.message == "scout (record r1) is paused until someone resumes it"


def test_a_tree_may_wait_as_long_as_its_order_lives_and_a_day_where_that_is_not_said() -> None:
    day = LONGEST_WAIT.total_seconds()
    assert IdleWatch(parks=True).may_wait(day) and not IdleWatch(parks=True).may_wait(day + 1)
    assert not IdleWatch().may_wait(1)
    week = IdleWatch(parks=True, expires_at=now() + timedelta(days=7))
    assert week.may_wait(6 * day) and not week.may_wait(8 * day)
    assert not IdleWatch(parks=True, expires_at=now() + timedelta(minutes=1)).may_wait(3600)


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([PAUSED], PAUSED),
        ([PAUSED, PAUSED], PAUSED),
        ([ASKED, PAUSED], Block(WaitingReason.PAUSED, "it is paused; it asks whether it may")),
        ([PAUSED, LIMITED], Block(WaitingReason.RATE_LIMIT, "it is refused; it is paused", LATER)),
        (
            [LIMITED, Block(WaitingReason.RATE_LIMIT, "so is this", LATER - timedelta(hours=1))],
            Block(WaitingReason.RATE_LIMIT, "it is refused; so is this", LATER - timedelta(hours=1)),
        ),
        (
            [Block(WaitingReason.PAUSED, f"{n}") for n in range(5)],
            Block(WaitingReason.PAUSED, "0; 1; 2; and 2 more"),
        ),
    ],
)
def test_several_blocks_are_one_that_the_first_of_them_can_end(blocks: Sequence[Block], expected: Block) -> None:
    assert combined(blocks) == expected


async def test_a_tree_stands_still_once_its_last_child_rests_and_moves_when_one_goes_on() -> None:
    tree = await two_at_work()
    north, south = tree.child("north").id, tree.child("south").id
    heard = told(tree.turn.idle)
    await tree.steering.pause(record_id=north)
    tree.release("north")
    await tree.until(lambda: "model.replied" in tree.kinds("north"))
    assert not tree.turn.idle.is_idle
    await tree.steering.pause(record_id=south)
    tree.release("south")
    await standing(tree)
    messages = [block.message for block in tree.turn.idle.blocks]
    assert messages == [
        f"scout (record {record_id}) is paused until someone resumes it" for record_id in (north, south)
    ]
    await tree.steering.resume(record_id=north)
    await tree.until(lambda: tree.ended("north") is RecordStatus.COMPLETED)
    await tree.steering.resume(record_id=south)
    assert await end_of(tree) == "Both looked."
    assert heard[0] is True and heard[-1] is False and not tree.turn.idle.is_idle


async def test_a_pause_of_the_whole_tree_stands_still_with_all_that_is_in_it() -> None:
    tree = await two_at_work()
    await tree.steering.pause()
    tree.release("north", "south")
    await standing(tree)
    assert combined(tree.turn.idle.blocks).message == "the order is paused until someone resumes it"
    await tree.steering.resume()
    assert await end_of(tree) == "Both looked."


async def test_a_tool_that_runs_keeps_its_tree_from_standing_still() -> None:
    done, running = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        """Work."""
        running.set()
        await done.wait()
        return "worked"

    script: dict[str, list[Line | str]] = {**TWO, "south": [Line(calls=(call("work"),)), "South is empty."]}
    tree = SteeredTree(script, lambda: FunctionTools([work]))
    heard = told(tree.turn.idle)
    tree.hold("north")
    tree.begin()
    await tree.until_asked("north")
    await running.wait()
    await tree.steering.pause()
    tree.release("north")
    await tree.until(lambda: "model.replied" in tree.kinds("north"))
    await settled()
    assert not tree.turn.idle.is_idle and heard == []
    done.set()
    await standing(tree)
    await tree.steering.resume()
    assert await end_of(tree) == "Both looked."


class Asking:
    """A tool that asks a person and can be run again."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answered = asyncio.Event()

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec("ask", "Ask.", {"type": "object", "properties": {}}, resumable=True),)

    async def call(self, call: StartedCall) -> Output:
        assert call.turn is not None
        async with call.turn.blocked(call.call_id, call.origin.record_id, ASKED):
            self.asked.set()
            await self.answered.wait()
        return Output("yes")


@pytest.mark.parametrize("beside", [(), (call("work"),)], ids=["alone", "beside a quick one"])
async def test_a_tool_that_asks_a_person_holds_nobody_up(beside: Any) -> None:
    @tool
    async def work() -> str:
        """Work."""
        return "worked"

    asking = Asking()
    tree = SteeredTree({MASTER: [Line(calls=(call("ask"), *beside)), "Done."]}, lambda: _both(asking, work))
    heard = told(tree.turn.idle)
    tree.begin()
    await asking.asked.wait()
    await standing(tree)
    assert tree.turn.idle.blocks == [ASKED]
    asking.answered.set()
    assert await end_of(tree) == "Done."
    assert heard[0] is True and heard[-1] is False


def test_a_refused_agent_waits_and_asks_the_same_again_and_pays_nothing_for_it() -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        refusing = Refusing(3600, clock=loop.time)
        tree = refusing.tree
        heard = told(tree.turn.idle)
        tree.begin()
        began = loop.time()
        assert await tree.running is not None  # type: ignore[misc]
        assert loop.time() - began >= 3600
        asks = [ask for ask in tree.model.asks if ask.messages[0].text == "north"]  # type: ignore[union-attr]
        assert len(asks) == 2 and asks[0].messages == asks[1].messages
        assert tree.kinds("north") == [
            "agent.started",
            "model.started",
            "model.retried",
            "model.started",
            "model.replied",
            "agent.finished",
        ]
        assert tree.child("north").usage.model_calls == 1 and tree.turn.budget.spent.model_calls == 4
        assert heard[0] is True and heard[-1] is False

    simulated(main)


def test_no_wall_clock_goes_on_while_the_tree_stands_still() -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        refusing = Refusing(3600, limits=Limits(wall_seconds=60), clock=loop.time)
        report = await refusing.tree.begin()
        assert report.text == "Both looked." and refusing.tree.ended("north") is RecordStatus.COMPLETED

    simulated(main)


def test_a_wall_clock_goes_on_while_others_work() -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        refusing = Refusing(3600, limits=Limits(wall_seconds=60), clock=loop.time)
        tree = refusing.tree
        tree.hold("south")
        report = await tree.begin()
        assert report.limit == "wall_seconds"

    simulated(main)


@pytest.mark.parametrize(("parks", "seconds", "said"), [(False, 300, ""), (True, 90_000, "longer than its order may")])
async def test_who_may_not_wait_so_long_fails_at_once(parks: bool, seconds: float, said: str) -> None:
    refusing = Refusing(seconds, parks=parks)
    refusing.tree.begin()
    assert await end_of(refusing.tree) == "Both looked."
    north = refusing.tree.child("north")
    assert north.status is RecordStatus.FAILED and "It is busy." in (north.error or "") and said in (north.error or "")


async def test_a_paused_child_below_a_child_stands_still_too() -> None:
    script: dict[str, list[Line | str]] = {
        MASTER: [delegate("middle"), "Done."],
        "middle": [delegate("deep"), "Middle."],
        "deep": ["Deep."],
    }
    tree = SteeredTree(script)
    tree.hold("deep")
    tree.begin()
    await tree.until_asked("deep")
    await tree.steering.pause(record_id=tree.child("middle").id)
    tree.release("deep")
    await standing(tree)
    assert "record" in combined(tree.turn.idle.blocks).message
    await tree.steering.resume(record_id=tree.child("middle").id)
    assert await end_of(tree) == "Done."


def test_a_budget_that_stood_still_has_as_many_seconds_left_as_before() -> None:
    clock = FakeClock()
    budget = Budget(Limits(wall_seconds=60), clock.uptime)
    clock.advance(10)
    budget.set_idle(True)
    clock.advance(1000)
    assert budget.seconds_left() == 50
    budget.set_idle(False)
    clock.advance(5)
    assert budget.seconds_left() == 45


def _both(asking: Asking, work: Callable[..., object]) -> Any:
    from drone.tools.frame.tool import Joined

    return Joined(asking, FunctionTools([work]))
