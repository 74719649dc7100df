"""This room is for a family in blocking code: it lives on a loop and a thread of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from mcc.local.family import Family


class House:
    """The thread that a family lives on. It must outlive the children it starts: the kernel ends them with it."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._ready: Future[None] = Future()
        self._begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None] | None]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), name="family", daemon=True)

    def enter(self) -> None:
        """Returns when the family is ready; raises what entering it raises."""
        self._thread.start()
        self._ready.result()

    def leave(self) -> None:
        """Returns when the family is gone, also one that was not ready yet."""
        loop, task = self._begun.result()
        if task is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
        self._thread.join()

    async def _live(self) -> None:
        self._begun.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        try:
            async with self._family:
                self._ready.set_result(None)
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)


@contextmanager
def housed(family: Family) -> Iterator[Family]:
    """The family, ready, for the length of a `with` block. Raises `FamilyError` or `BadSettings`."""
    house = House(family)
    try:
        house.enter()
        yield family
    finally:
        house.leave()
