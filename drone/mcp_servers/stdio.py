"""Servers over standard input and output: one JSON message per line, of limited length."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter

from drone.mcp_servers.program import RunningProgram
from drone.mcp_servers.readable import responses_in
from drone.mcp_servers.results import MOST_BYTES
from drone.tools.frame.display_text import one_line

CLOSE_SECONDS = 2.0
"""How long a program may take to end after its input was closed; then it is killed."""

_CHUNK = 64 * 1024
_MOST_NOISE = 200

log = logging.getLogger("drone.mcp")


class OutputEnded(Exception):
    """The program's output cannot be read any further; the message says why."""


class Pipe:
    """A program's input and output as a session's streams. `gone` is set when it sends or reads nothing any more."""

    def __init__(self, running: RunningProgram, most_bytes: int = MOST_BYTES) -> None:
        self._running = running
        self._most_bytes = most_bytes
        self.gone = asyncio.Event()
        self.why = "it ended"
        self.noise = ""
        """Its last line that was no message."""

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        """The two directions of a session; at the end the program is closed."""
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with incoming, read, write, outgoing, anyio.create_task_group() as group:
                group.start_soon(self._receive, incoming)
                group.start_soon(self._send, outgoing)
                try:
                    yield read, write
                finally:
                    group.cancel_scope.cancel()
        finally:
            # Shielded, so that no program is left behind even if this is cancelled.
            with anyio.CancelScope(shield=True):
                await self._close()

    async def _receive(self, incoming: "anyio.abc.ObjectSendStream[SessionMessage | Exception]") -> None:
        try:
            async with incoming:
                async for line in self._lines():
                    await self._pass_on(line, incoming)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            self.why = one_line(str(error), 200) or self.why
        except OutputEnded as error:
            self.why = str(error)
        finally:
            self.gone.set()

    async def _pass_on(self, line: bytes, incoming: "anyio.abc.ObjectSendStream[SessionMessage | Exception]") -> None:
        messages: list[JSONRPCMessage]
        try:
            messages = [jsonrpc_message_adapter.validate_json(line, by_name=False)]
        except ValueError:
            messages = responses_in(line)
        if not messages:
            # Some programs print other text to standard output; it is skipped.
            self.noise = one_line(line[: _MOST_NOISE * 4].decode("utf-8", "replace"), _MOST_NOISE) or self.noise
            return
        for message in messages:
            await incoming.send(SessionMessage(message))

    async def _lines(self) -> AsyncIterator[bytes]:
        """The lines of the program's output. Raises `OutputEnded` for a line of more than `most_bytes`."""
        waiting: list[bytes] = []
        size = 0
        while chunk := await self._running.stdout.read(_CHUNK):
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield b"".join((*waiting, line))
                waiting, size = [], 0
            # Joined at the end of the line: adding to one text would copy all of it for each chunk.
            waiting.append(rest)
            size += len(rest)
            if size > self._most_bytes:
                raise OutputEnded(f"it said more than {self._most_bytes:,} bytes at once, which nobody reads")

    async def _send(self, outgoing: "anyio.abc.ObjectReceiveStream[SessionMessage]") -> None:
        try:
            async with outgoing:
                async for message in outgoing:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._running.stdin.write(text.encode() + b"\n")
                    await self._running.stdin.drain()
        except (OSError, RuntimeError) as error:
            self.why = one_line(str(error), 200) or self.why
            self.gone.set()

    async def _close(self) -> None:
        """Close the program's input, give it a moment to end, then kill it with all its children."""
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
