"""The last entries of an agent are committed with the end of its order, in one transaction, despite any obstacle."""

from collections.abc import Sequence
from typing import Any

import pytest

from drone.order_context import OrderContext
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.entry import Origin
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished, AgentStep, WorkspaceCheckpointed
from mcc.contracts.order import OrderOutcome, WorkOrder
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.usage import Usage
from mcc.store.database.errors import BadEntry, StoreError, StoreUnavailable
from mcc.store.rows.values import EndedOrder, Ending
from tests.drone.worker.bench_of_orders import Bench
from tests.drone.worker.fake_crew import FakeCrew, started

SPENT = AgentStep(name="thought", message="about it", usage=Usage(input_tokens=7, model_calls=1))


class Owing(FakeCrew):
    """A crew whose agent owes its last entries; `checkpointed`: it may have changed its workspace."""

    def __init__(self, *, checkpointed: bool = False, text: str = "") -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.text = text

    async def run(self, order: WorkOrder, context: OrderContext) -> OrderOutcome:
        journal, router = context.journal, context.router
        assert router is not None
        origin = Origin(record_id=root_record_id(order.id), agent=order.agent)
        await journal.write(origin, started(order.prompt))
        if self.checkpointed:
            taken = WorkspaceCheckpointed(checkpoint_id="1", call_id="1", files=1, bytes=1, skipped=0)
            router.tree.apply(origin, taken)
            await journal.write(origin, taken)
        if self.text:
            await journal.keep(self.text)
        journal.defer(origin, SPENT, AgentFinished(status=RecordStatus.COMPLETED, answer="said"))
        return OrderOutcome(status=OrderStatus.SUCCEEDED, answer="said")


class Watched:
    """Claims that record the endings. `first` runs before the first one is stored, and may raise."""

    def __init__(self, claims: object, *first: Any) -> None:
        self._claims = claims
        self._first = list(first)
        self.endings: list[Ending] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._claims, name)

    def finish_together(self, endings: Sequence[Ending]) -> Sequence[EndedOrder | StoreError]:
        self.endings += endings
        if self._first:
            answer = self._first.pop(0)()
            if answer is not None:
                return [answer]
        return self._claims.finish_together(endings)  # type: ignore[attr-defined,no-any-return]


async def ended(bench: Bench, *first: Any) -> tuple[WorkOrder, list[list[str]]]:
    """The order, and the kinds of the entries in each ending that was sent."""
    order = bench.place("hello")
    watched = Watched(bench.store.claims, *first)
    bench.with_parts(claims=watched)
    await bench.runner.work(order.id)
    return bench.store.orders.get(order.id), [[one.data.kind for one in it.drafts] for it in watched.endings]


LAST = ["agent.step", "agent.finished", "order.finished"]
WHOLE = ["order.queued", "order.claimed", "agent.started", *LAST]


async def test_owed_entries_are_part_of_the_transaction_that_ends_the_order() -> None:
    async with Bench(crew=Owing()) as bench:
        order, endings = await ended(bench)
        assert endings == [LAST] and bench.kinds(order.id) == WHOLE
        assert order.status is OrderStatus.SUCCEEDED and order.usage.input_tokens == 7
        record = bench.store.orders.record(order.id)
        assert record == bench.fold(order.id).record() and record is not None
        assert record.status is RecordStatus.COMPLETED


async def test_owed_entries_are_part_of_the_ending_after_a_database_outage() -> None:
    def away() -> None:
        raise StoreUnavailable("away")

    async with Bench(crew=Owing()) as bench:
        order, endings = await ended(bench, away)
        assert endings == [LAST, LAST] and bench.kinds(order.id) == WHOLE


async def test_a_late_cancel_ends_the_order_and_keeps_the_owed_entries() -> None:
    async with Bench(crew=Owing()) as bench:

        def cancel() -> None:
            order_id = bench.store.orders.list(limit=1).items[0].id
            bench.store.controls.request(order_id, ControlKind.CANCEL, NewControl(), by=Actor("test"))

        order, endings = await ended(bench, cancel)
        assert order.status is OrderStatus.CANCELLED and len(endings) == 2
        assert bench.kinds(order.id) == [*WHOLE[:-1], "control.applied", "order.finished"]


async def test_owed_entries_are_committed_alone_when_the_outcome_is_refused() -> None:
    async with Bench(crew=Owing()) as bench:
        order, endings = await ended(bench, lambda: BadEntry("no"))
        assert (order.status, order.reason) == (OrderStatus.FAILED, FailureReason.INTERNAL)
        assert endings == [LAST, ["order.finished"]] and bench.kinds(order.id) == WHOLE
        assert order.usage.input_tokens == 7


@pytest.mark.parametrize("crew", [Owing(checkpointed=True), Owing(text="kept")], ids=["workspace", "text"])
async def test_owed_entries_are_committed_before_the_workspace_is_compared(crew: Owing) -> None:
    async with Bench(crew=crew) as bench:
        order, endings = await ended(bench)
        assert endings == [["order.finished"]] and bench.kinds(order.id)[-3:] == LAST
