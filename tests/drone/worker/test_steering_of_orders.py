"""Controls of running orders, with real agents: receipts, batches, and what the next attempt takes over."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from drone.agent.control import control_router
from drone.agent.ports.report import outcome_of
from drone.agent.spending.budget import Budget
from drone.agent.subagents.children import Wanted
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line
from drone.order_context import OrderContext
from drone.tools.frame.tool import FunctionTools, tool
from drone.worker.control_listener import ControlListener
from drone.worker.executions import Stop
from mcc.contracts.callers import Actor
from mcc.contracts.control import Control, ControlKind, NewControl
from mcc.contracts.ids import root_record_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import OrderOutcome, WorkOrder
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.dispatch.broker import RedisAt
from mcc.store.store import Store
from tests.drone.agent.steered_tree import MASTER, SteeredTree, delegate
from tests.drone.worker.bench_of_orders import Bench
from tests.drone.worker.fake_crew import FakeCrew


@tool(group="workspace_write")
async def write() -> str:
    """Write."""
    return "written"


def a_tree() -> SteeredTree:
    script: dict[str, list[Line | str]] = {
        MASTER: [delegate("north", "south"), "Both looked."],
        "north": ["North is empty."],
        "south": ["South is empty."],
    }
    tree = SteeredTree(script, lambda: FunctionTools([write]))
    tree.hold("north", "south")
    return tree


async def until(true: Callable[[], bool]) -> None:
    """Wait until the store satisfies the condition; it sends no event."""
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


class TreeCrew(FakeCrew):
    """Runs the given tree for every order, whatever its prompt."""

    def __init__(self, tree: SteeredTree) -> None:
        super().__init__()
        self._tree = tree

    async def run(self, order: WorkOrder, context: OrderContext) -> OrderOutcome:
        self._tree.turn = Turn.begun(context.journal, Budget(Limits()), context.router)
        task = Task(MASTER, root_record_id(order.id))
        return outcome_of(await self._tree._agent(Wanted(MASTER, 0)).run(task, self._tree.turn))


class Steered:
    """An order that one drone runs, and its controls."""

    def __init__(self, bench: Bench, tree: SteeredTree, order: WorkOrder) -> None:
        self.bench = bench
        self.tree = tree
        self.order = order
        self.working = asyncio.create_task(bench.runner.work(order.id))
        self.listener = ControlListener(
            bench.async_store, RedisAt("redis://127.0.0.1:1/0"), bench.trust, bench.executions
        )

    def request(self, kind: ControlKind, **asked: object) -> Control:
        """Only store the control; `listener.once` delivers it."""
        new = NewControl.model_validate(asked)
        return self.bench.store.controls.request(self.order.id, kind, new, by=Actor("test"))

    async def ask(self, kind: ControlKind, **asked: object) -> Control:
        control = self.request(kind, **asked)
        await self.listener.once()
        return self.now(control)

    def now(self, control: Control) -> Control:
        return self.bench.store.controls.of_order(self.order.id)[control.number - 1]

    def record(self) -> ChatRecord:
        record = self.bench.fold(self.order.id).record()
        assert record is not None
        return record

    def child(self, prompt: str) -> ChatRecord:
        return next(child for child in self.record().subagent_history if child.prompt == prompt)

    async def until_refused(self, control: Control) -> Control:
        await until(lambda: self.now(control).refused is not None)
        return self.now(control)

    async def end(self, *prompts: str) -> WorkOrder:
        self.tree.release(*prompts)
        async with asyncio.timeout(10):
            await self.working
        assert not any(control.open for control in self.bench.store.controls.of_order(self.order.id))
        assert self.bench.store.orders.record(self.order.id) == self.record()
        return self.bench.store.orders.get(self.order.id)


@asynccontextmanager
async def steered(
    store: Store | None = None,
    order: WorkOrder | None = None,
    *,
    tree: SteeredTree | None = None,
    park_after_seconds: float = 20.0,
) -> AsyncIterator[Steered]:
    tree = tree or a_tree()
    async with Bench(store, park_after_seconds=park_after_seconds, crew=TreeCrew(tree)) as bench:
        yield Steered(bench, tree, order or bench.place("look"))


async def test_a_child_is_cancelled_in_a_batch_its_other_controls_are_refused_and_its_sibling_goes_on() -> None:
    async with steered() as run:
        await run.tree.until_asked("north", "south")
        north = run.child("north").id
        steer = run.request(ControlKind.STEER, record_id=north, message="Count.")
        pause = run.request(ControlKind.PAUSE, record_id=north)
        cancel = await run.ask(ControlKind.CANCEL, record_id=north, reason="wrong side")
        assert (await run.until_refused(steer)).refused in (control_router.ENDING, control_router.NOBODY)
        assert (await run.until_refused(pause)).refused in (control_router.ENDING, control_router.NOBODY)
        assert cancel.applied_seq is not None
        order = await run.end("north", "south")
        assert (order.status, order.answer) == (OrderStatus.SUCCEEDED, "Both looked.")
        assert run.child("north").status is RecordStatus.CANCELLED
        assert run.child("south").status is RecordStatus.COMPLETED


async def test_a_message_that_a_child_never_read_is_refused_while_the_order_continues() -> None:
    async with steered() as run:
        await run.tree.until_asked("north", "south")
        north = run.child("north").id
        steer = await run.ask(ControlKind.STEER, record_id=north, message="Count.")
        assert steer.delivered_at is not None and steer.open
        await run.ask(ControlKind.CANCEL, record_id=north)
        assert (await run.until_refused(steer)).refused == control_router.UNREAD
        assert run.bench.store.orders.get(run.order.id).status is OrderStatus.RUNNING
        await run.end("south")


async def test_a_cancel_of_the_whole_order_overrides_earlier_controls_of_its_batch() -> None:
    async with steered() as run:
        await run.tree.until_asked("north", "south")
        steer = run.request(ControlKind.STEER, message="Count.")
        cancel = await run.ask(ControlKind.CANCEL, record_id=run.record().id, reason="enough")
        order = await run.end()
        assert (order.status, order.detail) == (OrderStatus.CANCELLED, "enough")
        assert run.now(cancel).applied_seq is not None
        assert run.now(steer).refused is not None


async def test_a_drone_that_takes_over_applies_earlier_controls_of_the_order_and_of_its_agents() -> None:
    async with steered() as first:
        await first.tree.until_asked("north", "south")
        await first.ask(ControlKind.STEER, record_id=first.child("north").id, message="Count.")
        await first.ask(ControlKind.STEER, message="Look east.", mode="redirect")
        await first.ask(ControlKind.STEER, remove_tools=["workspace_write"])
        await first.ask(ControlKind.SET_METADATA, metadata={"ticket": "OPS-17", "side": "all"})
        await first.ask(ControlKind.SET_METADATA, metadata={"side": "north"}, record_id=first.child("north").id)
        first.tree.hold(MASTER)
        first.tree.asked[MASTER].clear()
        first.tree.release("north", "south")
        await first.tree.until_asked(MASTER)
        await first.ask(ControlKind.PAUSE, reason="lunch")
        for run in first.bench.executions:
            run.halt(Stop.FENCED)
        await first.working
        first.bench.store.leases.leave(first.bench.trust.incarnation or "")
        assert list(first.bench.store.sweeper.sweep(may_expire=True).requeued) == [first.order.id]

        async with steered(first.bench.store, first.order) as second:
            await until(lambda: second.order.id in second.bench.executions.listening())
            assert second.record().status is RecordStatus.WAITING and not second.tree.calls
            resume = await second.ask(ControlKind.RESUME)
            await until(lambda: second.now(resume).applied_seq is not None)
            order = await second.end("north", "south")
            assert (order.status, order.attempt) == (OrderStatus.SUCCEEDED, 2)
            said = second.tree.said_to(MASTER)
            assert len(said) == 2 and said[1].endswith("this is your task from now on:\n\nLook east.")
            # It stays described, as it was to the first drone, and is refused where it is called.
            assert "write" in second.tree.offered_to(MASTER) and set(second.tree.calls) == {MASTER}
            assert "workspace_write" in second.tree.turn.tree.restraints.tools_removed
            known = second.tree.turn.tree
            assert known.metadata(second.record().id) == order.metadata == {"ticket": "OPS-17", "side": "all"}
            assert known.metadata(second.child("north").id) == {"ticket": "OPS-17", "side": "north"}


async def test_a_message_that_a_lost_drone_had_not_read_is_read_by_the_one_that_takes_over() -> None:
    async with steered() as first:
        await first.tree.until_asked("north", "south")
        steer = await first.ask(ControlKind.STEER, message="Mind the gulls.")
        for run in first.bench.executions:
            run.halt(Stop.HAND_BACK)
        await first.working
        store = first.bench.store
        held = [(claim.order.id, claim.epoch) for claim in first.bench.executions.to_hand_back()]
        assert list(store.claims.hand_back(held, drone="d1", message="bye"))
        assert first.now(steer).open

        async with steered(store, first.order) as second:
            await second.tree.until_asked("north", "south")
            await second.end("north", "south")
            assert second.tree.said_to(MASTER)[-1].endswith("Z] Mind the gulls.")
            assert second.now(steer).applied_seq is not None


async def test_controls_of_a_child_that_has_not_resumed_yet_wait_until_it_has() -> None:
    async with steered() as first:
        await first.tree.until_asked("north", "south")
        store, north = first.bench.store, first.child("north").id
        for run in first.bench.executions:
            run.halt(Stop.HAND_BACK)
        await first.working
        held = [(claim.order.id, claim.epoch) for claim in first.bench.executions.to_hand_back()]
        assert list(store.claims.hand_back(held, drone="d1", message="bye"))
        steer = first.request(ControlKind.STEER, record_id=north, message="Mind the gulls.")
        south = first.child("south").id
        cancel = first.request(ControlKind.CANCEL, record_id=south, reason="enough")
        late = [
            first.request(ControlKind.STEER, record_id=south, message="?"),
            first.request(ControlKind.PAUSE, record_id=south),
        ]

        async with steered(store, first.order) as second:
            await second.tree.until_asked("north")
            for control in late:
                assert (await second.until_refused(control)).refused == control_router.ENDING
            order = await second.end("north", "south")
            assert order.status is OrderStatus.SUCCEEDED
            assert second.tree.said_to("north")[-1].endswith("Z] Mind the gulls.")
            assert second.now(steer).applied_seq is not None and second.now(cancel).applied_seq is not None
            assert [child.status for child in second.record().subagent_history] == ["completed", "cancelled"]
