"""Waiting for what tells nobody that it has happened: other processes, threads of others."""

import asyncio
import select
import threading
import time
from collections.abc import Callable, Iterator

AGAIN_SECONDS = 0.02
LONGEST_SECONDS = 0.05


def pauses() -> Iterator[float]:
    """Seconds between two looks: short ones first. Each look at a service costs it as much as an order's step does."""
    pause = AGAIN_SECONDS / 2
    while True:
        yield pause
        pause = min(pause * 1.5, LONGEST_SECONDS)


def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    give_up = time.monotonic() + seconds
    pause = pauses()
    while not condition():
        assert time.monotonic() < give_up, f"not within {seconds:g} s: {what}"
        threading.Event().wait(next(pause))


def readable(fd: int, seconds: float) -> bool:
    """Whether there is something to read, or for a pidfd whether its process has ended, within so many seconds.

    `select.select` takes no descriptor above 1,023, and a process that runs many tests may have as many.
    """
    polled = select.poll()
    polled.register(fd, select.POLLIN)
    return bool(polled.poll(seconds * 1000))


async def eventually(condition: Callable[[], object], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_SECONDS)
