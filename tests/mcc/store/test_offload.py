"""Requests never wait for the database without a limit, and reads do not wait for writes."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from mcc.api.app import build_app
from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.settings import ServiceSettings
from mcc.store.database.errors import StoreFull, StoreUnavailable
from mcc.store.rows.values import Placed
from mcc.store.store import BoundedOffload, Store
from mcc.store.work.orders import OrderStore, QueueBound
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN

ORDERS = "/api/v1/orders"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
MORE_THAN_ANY_DISK = 1e12
WRITERS = 8


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """An event that is set at the end of the test, so that waiting threads finish."""
    event = threading.Event()
    yield event
    event.set()


async def test_what_has_not_begun_in_time_is_not_done_at_all(stuck: threading.Event) -> None:
    offload = BoundedOffload(1, "t", queue_seconds=0.01, answer_seconds=0.02)
    done: list[int] = []
    with pytest.raises(StoreUnavailable, match="not known"):
        await offload(stuck.wait, 30)
    with pytest.raises(StoreUnavailable, match="nothing was done"):
        await offload(done.append, 1)
    stuck.set()
    patient = BoundedOffload(1, "t")
    await patient(done.append, 2)
    assert done == [2]
    offload.close()
    patient.close()


async def test_what_is_raised_there_is_raised_here() -> None:
    offload = BoundedOffload(1, "t")
    with pytest.raises(ZeroDivisionError):
        await offload(divmod, 1, 0)
    offload.close()


class StuckOrders(OrderStore):
    """Orders that place nothing until they are released."""

    def __init__(self, store: Store, stuck: threading.Event) -> None:
        super().__init__(store.database, QueueBound(None, store.database.clock), store.documents)
        self.stuck = stuck
        self.entered = threading.Semaphore(0)

    def place(self, new: NewOrder, *, by: Actor, idempotency_key: str | None = None, **_: object) -> Placed:
        self.entered.release()
        self.stuck.wait(30)
        raise StoreUnavailable("The database is locked.")


async def test_readers_are_answered_while_writers_wait_for_a_lock(tmp_path: Path, stuck: threading.Event) -> None:
    store = temporary_store()
    orders = StuckOrders(store, stuck)
    app = build_app(ServiceSettings(data_dir=tmp_path), replace(store, orders=orders), token=TOKEN)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as api:
        posts = [asyncio.create_task(api.post(ORDERS, json={"prompt": "x"})) for _ in range(20)]
        for _ in range(WRITERS):
            assert await asyncio.to_thread(orders.entered.acquire, timeout=30)
        assert [(await api.get(ORDERS)).status_code for _ in range(3)] == [200] * 3
        assert not any(post.done() for post in posts)
        stuck.set()
        answers = await asyncio.gather(*posts)
    assert {answer.status_code for answer in answers} == {503}
    assert store.orders.list().items == []


class FullOrders(OrderStore):
    def place(self, new: NewOrder, *, by: Actor, idempotency_key: str | None = None, **_: object) -> Placed:
        raise StoreFull("the disk of the database is full")


async def test_a_full_disk_is_an_answer_of_its_own(tmp_path: Path) -> None:
    store = temporary_store()
    store = replace(store, orders=FullOrders(store.database, QueueBound(None, store.database.clock), store.documents))
    app = build_app(ServiceSettings(data_dir=tmp_path), store, token=TOKEN)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as api:
        answer = await api.post(ORDERS, json={"prompt": "x"})
    assert (answer.status_code, answer.headers["content-type"]) == (507, "application/problem+json")
    assert "disk" in answer.json()["detail"] and answer.headers["retry-after"]


async def test_what_is_left_of_a_disk_is_kept_for_the_orders_that_are_there(tmp_path: Path) -> None:
    store = temporary_store()
    there = store.orders.place(NewOrder(prompt="p"), by=Actor("t")).order
    app = build_app(ServiceSettings(data_dir=tmp_path, disk_reserve_mb=MORE_THAN_ANY_DISK), store, token=TOKEN)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as api:
        refused = await api.post(ORDERS, json={"prompt": "x"})
        ready = await api.get("/readyz")
        cancelled = await api.post(f"{ORDERS}/{there.id}/cancel")
        again = await api.post(f"{ORDERS}/{there.id}/retry")
    assert (refused.status_code, again.status_code) == (507, 507)
    assert "disk" in refused.json()["detail"]
    assert (ready.status_code, ready.json()["disk"]) == (200, "degraded")
    assert "Free some space" in ready.json()["detail"]
    assert cancelled.status_code == 202
    assert len(store.orders.list().items) == 1


async def test_a_service_that_cannot_write_is_not_ready(tmp_path: Path) -> None:
    app = build_app(
        ServiceSettings(data_dir=tmp_path),
        temporary_store(),
        token=TOKEN,
        trouble=lambda: "the disk of the database is full",
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as api:
        ready = await api.get("/readyz")
    assert (ready.status_code, ready.json()["detail"]) == (503, "the disk of the database is full")
