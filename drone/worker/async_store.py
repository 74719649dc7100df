"""The store as the shared event loop uses it: calls run in threads, and wait for a database that is away."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import structlog

from mcc.contracts.entry import Entry
from mcc.store.errors import StoreUnavailable
from mcc.store.store import Offload, Store

T = TypeVar("T")
log = structlog.get_logger("drone.async_store")

RETRY_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0)
"""Pauses between tries while orders are at work; the last one is repeated."""

START_RETRY_SECONDS = 1.0


class AsyncStore:
    """A store whose calls run in `threads` of their own, so that a slow database never holds up the event loop.

    The store itself is synchronous: docs/decisions/03 says why.
    """

    def __init__(self, store: Store, threads: int = 4, name: str = "store") -> None:
        self.store = store
        self._offload = Offload(threads, name)

    async def once(self, work: Callable[[Store], T]) -> T:
        """What `work` answers. Raises `StoreUnavailable`, and what else `work` raises."""
        return await self._offload(work, self.store)

    async def patiently(self, work: Callable[[Store], T]) -> T:
        """What `work` answers, however long the database is away. Raises what else `work` raises."""
        failures = 0
        while True:
            try:
                return await self.once(work)
            except StoreUnavailable as problem:
                if failures == 0:
                    log.warning("the drone waits for the database", problem=str(problem))
                pause = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                failures += 1

    async def entries(self, order_id: str, *, after: int) -> Sequence[Entry]:
        """Those after this number, to be told to others; none while the database is away, which nobody waits for."""
        try:
            return list(await self.once(lambda store: store.journal.read(order_id, after=after)))
        except StoreUnavailable:
            return ()

    def close(self) -> None:
        self._offload.close()


def wait_in_thread(seconds: float) -> None:
    threading.Event().wait(seconds)


def schema_problem(
    store: Store,
    pause: Callable[[float], None] = wait_in_thread,
    *,
    patience_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> str | None:
    """What is wrong with the store's schema, for a drone that starts; None when nothing is. Blocks.

    A database that is away is waited for; `pause` may raise, to end the wait. Raises `StoreUnavailable` when it stays
    away for `patience_seconds`: the process should end with a sentence then, so that a supervisor starts another.
    """
    give_up, logged = clock() + patience_seconds, ""
    while True:
        try:
            return store.schema_problem()
        except StoreUnavailable as problem:
            if clock() >= give_up:
                raise
            if str(problem) != logged:
                logged = str(problem)
                log.warning("the database is away: this drone waits for it", problem=logged, seconds=patience_seconds)
        pause(START_RETRY_SECONDS)
