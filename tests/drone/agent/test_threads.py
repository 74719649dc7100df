"""Work that never ends uses up its own order's threads, and no other order's."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, get_ident, local

import pytest

from drone.threads import NoThread, Pools, Threads, in_thread

MINE, THEIRS = "mine", "theirs"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def held() -> Iterator[Event]:
    """An event that work waits for; set at the latest when the test ends."""
    event = Event()
    try:
        yield event
    finally:
        event.set()


async def settled() -> None:
    """Wait until every ready task on the loop has run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - threads tell nobody how far they are
        await asyncio.sleep(0)


async def given_up(threads: Threads, order_id: str, blocking: Event, times: int) -> None:
    """Cancel so many calls whose threads continue."""
    begun = [Event() for _ in range(times)]

    def work(mark: Event) -> None:
        mark.set()
        blocking.wait()

    calls = [asyncio.create_task(threads.run(order_id, work, mark)) for mark in begun]
    await until(lambda: all(mark.is_set() for mark in begun))
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)


async def test_work_is_done_in_a_thread_of_its_own_and_answers() -> None:
    assert await Threads(1, 1).run(MINE, get_ident) != get_ident()
    assert await in_thread(lambda left, right: left + right, 1, 2) == 3


async def test_a_pool_with_spare_threads_uses_them_again_and_one_without_keeps_none() -> None:
    known = local()

    def was_here() -> bool:
        before = hasattr(known, "mark")
        known.mark = True
        return before

    spared, single = Threads(1, 1, spare=1), Threads(1, 1)
    assert any([await spared.run(MINE, was_here) for _ in range(200)])
    assert not any([await single.run(MINE, was_here) for _ in range(20)])


async def test_what_it_raises_comes_to_whoever_waits() -> None:
    with pytest.raises(KeyError):
        await Threads(1, 1).run(MINE, {}.__getitem__, "nothing")
    with pytest.raises(RuntimeError, match="StopIteration"):
        await Threads(1, 1).run(MINE, next, iter(()))


async def test_an_order_has_no_more_threads_than_its_bound_and_the_rest_of_its_work_waits() -> None:
    threads, done = Threads(per_order=2, in_all=100), list[str]()
    with held() as blocking:
        calls: list[asyncio.Task[object]] = [asyncio.create_task(threads.run(MINE, blocking.wait)) for _ in range(2)]
        calls.append(asyncio.create_task(threads.run(MINE, lambda: done.append("third"))))
        await settled()
        assert await threads.run(THEIRS, lambda: "at once") == "at once"
        assert not done
    await asyncio.gather(*calls)
    assert done == ["third"]


async def test_every_order_has_one_thread_however_many_the_others_took() -> None:
    threads = Threads(per_order=8, in_all=8)
    with held() as blocking:
        calls = [asyncio.create_task(threads.run(f"order {number % 20}", blocking.wait)) for number in range(160)]
        await settled()
        assert await threads.run(THEIRS, lambda: "at once") == "at once"
    await asyncio.gather(*calls)


async def test_a_thread_that_was_left_behind_keeps_its_place_in_the_bound_of_its_own_order() -> None:
    clock = Clock()
    threads = Threads(per_order=2, in_all=2, clock=clock)
    with held() as blocking:
        await given_up(threads, MINE, blocking, 2)
        assert not threads.left_behind(), "it may be about to stop"
        clock.now += 5.0
        assert threads.left_behind() == {MINE: 2}
        with pytest.raises(NoThread, match="2 earlier calls of this order were given up and still run"):
            await threads.run(MINE, print)
        assert await threads.run(THEIRS, lambda: "at once") == "at once"
    await until(lambda: not threads.left_behind())
    assert await threads.run(MINE, lambda: "again") == "again"


async def test_what_waited_for_a_thread_of_its_order_is_refused_once_all_of_them_are_left_behind() -> None:
    threads = Threads(per_order=1, in_all=1, grace_seconds=0.0)
    with held() as blocking:
        first = asyncio.create_task(threads.run(MINE, blocking.wait))
        waiting = asyncio.create_task(threads.run(MINE, print))
        await settled()
        first.cancel()
        with pytest.raises(NoThread):
            await waiting


async def test_work_that_nobody_waits_for_before_it_began_never_begins() -> None:
    threads, done = Threads(per_order=1, in_all=1), []
    with held() as blocking:
        first = asyncio.create_task(threads.run(MINE, blocking.wait))
        waiting = asyncio.create_task(threads.run(MINE, lambda: done.append("late")))
        await settled()
        waiting.cancel()
        await settled()
    await first
    assert await threads.run(MINE, lambda: "on") == "on"
    assert not done


async def test_work_that_its_own_order_holds_up_is_not_kept_waiting_by_others() -> None:
    pools = Pools(tools=Threads(1, 1))
    with held() as blocking:
        calls = [asyncio.create_task(pools.of(MINE).tool(blocking.wait)) for _ in range(2)]
        await settled()
        await until(lambda: not pools.keep_waiting())
    await asyncio.gather(*calls)


async def test_work_that_waits_for_others_is_told_with_how_much_has_ended_meanwhile() -> None:
    pools = Pools(tools=Threads(2, 2))
    with held() as blocking:
        calls = [asyncio.create_task(pools.of(order).tool(blocking.wait)) for order in (MINE, THEIRS, MINE)]
        await settled()
        assert pools.keep_waiting() and pools.ended == 0
        await pools.of("another").gate(print)
        assert pools.keep_waiting() and pools.ended == 1
    await asyncio.gather(*calls)
    assert not pools.keep_waiting() and pools.ended == 4


def test_a_thread_that_never_ends_does_not_keep_the_interpreter_from_ending() -> None:
    program = (
        "import asyncio, threading\n"
        "from drone.threads import Threads\n"
        "async def main():\n"
        "    with __import__('contextlib').suppress(TimeoutError):\n"
        "        async with asyncio.timeout(0.05):\n"
        "            await Threads(1, 1).run('order', threading.Event().wait)\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0
