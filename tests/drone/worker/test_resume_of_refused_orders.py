"""Resuming an order whose provider demands a pause: before it is parked, while it waits, and in between."""

from drone.agent.control.control_router import NOT_PAUSED
from drone.worker.ending import CONTROLLED_MEANWHILE
from mcc.contracts.control import ControlKind
from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus, WaitingReason
from tests.drone.agent.steered_tree import MASTER
from tests.drone.worker.test_parking import a_drone, assert_nothing_repeated, questions, refused_tree, until_parked
from tests.drone.worker.test_steering_of_orders import Steered, steered, until


def tries(run: Steered, prompt: str) -> list[int]:
    record_id = run.child(prompt).id
    entries = run.bench.journal(run.order.id)
    return [one.data.attempt for one in entries if one.record_id == record_id and isinstance(one.data, ModelStarted)]


async def stands(run: Steered) -> None:
    await until(lambda: run.tree.calls != [] and run.tree.turn.idle.is_idle)


async def test_a_refused_order_that_is_resumed_within_its_grace_asks_at_once_and_never_waits() -> None:
    async with steered(tree=refused_tree("north"), park_after_seconds=3600) as run:
        await stands(run)
        resume = await run.ask(ControlKind.RESUME)
        ended = await run.end()
        assert (ended.status, ended.attempt, ended.usage.model_calls) == (OrderStatus.SUCCEEDED, 1, 4)
        assert run.now(resume).applied_seq is not None and tries(run, "north") == [1, 2]
        assert "order.waiting" not in run.bench.kinds(run.order.id)
        assert_nothing_repeated(run)


async def test_one_refused_agent_is_resumed_within_the_grace_and_the_other_waits_on() -> None:
    async with steered(tree=refused_tree("north", "south"), park_after_seconds=3600) as run:
        await stands(run)
        resume = await run.ask(ControlKind.RESUME, record_id=run.child("north").id)
        await until(lambda: run.child("north").status is RecordStatus.COMPLETED)
        await stands(run)
        assert run.now(resume).applied_seq is not None
        assert (tries(run, "north"), tries(run, "south")) == ([1, 2], [1])
        await run.ask(ControlKind.RESUME, record_id=run.child("south").id)
        assert (await run.end()).status is OrderStatus.SUCCEEDED


async def test_a_resume_of_one_agent_that_lets_a_waiting_order_go_on_is_applied_by_the_next_drone() -> None:
    async with a_drone(tree=refused_tree("north")) as first:
        order = await until_parked(first)
        assert order.reason is WaitingReason.RATE_LIMIT
        resume = first.request(ControlKind.RESUME, record_id=first.child("north").id)
        store, asked = first.bench.store, questions(first.tree, "north")
        assert store.orders.get(order.id).status is OrderStatus.QUEUED

    async with a_drone(store, order) as second:
        assert (await second.end("north", "south")).status is OrderStatus.SUCCEEDED
        assert second.now(resume).applied_seq is not None
        assert questions(second.tree, "north") == asked and sorted(second.tree.calls) == [MASTER, "north"]
        assert_nothing_repeated(second)


async def test_a_resume_that_comes_just_as_a_refused_order_is_parked_is_applied_by_the_next_drone() -> None:
    tree = refused_tree("north")
    tree.hold("north")
    async with a_drone(tree=tree) as first:
        await tree.until_asked("north")
        resume = first.request(ControlKind.RESUME)
        tree.release("north")
        order = await until_parked(first)
        assert order.status is OrderStatus.QUEUED
        assert getattr(first.bench.journal(order.id)[-1].data, "message", None) == CONTROLLED_MEANWHILE
        store = first.bench.store

    async with a_drone(store, order) as second:
        assert (await second.end("north", "south")).status is OrderStatus.SUCCEEDED
        assert second.now(resume).applied_seq is not None
        assert_nothing_repeated(second)


async def test_a_resume_is_refused_when_no_agent_waits_any_more() -> None:
    async with a_drone(tree=refused_tree("north")) as first:
        order = await until_parked(first)
        first.request(ControlKind.RESUME)
        store = first.bench.store

    async with a_drone(store, order) as second:
        second.tree.hold("north")
        await second.tree.until_asked("north")
        late = await second.ask(ControlKind.RESUME)
        assert (await second.until_refused(late)).refused == NOT_PAUSED
        assert (await second.end("north")).status is OrderStatus.SUCCEEDED
