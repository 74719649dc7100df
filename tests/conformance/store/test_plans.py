"""Frequent queries use an index on both databases, however many orders there are."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.backlog.plans import full_scans, plans
from benchmarks.backlog.seed import seed
from mcc.contracts.drones import Registration
from mcc.contracts.ids import fresh_id
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.database.migrate import upgrade
from mcc.store.store import Store, open_store
from mcc.store.work.orders import count_queued
from mcc.testing.store import migrated_copy

ORDERS = 1_200
Call = Callable[[Store], object]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def seeded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if request.param == "sqlite":
        path: Path = migrated_copy(tmp_path_factory.mktemp("plans") / "mcc.db")
        url = f"sqlite:///{path}"
    else:
        url = request.getfixturevalue("filled_postgres")
        upgrade(url)
    seed(url, ORDERS)
    store = open_store(url)
    yield store
    store.close()


def one(store: Store, status: OrderStatus = OrderStatus.SUCCEEDED) -> str:
    return store.orders.list(status=status, limit=1).items[0].id


def listed(**asked: object) -> Call:
    return lambda store: store.orders.list(**asked)  # type: ignore[arg-type]


ASKED: dict[str, tuple[Call, tuple[str, ...]]] = {
    "by status": (listed(status=OrderStatus.FAILED), ("orders_by_status",)),
    "a later page": (
        listed(status=OrderStatus.FAILED, cursor="01a1d430-364d-7000-8000-9cf7f3a86dc4"),
        ("orders_by_status",),
    ),
    "by label": (listed(label="nightly"), ("order_labels",)),
    "by label and status": (
        listed(label="nightly", status=OrderStatus.CANCELLED),
        ("order_labels_pkey autoindex_order_labels", "orders_by_status"),
    ),
    "by session": (listed(session_id="01a1d430-364d-7000-8000-9cf7f3a86dc4"), ("orders_of_session",)),
    "by the end of an id": (listed(part="6dc4"), ("orders_by_ending",)),
    "the newest": (listed(), ("orders_pkey autoindex_orders_1",)),
    "what can be claimed": (
        lambda store: store.claims.claimable(["default", "slow"], 20),
        ("queued_orders", "unfinished_orders"),
    ),
    "what a sweep looks after": (
        lambda store: store.sweeper.sweep(may_expire=True),
        ("orders_by_status", "orders_to_expire", "waiting_orders_due", "waiting_orders_over", "items_to_expire"),
    ),
    "whose turn it is in a workspace": (lambda store: store.workspaces.wake(), ("orders_in_line",)),
    "what waits for its workspace": (
        lambda store: store.claims.waiting(WaitingReason.WORKSPACE, 10),
        ("waiting_orders",),
    ),
    "how many are queued": (
        lambda store: store.database.read(lambda link: count_queued(link, 100)),
        ("queued_orders orders_by_status", "waiting_orders"),
    ),
    "an order": (lambda store: store.orders.get(one(store, OrderStatus.QUEUED)), ("orders_by_status",)),
    "a record": (lambda store: store.orders.record(one(store)), ("chat_records",)),
    "a journal": (lambda store: store.journal.read(one(store), after=3), ("journal_",)),
    "the inbox": (lambda store: store.approvals.list("pending"), ("items_by_status pending_items items_by_time",)),
    "the questions of the inbox": (lambda store: store.approvals.list(kinds=("question",)), ("items_by_kind",)),
    "the questions that wait": (lambda store: store.approvals.list("pending", kinds=("question",)), ("pending_items",)),
    "the first note of a kind": (lambda store: store.audit.first("retention.announced"), ("audit_by_kind",)),
    "the sessions": (lambda store: store.sessions.list(), ("sessions",)),
}


@pytest.mark.parametrize("name", ASKED)
def test_frequent_queries_use_an_index(seeded: Store, name: str) -> None:
    call, indexes = ASKED[name]
    steps = plans(seeded.database, lambda: call(seeded), by_index=True)
    assert full_scans(steps) == []
    told = "\n".join(steps)
    assert [index for index in indexes if not any(word in told for word in index.split())] == []


def claimed_by(store: Store, incarnation: str) -> None:
    drone = Registration(incarnation=incarnation, name="d", pid=1, host="h", version="1", queues=("default",), slots=1)
    store.leases.register(drone, lease_seconds=60)
    assert store.claims.claim(fresh_id(), incarnation=incarnation, claim_token="t", drone="d") is None


IN_AN_EMPTY_QUEUE: dict[str, Call] = {
    "what can be claimed": lambda store: store.claims.claimable(["default"], 20),
    "a claim": lambda store: claimed_by(store, fresh_id()),
    "what a sweep looks after": lambda store: store.sweeper.sweep(may_expire=True),
    "by status": listed(status=OrderStatus.QUEUED),
}


@pytest.mark.parametrize("name", IN_AN_EMPTY_QUEUE)
@pytest.mark.parametrize("analyzed", [False, True])
def test_plans_made_on_empty_tables_fit_full_ones(unused_postgres: str, name: str, analyzed: bool) -> None:
    """PostgreSQL keeps a plan, and learns how large a table has become only when it analyzes it."""
    store = open_store(unused_postgres)
    try:
        if analyzed:
            store.database.write(lambda link: link.exec_driver_sql("ANALYZE"))
        steps = plans(store.database, lambda: IN_AN_EMPTY_QUEUE[name](store))
    finally:
        store.close()
    assert steps and full_scans(steps) == []
    assert [step for step in steps if "Bitmap" in step] == []
    if name == "a claim":
        assert [step for step in steps if "queued_orders" in step or "orders_by_status" in step] == []
