"""The one event loop that all orders of a drone share, in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import structlog

from mcc.dispatch.sweep import boot_seconds

T = TypeVar("T")
log = structlog.get_logger("drone.loop")

TICK_SECONDS = 0.5


class SharedLoop:
    """Runs coroutines for callers in other threads, and tells how long ago it last turned (docs/decisions/02)."""

    def __init__(self, clock: Callable[[], float] = boot_seconds) -> None:
        self._clock = clock
        self._ticked = clock()
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ticked = self._clock()
        self._thread.start()

    @property
    def ticked_at(self) -> float:
        """When the loop last turned, in seconds since boot; a healthy one does so twice a second."""
        return self._ticked

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start `work` on the loop from any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], None]) -> None:
        """Run a short function on the loop soon; nothing happens when the loop has ended."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    def stop(self, seconds: float = 2.0) -> None:
        """Cancel what still runs there and end the thread; waits at most `seconds`."""
        self.call(self._loop.stop)
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._tick)
        try:
            while not self._ran_to_its_end():
                pass
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        finally:
            self._loop.close()

    def _ran_to_its_end(self) -> bool:
        """False when something in a task raised SystemExit: only what waits for that task gets it, the others go on."""
        try:
            self._loop.run_forever()
        except SystemExit:
            log.exception("a task asked this process to exit; it does not")
            return False
        return True

    def _tick(self) -> None:
        self._ticked = self._clock()
        self._loop.call_later(TICK_SECONDS, self._tick)
