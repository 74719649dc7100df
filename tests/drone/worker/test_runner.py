import asyncio
import gc
import weakref
from collections.abc import Callable, Sequence

import pytest
from sqlalchemy.engine import Connection

from drone.agent.control.control_router import NOBODY
from drone.agent.control.idle_watch import Block
from drone.agent.ports.journal import Fenced
from drone.generation.outline import OrderParked
from drone.order_context import OrderContext
from drone.worker.control_listener import ControlListener
from drone.worker.ending import TOO_LATE
from drone.worker.executions import Stop
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentFinished, AgentStep
from mcc.contracts.order import OrderOutcome, WorkOrder
from mcc.contracts.order_facts import OrderFinished, OrderHandedBack
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.dispatch.broker import RedisAt
from mcc.store.database.errors import StoreError, StoreUnavailable
from mcc.store.rows.values import EndedOrder, Ending
from mcc.store.work.late_answers import FOR_NEXT_TURN
from tests.drone.worker.bench_of_orders import Bench
from tests.drone.worker.fake_crew import FakeCrew

NOWHERE = "redis://127.0.0.1:1/0"


def listener(bench: Bench) -> ControlListener:
    return ControlListener(bench.async_store, RedisAt(NOWHERE), bench.trust, bench.executions)


async def test_an_order_is_claimed_run_and_finished() -> None:
    async with Bench() as bench:
        order = bench.place("hello")
        ended = await bench.runner.work(order.id)
        assert ended is not None
        kept = bench.store.orders.get(order.id)
        assert (kept.status, kept.answer) == (OrderStatus.SUCCEEDED, "did hello")
        assert bench.kinds(order.id) == [
            "order.queued",
            "order.claimed",
            "agent.started",
            "agent.finished",
            "order.finished",
        ]
        assert bench.store.orders.record(order.id) == bench.fold(order.id).record()
        assert len(bench.executions) == 0


async def test_an_ended_order_is_freed_without_a_garbage_collection() -> None:
    async with Bench() as bench:
        working = asyncio.create_task(bench.runner.work(bench.place("sleep 0.05").id))
        await bench.crew.began.wait()
        (run,) = bench.executions
        left = weakref.ref(run)
        del run
        gc.disable()
        try:
            assert await working is not None
            del working
            assert left() is None
        finally:
            gc.enable()


async def test_viewers_are_told_of_the_start_and_of_the_end() -> None:
    async with Bench() as bench:
        order = bench.place("hello")
        await bench.runner.work(order.id)
        await bench.broadcaster.flush()
        assert [hint.status for hint in bench.publisher.hints if hint.status][-1] == "succeeded"
        assert bench.publisher.hints[-1].seq == 5
        assert "".join(delta.text for delta in bench.publisher.deltas) == "working"


async def test_a_second_message_for_the_same_order_does_nothing() -> None:
    async with Bench() as bench:
        order = bench.place("hello")
        both = await asyncio.gather(bench.runner.work(order.id), bench.runner.work(order.id))
        assert [ended is not None for ended in both] == [True, False]
        assert await bench.runner.work(order.id) is None
        assert bench.kinds(order.id).count("order.claimed") == 1


@pytest.mark.parametrize("order_id", ["", "no id", "01a1f8df-de02-7c97-a483-df713377677c"])
async def test_a_message_with_a_forged_id_does_nothing(order_id: str) -> None:
    async with Bench() as bench:
        assert await bench.runner.work(order_id) is None


async def test_a_crew_that_breaks_fails_the_order_and_closes_what_is_open() -> None:
    async with Bench() as bench:
        order = bench.place("break")
        await bench.runner.work(order.id)
        kept = bench.store.orders.get(order.id)
        assert (kept.status, kept.reason) == (OrderStatus.FAILED, FailureReason.INTERNAL)
        assert "the crew is broken" in (kept.detail or "")
        finished = bench.journal(order.id)[-2].data
        assert isinstance(finished, AgentFinished) and finished.status is RecordStatus.FAILED


async def test_a_cancel_stops_the_turn_closes_it_and_is_applied_at_an_entry() -> None:
    async with Bench() as bench:
        order = bench.place("sleep 60")
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        control = bench.store.controls.request(
            order.id, ControlKind.CANCEL, NewControl(reason="wrong question"), by=Actor("test")
        )
        await listener(bench).once()
        await working
        kept = bench.store.orders.get(order.id)
        assert (kept.status, kept.detail) == (OrderStatus.CANCELLED, "wrong question")
        assert bench.kinds(order.id)[-3:] == ["control.applied", "agent.finished", "order.finished"]
        receipt = bench.store.controls.of_order(order.id)[0]
        applied = next(entry.seq for entry in bench.journal(order.id) if entry.kind == "control.applied")
        assert (receipt.id, receipt.applied_seq) == (control.id, applied)
        record = bench.store.orders.record(order.id)
        assert record is not None and record.status is RecordStatus.CANCELLED


