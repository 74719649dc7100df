"""The proxy that cuts harms at the byte that was drawn; a door that is cut keeps what it promises."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.doors.cutting import CuttingProxy
from tests.faults.doors.house import DoorTally, judge_ends
from tests.faults.doors.running import cut_door

QUESTION, ANSWER = b"q" * 1_000, b"a" * 2_000


@asynccontextmanager
async def answering(seed: str, **named: int) -> AsyncIterator[tuple[CuttingProxy, list[int], list[str]]]:
    """A proxy before a server that answers what it is asked whole; how much it was asked each time, and the kills."""
    asked: list[int] = []
    kills: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = b""
        try:
            while len(said) < len(QUESTION) and (piece := await reader.read(300)):
                said += piece
            if len(said) == len(QUESTION):
                writer.write(ANSWER)
                await writer.drain()
        except OSError:
            pass
        asked.append(len(said))
        writer.close()

    def kill() -> bool:
        kills.append("killed")
        return True

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    proxy = CuttingProxy(server.sockets[0].getsockname(), seed, kill)
    proxy.cuts, proxy.kills = named.get("cuts", 0), named.get("kills", 0)
    await proxy.start()
    try:
        yield proxy, asked, kills
    finally:
        await proxy.stop()
        server.close()


async def ask(proxy: CuttingProxy) -> bytes | None:
    """What is answered through the proxy; None where the connection was reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        writer.write(QUESTION)
        return await reader.read(-1)
    except OSError:
        return None
    finally:
        writer.transport.abort()


async def test_what_is_not_harmed_passes_whole_and_says_how_long_connections_are() -> None:
    async with answering("1") as (proxy, asked, _):
        assert await ask(proxy) == ANSWER and asked == [len(QUESTION)]
        proxy.share = 1.0
        assert await ask(proxy) == ANSWER, "nothing was wished"


async def test_each_cut_ends_a_connection_before_it_is_whole_at_bytes_of_either_side() -> None:
    async with answering("2", cuts=40) as (proxy, asked, _):
        assert await ask(proxy) == ANSWER
        proxy.share = 1.0
        answers = []
        while not proxy.is_over:
            answers.append(await ask(proxy))
        asked_whole = asked.count(len(QUESTION)) - 1
        assert proxy.cut == 40 and proxy.killed == 0
    got = [len(answer or b"") for answer in answers]
    # A cut after the last byte is one too: the answer came, and its connection did not end as it should.
    assert len(set(got)) > 5 and min(got) == 0 and max(got) <= len(ANSWER)
    assert 0 < asked_whole < 40, "some of the cuts were on the way there, others on the way back"


async def test_kills_are_spread_among_the_cuts() -> None:
    async with answering("3", cuts=20, kills=3) as (proxy, _, kills):
        await ask(proxy)
        proxy.share = 1.0
        while not proxy.is_over:
            await ask(proxy)
        assert len(kills) == proxy.killed == 3 and proxy.cut >= 20


async def test_the_same_seed_cuts_at_the_same_bytes() -> None:
    runs = []
    for _ in range(2):
        async with answering("4", cuts=10) as (proxy, _, _):
            await ask(proxy)
            proxy.share = 1.0
            drawn = [proxy._drawn() for _ in range(10)]
            runs.append(drawn)
    assert runs[0] == runs[1] and len(set(runs[0])) == 10


def test_an_order_with_two_ends_or_none_is_a_broken_promise() -> None:
    def rows(query: str) -> list[tuple[Any, ...]]:
        """What the database never holds: it refuses a second end itself."""
        assert "order.finished" in query
        return [("one", 2), ("other", 0), ("third", 1)]

    judge_ends(rows, tally := DoorTally("x", 1))
    assert (tally.orders, tally.ends, tally.twice, tally.lost, len(tally.problems)) == (3, 3, 1, 1, 2)


@pytest.mark.family
@pytest.mark.group("faults")
def test_triggers_that_are_cut_and_killed_place_one_order_for_each_delivery(tmp_path: Path) -> None:
    tally = cut_door("triggers", 8, 1, seed=1, directory=tmp_path)
    assert not tally.problems, "\n".join(tally.problems)
    assert tally.cut >= 8 and tally.killed == 1 and tally.orders == tally.ends > 0
