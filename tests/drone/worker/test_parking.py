"""Orders that only wait: they are parked, requeued by what unblocks them, and resumed where they stopped."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest

from drone.agent.control.idle_watch import Block
from drone.agent.ports.model import Ask, AskLater
from drone.agent.state.tree import Tree
from drone.agent.turns.toolset import Output, StartedCall
from drone.models.scripted import Line, Said, call
from drone.worker.ending import CONTROLLED_MEANWHILE
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind
from mcc.contracts.entry import Entry
from mcc.contracts.fold import Fold
from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.order_facts import OrderWaiting
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.store import Store
from mcc.testing import FakeClock, temporary_store
from mcc.transcript.messages import ToolSpec
from tests.drone.agent.steered_tree import MASTER, SteeredTree, asked_by
from tests.drone.worker.test_steering_of_orders import Steered, a_tree, steered, until

GRACE = 0.02


def a_drone(
    store: Store | None = None, order: WorkOrder | None = None, tree: SteeredTree | None = None
) -> AbstractAsyncContextManager[Steered]:
    return steered(store, order, tree=tree, park_after_seconds=GRACE)


async def until_parked(run: Steered) -> WorkOrder:
    """The order after the drone has parked it; none of its agents has ended."""
    async with asyncio.timeout(10):
        assert await run.working is None
    assert len(run.bench.executions) == 0
    return run.bench.store.orders.get(run.order.id)


def waits(run: Steered) -> OrderWaiting:
    """What the order waits for, by its last entry."""
    last = run.bench.journal(run.order.id)[-1].data
    assert isinstance(last, OrderWaiting)
    return last


def assert_nothing_repeated(run: Steered) -> None:
    """Checks that each agent began once, ended once, and called its model once per round."""
    entries = run.bench.journal(run.order.id)
    for kind in ("agent.started", "agent.finished", "model.replied"):
        told = [(entry.record_id, getattr(entry.data, "round", None)) for entry in entries if entry.kind == kind]
        assert len(told) == len(set(told)), kind
    assert Tree.of(entries).spent == Fold.of(run.order.id, entries).spent.model_copy(update={"tool_calls": 0})


async def pause_both(run: Steered, *paused: str) -> WorkOrder:
    """Pause each of these children after its reply; the order is then parked."""
    await run.tree.until_asked("north", "south")
    for prompt in paused:
        await run.ask(ControlKind.PAUSE, record_id=run.child(prompt).id)
    run.tree.release("north", "south")
    return await until_parked(run)


async def test_a_paused_order_waits_without_a_slot_and_goes_on_on_another_drone_when_it_is_resumed() -> None:
    async with a_drone() as first:
        await first.tree.until_asked("north", "south")
        await first.ask(ControlKind.PAUSE, reason="lunch")
        first.tree.release("north", "south")
        order = await until_parked(first)
        assert (order.status, order.reason) == (OrderStatus.WAITING, WaitingReason.PAUSED)
        assert order.detail == waits(first).message == "the order is paused until someone resumes it"
        assert "agent.finished" not in first.bench.kinds(order.id)
        assert first.record().status is RecordStatus.WAITING
        assert first.bench.publisher.hints[-1].status == "waiting"
        assert first.bench.store.claims.claimable(["default"], 10) == []
        resume = first.request(ControlKind.RESUME)
        store = first.bench.store

    async with a_drone(store, order) as second:
        ended = await second.end("north", "south")
        assert (ended.status, ended.answer, ended.attempt) == (OrderStatus.SUCCEEDED, "Both looked.", 2)
        assert second.tree.calls == [MASTER]
        assert second.now(resume).applied_seq is not None
        assert_nothing_repeated(second)


async def test_an_order_runs_on_with_the_child_that_is_resumed_and_waits_again_with_the_other() -> None:
    async with a_drone() as first:
        order = await pause_both(first, "north", "south")
        assert order.reason is WaitingReason.PAUSED
        north, south = first.child("north").id, first.child("south").id
        assert north in waits(first).message and south in waits(first).message
        resumed = first.request(ControlKind.RESUME, record_id=north)
        store = first.bench.store
        assert store.orders.get(order.id).status is OrderStatus.QUEUED

    async with a_drone(store, order) as second:
        order = await until_parked(second)
        assert (order.status, order.reason) == (OrderStatus.WAITING, WaitingReason.PAUSED)
        assert second.now(resumed).applied_seq is not None
        assert (second.child("north").status, second.child("south").status) == ("completed", "waiting")
        assert north not in waits(second).message and south in waits(second).message
        second.request(ControlKind.RESUME, record_id=south)

    async with a_drone(store, order) as third:
        ended = await third.end("north", "south")
        assert (ended.status, ended.attempt) == (OrderStatus.SUCCEEDED, 3)
        assert third.tree.calls == [MASTER]
        assert_nothing_repeated(third)


async def test_a_child_of_a_waiting_order_is_cancelled_and_the_order_waits_for_the_other() -> None:
    async with a_drone() as first:
        order = await pause_both(first, "north", "south")
        first.request(ControlKind.CANCEL, record_id=first.child("north").id, reason="fog")
        store, south = first.bench.store, first.child("south").id

    async with a_drone(store, order) as second:
        order = await until_parked(second)
        assert order.reason is WaitingReason.PAUSED and south in waits(second).message
        assert second.child("north").status is RecordStatus.CANCELLED
        second.request(ControlKind.RESUME, record_id=south)

    async with a_drone(store, order) as third:
        assert (await third.end("north", "south")).status is OrderStatus.SUCCEEDED


async def test_a_child_is_cancelled_in_an_order_that_stays_paused_as_a_whole() -> None:
    async with a_drone() as first:
        await first.tree.until_asked("north", "south")
        await first.ask(ControlKind.PAUSE)
        first.tree.release("north", "south")
        order = await until_parked(first)
        cancel = first.request(ControlKind.CANCEL, record_id=first.child("north").id)
        store = first.bench.store

    async with a_drone(store, order) as second:
        order = await until_parked(second)
        assert order.reason is WaitingReason.PAUSED and second.now(cancel).applied_seq is not None
        assert second.child("north").status is RecordStatus.CANCELLED and second.tree.calls == []
        second.request(ControlKind.RESUME)

    async with a_drone(store, order) as third:
        assert (await third.end("north", "south")).status is OrderStatus.SUCCEEDED


async def test_an_order_that_receives_a_control_at_the_last_moment_is_handed_back_instead() -> None:
    async with a_drone() as first:
        await first.tree.until_asked("north", "south")
        await first.ask(ControlKind.PAUSE)
        first.request(ControlKind.RESUME)
        first.tree.release("north", "south")
        order = await until_parked(first)
        assert order.status is OrderStatus.QUEUED
        last = first.bench.journal(order.id)[-1]
        assert (last.kind, getattr(last.data, "message", None)) == ("order.handed_back", CONTROLLED_MEANWHILE)
        assert first.bench.publisher.hints[-1].status == "queued"
        store = first.bench.store

    async with a_drone(store, order) as second:
        assert (await second.end("north", "south")).status is OrderStatus.SUCCEEDED
        assert_nothing_repeated(second)


async def test_an_order_that_was_cancelled_at_the_last_moment_is_cancelled() -> None:
    async with a_drone() as run:
        await run.tree.until_asked("north", "south")
        await run.ask(ControlKind.PAUSE)
        cancel = run.request(ControlKind.CANCEL, reason="enough")
        run.tree.release("north", "south")
        order = await until_parked(run)
        assert (order.status, order.detail) == (OrderStatus.CANCELLED, "enough")
        assert run.now(cancel).applied_seq is not None


async def test_an_order_that_is_resumed_within_its_grace_never_waits() -> None:
    async with steered(park_after_seconds=3600) as run:
        await run.tree.until_asked("north", "south")
        await run.ask(ControlKind.PAUSE)
        run.tree.release("north", "south")
        await until(lambda: bool(run.tree.turn.idle.is_idle))
        await run.ask(ControlKind.RESUME)
        assert (await run.end()).attempt == 1
        assert "order.waiting" not in run.bench.kinds(run.order.id)


async def test_a_drone_that_lost_its_order_meanwhile_parks_nothing() -> None:
    async with a_drone() as run:
        await run.tree.until_asked("north", "south")
        await run.ask(ControlKind.PAUSE)
        run.bench.store.leases.leave(run.bench.trust.incarnation or "")
        assert run.bench.store.sweeper.sweep(may_expire=True).requeued
        run.tree.release("north", "south")
        assert (await until_parked(run)).status is OrderStatus.QUEUED
        assert "order.waiting" not in run.bench.kinds(run.order.id)


class Refused:
    """A provider that refuses each of these children once, and demands a pause of `seconds`."""

    def __init__(self, tree: SteeredTree, seconds: float, *prompts: str) -> None:
        self._tree = tree
        self._seconds = seconds
        self._prompts = set(prompts)
        tree.model._author = self

    async def __call__(self, ask: Ask) -> Said:
        said = await self._tree._author(ask)
        prompt = asked_by(ask)
        if prompt not in self._prompts:
            return said
        self._prompts.remove(prompt)
        return AskLater(f"{prompt} is busy.", self._seconds, status=429)


def refused_tree(*prompts: str, seconds: float = 3600) -> SteeredTree:
    tree = a_tree()
    tree.release("north", "south")
    Refused(tree, seconds, *prompts)
    return tree


def questions(tree: SteeredTree, prompt: str) -> list[object]:
    """The requests to the child's model."""
    asks = [ask for ask in tree.model.asks if getattr(ask.messages[0], "text", "") == prompt]
    return [
        (ask.system, [message.text for message in ask.messages if hasattr(message, "text")], ask.max_output_tokens)
        for ask in asks
    ]


