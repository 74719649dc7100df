"""The cost of sending an entry to each viewer, counted in calls; and a viewer that read too early is woken again."""

import asyncio
import sys
from types import FrameType
from typing import Any

from starlette.types import Message

from mcc.api.streams import EventStream
from mcc.contracts.wire import Hint
from mcc.feed.feed import Feed

NEVER = 3_600.0
MOST_CALLS = 60
"""The most Python function calls for one entry and one viewer. The code needs about 44."""


class Screens:
    """Viewers connected through the ASGI interface, which count the entries they receive."""

    def __init__(self, feed: Feed, held: Any, count: int) -> None:
        self._left = count
        self._all = asyncio.Event()
        self._tasks = [
            asyncio.create_task(EventStream(feed.stream(held.id, held.seq - 1, held.seq), 20.0)({}, never, self._take))
            for _ in range(count)
        ]

    async def _take(self, message: Message) -> None:
        if b"event: agent.step\n" in message.get("body", b""):
            self._left -= 1
            if not self._left:
                self._all.set()

    async def all_have_it(self) -> None:
        await self._all.wait()
        self._all.clear()
        self._left = len(self._tasks)

    async def go(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def calls_of_an_entry(feed: Feed, held: Any, viewers: int) -> int:
    screens = Screens(feed, held, viewers)
    await screens.all_have_it()
    counted = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal counted
        counted += event == "call"

    held.steps(1)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        feed.on_hint(Hint(order_id=held.id, seq=held.seq))
        await screens.all_have_it()
    finally:
        sys.setprofile(before)
        await screens.go()
    return counted


async def test_an_entry_costs_few_calls_for_each_viewer_more(store: Any, held: Any, feed_of: Any) -> None:
    held.start()
    held.steps(1)
    async with feed_of(store, poll=NEVER, poll_without_hints=NEVER) as feed:
        few, many = [await calls_of_an_entry(feed, held, viewers) for viewers in (20, 120)]
    assert (many - few) / 100 <= MOST_CALLS


async def test_what_one_viewer_learns_when_it_comes_the_others_see_at_once(
    store: Any, held: Any, feed_of: Any, reader_of: Any
) -> None:
    async with feed_of(store, poll=NEVER, poll_without_hints=NEVER) as feed:
        early = reader_of(feed.stream(held.id, 0, held.seq))
        await early.until(lambda one: len(one.numbers) == held.seq)
        held.steps(5)
        late = reader_of(feed.stream(held.id, 0, held.seq))
        await late.until(lambda one: len(one.numbers) == held.seq)
        await early.until(lambda one: len(one.numbers) == held.seq)
        for reader in (early, late):
            await reader.stop()
