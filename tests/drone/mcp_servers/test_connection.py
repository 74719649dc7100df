"""A connection opens on demand, serves all its users, reopens after it broke, and ends in limited time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from drone.mcp_servers.connection import OpenConnection, ServerConnection, ServerUnavailable


class Other:
    """The other side: how often it was opened, and what it does then."""

    def __init__(self, *does: str) -> None:
        self.does = list(does)
        self.opened: list[OpenConnection] = []
        self.closed = 0
        self.now = 100.0

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[OpenConnection]:
        does = self.does.pop(0) if self.does else "works"
        if does == "fails":
            raise OSError("no such program")
        if does == "hangs":
            await asyncio.Event().wait()
        opened = OpenConnection(cast("Any", object()), asyncio.Event(), lambda: "it fell over")
        self.opened.append(opened)
        try:
            yield opened
        finally:
            self.closed += 1

    def connection(self, **times: float) -> ServerConnection:
        times = {"start_seconds": 5.0, **times}
        return ServerConnection("fake", self.opening, clock=lambda: self.now, **times)


async def test_one_session_serves_all_until_it_is_closed() -> None:
    other = Other()
    connection = other.connection()
    async with connection.used() as one, connection.used() as two:
        assert one is two
    async with connection.used() as three:
        assert three is one
    await connection.close()
    assert (len(other.opened), other.closed) == (1, 1)
    async with connection.used() as four:
        assert four is not one
    await connection.close()


async def test_a_start_that_fails_is_tried_again_at_once_and_then_after_pauses_that_grow() -> None:
    other = Other("fails", "fails", "fails")
    connection = other.connection()
    for _ in range(2):
        with pytest.raises(ServerUnavailable, match="cannot be used: no such program"):
            await connection.used().__aenter__()
    with pytest.raises(ServerUnavailable, match="tried again in 1 s"):
        await connection.used().__aenter__()
    other.now += 1.0
    with pytest.raises(ServerUnavailable, match="cannot be used"):
        await connection.used().__aenter__()
    with pytest.raises(ServerUnavailable, match="tried again in 2 s"):
        await connection.used().__aenter__()
    other.now += 2.0
    async with connection.used():
        assert connection.problem is None
    await connection.close()


async def test_a_start_that_does_not_end_is_given_up() -> None:
    connection = Other("hangs").connection(start_seconds=0.01)
    with pytest.raises(ServerUnavailable, match="did not answer within"):
        await connection.used().__aenter__()
    assert connection.problem is not None
    await connection.close()


async def test_a_session_that_breaks_says_why_and_is_opened_anew() -> None:
    other = Other()
    connection = other.connection()
    async with connection.used() as one:
        other.opened[0].gone.set()
        assert await connection.why() == "it fell over"
    async with connection.used() as two:
        assert two is not one
    assert other.closed == 1
    await connection.close()


async def test_nobody_using_it_closes_it_and_somebody_using_it_does_not() -> None:
    other = Other()
    connection = other.connection(idle_seconds=0.01)
    async with connection.used():
        assert other.closed == 0
        gone = asyncio.create_task(other.opened[0].gone.wait())
        await asyncio.wait((gone,), timeout=0.05)
        assert not gone.done()
    await asyncio.wait_for(gone, 5)
    assert other.closed == 1 and connection.problem is None
    await connection.close()


async def test_whoever_is_cancelled_while_it_starts_leaves_nothing_behind() -> None:
    other = Other("hangs")
    connection = other.connection()
    waiting = asyncio.create_task(connection.used().__aenter__())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert connection._task is None
    async with connection.used():
        pass
    await connection.close()