async def test_a_refused_order_waits_for_as_long_as_its_provider_demands_and_repeats_the_request() -> None:
    clock = FakeClock(now())
    async with a_drone(temporary_store(clock), tree=refused_tree("north")) as first:
        order = await until_parked(first)
        assert (order.status, order.reason, order.detail) == ("waiting", WaitingReason.RATE_LIMIT, "north is busy")
        due = waits(first).until
        assert due is not None and timedelta(minutes=59) < due - clock.now() < timedelta(minutes=61)
        store = first.bench.store
        asked = questions(first.tree, "north")
        assert not store.sweeper.sweep(may_expire=True).resumed
        clock.advance(3700)
        assert list(store.sweeper.sweep(may_expire=True).resumed) == [order.id]

    async with a_drone(store, order) as second:
        ended = await second.end("north", "south")
        assert (ended.status, ended.usage.model_calls) == (OrderStatus.SUCCEEDED, 4)
        assert questions(second.tree, "north") == asked
        assert sorted(second.tree.calls) == [MASTER, "north"]
        tries = [entry.data.attempt for entry in _of(second, "north") if isinstance(entry.data, ModelStarted)]
        assert tries == [1, 2]
        assert_nothing_repeated(second)


async def test_a_refused_order_reads_messages_when_it_continues_and_asks_at_once_when_it_is_resumed() -> None:
    async with a_drone(tree=refused_tree("north", "south")) as first:
        order = await until_parked(first)
        store = first.bench.store
        steer = first.request(ControlKind.STEER, message="Hurry.")
        assert store.orders.get(order.id).status is OrderStatus.WAITING and first.now(steer).open
        first.request(ControlKind.RESUME)
        assert store.orders.get(order.id).status is OrderStatus.QUEUED

    async with a_drone(store, order) as second:
        assert (await second.end("north", "south")).status is OrderStatus.SUCCEEDED
        assert second.tree.said_to(MASTER)[-1].endswith("Z] Hurry.") and second.now(steer).applied_seq is not None