async def test_an_order_is_ended_although_its_turn_ignores_cancellation() -> None:
    async with Bench(unwind_seconds=0.1) as bench:
        order = bench.place("stubborn 1")
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        bench.store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor("test"))
        await listener(bench).once()
        await working
        assert bench.store.orders.get(order.id).status is OrderStatus.CANCELLED
        assert bench.kinds(order.id).count("agent.finished") == 1


async def test_an_unread_cancel_takes_precedence_over_the_end_of_the_turn() -> None:
    async with Bench() as bench:
        order = bench.place("sleep 0.05")
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        bench.store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor("test"))
        await working
        assert bench.store.orders.get(order.id).status is OrderStatus.CANCELLED
        assert bench.store.controls.of_order(order.id)[0].applied_seq is not None


@pytest.mark.parametrize("read_before_the_end", [True, False])
async def test_a_control_of_an_agent_that_is_not_there_is_refused_and_the_turn_goes_on(
    read_before_the_end: bool,
) -> None:
    async with Bench() as bench:
        order = bench.place("sleep 0.05")
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        asked = NewControl(record_id=fresh_id())
        bench.store.controls.request(order.id, ControlKind.PAUSE, asked, by=Actor("test"))
        if read_before_the_end:
            await listener(bench).once()
        await working
        assert bench.store.orders.get(order.id).status is OrderStatus.SUCCEEDED
        (control,) = bench.store.controls.of_order(order.id)
        assert control.refused == (NOBODY if read_before_the_end else TOO_LATE)


@pytest.mark.parametrize("delivered", [True, False])
async def test_a_steer_that_was_not_read_before_the_end_is_the_next_turns_and_delays_nothing(
    delivered: bool,
) -> None:
    async with Bench() as bench:
        order = bench.place("sleep 0.05")
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        bench.store.controls.request(order.id, ControlKind.STEER, NewControl(message="left"), by=Actor("test"))
        if delivered:
            await listener(bench).once()
        await working
        assert bench.store.orders.get(order.id).status is OrderStatus.SUCCEEDED
        (control,) = bench.store.controls.of_order(order.id)
        assert control.refused == FOR_NEXT_TURN and control.applied_seq is None
        following = bench.place("next", session_id=order.session_id)
        assert [said.text for said in bench.store.orders.get(following.id).words] == ["left"]


async def test_a_steer_from_before_the_claim_is_delivered_once_when_the_turn_begins() -> None:
    async with Bench() as bench:
        order = bench.place("sleep 0.05")
        bench.store.controls.request(order.id, ControlKind.STEER, NewControl(message="left"), by=Actor("test"))
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        (run,) = bench.executions
        await listener(bench).once()
        assert run.router is not None
        with run.router.entered(Origin(record_id="root", agent="master")) as agent_control:
            assert [mail.text for mail in agent_control.mail.empty()] == ["left"]
        await working


async def test_an_order_that_was_taken_over_goes_on_in_the_records_that_it_has() -> None:
    async with Bench() as bench:
        order = bench.place("sleep 60")
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        for run in bench.executions:
            run.halt(Stop.FENCED)
        await working
        assert bench.kinds(order.id)[-1] == "agent.started"
        bench.store.leases.leave(bench.trust.incarnation or "")
        assert list(bench.store.sweeper.sweep(may_expire=True).requeued) == [order.id]

        async with Bench(bench.store) as other:
            taken = asyncio.create_task(other.runner.work(order.id))
            await other.crew.began.wait()
            for run in other.executions:
                run.halt(Stop.CANCEL)
            await taken
        kinds = bench.kinds(order.id)
        assert kinds[2:] == ["agent.started", "order.requeued", "order.claimed", "agent.finished", "order.finished"]
        record = bench.store.orders.record(order.id)
        assert record == bench.fold(order.id).record()


async def test_a_turn_whose_lease_is_lost_writes_nothing_more() -> None:
    async with Bench() as bench:
        order = bench.place("sleep 60")
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        for run in bench.executions:
            run.halt(Stop.FENCED)
        assert await working is None
        assert bench.kinds(order.id)[-1] == "agent.started"
        assert bench.store.orders.get(order.id).status is OrderStatus.RUNNING


