"""Bad links: a TCP proxy on loopback, whose ways of failing are changed while connections run.

One proxy stands in for one link. All methods are for the event loop that the proxy runs on.
"""

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

PIECE = 65_536
LINGER_OFF = struct.pack("ii", 1, 0)
"""Closing a socket with this set sends a RST."""


@dataclass(slots=True)
class Toxics:
    """How the link is now. Times in seconds, rates in bytes a second; 0 and None mean: as fast as it can.

    `blackhole`: nothing passes and nobody is told (no FIN, no RST); what was sent meanwhile passes when it ends.
    `slice_bytes`: the size of the pieces in which data passes. `limit_bytes`: a connection is closed after so many
    from the server. `slow_close_seconds`: an end is passed on so late.
    """

    latency_seconds: float = 0.0
    jitter_seconds: float = 0.0
    bandwidth: float = 0.0
    blackhole: bool = False
    slice_bytes: int = PIECE
    limit_bytes: int | None = None
    slow_close_seconds: float = 0.0


class Link:
    """One connection through the proxy. A frozen one never moves again."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.frozen = False
        self.from_server = 0

    def close(self, *, reset: bool) -> None:
        for writer in (self.client, self.server):
            if reset and (sock := writer.get_extra_info("socket")) is not None:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_OFF)
            writer.transport.abort() if reset else writer.close()


class Proxy:
    """Listens on `port` (free one when 0) and passes on to `target`; `toxics` may be changed at any time."""

    def __init__(
        self,
        target: tuple[str, int],
        *,
        port: int = 0,
        seed: int = 0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.toxics = Toxics()
        self.accepted = 0
        self.port = port
        self._target = target
        self._sleep = sleep
        self._dice = random.Random(seed)
        self._links: set[Link] = set()
        self._server: asyncio.Server | None = None
        self._moved = asyncio.Event()
        self._over = asyncio.Event()

    def aim(self, target: tuple[str, int]) -> None:
        """Lead new connections to another server; those that are there stay where they are."""
        self._target = target

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse new connections and end those that are there."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._close_all(reset=False)

    async def stop(self) -> None:
        """Go for good; frozen connections end as well."""
        self._over.set()
        self.heal()
        await self.down()
        self.reset_peers()

    async def up(self) -> None:
        """Listen again, and let everything pass as it should."""
        self.heal()
        if self._server is None:
            await self.start()

    def heal(self) -> None:
        self.toxics = Toxics()
        self._moved.set()

    def reset_peers(self) -> None:
        """End all connections with a RST."""
        self._close_all(reset=True)

    def half_open(self) -> None:
        """Freeze the connections of now for ever, as after a lost peer; new ones work."""
        for link in self._links:
            link.frozen = True

    def blackhole(self) -> None:
        """Let nothing pass any more, and tell nobody, until `heal`."""
        self._moved.clear()
        self.toxics.blackhole = True

    @property
    def open(self) -> int:
        return len(self._links)

    def _close_all(self, *, reset: bool) -> None:
        for link in list(self._links):
            link.close(reset=reset)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        link = Link(writer, far_writer)
        self._links.add(link)
        try:
            await asyncio.gather(
                self._pump(reader, far_writer, link, answers=False), self._pump(far_reader, writer, link, answers=True)
            )
        except (OSError, asyncio.IncompleteReadError):
            link.close(reset=True)
        finally:
            self._links.discard(link)
            link.close(reset=False)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link, *, answers: bool
    ) -> None:
        while data := await reader.read(PIECE):
            for piece in self._sliced(data):
                await self._passable(link)
                await self._delay(len(piece))
                allowed = self._allowed(link, piece) if answers else piece
                writer.write(allowed)
                await writer.drain()
                if len(allowed) < len(piece):
                    link.close(reset=False)
                    return
        await self._passable(link)
        await self._sleep(self.toxics.slow_close_seconds)
        if writer.can_write_eof():
            writer.write_eof()

    def _sliced(self, data: bytes) -> Iterator[bytes]:
        """`data` in pieces of the size of now, and cut where a limit says."""
        at = 0
        while at < len(data):
            size = max(1, self.toxics.slice_bytes)
            yield data[at : at + size]
            at += size

    def _allowed(self, link: Link, piece: bytes) -> bytes:
        """What of the server's data is within the limit of this connection."""
        most = self.toxics.limit_bytes
        allowed = piece if most is None else piece[: max(0, most - link.from_server)]
        link.from_server += len(allowed)
        return allowed

    async def _passable(self, link: Link) -> None:
        if link.frozen:
            await self._over.wait()
        while self.toxics.blackhole:
            await self._moved.wait()

    async def _delay(self, size: int) -> None:
        toxics = self.toxics
        seconds = toxics.latency_seconds + self._dice.uniform(-1, 1) * toxics.jitter_seconds
        seconds += size / toxics.bandwidth if toxics.bandwidth else 0.0
        if seconds > 0:
            await self._sleep(seconds)
