"""The event loop that all orders of a drone share, and asynchronous, patient, grouped access to the store."""

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

import structlog
import uvloop

from mcc.contracts.entry import Entry
from mcc.dispatch.sweep import boot_seconds
from mcc.store.database.errors import StoreUnavailable, Unfit
from mcc.store.store import Offload, Store

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
log = structlog.get_logger("drone.loop")

TICK_SECONDS = 0.5


class SharedLoop:
    """An event loop in its own thread. Runs coroutines for other threads, and records when it last made progress
    (docs/decisions/02)."""

    def __init__(self, clock: Callable[[], float] = boot_seconds) -> None:
        self._clock = clock
        self._ticked = clock()
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)

    def start(self) -> None:
        # About a tenth less CPU per model call than asyncio's own loop with many concurrent turns (docs/decisions/02).
        self._loop = uvloop.new_event_loop()
        self._ticked = self._clock()
        self._thread.start()

    @property
    def ticked_at(self) -> float:
        """When the loop last ran its tick, in seconds since boot; a healthy loop does so twice a second."""
        return self._ticked

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start `work` on the loop from any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], None]) -> None:
        """Run a short function on the loop soon; does nothing once the loop is closed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    def stop(self, seconds: float = 2.0) -> None:
        """Cancel the remaining tasks and end the thread, if it was started; waits at most `seconds`."""
        if self._thread.is_alive():
            self.call(self._loop.stop)
            self._thread.join(seconds)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._tick)
        try:
            while not self._ran_until_stopped():
                pass
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        finally:
            self._loop.close()

    def _ran_until_stopped(self) -> bool:
        """False when a task raised SystemExit. That task's waiters get the exception; all other tasks continue."""
        try:
            self._loop.run_forever()
        except SystemExit:
            log.exception("a task asked this process to exit; it does not")
            return False
        return True

    def _tick(self) -> None:
        self._ticked = self._clock()
        self._loop.call_later(TICK_SECONDS, self._tick)


RETRY_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0)
"""Pauses between tries while orders run; the last one is repeated."""

START_RETRY_SECONDS = 1.0


class AsyncStore:
    """Runs store calls in `threads` threads of its own, so that a slow database never blocks the event loop.

    The store itself is synchronous on purpose (docs/decisions/03).
    """

    def __init__(self, store: Store, threads: int = 4, name: str = "store") -> None:
        self.store = store
        self._offload = Offload(threads, name)

    async def once(self, work: Callable[[Store], T]) -> T:
        """Run `work` once and answer its result. Raises `StoreUnavailable`, and whatever else `work` raises."""
        return await self._offload(work, self.store)

    async def patiently(self, work: Callable[[Store], T]) -> T:
        """Retry `work` for as long as the database is unavailable; answer its result. Raises whatever else `work`
        raises."""
        failures = 0
        while True:
            try:
                return await self.once(work)
            except StoreUnavailable as problem:
                if failures == 0:
                    log.warning("the drone waits for the database", problem=str(problem))
                # Without a bound: the lease ends a drone's hold on an order, not the number of tries.
                pause = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                failures += 1

    async def entries(self, order_id: str, *, after: int) -> Sequence[Entry]:
        """The entries after this number, for publishing; empty, without a retry, while the database is unavailable."""
        try:
            return list(await self.once(lambda store: store.journal.read(order_id, after=after)))
        except StoreUnavailable:
            return ()

    async def page(self, order_id: str, *, after: int, limit: int) -> Sequence[Entry]:
        """At most `limit` entries after this number, however long the database is unavailable."""
        return await self.patiently(lambda store: store.journal.read(order_id, after=after, limit=limit))

    def close(self) -> None:
        self._offload.close()


class Grouped(Generic[A, B]):
    """Batches questions: all those asked while one batch is being answered form the next batch. Use on one event loop
    only.

    `answers` takes at most `most` questions and returns one answer for each, in order; `ask` raises an answer that is
    an exception. If `answers` itself raises, each question of the batch is tried again alone.
    """

    def __init__(self, answers: Callable[[Sequence[A]], Awaitable[Sequence[B | Exception]]], most: int) -> None:
        self._answers = answers
        self._most = most
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def ask(self, question: A) -> B:
        answer: asyncio.Future[B] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_all())
        return await answer

    async def _ask_all(self) -> None:
        try:
            while self._waiting:
                # Whoever was cancelled while waiting takes no answer any more.
                waiting = [asked for asked in self._waiting if not asked[1].done()]
                self._waiting = []
                for start in range(0, len(waiting), self._most):
                    await self._ask(waiting[start : start + self._most])
        finally:
            self._asking = None

    async def _ask(self, group: Sequence[tuple[A, "asyncio.Future[B]"]]) -> None:
        try:
            answers = await self._answers([question for question, _ in group])
        except Exception as problem:
            # One bad question must not fail the others of its batch.
            if len(group) > 1:
                for single in group:
                    await self._ask([single])
                return
            answers = [problem]
        for (_, answer), given_answer in zip(group, answers, strict=True):
            if answer.done():
                continue
            if isinstance(given_answer, Exception):
                answer.set_exception(given_answer)
            else:
                answer.set_result(given_answer)


def wait_in_thread(seconds: float) -> None:
    threading.Event().wait(seconds)


def schema_problem(
    store: Store,
    pause: Callable[[float], None] = wait_in_thread,
    *,
    patience_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> str | None:
    """Why the store's database is not fit for a starting drone; None when it is. Blocks.

    Waits for an unavailable database; `pause` may raise to end the wait. Raises `StoreUnavailable` when the database
    stays unavailable for `patience_seconds`: the process should then exit with a message, so that a supervisor starts
    another.
    """
    give_up, logged = clock() + patience_seconds, ""
    while True:
        try:
            return store.schema_problem()
        except Unfit as problem:
            return str(problem)
        except StoreUnavailable as problem:
            if clock() >= give_up:
                raise
            if str(problem) != logged:
                logged = str(problem)
                log.warning("the database is away: this drone waits for it", problem=logged, seconds=patience_seconds)
        pause(START_RETRY_SECONDS)
