"""A connection to one server: opened when somebody needs it, anew after it broke, closed when nobody does."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from drone.mcp_servers.results import reason_of

if TYPE_CHECKING:
    from drone.mcp_servers.session import Spoken

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
IDLE_SECONDS = 300.0
CLOSE_SECONDS = 6.0
WHY_SECONDS = 0.5

log = logging.getLogger("drone.mcp")


@dataclass(slots=True)
class Opened:
    """What a connection is made of: the session, and what is set when the other side is gone, with why."""

    spoken: "Spoken"
    gone: asyncio.Event
    why: Callable[[], str]


Open: TypeAlias = Callable[[], AbstractAsyncContextManager[Opened]]


class Down(Exception):
    """The server cannot be spoken with; a sentence that says why, and what will be tried."""


class Connection:
    """At most one session at a time, in a task of its own. Use on one event loop only.

    After a start that failed, or a session that broke, it is opened anew at once, and when that does not help after a
    pause that doubles up to a minute.
    """

    def __init__(
        self,
        server: str,
        opening: Open,
        *,
        start_seconds: float,
        idle_seconds: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._opening = opening
        self._start_seconds = start_seconds
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._opened: Opened | None = None
        self._closing = asyncio.Event()
        self._users = 0
        self._used = asyncio.Event()
        self._pause = 0.0
        self._not_before = float("-inf")
        self.problem: str | None = None
        """Why it could not be spoken with the last time, None when it could."""

    @asynccontextmanager
    async def used(self) -> AsyncIterator["Spoken"]:
        """The session, opened if need be; it stays open while somebody uses it. Raises `Down`."""
        opened = await self._alive()
        self._users += 1
        try:
            yield opened.spoken
            self._pause = 0.0
        finally:
            self._users -= 1
            self._used.set()

    async def why(self) -> str:
        """Why the other side is gone, once that is known; empty while it is there."""
        opened, task = self._opened, self._task
        if opened is None or not opened.gone.is_set():
            return self.problem or ""
        if task is not None:
            await asyncio.wait((task,), timeout=WHY_SECONDS)
        return opened.why()

    def lost(self) -> None:
        """Nothing comes over this session any more: whoever asks next gets another one."""
        if self._opened is not None:
            self._opened.gone.set()

    async def close(self) -> None:
        async with self._lock:
            await self._end()

    async def _alive(self) -> Opened:
        async with self._lock:
            if self._opened is not None and not self._opened.gone.is_set():
                return self._opened
            await self._end()
            if (left := self._not_before - self._clock()) > 0:
                again = f"It is tried again in {left:.0f} s."
                raise Down(f"The MCP server {self._server} is not there: {self.problem}. {again}")
            return await self._start()

    async def _start(self) -> Opened:
        ready: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        task = self._task = asyncio.create_task(self._held(ready, self._closing), name=f"mcp {self._server}")
        try:
            await asyncio.wait((ready, task), timeout=self._start_seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._end(at_once=True)
            raise
        if ready.done() and not ready.cancelled() and ready.exception() is None:
            self._opened, self.problem = ready.result(), None
            return self._opened
        if ready.done() and not ready.cancelled():
            why = reason_of(ready.exception() or RuntimeError("it ended"))
        else:
            why = f"it did not answer within {self._start_seconds:g} s"
        await self._end(at_once=True)
        self._broke(why)
        raise Down(f"The MCP server {self._server} cannot be used: {why}.")

    async def _held(self, ready: "asyncio.Future[Opened]", closing: asyncio.Event) -> None:
        """The session from its beginning to its end, in one task: the SDK wants it so."""
        try:
            async with self._opening() as opened:
                if not ready.done():
                    ready.set_result(opened)
                await self._until_over(opened, closing)
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
            else:
                log.info("the connection to the MCP server %s broke: %s", self._server, reason_of(error))
                self._broke(reason_of(error))
        finally:
            if ready.done() and not ready.cancelled() and ready.exception() is None:
                opened = ready.result()
                if not closing.is_set() and opened.gone.is_set():
                    self._broke(opened.why())
                opened.gone.set()
            elif not ready.done():
                ready.cancel()

    async def _until_over(self, opened: Opened, closing: asyncio.Event) -> None:
        """Until it is closed, gone, or nobody has used it for long."""
        over = [asyncio.ensure_future(opened.gone.wait()), asyncio.ensure_future(closing.wait())]
        try:
            while True:
                self._used.clear()
                used = asyncio.ensure_future(self._used.wait())
                done, _ = await asyncio.wait(
                    (*over, used), timeout=self._idle_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                used.cancel()
                if not done and self._users == 0:
                    closing.set()
                    return
                if any(one.done() for one in over):
                    return
        finally:
            for one in over:
                one.cancel()

    def _broke(self, why: str) -> None:
        self.problem = why.rstrip(".")
        self._not_before = self._clock() + self._pause
        self._pause = min(LONGEST_PAUSE_SECONDS, self._pause * 2 or FIRST_PAUSE_SECONDS)

    async def _end(self, *, at_once: bool = False) -> None:
        """The session is over, whatever the other side does: it is waited for a bounded time."""
        task, self._task, self._opened = self._task, None, None
        if task is None:
            return
        self._closing.set()
        await asyncio.wait((task,), timeout=0 if at_once else CLOSE_SECONDS)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=CLOSE_SECONDS)
        if not task.done():
            log.warning("the connection to the MCP server %s does not end", self._server)
