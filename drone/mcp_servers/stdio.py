"""Speaking with a server over its standard input and output: one JSON text a line, and no end of a line for ever."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import anyio
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from drone.mcp_servers.results import MOST_BYTES
from drone.mcp_servers.words import one_line

CLOSE_SECONDS = 2.0
"""For a program to end by itself once nobody speaks to it any more."""

_CHUNK = 64 * 1024
_MOST_NOISE = 200

log = logging.getLogger("drone.mcp")


class Running(Protocol):
    """A program that runs in its sandbox."""

    @property
    def stdin(self) -> asyncio.StreamWriter: ...

    @property
    def stdout(self) -> asyncio.StreamReader: ...

    async def wait(self) -> object: ...

    async def kill(self) -> None: ...


Launch = Callable[[], Awaitable[Running]]


class Ended(Exception):
    """The program is not spoken with any more; a sentence says why."""


class Pipe:
    """The two ends of a program that a session speaks with. `gone` is set when nothing more comes from it."""

    def __init__(self, running: Running, most_bytes: int = MOST_BYTES) -> None:
        self._running = running
        self._most_bytes = most_bytes
        self.gone = asyncio.Event()
        self.why = "it ended"
        self.noise = ""
        """The last that it said which was no message."""

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        heard, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, said = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with heard, read, write, said, anyio.create_task_group() as group:
                group.start_soon(self._hear, heard)
                group.start_soon(self._say, said)
                try:
                    yield read, write
                finally:
                    group.cancel_scope.cancel()
        finally:
            # Cancelled or not: no program is left behind.
            with anyio.CancelScope(shield=True):
                await self._close()

    async def _hear(self, heard: "anyio.abc.ObjectSendStream[SessionMessage | Exception]") -> None:
        try:
            async with heard:
                async for line in self._lines():
                    await self._message(line, heard)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            self.why = one_line(str(error), 200) or self.why
        except Ended as error:
            self.why = str(error)
        finally:
            self.gone.set()

    async def _message(self, line: bytes, heard: "anyio.abc.ObjectSendStream[SessionMessage | Exception]") -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            # Programs print where they should not; what is no message is nobody's.
            self.noise = one_line(line[: _MOST_NOISE * 4].decode("utf-8", "replace"), _MOST_NOISE) or self.noise
            return
        await heard.send(SessionMessage(message))

    async def _lines(self) -> AsyncIterator[bytes]:
        """Raises `Ended` where a line does not end in time."""
        waiting: list[bytes] = []
        size = 0
        while chunk := await self._running.stdout.read(_CHUNK):
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                yield b"".join((*waiting, line))
                waiting, size = [], 0
            waiting.append(rest)
            size += len(rest)
            if size > self._most_bytes:
                raise Ended(f"it said more than {self._most_bytes:,} bytes at once, which nobody reads")

    async def _say(self, said: "anyio.abc.ObjectReceiveStream[SessionMessage]") -> None:
        try:
            async with said:
                async for message in said:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._running.stdin.write(text.encode() + b"\n")
                    await self._running.stdin.drain()
        except (OSError, RuntimeError) as error:
            self.why = one_line(str(error), 200) or self.why
            self.gone.set()

    async def _close(self) -> None:
        """Its input is closed; it has a moment to end by itself, then it is killed with all that it began."""
        with suppress(OSError, RuntimeError):
            self._running.stdin.close()
        waiting = asyncio.ensure_future(self._running.wait())
        await asyncio.wait((waiting,), timeout=CLOSE_SECONDS)
        if not waiting.done():
            await self._running.kill()
            await asyncio.wait((waiting,), timeout=CLOSE_SECONDS)
        waiting.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await waiting
