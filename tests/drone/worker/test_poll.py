from drone.worker.poll import Poll
from drone.worker.slots import Slots
from tests.drone.worker.bench_of_orders import Bench, a_registration


def poll(bench: Bench, slots: Slots, started: list[str], queues: tuple[str, ...] = ("default",)) -> Poll:
    return Poll(bench.store, bench.offload, slots, queues, started.append, poll_seconds=60, connected=lambda: True)


async def test_a_drone_alone_takes_what_fits_in_its_free_slots() -> None:
    async with Bench() as bench:
        orders = [bench.place(f"p{number}").id for number in range(5)]
        slots, started = Slots(3), []
        assert slots.take()
        assert await poll(bench, slots, started).once() == 2
        assert started == orders[:2]
        assert slots.free == 0
        assert await poll(bench, slots, started).once() == 0


async def test_two_drones_leave_each_other_a_share() -> None:
    async with Bench() as bench:
        bench.store.leases.register(a_registration(name="d2"), lease_seconds=60)
        for number in range(10):
            bench.place(f"p{number}")
        started: list[str] = []
        assert await poll(bench, Slots(100), started).once() == 5


async def test_other_queues_are_left_alone() -> None:
    async with Bench() as bench:
        bench.place("p", queue="slow")
        started: list[str] = []
        assert await poll(bench, Slots(4), started).once() == 0
        assert await poll(bench, Slots(4), started, ("slow",)).once() == 1


async def test_the_more_urgent_orders_come_first() -> None:
    async with Bench() as bench:
        bench.place("later", priority=9)
        urgent = bench.place("now", priority=0)
        started: list[str] = []
        await poll(bench, Slots(1), started).once()
        assert started == [urgent.id]