async def test_a_turn_that_is_handed_back_leaves_its_order_and_epoch_behind() -> None:
    async with Bench() as bench:
        order = bench.place("sleep 60")
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        for run in bench.executions:
            run.halt(Stop.HAND_BACK)
        assert await working is None
        held = [(claim.order.id, claim.epoch) for claim in bench.executions.to_hand_back()]
        assert held == [(order.id, 1)]
        returned = bench.store.claims.hand_back(held, drone="d1", message="bye")
        assert list(returned) == [order.id]
        assert bench.kinds(order.id)[-2:] == ["agent.started", "order.handed_back"]


def lose_entries(bench: Bench, order: WorkOrder, left: int) -> None:
    """As a fail-over to a standby does that had not received the last entries."""

    def work(connection: Connection) -> None:
        connection.exec_driver_sql("DELETE FROM journal WHERE order_id = ? AND seq > ?", (order.id, left))
        connection.exec_driver_sql("UPDATE order_state SET last_seq = ? WHERE order_id = ?", (left, order.id))

    bench.store.database.write(work)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_an_order_whose_entries_the_database_lost_returns_to_the_queue_with_what_is_left(cancelled: bool) -> None:
    async with Bench() as bench:
        order = bench.place("sleep 0.02")
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        lose_entries(bench, order, left=2)
        if cancelled:
            for run in bench.executions:
                run.halt(Stop.CANCEL)
        assert await working is None
        assert bench.kinds(order.id) == ["order.queued", "order.claimed", "order.handed_back"]
        handed_back = bench.store.journal.read(order.id)[-1].data
        assert isinstance(handed_back, OrderHandedBack) and "lost confirmed entries" in handed_back.message
        assert await bench.runner.work(order.id) is not None
        assert bench.store.orders.get(order.id).status is OrderStatus.SUCCEEDED


async def test_an_order_that_is_gone_with_the_database_leaves_nothing_behind() -> None:
    async with Bench() as bench:
        order = bench.place("sleep 0.02")
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        lose_entries(bench, order, left=0)
        bench.store.database.write(
            lambda connection: connection.exec_driver_sql("DELETE FROM order_state WHERE order_id = ?", (order.id,))
        )
        assert await working is None
        assert len(bench.executions) == 0


async def test_no_order_is_claimed_without_an_incarnation() -> None:
    async with Bench() as bench:
        order = bench.place("hello")
        incarnation, bench.trust.incarnation = bench.trust.incarnation, None
        assert await bench.runner.work(order.id) is None
        bench.trust.incarnation = incarnation
        assert await bench.runner.work(order.id) is not None


async def test_no_order_is_taken_once_the_runs_are_closed() -> None:
    async with Bench() as bench:
        order = bench.place("hello")
        bench.executions.close()
        assert await bench.runner.work(order.id) is None
        assert bench.store.orders.get(order.id).status is OrderStatus.QUEUED


class Flaky:
    """Claims whose `finish_together` first fails with each of `problems`."""

    def __init__(self, claims: object, problems: list[Exception]) -> None:
        self._claims = claims
        self.problems = problems
        self.endings: list[Ending] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._claims, name)

    def finish_together(self, endings: Sequence[Ending]) -> Sequence[EndedOrder | StoreError]:
        self.endings += endings
        if self.problems:
            raise self.problems.pop(0)
        return self._claims.finish_together(endings)  # type: ignore[attr-defined,no-any-return]


async def test_an_ending_is_sent_again_after_a_database_outage() -> None:
    async with Bench() as bench:
        flaky = Flaky(bench.store.claims, [StoreUnavailable("away")])
        bench.with_parts(claims=flaky)
        order = bench.place("hello")
        await bench.runner.work(order.id)
        assert bench.store.orders.get(order.id).status is OrderStatus.SUCCEEDED
        assert flaky.endings[0] == flaky.endings[1]


async def test_outcome_and_last_entry_of_an_ending_agree() -> None:
    async with Bench() as bench:
        flaky = Flaky(bench.store.claims, [])
        bench.with_parts(claims=flaky)
        order = bench.place("hello")
        await bench.runner.work(order.id)
        (ending,) = flaky.endings
        last = ending.drafts[-1].data
        assert isinstance(last, OrderFinished) and isinstance(ending.outcome, OrderOutcome)
        assert (last.status, last.detail, last.usage) == (ending.outcome.status, None, ending.outcome.usage)


