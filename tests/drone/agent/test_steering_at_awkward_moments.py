"""Controls at awkward moments: while an agent ends, begins or is cancelled, or while its entry is written."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from drone.agent.control import control_router
from drone.agent.ports.journal import Fenced, MemoryJournal
from drone.agent.ports.model import Ask
from drone.models.scripted import Line, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.journal import AgentStarted, ControlApplied
from mcc.contracts.limits import Limits
from mcc.contracts.record import RecordStatus
from tests.drone.agent.steered_tree import MASTER, TWO, SteeredTree, delegate, end_of, outcome


@pytest.mark.parametrize("first", ["parent", "child"])
async def test_a_parent_and_its_child_cancelled_at_once_end_once_each(first: str) -> None:
    tree = SteeredTree({**TWO, "north": [delegate("quay"), "n"], "quay": ["q"]})
    tree.hold("quay", "south")
    tree.begin()
    await tree.until_asked("quay", "south")
    tree.hold("north")
    both = [tree.child("north").id, tree.child("quay").id]
    if first == "child":
        both.reverse()
    asked = await asyncio.gather(*(tree.steering.cancel(record_id=one) for one in both))
    tree.release("south")
    assert await end_of(tree) == "Both looked."
    assert tree.ended("north") is tree.ended("quay") is RecordStatus.CANCELLED
    assert asked[0].refused is None
    assert asked[1].refused == (control_router.NOBODY if first == "parent" else None)


@pytest.mark.parametrize("order", [["north", "quay"], ["quay", "north"], ["quay", "north", MASTER]])
async def test_agents_above_each_other_that_are_ended_in_one_moment_end_once_each(order: list[str]) -> None:
    tree = SteeredTree({**TWO, "north": [delegate("quay"), "n"], "quay": ["q"]})
    tree.hold("quay", "south")
    tree.begin()
    await tree.until_asked("quay", "south")
    for prompt in order:
        tree.turn.router.cancel(tree.child(prompt).id, f"{prompt} is stopped")
    tree.release("south")
    await end_of(tree)
    assert tree.ended("north") is tree.ended("quay") is RecordStatus.CANCELLED
    assert tree.child("north").error == "north is stopped"


async def test_what_is_asked_of_an_agent_that_takes_its_time_to_be_cancelled_is_refused() -> None:
    may_end = asyncio.Event()
    going = asyncio.Event()

    @tool()
    async def tidy() -> str:
        """Tidy up before it stops."""
        going.set()
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
        return ""

    tree = SteeredTree({**TWO, "north": [Line(calls=(call("tidy"),)), "n"]}, lambda: FunctionTools([tidy]))
    tree.hold("south")
    tree.begin()
    await going.wait()
    north = tree.child("north").id
    assert (await tree.steering.cancel(record_id=north)).refused is None
    for asked in (
        await tree.steering.steer("x", record_id=north),
        await tree.steering.pause(record_id=north),
        await tree.steering.cancel(record_id=north),
    ):
        assert asked.refused == control_router.ENDING
    may_end.set()
    tree.release("south")
    await end_of(tree)
    assert tree.ended("north") is RecordStatus.CANCELLED


class SlowJournal(MemoryJournal):
    """A journal whose writes wait while the test holds them."""

    def __init__(self) -> None:
        super().__init__("order-1")
        self.open = asyncio.Event()
        self.open.set()
        self.fenced = False
        self.waiting = asyncio.Event()

    async def write(self, origin: Origin, *facts: Fact) -> int:
        if not self.open.is_set():
            self.waiting.set()
            await self.open.wait()
        if self.fenced:
            raise Fenced("another drone holds the order")
        return await super().write(origin, *facts)


def on(journal: MemoryJournal, script: dict[str, list[Line | str]]) -> SteeredTree:
    """The same tree on another journal."""
    from drone.agent.spending.budget import Budget
    from drone.agent.turns.turn import Steering, Turn

    tree = SteeredTree(script)
    tree.journal = journal
    tree.turn = Turn.begun(journal, Budget(Limits()))
    tree.steering = Steering(tree.turn)
    return tree


async def test_an_agent_is_cancelled_though_it_answers_while_its_cancel_is_written() -> None:
    journal = SlowJournal()
    tree = on(journal, dict(TWO))
    tree.hold("north", "south")
    tree.begin()
    await tree.until_asked("north", "south")
    journal.open.clear()
    cancelling = asyncio.create_task(tree.steering.cancel(record_id=tree.child("north").id))
    await journal.waiting.wait()
    tree.release("north", "south")
    journal.open.set()
    assert (await cancelling).applied_seq is not None
    await end_of(tree)
    assert tree.ended("north") is RecordStatus.CANCELLED
    assert tree.kinds("north").index("control.applied") < tree.kinds("north").index("agent.finished")


async def test_a_message_whose_entry_is_being_written_when_its_agent_is_cancelled_is_applied_once() -> None:
    journal = SlowJournal()
    tree = on(journal, {**TWO, "north": [delegate("quay"), "n"], "quay": ["q"]})
    tree.hold("quay", "south")
    tree.begin()
    await tree.until_asked("quay", "south")
    north = tree.child("north").id
    asked = await tree.steering.steer("Count.", record_id=north)
    tree.release("quay")
    await asyncio.sleep(0)
    journal.open.clear()
    await journal.waiting.wait()
    await_cancel = asyncio.create_task(tree.steering.cancel(record_id=north))
    await asyncio.sleep(0)
    journal.open.set()
    await await_cancel
    tree.release("south")
    await end_of(tree)
    settled = outcome(tree, asked)
    assert (settled.applied_seq is None) != (settled.refused is None)
    entries = [
        one for one in journal.entries if isinstance(one.data, ControlApplied) and one.data.control_id == asked.id
    ]
    assert len(entries) == (settled.applied_seq is not None)


async def test_an_order_that_another_drone_holds_by_now_leaves_unread_messages_open_for_it() -> None:
    journal = SlowJournal()
    tree = on(journal, dict(TWO))
    tree.hold("north", "south")
    running = tree.begin()
    await tree.until_asked("north", "south")
    asked = await tree.steering.steer("Count.")
    journal.fenced = True
    tree.release("north", "south")
    with pytest.raises(Fenced):
        await running
    assert outcome(tree, asked).open


class SelfEnding(SteeredTree):
    """A tree whose agent `north` is cancelled in the same step in which its model answers."""

    async def _author(self, ask: Ask) -> Line | str:
        line = await super()._author(ask)
        if self.calls[-1] == "north":
            self.turn.router.cancel(self.child("north").id, "stopped in the last moment")
        return line


@pytest.mark.parametrize("reply", ["North is empty.", Line(calls=(call("write"),))])
async def test_an_agent_that_answers_in_the_moment_of_its_cancel_is_cancelled(reply: Line | str) -> None:
    ran: list[str] = []

    @tool()
    async def write() -> str:
        """Write."""
        ran.append("write")
        return "written"

    tree = SelfEnding({**TWO, "north": [reply]}, lambda: FunctionTools([write]))
    tree.begin()
    await end_of(tree)
    assert tree.ended("north") is RecordStatus.CANCELLED
    assert "tool.started" not in tree.kinds("north") and not ran


async def test_a_call_of_a_reply_that_waits_for_its_turn_waits_for_the_end_of_a_pause_too() -> None:
    ran: list[int] = []
    going, may_end = asyncio.Event(), asyncio.Event()

    @tool()
    async def dig(number: int) -> str:
        """Dig.

        Args:
            number: where.
        """
        ran.append(number)
        going.set()
        await may_end.wait()
        return "dug"

    both = Line(calls=(call("dig", number=1), call("dig", number=2)))
    tree = SteeredTree({MASTER: [both, "Done."]}, lambda: FunctionTools([dig]), Limits(parallel_tool_calls=1))
    tree.begin()
    await going.wait()
    await tree.steering.pause()
    may_end.set()
    await tree.until(lambda: "tool.finished" in tree.kinds(MASTER))
    for _ in range(20):
        await asyncio.sleep(0)
    assert ran == [1]
    await tree.steering.resume()
    assert await end_of(tree) == "Done."
    assert ran == [1, 2]


class BeforeTheStart(MemoryJournal):
    """A journal that calls the test before it writes the start of an agent."""

    def __init__(self) -> None:
        super().__init__("order-1")
        self.meanwhile: Callable[[str], Awaitable[object]] | None = None

    async def write(self, origin: Origin, *facts: Fact) -> int:
        if isinstance(facts[0], AgentStarted) and origin.depth == 1 and self.meanwhile and origin.record_id:
            await self.meanwhile(origin.record_id)
        return await super().write(origin, *facts)


async def test_an_agent_whose_start_is_not_an_entry_yet_cannot_be_addressed() -> None:
    journal = BeforeTheStart()
    tree = on(journal, {MASTER: [delegate("north"), "Done."], "north": ["n"]})
    journal.meanwhile = lambda record_id: tree.steering.cancel(record_id=record_id)
    tree.begin()
    assert await end_of(tree) == "Done."
    (asked,) = tree.steering.asked
    assert asked.refused == control_router.NOBODY
