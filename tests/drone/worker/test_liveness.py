import asyncio
from collections.abc import Callable
from threading import Event

from drone.threads import Pools, Threads
from drone.worker.claiming import Slots
from drone.worker.liveness import MOST_LEFT_BEHIND, Canary, CanarySender, Stall, ThreadHealth
from mcc.testing import FakeClock

WEDGED_SECONDS = 30.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def looked(health: ThreadHealth, clock: Clock, seconds: int) -> str | None:
    """The reported trouble after so many looks, one per second."""
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
    health = ThreadHealth(pools, WEDGED_SECONDS, clock)
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
    assert looked(ThreadHealth(pools, WEDGED_SECONDS, clock), clock, 1_000) is None
    await held.ended()


async def test_time_in_which_nobody_looked_does_not_count() -> None:
    clock, pools = Clock(), Pools(tools=Threads(per_order=2, in_all=1))
    health = ThreadHealth(pools, WEDGED_SECONDS, clock)
    held = Held(pools.tools, orders=1, each=2)
    await settled()
    looked(health, clock, 1)
    clock.now += 10_000.0
    assert health.trouble() is None
    await held.ended()


async def test_too_many_abandoned_threads_are_reported() -> None:
    pools = Pools(tools=Threads(per_order=8, in_all=64, grace_seconds=0.0))
    health = ThreadHealth(pools, WEDGED_SECONDS, Clock())
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


def test_a_loop_that_makes_progress_is_never_stalled() -> None:
    clock = FakeClock()
    stall = Stall(10.0, clock.uptime)
    for _ in range(50):
        clock.advance(1.0)
        assert stall.look(clock.uptime() - 0.4) == 0.0


def test_a_hanging_loop_is_stalled_for_as_long_as_somebody_looked() -> None:
    clock = FakeClock()
    stall = Stall(10.0, clock.uptime)
    ticked = clock.uptime() + 0.5
    clock.advance(1.0)
    stall.look(ticked)
    for _ in range(31):
        clock.advance(1.0)
        stall.look(ticked)
    assert stall.seconds == 31.0
    clock.advance(1.0)
    assert stall.look(ticked + 32.0) == 0.0


def test_a_process_that_was_suspended_is_not_taken_for_one_that_hangs() -> None:
    clock = FakeClock()
    stall = Stall(10.0, clock.uptime)
    ticked = clock.uptime() + 0.5
    clock.advance(1.0)
    stall.look(ticked)
    clock.advance(3_600.0)
    assert stall.look(ticked) == 10.0
    clock.advance(1.0)
    assert stall.look(clock.uptime()) == 0.0


class FakeSender(CanarySender):
    """A sender whose canaries come back if `returns` is set; `redis`: whether Redis answers pings."""

    def __init__(self, *, returns: bool, redis: bool = True, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.returns = returns
        self.redis = redis
        self.meanwhile = meanwhile
        self.sent: list[str] = []
        self.did: list[str] = []
        self.slots = Slots(1)
        self.loop = asyncio.get_running_loop()
        self.canary = Canary(
            self,
            self.slots,
            every_seconds=0.01,
            patience_seconds=0.05,
            restart=lambda: self.did.append("restart"),
            give_up=lambda: self.did.append("give up"),
        )

    def send(self, token: str) -> None:
        self.sent.append(token)
        self.meanwhile()
        if self.returns:
            self.loop.call_soon_threadsafe(self.canary.seen, token)

    def answers(self) -> bool:
        return self.redis


async def test_a_canary_that_comes_back_triggers_nothing() -> None:
    sender = FakeSender(returns=True)
    assert await sender.canary.once() is True
    assert sender.did == []


async def test_the_consumer_is_restarted_once_and_then_the_drone_gives_up() -> None:
    sender = FakeSender(returns=False)
    assert await sender.canary.once() is False
    assert await sender.canary.once() is False
    assert sender.did == ["restart", "give up"]


async def test_a_canary_that_comes_back_after_a_restart_resets_the_failures() -> None:
    sender = FakeSender(returns=False)
    await sender.canary.once()
    sender.returns = True
    await sender.canary.once()
    sender.returns = False
    await sender.canary.once()
    assert sender.did == ["restart", "restart"]


async def test_no_canary_is_sent_while_every_slot_is_busy() -> None:
    sender = FakeSender(returns=False)
    assert sender.slots.take()
    assert await sender.canary.once() is None
    assert sender.sent == []


async def test_a_drone_that_was_full_in_between_is_not_blamed() -> None:
    sender = FakeSender(returns=False)
    sender.meanwhile = sender.slots.take
    assert await sender.canary.once() is None
    assert sender.did == []


async def test_a_drone_is_not_blamed_for_a_redis_that_is_away() -> None:
    sender = FakeSender(returns=False, redis=False)
    assert await sender.canary.once() is None
    assert sender.did == []


async def test_an_old_canary_does_not_count() -> None:
    sender = FakeSender(returns=False)
    await sender.canary.once()
    sender.meanwhile = lambda: sender.loop.call_soon_threadsafe(sender.canary.seen, sender.sent[0])
    assert await sender.canary.once() is False


async def test_an_error_with_one_canary_does_not_stop_the_others() -> None:
    sender = FakeSender(returns=True)
    again = asyncio.Event()

    def stumble() -> None:
        if len(sender.sent) == 1:
            raise RuntimeError("no wings")
        sender.loop.call_soon_threadsafe(again.set)

    sender.meanwhile = stumble
    running = asyncio.create_task(sender.canary.run())
    async with asyncio.timeout(5):
        await again.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