class Garbled:
    """A journal that cannot be read."""

    def __init__(self, journal: object) -> None:
        self._journal = journal

    def __getattr__(self, name: str) -> object:
        return getattr(self._journal, name)

    def read(self, *_: object, **__: object) -> object:
        raise ValueError("there is no journal entry of kind 'gibberish'")


async def test_an_order_whose_journal_cannot_be_read_fails_and_does_not_stay_held() -> None:
    async with Bench() as bench:
        order = bench.place("hello")
        claim = bench.claim(order)
        bench.store.claims.hand_back([(order.id, claim.epoch)], drone="d1", message="")
        bench.with_parts(journal=Garbled(bench.store.journal))
        await bench.runner.work(order.id)
        kept = bench.store.orders.get(order.id)
        assert (kept.status, kept.reason) == (OrderStatus.FAILED, FailureReason.INTERNAL)
        assert "gibberish" in (kept.detail or "")


@pytest.mark.parametrize(
    ("kind", "status"), [(ControlKind.STEER, OrderStatus.FAILED), (ControlKind.CANCEL, OrderStatus.CANCELLED)]
)
async def test_a_control_does_not_keep_an_unreadable_order_held(kind: ControlKind, status: OrderStatus) -> None:
    async with Bench() as bench:
        order = bench.place("hello")
        claim = bench.claim(order)
        bench.store.claims.hand_back([(order.id, claim.epoch)], drone="d1", message="")
        asked = NewControl(message="left")

        def ask(read: object) -> object:
            bench.with_parts(journal=Garbled(read))
            return bench.store.controls.request(order.id, kind, asked, by=Actor("test"))

        bench.with_parts(claims=Meanwhile(bench.store.claims, "claim_together", lambda: ask(bench.store.journal)))
        await bench.runner.work(order.id)
        assert bench.store.orders.get(order.id).status is status
        assert not bench.store.controls.of_order(order.id)[0].open


class Meanwhile:
    """Claims that run something else during `method`: after a claim, or before an end."""

    def __init__(self, claims: object, method: str, happens: Callable[[], object]) -> None:
        self._claims = claims
        self._method = method
        self._happens = happens

    def __getattr__(self, name: str) -> object:
        inner = getattr(self._claims, name)
        if name != self._method:
            return inner

        def call(*args: object, **fields: object) -> object:
            if name == "finish_together":
                self._happens()
            answer = inner(*args, **fields)
            if name == "claim_together":
                self._happens()
            return answer

        return call


async def test_tasks_left_running_by_a_turn_write_nothing_after_its_end() -> None:
    async with Bench() as bench:
        loop = asyncio.get_running_loop()
        refused: list[BaseException | None] = []

        def write_late() -> None:
            late = bench.crew.journal.write(Origin(), AgentStep(name="note", message="late"))
            refused.append(asyncio.run_coroutine_threadsafe(late, loop).exception(5))

        bench.with_parts(claims=Meanwhile(bench.store.claims, "finish_together", write_late))
        order = bench.place("hello")
        await bench.runner.work(order.id)
        assert [type(problem) for problem in refused] == [Fenced]
        assert bench.store.orders.get(order.id).status is OrderStatus.SUCCEEDED


async def test_an_order_whose_process_is_exhausted_is_not_ended_by_it() -> None:
    async with Bench() as bench:
        order = bench.place("exhaust")
        with pytest.raises(MemoryError):
            await bench.runner.work(order.id)
        assert bench.store.orders.get(order.id).status is OrderStatus.RUNNING
        assert bench.kinds(order.id) == ["order.queued", "order.claimed", "agent.started"]


async def test_an_order_that_can_only_wait_is_parked_at_once() -> None:
    class Asking(FakeCrew):
        """A generation whose outline waits for a person."""

        async def run(self, order: WorkOrder, context: OrderContext) -> OrderOutcome:
            raise OrderParked(Block(WaitingReason.APPROVAL, "the outline waits for a person's approval"))

    async with Bench(crew=Asking()) as bench:
        order = bench.place("go")
        async with asyncio.timeout(10):
            assert await bench.runner.work(order.id) is None
        waiting = bench.store.orders.get(order.id)
        assert (waiting.status, waiting.reason) == (OrderStatus.WAITING, WaitingReason.APPROVAL)
        assert waiting.detail is not None and "outline" in waiting.detail
        assert bench.kinds(order.id)[-1] == "order.waiting"
