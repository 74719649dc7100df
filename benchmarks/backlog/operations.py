"""The operations of the service, a drone and the command line on a store that holds a backlog."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from statistics import median

from mcc.contracts.callers import Actor
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus
from mcc.doctor.examination import judge
from mcc.feed.statuses import StatusStream
from mcc.findings.snapshot import Thresholds, take_snapshot
from mcc.store.store import Offload, Store
from mcc.store.upkeep.packing import Packing
from mcc.store.upkeep.retention import Cleared, Retention
from mcc.testing.hand_drone import HandDrone, HeldOrder

Work = Callable[[], object]
PAGE, NUDGED, CASES, BEST_OF = 50, 200, 7, 5


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation with several `cases`, which run `BEST_OF` times each.

    `once`: the operation changes the database, so each case runs only once.
    """

    name: str
    cases: Sequence[Work]
    once: bool = False


def milliseconds(operation: Operation) -> float:
    """The median over the cases of their fastest runs."""
    return median(_best(case, 1 if operation.once else BEST_OF) for case in operation.cases)


def _best(case: Work, times: int) -> float:
    durations = []
    for _ in range(times):
        begun = time.perf_counter()
        case()
        durations.append((time.perf_counter() - begun) * 1_000)
    return min(durations)


@dataclass
class Backlog:
    """A seeded store and its operations."""

    store: Store
    drone: HandDrone = field(init=False)
    held: list[HeldOrder] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.drone = HandDrone(self.store, name="drone-of-the-benchmark")

    def operations(self) -> Iterator[Operation]:
        yield from self._placing()
        yield from self._claiming()
        yield from self._lists()
        yield from self._one_order()
        yield from self._maintenance()

    def _placing(self) -> Iterator[Operation]:
        yield Operation("submit", [self._submit] * CASES * 3, once=True)
        yield Operation("submit with a key", [lambda: self._submit(fresh_id())] * CASES * 3, once=True)

    def _submit(self, key: str | None = None) -> str:
        new = NewOrder(prompt="Do it.", labels=("nightly",))
        return self.store.orders.place(new, by=Actor("operator"), idempotency_key=key).order.id

    def _claiming(self) -> Iterator[Operation]:
        claimable = [one.order_id for one in self.store.claims.claimable(["default"], CASES * 3)]
        yield Operation("poll: what can be claimed", [lambda: self.store.claims.claimable(["default"], 20)] * CASES)
        yield Operation(
            "claim", [lambda one=one: self.held.append(self.drone.claim(one)) for one in claimable], once=True
        )
        yield Operation("first entries", [lambda at=at: self.held[at].start() for at in range(CASES * 3)], once=True)
        yield Operation("end", [lambda at=at: self.held[at].finish() for at in range(CASES * 3)], once=True)

    def _lists(self) -> Iterator[Operation]:
        orders = self.store.orders
        yield Operation("list: newest", [lambda: orders.list(limit=PAGE)] * CASES)
        for status in ("queued", "waiting", "failed", "succeeded"):
            wanted = OrderStatus(status)
            yield Operation(f"list: {status}", [lambda wanted=wanted: orders.list(status=wanted, limit=PAGE)] * CASES)
            middle = self._middle(wanted)
            page = [lambda wanted=wanted, middle=middle: orders.list(status=wanted, cursor=middle, limit=PAGE)] * CASES
            yield Operation(f"list: {status}, deep page", page)
        for label in ("nightly", "rare", "batch-7"):
            yield Operation(f"list: label {label}", [lambda label=label: orders.list(label=label, limit=PAGE)] * CASES)
        both = [lambda: orders.list(label="nightly", status=OrderStatus.CANCELLED, limit=PAGE)] * CASES
        yield Operation("list: label nightly and cancelled", both)
        some = orders.list(status=OrderStatus.SUCCEEDED, cursor=self._middle(OrderStatus.SUCCEEDED), limit=CASES).items
        by_session = [lambda one=one: orders.list(session_id=one.session_id, limit=PAGE) for one in some]
        yield Operation("list: session", by_session)
        yield Operation(
            "search: beginning of an id", [lambda one=one: orders.list(part=one.id[:13], limit=6) for one in some]
        )
        yield Operation(
            "search: end of an id", [lambda one=one: orders.list(part=one.id[-8:], limit=6) for one in some]
        )
        yield Operation("sessions", [lambda: self.store.sessions.list(limit=PAGE)] * CASES)
        yield Operation("inbox: pending", [lambda: self.store.inbox.list("pending", limit=PAGE)] * CASES)
        cursor = self.store.inbox.list(limit=10).next_cursor
        yield Operation("inbox: next page", [lambda: self.store.inbox.list(cursor=cursor, limit=PAGE)] * CASES)
        kinds = [lambda: self.store.inbox.list(kinds=("question",), limit=PAGE)] * CASES
        yield Operation("inbox: questions", kinds)

    def _middle(self, status: OrderStatus) -> str | None:
        """A cursor in the middle, by age, between the oldest and the newest order of this status."""
        first, last = (self._edge(status, which) for which in ("min", "max"))
        if first is None or last is None:
            return None
        middle = (int(first[:8] + first[9:13], 16) + int(last[:8] + last[9:13], 16)) // 2
        return f"{middle >> 16:08x}-{middle & 0xFFFF:04x}-7000-8000-000000000000"

    def _edge(self, status: OrderStatus, which: str) -> str | None:
        statement = f"SELECT {which}(order_id) FROM order_state WHERE status = '{status.value}'"
        return self.store.database.read(lambda connection: connection.exec_driver_sql(statement).scalar())

    def _one_order(self) -> Iterator[Operation]:
        store = self.store
        ended = store.orders.list(status=OrderStatus.SUCCEEDED, cursor=self._middle(OrderStatus.SUCCEEDED), limit=CASES)
        queued = store.orders.list(status=OrderStatus.QUEUED, cursor=self._middle(OrderStatus.QUEUED), limit=CASES)
        yield Operation("order: ended", [lambda one=one: store.orders.get(one.id) for one in ended.items])
        yield Operation("order: queued", [lambda one=one: store.orders.get(one.id) for one in queued.items])
        yield Operation("record", [lambda one=one: store.orders.record(one.id) for one in ended.items])
        yield Operation("events: all", [lambda one=one: store.journal.read(one.id) for one in ended.items])
        yield Operation("events: newest", [lambda one=one: store.journal.read(one.id, after=5) for one in ended.items])
        yield Operation(
            "context of a turn", [lambda one=one: store.sessions.context(one, characters=9_000) for one in ended.items]
        )

    def _maintenance(self) -> Iterator[Operation]:
        store, offload = self.store, Offload(1, "bench")
        yield Operation("sweep", [lambda: store.sweeper.sweep(may_expire=True)] * CASES)
        yield Operation("nudges: claimable orders", [lambda: store.claims.claimable(["default"], NUDGED)] * CASES)
        stream = StatusStream(store, offload, lambda: True, 2.0)
        yield Operation("status stream: first response", [stream._snapshot] * CASES)
        yield Operation("counts", [store.orders.counts] * CASES)
        yield Operation("doctor: orders and drones", [lambda: judge(take_snapshot(store, None, Thresholds()))] * 3)
        old = now() - timedelta(days=40)
        yield Operation(
            "retention: a round with nothing due",
            [lambda: sum(Retention(store.database).clear(old), Cleared())] * 3,
            once=True,
        )
        yield Operation("retention: preview (doctor)", [lambda: store.retention.look(old, most=50)] * 3)
        due = now() - timedelta(days=1)
        packed = Packing(store.database).pack(due)
        yield Operation("pack an order", [lambda: next(packed)] * CASES, once=True)
        pruned = Retention(store.database).clear(due)
        yield Operation("prune an order", [lambda: list(islice(pruned, 2))] * CASES, once=True)
