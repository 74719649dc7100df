"""Waiting for what tells nobody that it has happened: other processes, threads of others."""

import asyncio
import threading
import time
from collections.abc import Callable

AGAIN_SECONDS = 0.02


def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, f"not within {seconds:g} s: {what}"
        threading.Event().wait(AGAIN_SECONDS)


async def eventually(condition: Callable[[], object], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_SECONDS)
