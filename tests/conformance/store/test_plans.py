"""Frequent queries use an index on both databases, however many orders there are."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.backlog.plans import full_scans, overheard, plans
from benchmarks.backlog.seed import seed
from mcc.contracts.approvals import ITEM_KINDS, ORDER_ITEM_KINDS
from mcc.contracts.drones import Registration
from mcc.contracts.ids import fresh_id
from mcc.contracts.order_lists import OrderCriteria
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.database.migrate import upgrade
from mcc.store.doors.running import unfinished
from mcc.store.lists.inbox import InboxQuery
from mcc.store.lists.order_scan import ScanBounds
from mcc.store.people.owners import Thing
from mcc.store.rows.audit import AuditFilter
from mcc.store.store import Store, open_store
from mcc.store.work.orders import count_queued
from mcc.testing.store import migrated_copy

ORDERS = 1_200
WORDS = OrderCriteria(text="nowhere")
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


def found(**criteria: object) -> Call:
    return lambda store: store.order_lists.summaries(OrderCriteria.model_validate(criteria))


def looked(**query: Any) -> Call:
    return lambda store: store.inbox.look(InboxQuery(**{"viewer": "ann", **query}))


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
    "the inbox": (lambda store: store.inbox.list("pending"), ("items_by_status pending_items items_by_time",)),
    "the questions of the inbox": (lambda store: store.inbox.list(kinds=["question"]), ("items_by_kind",)),
    "the questions that wait": (lambda store: store.inbox.list("pending", kinds=["question"]), ("pending_items",)),
    "the first note of a kind": (lambda store: store.audit.first("retention.announced"), ("audit_by_kind",)),
    "the sessions": (lambda store: store.sessions.list(), ("sessions",)),
    "found without a filter": (found(), ("orders_pkey autoindex_orders_1",)),
    "found by status": (found(status=["waiting"]), ("orders_by_status waiting_orders",)),
    "found by agent": (found(agent=["nobody"]), ("orders_of_agent",)),
    "found by label": (found(label=["none"]), ("order_labels",)),
    "found by session": (found(session_id=["01a1d430-364d-7000-8000-9cf7f3a86dc4"]), ("orders_of_session",)),
    "found by the cause of a failure": (found(fingerprint=["0123456789ab"]), ("orders_of_fingerprint",)),
    "found by a part of an id": (found(part="6dc4"), ("orders_by_ending",)),
    "found by words": (
        lambda store: store.database.read(partial(ScanBounds(chunk=100).ids, filters=WORDS, cursor=None, limit=50)),
        ("order_words_index",),
    ),
    "which orders have no words": (lambda store: store.order_words._recent(fresh_id(), 3_600.0), ("orders_by_status",)),
    "found by time": (
        found(since="2030-01-01T00:00:00Z", until="2031-01-01T00:00:00Z"),
        ("orders_pkey autoindex_orders_1",),
    ),
    "found by the person who placed them": (found(who=["nobody"]), ("orders_pkey autoindex_orders_1",)),
    "found by drone": (found(drone=["nobody"]), ("orders_pkey autoindex_orders_1",)),
    "what waits for people": (
        found(group="needs_input"),
        ("orders_by_status waiting_orders", "pending_items items_by_status"),
    ),
    "what is worked on": (found(group="working"), ("orders_by_status",)),
    "what is done": (found(group="done"), ("orders_pkey autoindex_orders_1",)),
    "how many wait for what": (
        lambda store: store.order_lists.counts(),
        ("orders_by_status unfinished_orders waiting_orders",),
    ),
    "the causes of failures": (lambda store: store.failures.since(now() - timedelta(days=7)), ("failed_orders",)),
    "the inbox with orders": (looked(kinds=ITEM_KINDS | ORDER_ITEM_KINDS), ("items_by_time", "orders_in_inbox")),
    "the own inbox": (
        looked(kinds=ITEM_KINDS | ORDER_ITEM_KINDS, owner="ann", unseen=True),
        ("items_by_time", "orders_in_inbox"),
    ),
    "what is marked as seen": (
        lambda store: store.inbox.see("ann", ids=[f"failed:{one(store)}", one(store)]),
        ("orders_pkey autoindex_orders_1",),
    ),
    "how much waits for people": (lambda store: store.inbox.pending(), ("pending_items items_by_status",)),
    "a cookie or a token": (lambda store: store.rights.find("0" * 64), ("signins", "tokens_by_digest", "people")),
    "which rights have ended": (lambda store: store.rights.ended([fresh_id()]), ("signins", "api_tokens", "people")),
    "somebody's tokens": (lambda store: store.tokens.list("ann"), ("tokens_of_principal",)),
    "what somebody did": (lambda store: store.audit.find(AuditFilter(who="ann")), ("audit_of_principal",)),
    "whose orders these are": (
        lambda store: store.owners.owners(Thing.ORDER, [one(store)]),
        ("orders_pkey autoindex_orders_1",),
    ),
    "whose order asks": (
        lambda store: store.owners.owners(Thing.ITEM, ["x"]),
        ("approvals_pkey autoindex_approvals_1",),
    ),
    "for whom a grant is": (
        lambda store: store.owners.owners(Thing.GRANT, [fresh_id()]),
        ("grants",),
    ),
    "drafts": (lambda store: store.drafts.read(one(store), "ann"), ("drafts",)),
    "a journal in short": (lambda store: store.parts.stored(one(store), 0), ("journal_parts",)),
    "whose journals have no parts": (lambda store: store.parts.behind(8), ("orders_by_status", "journal_parts")),
    "which schedules are due": (lambda store: store.firing.due(), ("due_schedules", "held_schedule_runs")),
    "which orders of a schedule are unfinished": (
        lambda store: store.database.read(lambda link: unfinished(link, fresh_id())),
        ("open_schedule_runs",),
    ),
    "what schedules have missed": (lambda store: store.schedules.missed(1), ("missed_schedule_runs",)),
    "which orders are not filled in": (lambda store: store.filling.advance(), ("orders_of_agent",)),
}


@pytest.mark.parametrize("name", ASKED)
def test_frequent_queries_use_an_index(seeded: Store, name: str) -> None:
    call, indexes = ASKED[name]
    steps = plans(seeded.database, lambda: call(seeded), by_index=True)
    assert full_scans(steps) == []
    told = "\n".join(steps)
    assert [index for index in indexes if not any(word in told for word in index.split())] == []


def test_days_bound_what_is_read_of_the_audit(seeded: Store) -> None:
    days = AuditFilter(since=now() - timedelta(days=3), until=now() - timedelta(days=2))
    with overheard(seeded.database) as sent:
        seeded.audit.find(days)
    ((statement, _),) = sent
    assert "audit.id >=" in statement and "audit.id <" in statement
    steps = "\n".join(plans(seeded.database, lambda: seeded.audit.find(days), by_index=True))
    assert "SEARCH audit USING INDEX sqlite_autoindex_audit_1 (id>? AND id<?)" in steps or "using audit_pkey" in steps


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
