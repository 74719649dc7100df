"""Watching an order: every entry once, whatever happens to the connections."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcc.client import MCC, AsyncMCC, NotFound, Unauthorized, Unreachable
from mcc.client.watching import LONGEST_WAIT_SECONDS, PATIENCE_SECONDS, Patience
from mcc.contracts.callers import Actor
from mcc.contracts.entry import Entry
from mcc.contracts.order import NewOrder
from mcc.contracts.wire import Delta, GenerationProgress, OrderEvent, Progress
from mcc.feed.feed import Pace
from mcc.store.store import Store
from mcc.testing import FakeClock
from mcc.testing.hand_drone import HandDrone, HeldOrder
from mcc.testing.served import TOKEN, Served
from tests.faults.simulation.leaping import leaping

NOBODY = "01900000-0000-7000-8000-000000000000"


@pytest.fixture
def held(store: Store) -> HeldOrder:
    return HandDrone(store).claim(store.orders.place(NewOrder(prompt="x"), by=Actor("test")).order.id)


def test_watching_gives_every_entry_until_the_end(served: Served, held: HeldOrder) -> None:
    with MCC(served.url, token=served.token) as mcc:
        seen = []
        for entry in mcc.orders.watch(held.id):
            seen.append(entry)
            if entry.kind == "order.claimed":
                held.start("odd\u2028\x85\x00\ud800")
                held.finish()
        assert [entry.seq for entry in seen] == [1, 2, 3, 4, 5]
        assert seen == list(mcc.orders.journal(held.id))
        assert list(mcc.orders.watch(held.id, after=5)) == []
        assert [entry.seq for entry in mcc.orders.watch(held.id, after=3)] == [4, 5]


async def test_fifty_viewers_whose_connections_break_anywhere_see_all_of_it_once(
    store: Store, held: HeldOrder, tmp_path: Path, breaking: Any
) -> None:
    """Two services run on one store, and each connection goes to one of them."""
    with Served(store, tmp_path / "a") as one, Served(store, tmp_path / "b") as other:
        ports = [one.port, other.port]

        reached = asyncio.Event()

        async def watch(seed: int) -> tuple[list[int], int]:
            transport, seen = breaking(ports, seed, most_bytes=12_000), []
            async with AsyncMCC(one.url, token=TOKEN, transport=transport) as mcc:
                async for entry in mcc.orders.watch(held.id):
                    seen.append(entry.seq)
                    if entry.seq == held.seq:
                        reached.set()
                return seen, transport.broken

        async def work() -> None:
            """Writes the next entry whenever a viewer has read all entries so far."""
            held.start()
            for _ in range(40):
                held.steps(5)
                reached.clear()
                await reached.wait()
            held.finish()

        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            watching = [group.create_task(watch(seed)) for seed in range(50)]
            group.create_task(work())
    results = [task.result() for task in watching]
    assert all(seen == list(range(1, held.seq + 1)) for seen, _ in results)
    assert sum(connections for _, connections in results) > 150


async def test_a_service_that_is_started_anew_goes_on_where_it_was(
    store: Store, held: HeldOrder, tmp_path: Path
) -> None:
    first = Served(store, tmp_path)
    with first:
        async with AsyncMCC(first.url, token=TOKEN) as mcc:
            watching = mcc.orders.watch(held.id)
            seen = [(await anext(watching)).seq, (await anext(watching)).seq]
            await asyncio.to_thread(first.stop)
            held.start()
            held.finish()
            with Served(store, tmp_path, port=first.port):
                seen += [entry.seq async for entry in watching]
    assert seen == [1, 2, 3, 4, 5]


def test_text_on_its_way_is_given_when_it_is_asked_for(served: Served, held: HeldOrder) -> None:
    feed = served.app.state.service.feed
    delta = Delta(
        kind="thinking.delta", order_id=held.id, epoch=9, record_id="r", round=1, attempt=1, offset=0, text="\ud800a"
    )
    told: list[OrderEvent] = []
    with MCC(served.url, token=served.token) as mcc:
        for one in mcc.orders.watch(held.id, deltas=True):
            told.append(one)
            if isinstance(one, Entry) and one.seq == 2:
                served.call(feed.on_delta, delta)
            if isinstance(one, Delta):
                held.start()
                held.finish()
        assert told[2] == delta.model_copy(update={"text": "\N{REPLACEMENT CHARACTER}a"}) and len(told) == 6
        assert all(isinstance(one, Entry) for one in mcc.orders.watch(held.id))


def test_how_far_a_generation_is_is_told_to_those_who_ask_for_more_than_entries(
    served: Served, held: HeldOrder
) -> None:
    feed = served.app.state.service.feed
    progress = GenerationProgress(
        document_id=held.id, done=1, running=2, pending=3, stale=0, failed=0, conflicts=0, output_tokens=7
    )
    told: list[OrderEvent] = []
    with MCC(served.url, token=served.token) as mcc:
        for one in mcc.orders.watch(held.id, deltas=True):
            told.append(one)
            if isinstance(one, Entry) and one.seq == 2:
                served.call(feed.on_delta, Progress(order_id=held.id, epoch=9, data=progress))
            if isinstance(one, GenerationProgress):
                held.start()
                held.finish()
        assert told[2] == progress and len(told) == 6
        assert all(isinstance(one, Entry) for one in mcc.orders.watch(held.id))


def test_what_cannot_be_watched_is_told_at_once(served: Served) -> None:
    with MCC(served.url, token=served.token) as mcc, pytest.raises(NotFound):
        next(mcc.orders.watch(NOBODY))
    with MCC(served.url, token="wrong") as mcc, pytest.raises(Unauthorized):
        next(mcc.orders.watch(NOBODY))


def test_a_service_that_is_not_there_is_told_after_a_few_tries() -> None:
    tries: list[str] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        tries.append(request.url.path)
        raise httpx.ConnectError("nobody listens")

    mcc = MCC("http://service", token="t", transport=httpx.MockTransport(refuse))
    with mcc, pytest.raises(Unreachable, match="nobody listens"):
        next(mcc.orders.watch(NOBODY))
    assert len(tries) == 4


def test_a_service_that_is_away_is_waited_for_from_then_on_however_long_the_order_had_said_nothing() -> None:
    clock, away = FakeClock(), Unreachable("nobody listens")
    patience = Patience(uptime=clock.uptime)
    patience.answered()
    for _ in range(2):
        clock.advance(10 * 3_600)
        assert 0 < patience.next_wait(away) <= LONGEST_WAIT_SECONDS and patience.is_away
        clock.advance(PATIENCE_SECONDS)
        patience.next_wait(away)
        patience.answered()
        assert not patience.is_away
    patience.next_wait(away)
    clock.advance(PATIENCE_SECONDS + 1)
    with pytest.raises(Unreachable, match="nobody listens"):
        patience.next_wait(away)


def test_who_follows_is_told_why_the_service_is_missed_at_each_try_and_once_that_it_is_back() -> None:
    heard: list[object] = []
    patience, problem = Patience(away=heard.append), Unreachable("nobody listens")
    patience.answered()
    assert not heard
    for _ in range(2):
        patience.next_wait(problem)
    patience.answered()
    patience.answered()
    assert heard == [problem, problem, None]


@leaping
async def test_who_follows_a_silent_order_rides_out_a_restart(store: Store, held: HeldOrder) -> None:
    """The stream says nothing, then breaks, is refused a few times, and goes on where it was."""
    entry = store.journal.read(held.id)[0]
    text = f"id: {entry.seq}\nevent: {entry.kind}\ndata: {entry.model_dump_json()}\n\n".encode()
    connections = iter(["pings", "refused", "refused", "refused", "refused", "entry"])

    async def answer(request: httpx.Request) -> httpx.Response:
        match next(connections):
            case "refused":
                raise httpx.ConnectError("nobody listens")
            case "pings":
                return httpx.Response(200, content=b": ping\n\n: ping\n\n")
            case _:
                return httpx.Response(200, content=text)

    async with AsyncMCC("http://service", token="t", transport=httpx.MockTransport(answer)) as mcc:
        first = await anext(mcc.orders.watch(held.id))
        assert isinstance(first, Entry) and first.seq == 1


def test_an_entry_that_was_skipped_is_asked_for_again() -> None:
    asked: list[str] = []
    entry = '{"order_id":"o","seq":%d,"at":"2026-01-01T00:00:00Z","kind":"agent.step","data":{"name":"n","message":""}}'
    last = '{"order_id":"o","seq":3,"at":"2026-01-01T00:00:00Z","kind":"order.finished","data":{"status":"failed"}}'

    def event(seq: int) -> str:
        kind, data = ("order.finished", last) if seq == 3 else ("agent.step", entry % seq)
        return f"id: {seq}\nevent: {kind}\ndata: {data}\n\n"

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["last-event-id"])
        numbers = [1, 1, 3] if len(asked) == 1 else [1, 2, 3]
        return httpx.Response(200, text="".join(event(number) for number in numbers))

    with MCC("http://service", token="t", transport=httpx.MockTransport(answer)) as mcc:
        assert [one.seq for one in mcc.orders.watch("o")] == [1, 2, 3]
    assert asked == ["0", "1"]


def test_leaving_a_watch_closes_its_connection(served: Served, held: HeldOrder, until: Any) -> None:
    with MCC(served.url, token=served.token) as mcc:
        watching = mcc.orders.watch(held.id)
        next(watching)
        assert served.viewers == 1
        watching.close()
        until(lambda: served.viewers == 0)


async def test_pings_pass_unseen(store: Store, held: HeldOrder, tmp_path: Path) -> None:
    with Served(store, tmp_path, pace=Pace(poll_without_hints_seconds=0.05, ping_seconds=0.01)) as served:
        async with AsyncMCC(served.url, token=TOKEN) as mcc:
            seen = []
            async for entry in mcc.orders.watch(held.id):
                seen.append(entry.seq)
                if entry.seq == 2:
                    held.start()
                    held.finish()
    assert seen == [1, 2, 3, 4, 5]
