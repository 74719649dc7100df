"""A drone short of memory claims nothing more, parks its largest order, and ends one that can never fit."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from drone.agent.control.idle_watch import Block
from drone.worker.ending import FinishedOrder
from drone.worker.shortage import FULL, GROWN_BYTES, ORDERS, GarbageCollections, Judgement, MemoryWatch, judge
from mcc.contracts.entry import ORDER
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.resources import allowed_bytes, memory_here, resident_bytes
from tests.drone.worker.bench_of_orders import Bench

MB = 1_000_000
LIMIT, IDLE = 1_000 * MB, 100 * MB


class ResidentBytes:
    """A stand-in for `resident_bytes`, set by the test."""

    def __init__(self) -> None:
        self.bytes = IDLE

    def __call__(self) -> int:
        return self.bytes


class Collections:
    """A clock, and garbage collections that take a second each; `freed` runs during each one."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.done = 0
        self.freed: Callable[[], None] = lambda: None
        self.collections = GarbageCollections(
            lambda: self.seconds, lambda: self.seconds, self._collect, lambda: None, lambda: None
        )

    def _collect(self) -> None:
        self.seconds += 1.0
        self.done += 1
        self.freed()


def memory_of(bench: Bench, resident: ResidentBytes, given_up: list[str] | None = None) -> MemoryWatch:
    seen: list[str] = [] if given_up is None else given_up
    collections = Collections().collections
    return MemoryWatch(
        LIMIT,
        bench.executions,
        bench.async_store,
        give_up=seen.append,
        resident=resident,
        collections=collections,
    )


@asynccontextmanager
async def at_work(bench: Bench, weight: int) -> AsyncIterator[tuple[WorkOrder, "asyncio.Task[FinishedOrder | None]"]]:
    """An order during its turn, with a journal of this weight."""
    order = bench.place("sleep 60")
    bench.crew.began.clear()
    working = asyncio.create_task(bench.runner.work(order.id))
    await bench.crew.began.wait()
    run = bench.executions.get(order.id)
    assert run is not None and run.held is not None
    run.held[1].weight = weight
    yield order, working
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


def test_with_enough_memory_there_is_no_shortage() -> None:
    assert judge(LIMIT, round(LIMIT * FULL) - 1, IDLE, {"a": 500 * MB}) == Judgement()


def test_a_nearly_full_drone_claims_nothing_more_and_its_orders_continue() -> None:
    judgement = judge(LIMIT, round(LIMIT * 0.9), IDLE, {"a": 500 * MB})
    assert judgement.shortage is not None and "DRONE_MEMORY_MB" in judgement.shortage
    assert (judgement.park, judgement.end) == (None, None)


def test_a_drone_without_orders_claims_until_it_reaches_its_limit() -> None:
    assert judge(LIMIT, LIMIT - MB, IDLE, {}) == Judgement()
    assert judge(LIMIT, LIMIT + MB, IDLE, {}).shortage


def test_beyond_its_limit_the_largest_order_is_parked() -> None:
    judgement = judge(LIMIT, LIMIT + MB, IDLE, {"a": 30 * MB, "b": 40 * MB, "c": 30 * MB})
    assert (judgement.park, judgement.end) == ("b", None)
    assert judgement.bytes == round((LIMIT + MB - IDLE) * 0.4)


@pytest.mark.parametrize("held", [{"a": 5 * MB}, {"a": 500 * MB, "b": 1}])
def test_an_order_that_would_not_fit_alone_ends_instead_of_waiting_for_ever(held: dict[str, int]) -> None:
    judgement = judge(LIMIT, LIMIT + MB, IDLE, held)
    assert (judgement.park, judgement.end) == (None, "a")


@pytest.mark.parametrize("orders", range(2, 8))
def test_however_many_orders_share_the_memory_one_continues(orders: int) -> None:
    held = {f"{number}": 10 * MB for number in range(orders)}
    while held:
        judgement = judge(LIMIT, LIMIT + MB, IDLE, held)
        gone = judgement.park or judgement.end
        assert gone is not None and (judgement.end is None or len(held) == 1)
        del held[gone]


