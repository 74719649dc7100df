import asyncio

import sqlalchemy as sa

from drone.worker.claiming import LEFT_SECONDS, Claimant, Poll, Slots
from mcc.testing import FakeClock, temporary_store
from tests.drone.worker.bench_of_orders import Bench, Trust, a_registration
from tests.faults.simulation.leaping import leaping


def poll(bench: Bench, slots: Slots, started: list[str], queues: tuple[str, ...] = ("default",)) -> Poll:
    return Poll(
        bench.async_store,
        Claimant("d1", bench.trust, slots),
        queues,
        started.append,
        poll_seconds=60,
        connected=lambda: True,
    )


async def test_a_drone_alone_takes_what_fits_in_its_free_slots() -> None:
    async with Bench() as bench:
        orders = [bench.place(f"p{number}").id for number in range(5)]
        slots, started = Slots(3), list[str]()
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


def barren(bench: Bench, clock: FakeClock) -> str:
    """An order under which two drones were lost before it made any progress."""
    order_id = bench.place("p").id
    for number in range(2):
        victim = a_registration(name=f"v{number}")
        bench.store.leases.register(victim, lease_seconds=2)
        claim = bench.store.claims.claim(
            order_id, incarnation=victim.incarnation, claim_token=f"t{number}", drone=victim.name
        )
        assert claim is not None
        clock.advance(3)
        assert list(bench.store.sweeper.sweep(may_expire=True).requeued) == [order_id]
    return order_id


async def test_an_order_suspected_of_killing_drones_runs_alone() -> None:
    clock = FakeClock()
    async with Bench(temporary_store(clock)) as bench:
        suspect = barren(bench, clock)
        slots, started = Slots(4), list[str]()
        assert slots.take()
        assert await poll(bench, slots, started).once() == 0
        assert not slots.take()  # it empties itself
        slots.release()
        assert await poll(bench, slots, started).once() == 1
        assert started == [suspect] and slots.alone and not slots.take()
        slots.release()
        assert slots.take() is False and not slots.alone
        bench.store.claims.claim(
            suspect, incarnation=bench.trust.incarnation or "", claim_token="t", drone="d1", alone=True
        )
        bench.place("another")
        assert await poll(bench, slots, started).once() == 1
        assert slots.take()


async def test_only_one_of_several_drones_empties_itself() -> None:
    clock = FakeClock()
    async with Bench(temporary_store(clock)) as bench:
        barren(bench, clock)
        bench.store.leases.register(a_registration(name="d2", incarnation="0"), lease_seconds=60)
        slots, started = Slots(4), list[str]()
        assert slots.take()
        assert await poll(bench, slots, started).once() == 0
        assert slots.take()


async def test_an_order_that_cannot_be_claimed_does_not_hide_those_behind_it() -> None:
    async with Bench() as bench:
        first, second = bench.place("a").id, bench.place("b").id
        started: list[str] = []
        slots = Slots(1)
        asking = poll(bench, slots, started)
        for _ in range(3):
            assert await asking.once() == 1
            slots.release()
            asking.skip(started[-1])
        assert started == [first, second, first]


async def test_a_drone_that_is_called_polls_at_once() -> None:
    async with Bench() as bench:
        order, begun = bench.place("p"), asyncio.Event()
        started: list[str] = []

        def start(order_id: str) -> None:
            started.append(order_id)
            begun.set()

        looking = Poll(
            bench.async_store,
            Claimant("d1", bench.trust, Slots(4)),
            ("default",),
            start,
            poll_seconds=3_600,
            connected=lambda: True,
        )
        running = asyncio.create_task(looking.run())
        looking.look()
        await asyncio.wait_for(begun.wait(), 30)
        running.cancel()
        assert started == [order.id]


async def test_drones_that_poll_at_the_same_moment_get_different_shares() -> None:
    async with Bench() as bench:
        other = a_registration(name="d2")
        bench.store.leases.register(other, lease_seconds=60)
        orders = [bench.place(f"p{number}").id for number in range(9)]
        own: list[str] = []
        others: list[str] = []
        await poll(bench, Slots(100), own).once()
        claimant = Claimant("d2", Trust(other.incarnation), Slots(100))
        second = Poll(bench.async_store, claimant, ("default",), others.append, poll_seconds=60, connected=lambda: True)
        await second.once()
        assert sorted([*own, *others]) == orders
        assert {len(own), len(others)} == {4, 5}


async def test_an_order_that_arrives_does_not_begin_before_those_that_wait() -> None:
    async with Bench() as bench:
        orders = [bench.place(f"p{number}").id for number in range(3)]
        slots, started = Slots(1), list[str]()
        asking = poll(bench, slots, started)
        await asking.once()
        assert asking.wanting and started == orders[:1]
        bench.place("later")
        slots.release()
        asking.arrived()
        assert started == orders[:2]


@leaping
async def test_an_order_that_is_left_to_a_drone_whose_slots_are_taken_comes_before_later_ones() -> None:
    async with Bench() as bench:
        bench.store.leases.register(a_registration(name="d2", incarnation="0"), lease_seconds=60)
        orders = [bench.place(f"p{number}").id for number in range(8)]
        slots, started = Slots(1), list[str]()
        asking = poll(bench, slots, started)
        await asking.once()
        await asyncio.sleep(LEFT_SECONDS)
        slots.release()
        await asking.once()
        assert started == [orders[1], orders[0]]


