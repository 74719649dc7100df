"""Drones, orders and snapshots for the doctor's checks, healthy unless a test changes them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from mcc.contracts.status import OrderStatus
from mcc.findings.finding import Finding
from mcc.findings.snapshot import CeleryNode, OpenCalls, ProcessState, RunningTask, Snapshot, Thresholds
from mcc.store.rows.values import Examined, LateReceipt, SeenDrone, SeenOrder, StaleLock

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def order_id(number: int = 1) -> str:
    return str(UUID(int=number))


def drone(name: str = "drone-1", heard: float = 0.5, **fields: object) -> SeenDrone:
    """A drone that is up, with its last heartbeat `heard` seconds ago."""
    said: dict[str, object] = {
        "incarnation": f"incarnation of {name}",
        "name": name,
        "host": "here",
        "pid": 11,
        "queues": ("default",),
        "slots": 4,
        "active": 1,
        "draining": False,
        "state": "live",
        "in_time": True,
        "started_at": ago(1_000),
        "heartbeat_at": ago(heard),
    }
    return SeenDrone(**{**said, **fields})  # type: ignore[arg-type]


def order(number: int = 1, *, moved: float = 100, spoke: float = 1, **fields: object) -> SeenOrder:
    """An order that has run on drone-1 for `moved` seconds, with its last entry `spoke` seconds ago."""
    said: dict[str, object] = {
        "id": order_id(number),
        "session_id": "session",
        "queue": "default",
        "priority": 5,
        "status": OrderStatus.RUNNING,
        "reason": None,
        "epoch": 1,
        "incarnation": "incarnation of drone-1",
        "last_seq": 9,
        "not_before": None,
        "expires_at": None,
        "waits_until": None,
        "moved_at": ago(moved),
        "last_entry_at": ago(spoke),
        "claimable": False,
        "blocked_by": None,
    }
    return SeenOrder(**{**said, **fields})  # type: ignore[arg-type]


def queued(number: int = 1, *, moved: float = 100, **fields: object) -> SeenOrder:
    seen = order(number, moved=moved, status=OrderStatus.QUEUED, incarnation=None, claimable=True)
    return replace(seen, **fields)  # type: ignore[arg-type]


def waiting(number: int = 1, *, reason: str = "paused", **fields: object) -> SeenOrder:
    seen = order(number, status=OrderStatus.WAITING, incarnation=None, reason=reason, waits_until=ago(-3_600))
    return replace(seen, **fields)  # type: ignore[arg-type]


def node(name: str = "drone-1@drone", pid: int | None = 11, tasks: Sequence[RunningTask] = ()) -> CeleryNode:
    return CeleryNode(name, pid, tasks, ("default", f"canary.{name}"))


def works_on(number: int = 1, seconds: float = 60) -> RunningTask:
    return RunningTask(order_id(number), seconds)


def snapshot(
    *,
    drones: Sequence[SeenDrone] = (),
    orders: Sequence[SeenOrder] = (),
    nodes: Sequence[CeleryNode] | None = (),
    known: Sequence[SeenOrder] | None = None,
    open_calls: Mapping[str, OpenCalls] | None = None,
    processes: Mapping[str, ProcessState] | None = None,
    thresholds: Thresholds | None = None,
    locks: Sequence[StaleLock] = (),
    receipts: Sequence[LateReceipt] = (),
    swept: float | None = 0.5,
    whole: bool = True,
) -> Snapshot:
    """A snapshot. `known` None: the same as `orders`. `processes`: by the names of drones."""
    waiting_ids = {one.id for one in orders if one.status is OrderStatus.WAITING}
    return Snapshot(
        examined=Examined(
            NOW,
            drones,
            orders,
            whole,
            Counter(one.status for one in orders),
            Counter(one.queue for one in orders if one.status is OrderStatus.QUEUED),
            Counter(one.blocked_by for one in orders if one.blocked_by in waiting_ids),
            locks,
            receipts,
            None if swept is None else ago(swept),
        ),
        thresholds=thresholds or Thresholds(),
        nodes=nodes,
        known={one.id: one for one in (orders if known is None else known)},
        open_calls=open_calls or {},
        processes={f"incarnation of {name}": state for name, state in (processes or {}).items()},
    )


def states(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    return [(finding.what, finding.state) for finding in findings]
