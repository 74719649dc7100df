"""A database or broker that is unavailable: no order is accepted without being stored, and no request hangs."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from mcc.api.app import RedisAccess, build_app
from mcc.api.problems import STATUS_OF
from mcc.api.streams import Begun, EventStream, TextStream
from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.contracts.order_lists import SummaryPage
from mcc.dispatch.nudge import Nudger
from mcc.settings import ServiceSettings
from mcc.store.database import errors
from mcc.store.database.errors import StoreUnavailable
from mcc.store.lists.order_lists import OrderLists
from mcc.store.rows.values import Placed
from mcc.store.work.orders import OrderStore, QueueBound
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN, Served

ORDERS = "/api/v1/orders"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


class FailingOrders(OrderStore):
    def place(self, new: NewOrder, *, by: Actor, idempotency_key: str | None = None, **_: object) -> Placed:
        raise StoreUnavailable("The database is locked.")


async def test_an_order_that_could_not_be_kept_is_never_accepted(tmp_path: Path) -> None:
    store = temporary_store()
    bound = QueueBound(None, store.database.clock)
    store = replace(store, orders=FailingOrders(store.database, bound, store.documents))
    app = build_app(ServiceSettings(data_dir=tmp_path), store, token=TOKEN)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as api:
        answer = await api.post(ORDERS, json={"prompt": "x"})
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["detail"] == "The database is locked."
    assert store.orders.list().items == []


class HungNudges(Nudger):
    """A broker that does not answer until the test allows it."""

    trouble = ""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked = threading.Event()

    def nudge(self, order_id: str, *, queue: str = "default", priority: int = 5, last_seq: int = 1) -> bool:
        self.asked.set()
        self.let_go.wait(30)
        raise ConnectionError("the broker is away")


async def test_a_broker_that_hangs_delays_no_order(tmp_path: Path) -> None:
    nudges = HungNudges()
    app = build_app(
        ServiceSettings(data_dir=tmp_path), temporary_store(), token=TOKEN, redis=RedisAccess(nudger=nudges)
    )
    transport = httpx.ASGITransport(app=app)
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS, timeout=10) as api,
        app.router.lifespan_context(app),
    ):
        answers = [await api.post(ORDERS, json={"prompt": "x"}) for _ in range(30)]
        assert nudges.asked.is_set() and not nudges.let_go.is_set()
        nudges.let_go.set()
    assert {answer.status_code for answer in answers} == {201}


def test_every_error_of_the_store_has_its_status() -> None:
    def all_of(cls: type[errors.StoreError]) -> set[type[errors.StoreError]]:
        return {cls}.union(*(all_of(sub) for sub in cls.__subclasses__()))

    ours = {cls for cls in all_of(errors.StoreError) if cls.__module__ == "mcc.store.database.errors"}
    elsewhere = {errors.WorkspaceNeeded, errors.AnotherWorkspace, errors.SomeRefused}
    assert ours - elsewhere == set(STATUS_OF), "no request claims an order, and a batch answers for each of its own"


class Failing(OrderLists):
    """Lists orders until `away` is set."""

    away = False

    def summaries(self, *asked: Any, **more: Any) -> SummaryPage:
        if self.away:
            raise StoreUnavailable("The database is away.")
        return super().summaries(*asked, **more)


def test_a_stream_that_cannot_begin_is_refused_before_its_head(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = temporary_store()
    failing = Failing(store.database)
    failing.away = True
    with Served(replace(store, order_lists=failing), tmp_path) as served:
        for _ in range(3):
            answer = httpx.get(f"{served.url}/api/v1/events", headers=HEADERS, timeout=20)
            assert (answer.status_code, answer.json()["detail"]) == (503, "The database is away.")
            assert int(answer.headers["retry-after"]) > 0
        failing.away = False
        with httpx.stream("GET", f"{served.url}/api/v1/events", headers=HEADERS, timeout=20) as begun:
            assert next(line for line in begun.iter_lines() if line.startswith("event: ")) == "event: snapshot"
    assert [record for record in caplog.records if record.exc_info] == []


async def broken_after(pieces: int) -> AsyncIterator[bytes]:
    for number in range(pieces):
        yield str(number).encode()
    raise StoreUnavailable("The database is away.")


async def sent(answer: Response) -> list[Any]:
    """What the response sends."""
    messages: list[Any] = []
    asked = asyncio.Event()

    async def receive() -> dict[str, str]:
        await asked.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        messages.append(message)

    await answer({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)
    return messages


async def test_the_first_piece_of_a_stream_is_made_before_its_head() -> None:
    with pytest.raises(StoreUnavailable):
        await Begun.of(broken_after(0))
    begun = await Begun.of(broken_after(1))
    assert await anext(begun) == b"0"
    with pytest.raises(StoreUnavailable):
        await anext(begun)
    await begun.aclose()


async def test_a_database_that_goes_ends_a_stream_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    messages = await sent(EventStream(broken_after(2), 5.0))
    assert [one.get("body") for one in messages[-3:]] == [b"0", b"1", b""]
    assert messages[-1]["more_body"] is False
    assert len(caplog.records) == 1 and caplog.records[0].exc_info is None


async def test_an_answer_that_breaks_off_is_never_taken_for_the_whole(caplog: pytest.LogCaptureFixture) -> None:
    messages = await sent(TextStream(await Begun.of(broken_after(2))))
    assert [one.get("body") for one in messages[1:]] == [b"0", b"1"] and messages[-1]["more_body"] is True
    assert len(caplog.records) == 1 and caplog.records[0].exc_info is None
