"""A database or broker that is unavailable: no order is accepted without being stored, and no request hangs."""

import threading
from dataclasses import replace
from pathlib import Path

import httpx

from mcc.api.app import RedisAccess, build_app
from mcc.api.problems import STATUS_OF
from mcc.contracts.order import NewOrder
from mcc.settings import Settings
from mcc.store import errors
from mcc.store.errors import StoreUnavailable
from mcc.store.orders import Orders, QueueBound
from mcc.store.values import Placed
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN

ORDERS = "/api/v1/orders"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


class FailingOrders(Orders):
    def place(self, new: NewOrder, *, principal: str, idempotency_key: str | None = None, **_: object) -> Placed:
        raise StoreUnavailable("The database is locked.")


async def test_an_order_that_could_not_be_kept_is_never_accepted(tmp_path: Path) -> None:
    store = temporary_store()
    bound = QueueBound(None, store.database.clock)
    store = replace(store, orders=FailingOrders(store.database, bound, store.documents))
    app = build_app(Settings(data_dir=tmp_path), store, token=TOKEN)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as api:
        answer = await api.post(ORDERS, json={"prompt": "x"})
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["detail"] == "The database is locked."
    assert store.orders.list().items == []


class HungNudges:
    """A broker that does not answer until the test allows it."""

    trouble = ""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked = threading.Event()

    def nudge(self, order_id: str, *, queue: str, priority: int, last_seq: int) -> None:
        self.asked.set()
        self.let_go.wait(30)
        raise ConnectionError("the broker is away")


async def test_a_broker_that_hangs_delays_no_order(tmp_path: Path) -> None:
    nudges = HungNudges()
    app = build_app(Settings(data_dir=tmp_path), temporary_store(), token=TOKEN, redis=RedisAccess(nudger=nudges))
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

    ours = {cls for cls in all_of(errors.StoreError) if cls.__module__ == "mcc.store.errors"}
    elsewhere = {errors.WorkspaceNeeded, errors.AnotherWorkspace, errors.SomeRefused}
    assert ours - elsewhere == set(STATUS_OF), "no request claims an order, and a batch answers for each of its own"