async def test_the_largest_order_waits_and_continues_when_another_has_ended() -> None:
    async with Bench() as bench, at_work(bench, 20 * MB) as (_, small), at_work(bench, 50 * MB) as (large, working):
        resident = ResidentBytes()
        memory = memory_of(bench, resident)
        resident.bytes = LIMIT + MB
        memory.look()
        assert await working is None and not small.done()
        kept = bench.store.orders.get(large.id)
        assert (kept.status, kept.reason) == (OrderStatus.WAITING, WaitingReason.MEMORY)
        assert kept.detail is not None and "DRONE_MEMORY_MB" in kept.detail and "1,001 of the 1,000 MB" in kept.detail
        resident.bytes = round(LIMIT * 0.5)
        memory.look()
        await memory.requeue_waiting()
        assert bench.store.orders.get(large.id).status is OrderStatus.WAITING, "it takes 644 MB, and 350 are there"
        resident.bytes = 2 * IDLE
        await memory.requeue_waiting()
        assert bench.store.orders.get(large.id).status is OrderStatus.QUEUED
        assert bench.kinds(large.id)[-2:] == ["order.waiting", "order.resumed"]


async def test_a_waiting_order_continues_in_an_idle_drone_however_much_that_holds() -> None:
    async with Bench() as bench:
        resident = ResidentBytes()
        memory = memory_of(bench, resident)
        async with at_work(bench, 20 * MB), at_work(bench, 50 * MB) as (large, working):
            resident.bytes = LIMIT + MB
            memory.look()
            await working
        resident.bytes = round(LIMIT * 0.8)
        memory.look()
        await memory.requeue_waiting()
        assert bench.store.orders.get(large.id).status is OrderStatus.QUEUED


async def test_while_one_order_leaves_no_other_is_parked() -> None:
    async with Bench() as bench, at_work(bench, 20 * MB) as (_, small), at_work(bench, 50 * MB) as (_, large):
        resident = ResidentBytes()
        memory = memory_of(bench, resident)
        resident.bytes = LIMIT + MB
        memory.look()
        memory.look()
        assert await large is None and not small.done()


async def test_an_order_that_can_never_fit_ends_with_its_reason() -> None:
    async with Bench() as bench, at_work(bench, 50 * MB) as (order, working):
        resident = ResidentBytes()
        memory = memory_of(bench, resident)
        resident.bytes = LIMIT + MB
        memory.look()
        assert await working is not None
        ended = bench.store.orders.get(order.id)
        assert (ended.status, ended.reason) == (OrderStatus.FAILED, FailureReason.LIMIT_REACHED)
        assert ended.detail is not None and "901 MB" in ended.detail and "DRONE_MEMORY_MB" in ended.detail


async def test_garbage_is_collected_before_an_order_is_parked() -> None:
    async with Bench() as bench, at_work(bench, 50 * MB) as (_, working):
        resident, collections = ResidentBytes(), Collections()
        memory = MemoryWatch(
            LIMIT,
            bench.executions,
            bench.async_store,
            give_up=lambda why: None,
            resident=resident,
            collections=collections.collections,
        )
        resident.bytes = LIMIT + MB

        def free() -> None:
            resident.bytes = 2 * IDLE

        collections.freed = free
        memory.look()
        assert collections.done == 1 and memory.shortage is None and not working.done()


async def test_a_drone_beyond_its_limit_without_orders_gives_up() -> None:
    async with Bench() as bench:
        resident, given_up = ResidentBytes(), list[str]()
        memory = memory_of(bench, resident, given_up)
        memory.look()
        assert not given_up
        resident.bytes = LIMIT + MB
        memory.look()
        assert len(given_up) == 1 and "although nothing runs here" in given_up[0]


