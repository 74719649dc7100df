"""An order whose call did something that could not be recorded waits for the disk before its next call."""

import asyncio
from pathlib import Path

import pytest

from drone.agent.turns.toolset import Output
from drone.models.scripted import Line, call
from drone.tools.frame.aftermath import Aftermath
from drone.tools.frame.tool import FunctionTools, ToolContext, tool
from drone.worker.shortage import DiskWatch
from mcc.contracts.journal import Outcome, ToolFinished
from mcc.contracts.order import WorkOrder
from mcc.contracts.order_facts import OrderWaiting
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.resources import Reserve
from mcc.store.store import Store
from tests.drone.agent.steered_tree import MASTER, SteeredTree
from tests.drone.worker.test_steering_of_orders import Steered, steered

WHY = "disk I/O error"


class Hand:
    """A tool with an effect; bookkeeping after the effect fails for some of its calls."""

    def __init__(self, *failing: str) -> None:
        self.done: list[str] = []
        self.failed = asyncio.Event()
        self._failing = failing

    def tools(self) -> FunctionTools:
        @tool(effects="execute", untrusted=False)
        async def act(context: ToolContext, what: str) -> Output:
            """Act."""
            self.done.append(what)
            after = Aftermath(context.turn)
            if what in self._failing:
                await after.recorded(_fails(), None)
                self.failed.set()
            return after.told(Output(f"{what} is done"))

        return FunctionTools([act])


async def _fails() -> None:
    raise OSError(WHY)


def acting(hand: Hand, *whats: str) -> SteeredTree:
    return SteeredTree({MASTER: [Line(calls=tuple(call("act", what=what) for what in whats)), "Done."]}, hand.tools)


def results(run: Steered) -> list[ToolFinished]:
    entries = run.bench.journal(run.order.id)
    return [entry.data for entry in entries if isinstance(entry.data, ToolFinished)]


async def ended(run: Steered) -> WorkOrder:
    async with asyncio.timeout(10):
        await run.working
    return run.bench.store.orders.get(run.order.id)


@pytest.mark.parametrize("whats", [("one",), ("one", "two")], ids=["alone", "with another call behind it"])
async def test_it_waits_for_the_disk_with_its_result_told_and_goes_on_behind_it(
    tmp_path: Path, whats: tuple[str, ...]
) -> None:
    hand = Hand("one")
    store: Store
    # The grace for orders that wait is long: this one is parked at once.
    async with steered(tree=acting(hand, *whats), park_after_seconds=3_600) as first:
        order = await ended(first)
        assert (order.status, order.reason) == (OrderStatus.WAITING, WaitingReason.DISK)
        told, *behind = results(first)
        assert (told.outcome, told.is_error) == (Outcome.OK, False)
        assert told.content == f"one is done\nnot recorded: {WHY}."
        assert hand.done == ["one"] and first.tree.calls == [MASTER]
        assert all(one.is_error and one.content.startswith("Not run, as the order waits") for one in behind)
        last = first.bench.journal(order.id)[-1].data
        assert isinstance(last, OrderWaiting) and WHY in last.message
        store = first.bench.store

    async with steered(store, order, tree=(again := acting(hand, *whats)), park_after_seconds=3_600) as second:
        second.working.cancel()
        watch = DiskWatch(Reserve((tmp_path,), 1), second.bench.executions, second.bench.async_store)
        await watch.requeue_waiting()
        watch.close()
        assert store.orders.get(order.id).status is OrderStatus.QUEUED
        second.working = asyncio.create_task(second.bench.runner.work(order.id))
        assert (await ended(second)).status is OrderStatus.SUCCEEDED
        assert hand.done == ["one"] and again.calls == [MASTER]


async def test_an_agent_beside_it_ends_its_call_and_waits_too() -> None:
    hand = Hand("left")
    script: dict[str, list[Line | str]] = {
        MASTER: [Line(calls=tuple(call("subagent", agent_type="scout", prompt=one) for one in ("a", "b"))), "Done."],
        "a": [Line(calls=(call("act", what="left"),)), "A."],
        "b": [Line(calls=(call("act", what="right"),)), Line(calls=(call("act", what="more"),)), "B."],
    }
    tree = SteeredTree(script, hand.tools)
    tree.hold("b")
    async with steered(tree=tree, park_after_seconds=3_600) as run:
        await tree.until_asked("b")
        await tree.until_asked("a")
        await hand.failed.wait()
        tree.release("b")
        order = await ended(run)
        assert (order.status, order.reason) == (OrderStatus.WAITING, WaitingReason.DISK)
        assert "more" not in hand.done and set(tree.calls) == {MASTER, "a", "b"}


async def test_where_no_order_can_be_parked_the_turn_goes_on() -> None:
    hand = Hand("one")
    tree = acting(hand, "one", "two")
    report = await tree.begin()
    assert report.text == "Done." and hand.done == ["one", "two"]
