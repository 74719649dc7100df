import asyncio
from collections.abc import Callable

from drone.worker.canary import Canary
from drone.worker.slots import Slots


class Air:
    """A bird that comes back when `lands` is set; `redis` says whether Redis answers pings."""

    def __init__(self, *, lands: bool, redis: bool = True, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.lands = lands
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
        if self.lands:
            self.loop.call_soon_threadsafe(self.canary.seen, token)

    def answers(self) -> bool:
        return self.redis


async def test_a_canary_that_comes_back_is_no_news() -> None:
    air = Air(lands=True)
    assert await air.canary.once() is True
    assert air.did == []


async def test_the_consumer_is_restarted_once_and_then_the_drone_gives_up() -> None:
    air = Air(lands=False)
    assert await air.canary.once() is False
    assert await air.canary.once() is False
    assert air.did == ["restart", "give up"]


async def test_a_canary_that_comes_back_after_a_restart_forgives_the_failure() -> None:
    air = Air(lands=False)
    await air.canary.once()
    air.lands = True
    await air.canary.once()
    air.lands = False
    await air.canary.once()
    assert air.did == ["restart", "restart"]


async def test_no_canary_is_sent_while_every_slot_is_busy() -> None:
    air = Air(lands=False)
    assert air.slots.take()
    assert await air.canary.once() is None
    assert air.sent == []


async def test_a_drone_that_was_full_in_between_is_not_blamed() -> None:
    air = Air(lands=False)
    air.meanwhile = air.slots.take
    assert await air.canary.once() is None
    assert air.did == []


async def test_a_drone_is_not_blamed_for_a_redis_that_is_away() -> None:
    air = Air(lands=False, redis=False)
    assert await air.canary.once() is None
    assert air.did == []


async def test_an_old_canary_does_not_count() -> None:
    air = Air(lands=False)
    await air.canary.once()
    air.meanwhile = lambda: air.loop.call_soon_threadsafe(air.canary.seen, air.sent[0])
    assert await air.canary.once() is False


async def test_a_mishap_with_one_canary_does_not_end_the_singing() -> None:
    air = Air(lands=True)
    again = asyncio.Event()

    def stumble() -> None:
        if len(air.sent) == 1:
            raise RuntimeError("no wings")
        air.loop.call_soon_threadsafe(again.set)

    air.meanwhile = stumble
    singing = asyncio.create_task(air.canary.run())
    async with asyncio.timeout(5):
        await again.wait()
    singing.cancel()
    await asyncio.gather(singing, return_exceptions=True)