async def test_an_order_with_other_active_agents_is_not_parked_for_the_refused_one() -> None:
    tree = refused_tree("north")
    tree.hold("south")
    async with a_drone(tree=tree) as run:
        await tree.until_asked("south")
        await until(lambda: "model.retried" in run.bench.kinds(run.order.id))
        assert not tree.turn.idle.is_idle and not run.working.done()
        tree.release("south")
        assert (await until_parked(run)).reason is WaitingReason.RATE_LIMIT
        assert run.child("south").status is RecordStatus.COMPLETED


async def test_an_order_that_expires_before_fails_at_once_with_a_sentence() -> None:
    store = temporary_store()
    new = NewOrder(prompt="look", expires_at=now() + timedelta(minutes=5))
    order = store.orders.place(new, by=Actor("test")).order
    async with a_drone(store, order, refused_tree("north")) as run:
        ended = await run.end()
        assert ended.status is OrderStatus.SUCCEEDED
        assert run.child("north").error == "north is busy. That is longer than its order may wait."


async def test_a_mixed_standstill_ends_by_the_clock_or_by_a_person() -> None:
    async with a_drone(tree=refused_tree("north")) as first:
        first.tree.hold("south")
        await first.tree.until_asked("south")
        await first.ask(ControlKind.PAUSE, record_id=first.child("south").id)
        first.tree.release("south")
        order = await until_parked(first)
        assert order.reason is WaitingReason.RATE_LIMIT and waits(first).until is not None
        assert first.child("south").id in waits(first).message
        first.request(ControlKind.RESUME, record_id=first.child("south").id)
        store = first.bench.store
        assert store.orders.get(order.id).status is OrderStatus.QUEUED

    async with a_drone(store, order) as second:
        assert (await second.end("north", "south")).status is OrderStatus.SUCCEEDED
        assert_nothing_repeated(second)


