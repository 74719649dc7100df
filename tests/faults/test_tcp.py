"""The proxy between two ends of a link, with each of its ways of failing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.faults.tcp import Proxy

PATIENCE_SECONDS = 5.0
SILENCE_SECONDS = 0.15


@dataclass
class Ends:
    """An echo server behind a proxy."""

    proxy: Proxy

    async def connect(self) -> "Line":
        return Line(*await asyncio.open_connection("127.0.0.1", self.proxy.port))


@dataclass
class Line:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, data: bytes) -> bytes:
        """Send, and read as much back. Raises IncompleteReadError, ConnectionError, TimeoutError."""
        self.writer.write(data)
        await self.writer.drain()
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.reader.readexactly(len(data))

    async def is_silent(self, data: bytes) -> bool:
        """Whether nothing comes back, and nobody says why."""
        self.writer.write(data)
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                await self.reader.read(1)
        except TimeoutError:
            return True
        return False

    async def ended(self) -> bytes:
        """All that still comes."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.reader.read()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1_000):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def ends(sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> AsyncIterator[Ends]:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    proxy = Proxy(("127.0.0.1", server.sockets[0].getsockname()[1]), sleep=sleep)
    await proxy.start()
    try:
        yield Ends(proxy)
    finally:
        await proxy.stop()
        server.close()


async def test_a_healthy_link_passes_everything_both_ways_and_tells_its_end() -> None:
    async with ends() as there:
        line = await there.connect()
        big = bytes(range(256)) * 2_000
        sending = asyncio.create_task(line.say(big))
        assert await sending == big
        line.writer.write_eof()
        assert await line.ended() == b""


async def test_a_link_that_is_down_ends_its_connections_and_refuses_new_ones_until_it_is_up() -> None:
    async with ends() as there:
        line = await there.connect()
        await line.say(b"x")
        await there.proxy.down()
        assert await line.ended() == b""
        with pytest.raises(ConnectionError):
            await there.connect()
        await there.proxy.up()
        assert await (await there.connect()).say(b"again") == b"again"


async def test_a_reset_peer_sees_a_reset() -> None:
    async with ends() as there:
        line = await there.connect()
        await line.say(b"x")
        there.proxy.reset_peers()
        with pytest.raises(ConnectionResetError):
            await line.ended()


async def test_a_black_hole_says_nothing_to_anybody_and_passes_all_of_it_on_when_it_ends() -> None:
    async with ends() as there:
        line = await there.connect()
        await line.say(b"x")
        there.proxy.blackhole()
        assert await line.is_silent(b"lost?")
        assert await (await there.connect()).is_silent(b"new")
        there.proxy.heal()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await line.reader.readexactly(5) == b"lost?"


async def test_half_open_connections_never_move_again_and_new_ones_work() -> None:
    async with ends() as there:
        old = await there.connect()
        await old.say(b"x")
        there.proxy.half_open()
        assert await old.is_silent(b"hello?")
        assert await (await there.connect()).say(b"new") == b"new"
        there.proxy.heal()
        assert await old.is_silent(b"still?")


async def test_after_the_limit_the_connection_ends_and_not_a_byte_later() -> None:
    async with ends() as there:
        there.proxy.toxics.limit_bytes = 10
        line = await there.connect()
        line.writer.write(b"0123456789abcdef")
        assert await line.ended() == b"0123456789"


@pytest.mark.parametrize(
    "toxics",
    [
        {"slice_bytes": 1},
        {"latency_seconds": 0.02, "jitter_seconds": 0.01},
        {"bandwidth": 20_000.0},
        {"slow_close_seconds": 0.05},
    ],
)
async def test_a_slow_link_passes_everything_in_order(toxics: dict[str, float]) -> None:
    async with ends() as there:
        for name, value in toxics.items():
            setattr(there.proxy.toxics, name, value)
        line = await there.connect()
        assert await line.say(b"0123456789" * 50) == b"0123456789" * 50
        line.writer.write_eof()
        assert await line.ended() == b""


async def test_latency_bandwidth_and_a_slow_close_are_waited_for() -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async with ends(sleep) as there:
        there.proxy.toxics.latency_seconds, there.proxy.toxics.bandwidth = 0.05, 100.0
        there.proxy.toxics.slow_close_seconds = 7.0
        line = await there.connect()
        await line.say(b"0123456789")
        assert waited == [pytest.approx(0.15)] * 2
        line.writer.write_eof()
        await line.ended()
        assert 7.0 in waited


async def test_without_a_server_behind_it_a_connection_is_cut() -> None:
    async with ends() as there:
        gone = Proxy(("127.0.0.1", 1))
        await gone.start()
        try:
            reader, _ = await asyncio.open_connection("127.0.0.1", gone.port)
            with pytest.raises(ConnectionError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    if not await reader.read():
                        raise ConnectionResetError
        finally:
            await gone.stop()
        assert there.proxy.open == 0
