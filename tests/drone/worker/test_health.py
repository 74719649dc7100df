"""A drone sees by its threads that it can do no more work: too many are left behind, or work waits and none ends."""

import asyncio
from threading import Event

from drone.agent.threads import Pools, Threads
from drone.worker.health import MOST_LEFT_BEHIND, Health

WEDGED_SECONDS = 30.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def looked(health: Health, clock: Clock, seconds: int) -> str | None:
    """The trouble after so many looks, one a second."""
    trouble = None
    for _ in range(seconds):
        clock.now += 1.0
        trouble = health.trouble()
    return trouble


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Held:
    """Calls of several orders that hang until the end of the test."""

    def __init__(self, threads: Threads, orders: int, each: int) -> None:
        self.event = Event()
        self.calls = [
            asyncio.create_task(threads.run(f"order {number % orders}", self.event.wait))
            for number in range(orders * each)
        ]

    async def ended(self) -> None:
        self.event.set()
        await asyncio.gather(*self.calls, return_exceptions=True)


async def test_work_that_waits_for_others_while_none_ends_is_a_wedged_drone() -> None:
    clock, pools = Clock(), Pools(tools=Threads(per_order=2, in_all=1))
    health = Health(pools, WEDGED_SECONDS, clock)
    assert looked(health, clock, 100) is None
    held = Held(pools.tools, orders=1, each=2)
    await settled()
    assert looked(health, clock, 29) is None
    await pools.gates.run("another", print)
    assert looked(health, clock, 30) is None, "another order's work has ended"
    assert looked(health, clock, 2) == "it is wedged: work waits for a thread, and none has ended any for 31 s"
    await held.ended()
    assert looked(health, clock, 100) is None


async def test_an_order_that_waits_for_threads_of_its_own_does_not_wedge_its_drone() -> None:
    clock, pools = Clock(), Pools(tools=Threads(per_order=2, in_all=64))
    held = Held(pools.tools, orders=3, each=5)
    while pools.keep_waiting():  # noqa: ASYNC110 - threads tell nobody that they have begun
        await asyncio.sleep(0)
    assert looked(Health(pools, WEDGED_SECONDS, clock), clock, 1_000) is None
    await held.ended()


async def test_time_in_which_nobody_looked_does_not_count() -> None:
    clock, pools = Clock(), Pools(tools=Threads(per_order=2, in_all=1))
    health = Health(pools, WEDGED_SECONDS, clock)
    held = Held(pools.tools, orders=1, each=2)
    await settled()
    looked(health, clock, 1)
    clock.now += 10_000.0
    assert health.trouble() is None
    await held.ended()


async def test_too_many_threads_that_are_left_behind_are_told() -> None:
    pools = Pools(tools=Threads(per_order=8, in_all=64, grace_seconds=0.0))
    health = Health(pools, WEDGED_SECONDS, Clock())
    held = Held(pools.tools, orders=2, each=MOST_LEFT_BEHIND // 2)
    await settled()
    for call in held.calls[:-1]:
        call.cancel()
    await settled()
    assert health.trouble() is None
    assert pools.exhausted_by("order 0") and not pools.exhausted_by("order 1")
    held.calls[-1].cancel()
    await settled()
    assert health.trouble() == "16 of its threads go on with calls that were given up"
    await held.ended()