async def test_a_drone_whose_last_order_is_still_being_stored_does_not_give_up() -> None:
    async with Bench() as bench, at_work(bench, 50 * MB) as (order, _):
        resident, given_up = ResidentBytes(), list[str]()
        memory = memory_of(bench, resident, given_up)
        run = bench.executions.get(order.id)
        assert run is not None and run.held is not None
        run.held[1].seal()
        resident.bytes = LIMIT + MB
        memory.look()
        assert not given_up and memory.shortage is not None


async def test_garbage_of_orders_is_collected_when_enough_have_ended() -> None:
    async with Bench() as bench, at_work(bench, 1):
        collections = Collections()
        memory = MemoryWatch(
            None,
            bench.executions,
            bench.async_store,
            give_up=lambda why: None,
            collections=collections.collections,
        )
        bench.executions.left = ORDERS - 1
        memory.look()
        assert collections.done == 0
        bench.executions.left = ORDERS
        memory.look()
        assert collections.done == 1
        bench.executions.left = 2 * ORDERS
        memory.look()
        assert collections.done == 1, "collections take a hundredth of the time"
        collections.seconds += 100.0
        memory.look()
        assert collections.done == 2
        collections.seconds += 100.0
        memory.grew(GROWN_BYTES)
        memory.look()
        assert collections.done == 2
        memory.grew(GROWN_BYTES + 1)
        memory.look()
        assert collections.done == 3, "orders that grow leave pieces between what stays"


async def test_written_entries_count_towards_the_weight_of_their_order() -> None:
    async with Bench() as bench, at_work(bench, 0) as (order, _):
        run = bench.executions.get(order.id)
        assert run is not None and run.held is not None
        before = sum(bench.grown)
        await run.held[1].write(ORDER, AgentStep(name="note", message="x" * MB))
        assert MB < run.weight < 2 * MB and sum(bench.grown) - before == run.weight


async def test_entries_read_on_resumption_count_towards_the_weight_of_the_order() -> None:
    async with Bench() as bench:
        async with at_work(bench, 0) as (order, working):
            run = bench.executions.get(order.id)
            assert run is not None and run.held is not None
            await run.held[1].write(ORDER, AgentStep(name="note", message="x" * MB))
            run.wait_for(Block(WaitingReason.MEMORY, "for a moment"))
            await working
        assert bench.store.claims.resume(order.id, WaitingReason.MEMORY, "again")
        bench.crew.began.clear()
        again = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        run = bench.executions.get(order.id)
        assert run is not None and MB < run.weight < 2 * MB
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)


def test_the_limit_is_one_drones_share_of_the_memory() -> None:
    assert allowed_bytes(None, 2, lambda: 8_000 * MB) == 3_000 * MB
    assert allowed_bytes(500, 2, lambda: 8_000 * MB) == 500 * MB
    assert allowed_bytes(0, 2, lambda: 8_000 * MB) is None
    assert allowed_bytes(None, 2, lambda: None) is None


def test_the_tightest_group_counts_in_both_versions(tmp_path: Path) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text("MemTotal:  8000000 kB\n")
    assert memory_here(tmp_path) == 8_000_000 * 1024
    inner = tmp_path / "sys/fs/cgroup/outer/inner"
    inner.mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/outer/inner\n")
    (inner / "memory.max").write_text("max\n")
    assert memory_here(tmp_path) == 8_000_000 * 1024
    (inner.parent / "memory.max").write_text("4000000000\n")
    assert memory_here(tmp_path) == 4_000_000_000
    older = tmp_path / "sys/fs/cgroup/memory"
    older.mkdir()
    (tmp_path / "proc/self/cgroup").write_text("4:cpu,memory:/docker/abc\n")
    (older / "memory.limit_in_bytes").write_text("2000000000\n")
    assert memory_here(tmp_path) == 2_000_000_000, "a container sees its own group at the top"


def test_this_process_knows_its_resident_bytes() -> None:
    held = resident_bytes()
    assert held is None or held > MB