class Asking:
    """A tool that asks a person each time it runs."""

    def __init__(self, reason: WaitingReason) -> None:
        self.answered = asyncio.Event()
        self._block = Block(reason, "it asks whether it may write")

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec("ask", "Ask.", {"type": "object", "properties": {}}, resumable=True),)

    async def call(self, call: StartedCall) -> Output:
        assert call.turn is not None
        async with call.turn.blocked(call.call_id, call.origin.record_id, self._block):
            await self.answered.wait()
        return Output("yes")


@pytest.mark.parametrize("reason", [WaitingReason.APPROVAL, WaitingReason.QUESTION])
async def test_an_order_whose_tool_asks_a_person_waits_for_the_answer(reason: WaitingReason) -> None:
    script: dict[str, list[Line | str]] = {MASTER: [Line(calls=(call("ask"),)), "Done."]}
    unanswered, answered = Asking(reason), Asking(reason)
    answered.answered.set()
    async with a_drone(tree=SteeredTree(script, lambda: unanswered)) as first:
        order = await until_parked(first)
        assert (order.status, order.reason) == (OrderStatus.WAITING, reason)
        assert order.detail == "it asks whether it may write"
        store = first.bench.store
        assert store.claims.resume(order.id, reason, "it was answered")

    async with a_drone(store, order, SteeredTree(script, lambda: answered)) as second:
        ended = await second.end()
        assert (ended.status, ended.answer) == (OrderStatus.SUCCEEDED, "Done.")
        assert second.bench.kinds(order.id).count("tool.started") == 1
        assert_nothing_repeated(second)


async def test_idle_and_waiting_time_does_not_count_as_wall_clock_time() -> None:
    async with a_drone() as first:
        order = await pause_both(first, "north", "south")
        entries = first.bench.journal(order.id)
    at = {entry.kind: entry.at for entry in entries}
    last_done = entries[-2].at
    assert entries[-1].kind == "order.waiting"
    assert Tree.of(entries).seconds == (last_done - at["order.claimed"]).total_seconds()
    assert last_done < at["order.waiting"]


def _of(run: Steered, prompt: str) -> list[Entry]:
    record_id = run.child(prompt).id
    return [entry for entry in run.bench.journal(run.order.id) if entry.record_id == record_id]
