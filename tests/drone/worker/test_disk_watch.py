"""Orders without disk space are parked, and continue where there is space again."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from drone.worker.ending import FinishedOrder
from drone.worker.shortage import REQUEUE_RESERVES, DiskWatch
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.resources import Reserve
from tests.drone.worker.bench_of_orders import Bench
from tests.faults.disks import SmallDisk, small_disk

RESERVE = 2_000_000
LITTLE = RESERVE // 2


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as found:
        yield found


def room_of(bench: Bench, *places: Path) -> DiskWatch:
    return DiskWatch(Reserve(places, RESERVE), bench.executions, bench.async_store)


@asynccontextmanager
async def at_work(
    bench: Bench, **fields: object
) -> AsyncIterator[tuple[WorkOrder, "asyncio.Task[FinishedOrder | None]"]]:
    """An order during its turn."""
    order = bench.place("sleep 60", **fields)
    bench.crew.began.clear()
    working = asyncio.create_task(bench.runner.work(order.id))
    await bench.crew.began.wait()
    yield order, working
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_orders_wait_for_disk_space_and_continue_when_there_is_some(disk: SmallDisk) -> None:
    async with Bench() as bench, at_work(bench) as (order, working):
        room = room_of(bench, disk.path)
        await room.look()
        assert room.shortage is None and not working.done()
        disk.fill(leave_bytes=LITTLE)
        await room.look()
        assert room.shortage is not None and "disk" in room.shortage
        assert await working is None
        kept = bench.store.orders.get(order.id)
        assert (kept.status, kept.reason) == (OrderStatus.WAITING, WaitingReason.DISK)
        assert "Free some space" in bench.journal(order.id)[-1].data.message
        await room.requeue_waiting()
        assert bench.store.orders.get(order.id).status is OrderStatus.WAITING
        disk.empty()
        await room.look()
        await room.requeue_waiting()
        assert room.shortage is None
        assert bench.kinds(order.id)[-2:] == ["order.waiting", "order.resumed"]
        assert bench.store.orders.get(order.id).status is OrderStatus.QUEUED
        room.close()


async def test_a_full_workspace_disk_parks_only_its_own_orders(disk: SmallDisk, tmp_path: Path) -> None:
    async with Bench() as bench:
        room = room_of(bench, tmp_path)
        async with at_work(bench, workspace=str(disk.path)) as (there, working), at_work(bench) as (_, other):
            disk.fill(leave_bytes=LITTLE)
            await room.look()
            assert await working is None
            assert not other.done() and room.shortage is None
            assert bench.store.orders.get(there.id).reason is WaitingReason.DISK
            await room.requeue_waiting()
            assert bench.store.orders.get(there.id).status is OrderStatus.WAITING
            disk.empty()
            await room.requeue_waiting()
            assert bench.store.orders.get(there.id).status is OrderStatus.QUEUED
        room.close()


async def test_no_order_continues_before_more_than_the_reserve_is_free(disk: SmallDisk) -> None:
    async with Bench() as bench, at_work(bench) as (order, working):
        room = room_of(bench, disk.path)
        disk.fill(leave_bytes=LITTLE)
        await room.look()
        assert await working is None
        disk.empty()
        disk.fill(leave_bytes=round(RESERVE * (1 + REQUEUE_RESERVES) / 2))
        await room.look()
        await room.requeue_waiting()
        assert room.shortage is None
        assert bench.store.orders.get(order.id).status is OrderStatus.WAITING
        room.close()


async def test_an_order_whose_workspace_is_elsewhere_is_left_to_drones_that_see_it(
    disk: SmallDisk, tmp_path: Path
) -> None:
    async with Bench() as bench:
        room = room_of(bench, tmp_path)
        async with at_work(bench, workspace=str(disk.path / "work")) as (order, working):
            disk.fill(leave_bytes=LITTLE)
            await room.look()
            assert await working is None
            disk.empty()
            await room.requeue_waiting()
            assert bench.store.orders.get(order.id).status is OrderStatus.WAITING
            (disk.path / "work").mkdir()
            await room.requeue_waiting()
            assert bench.store.orders.get(order.id).status is OrderStatus.QUEUED
        room.close()