@leaping
async def test_an_order_that_another_drone_has_overtaken_comes_before_later_ones_at_first_sight() -> None:
    async with Bench() as bench:
        bench.store.leases.register(a_registration(name="d2", incarnation="0"), lease_seconds=60)
        orders = [bench.place(f"p{number}").id for number in range(8)]
        assert bench.store.claims.claim(orders[1], incarnation="0", claim_token="t", drone="d2")
        earlier = sa.text(f"UPDATE order_state SET started_at = started_at - {LEFT_SECONDS * 1_000_000:.0f}")
        bench.store.database.write(lambda connection: connection.execute(earlier))
        slots, started = Slots(2), list[str]()
        asking = poll(bench, slots, started)
        await asking.once()
        assert started == [orders[0], orders[2]]


@leaping
async def test_one_that_has_not_been_left_for_long_is_left_still() -> None:
    async with Bench() as bench:
        bench.store.leases.register(a_registration(name="d2", incarnation="0"), lease_seconds=60)
        orders = [bench.place(f"p{number}").id for number in range(8)]
        slots, started = Slots(1), list[str]()
        asking = poll(bench, slots, started)
        for _ in range(2):
            await asking.once()
            await asyncio.sleep(LEFT_SECONDS / 2 - 0.1)
            slots.release()
        assert started[0] == orders[1] and orders[0] not in started


async def test_orders_found_beyond_the_free_slots_are_started_without_another_poll() -> None:
    async with Bench() as bench:
        orders = [bench.place(f"p{number}").id for number in range(9)]
        slots, started = Slots(2), list[str]()
        asking = poll(bench, slots, started)
        assert await asking.once() == 2 and asking.wanting
        urgent = bench.place("found only by a look", priority=0).id
        slots.release()
        asking.freed()
        assert started == orders[:3] and slots.free == 0
        slots.release()
        assert await asking.once() == 1
        assert started[3:] == [urgent]


async def test_a_poll_asks_for_more_orders_the_more_were_started_at_once() -> None:
    async with Bench() as bench:
        orders = [bench.place(f"p{number}").id for number in range(9)]
        slots, started = Slots(4), list[str]()
        asking = poll(bench, slots, started)
        assert await asking.once() == 4
        slots.release()
        asking.freed()
        slots.release()
        assert await asking.once() == 1
        for _ in range(2):
            slots.release()
            asking.freed()
        assert started == orders[:8]


async def until_begun(looking: Poll, started: list[str], begun: asyncio.Event, count: int) -> None:
    running = asyncio.create_task(looking.run())
    async with asyncio.timeout(30):
        while len(started) < count:
            await begun.wait()
            begun.clear()
    running.cancel()


def patient(bench: Bench, slots: Slots, started: list[str], begun: asyncio.Event) -> Poll:
    """A poll that asks once an hour, unless something else triggers it."""

    def start(order_id: str) -> None:
        started.append(order_id)
        begun.set()

    claimant = Claimant("d1", bench.trust, slots)
    return Poll(bench.async_store, claimant, ("default",), start, poll_seconds=3_600, connected=lambda: True)


async def test_an_order_that_arrived_while_no_slot_was_free_is_started_when_one_is() -> None:
    async with Bench() as bench:
        slots, started, begun = Slots(1), list[str](), asyncio.Event()
        looking = patient(bench, slots, started, begun)
        assert slots.take() and not looking.wanting
        order = bench.place("p")
        looking.miss()
        assert looking.wanting and looking.missed.is_set() and not started
        slots.release()
        looking.freed()
        await until_begun(looking, started, begun, 1)
        assert started == [order.id]


async def test_a_slot_freed_while_an_order_is_missed_does_not_stay_empty() -> None:
    async with Bench() as bench:
        slots, started, begun = Slots(1), list[str](), asyncio.Event()
        looking = patient(bench, slots, started, begun)
        order = bench.place("p")
        looking.miss()
        await until_begun(looking, started, begun, 1)
        assert started == [order.id]


async def test_an_order_missed_during_a_poll_is_not_forgotten() -> None:
    async with Bench() as bench:
        slots, started = Slots(1), list[str]()
        asking = poll(bench, slots, started)
        looking = asyncio.create_task(asking.once())
        await asyncio.sleep(0)
        assert slots.take()
        asking.miss()
        assert await looking == 0 and asking.wanting


async def test_a_poll_that_found_no_free_slot_is_repeated() -> None:
    async with Bench() as bench:
        slots, started = Slots(1), list[str]()
        asking = poll(bench, slots, started)
        assert slots.take()
        assert await asking.once() == 0
        assert asking.wanting


async def test_an_empty_queue_is_not_polled_again_after_each_order() -> None:
    async with Bench() as bench:
        bench.place("p")
        slots, started = Slots(2), list[str]()
        asking = poll(bench, slots, started)
        assert await asking.once() == 1
        assert not asking.wanting


async def test_a_drone_polls_again_for_orders_that_it_left_to_others() -> None:
    async with Bench() as bench:
        bench.store.leases.register(a_registration(name="d2"), lease_seconds=60)
        for number in range(4):
            bench.place(f"p{number}")
        slots, started = Slots(8), list[str]()
        asking = poll(bench, slots, started)
        assert await asking.once() == 2 and asking.wanting
        assert await asking.once() == 1
        assert len(set(started)) == 3
