"""The connection to one server: opened on demand, reopened after it broke, closed when idle."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from drone.mcp_servers.results import reason_of

if TYPE_CHECKING:
    from drone.mcp_servers.session import ServerSession

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
IDLE_SECONDS = 300.0
CLOSE_SECONDS = 6.0
WHY_SECONDS = 0.5

log = logging.getLogger("drone.mcp")


@dataclass(slots=True)
class OpenConnection:
    """An open session. `gone` is set once the server is gone; `why` then says why."""

    session: "ServerSession"
    gone: asyncio.Event
    why: Callable[[], str]


Open: TypeAlias = Callable[[], AbstractAsyncContextManager[OpenConnection]]


class ServerUnavailable(Exception):
    """The server cannot be reached; the message is a sentence that says why, and when the next attempt is made."""


class ServerConnection:
    """At most one session at a time, in a task of its own. Use on one event loop only.

    After a failed start or a broken session the next use reopens it at once; after further failures, only when a pause
    that doubles up to a minute is over.
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
        self._opened: OpenConnection | None = None
        self._closing = asyncio.Event()
        self._users = 0
        self._used = asyncio.Event()
        self._pause = 0.0
        self._not_before = float("-inf")
        self.problem: str | None = None
        """Why the last attempt to open the session failed or the session broke, None while it works."""

    @asynccontextmanager
    async def used(self) -> AsyncIterator["ServerSession"]:
        """The session, opened if necessary; it stays open while in use. Raises `ServerUnavailable`."""
        opened = await self._open_session()
        self._users += 1
        try:
            yield opened.session
            self._pause = 0.0
        finally:
            self._users -= 1
            self._used.set()

    async def why(self) -> str:
        """Why the server is gone, as far as that is known; empty while it is connected."""
        opened, task = self._opened, self._task
        if opened is None or not opened.gone.is_set():
            return self.problem or ""
        if task is not None:
            # A program's last words are known once its end was waited for, which happens in that task.
            await asyncio.wait((task,), timeout=WHY_SECONDS)
        return opened.why()

    def lost(self) -> None:
        """Mark the session as broken: the next use opens another one."""
        if self._opened is not None:
            self._opened.gone.set()

    async def close(self) -> None:
        async with self._lock:
            await self._end()

    async def _open_session(self) -> OpenConnection:
        async with self._lock:
            if self._opened is not None and not self._opened.gone.is_set():
                return self._opened
            await self._end()
            if (left := self._not_before - self._clock()) > 0:
                again = f"It is tried again in {left:.0f} s."
                raise ServerUnavailable(f"The MCP server {self._server} is not there: {self.problem}. {again}")
            return await self._start()

    async def _start(self) -> OpenConnection:
        ready: asyncio.Future[OpenConnection] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        task = self._task = asyncio.create_task(self._run(ready, self._closing), name=f"mcp {self._server}")
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
        self._note_failure(why)
        raise ServerUnavailable(f"The MCP server {self._server} cannot be used: {why}.")

    async def _run(self, ready: "asyncio.Future[OpenConnection]", closing: asyncio.Event) -> None:
        """Open the session, keep it until its end and close it, all in one task, as the SDK requires."""
        try:
            async with self._opening() as opened:
                if not ready.done():
                    ready.set_result(opened)
                await self._wait_for_end(opened, closing)
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
            else:
                log.info("the connection to the MCP server %s broke: %s", self._server, reason_of(error))
                self._note_failure(reason_of(error))
        finally:
            if ready.done() and not ready.cancelled() and ready.exception() is None:
                opened = ready.result()
                if not closing.is_set() and opened.gone.is_set():
                    self._note_failure(opened.why())
                opened.gone.set()
            elif not ready.done():
                # The task ends without an answer: whoever waits for the session must not wait for ever.
                ready.cancel()

    async def _wait_for_end(self, opened: OpenConnection, closing: asyncio.Event) -> None:
        """Return when the session is closed or gone, or was idle for too long."""
        ends = [asyncio.ensure_future(opened.gone.wait()), asyncio.ensure_future(closing.wait())]
        try:
            while True:
                self._used.clear()
                used = asyncio.ensure_future(self._used.wait())
                # Each use begins the idle time anew.
                done, _ = await asyncio.wait(
                    (*ends, used), timeout=self._idle_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                used.cancel()
                if not done and self._users == 0:
                    closing.set()
                    return
                if any(end.done() for end in ends):
                    return
        finally:
            for end in ends:
                end.cancel()

    def _note_failure(self, why: str) -> None:
        self.problem = why.rstrip(".")
        self._not_before = self._clock() + self._pause
        self._pause = min(LONGEST_PAUSE_SECONDS, self._pause * 2 or FIRST_PAUSE_SECONDS)

    async def _end(self, *, at_once: bool = False) -> None:
        """End the session's task: ask it to close, then cancel it, each time waiting for a limited time."""
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
