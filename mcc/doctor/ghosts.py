"""This room is for ghosts: orders that nobody has although they run, and what a sweep should have seen to."""

from collections.abc import Iterator

from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.doctor.chart import Chart
from mcc.doctor.finding import Finding
from mcc.doctor.words import FIX, seconds, who
from mcc.store.examined import SeenOrder

UNSWEPT_SECONDS = 10.0
"""Every MCC and every drone beats twice a second."""

TIMED = frozenset(
    {
        WaitingReason.NOT_BEFORE.value,
        WaitingReason.RATE_LIMIT.value,
        WaitingReason.DISK.value,
        WaitingReason.MEMORY.value,
    }
)
"""What goes on by itself when its time has come."""


def ghosts(chart: Chart) -> Iterator[Finding]:
    for order in chart.examined.orders:
        if (finding := _of_order(chart, order)) is not None:
            yield finding
    yield from _strange_nodes(chart)
    if (finding := _unswept(chart)) is not None:
        yield finding


def _of_order(chart: Chart, order: SeenOrder) -> Finding | None:
    if order.status is OrderStatus.RUNNING:
        return _orphan(chart, order)
    return _expired(chart, order) or _overdue(chart, order)


def _orphan(chart: Chart, order: SeenOrder) -> Finding | None:
    lost = _lost(chart, order)
    if lost is None:
        return None
    advice = f"a sweep takes it back, and none has: see that an MCC or a drone runs, or {FIX}"
    return Finding("ghost", "broken", f"order {order.id} runs under {lost}", advice, order.id, fix="sweep")


def _lost(chart: Chart, order: SeenOrder) -> str | None:
    """How the holder got lost, when that was so long ago that a sweep must have seen it."""
    holder, grace = chart.drone(order.incarnation), chart.patience.grace_seconds
    if chart.ago(order.moved_at) <= grace:
        return None
    if holder is None:
        return f"{order.incarnation}, which is no drone that the database knows"
    heard = chart.ago(holder.heartbeat_at)
    if holder.up or heard <= grace:
        return None
    if holder.state == "left":
        return f"{who(holder)}, which left {seconds(heard)} ago"
    if heard <= chart.patience.lease_seconds + grace:
        return None
    how = "whose lease ran out" if holder.state == "live" else "which was declared lost"
    return f"{who(holder)}, {how}; it was last heard of {seconds(heard)} ago"


def _expired(chart: Chart, order: SeenOrder) -> Finding | None:
    ends = [order.expires_at, order.waits_until if order.status is OrderStatus.WAITING else None]
    late = [chart.ago(end) for end in ends if end is not None]
    if not late or max(late) <= chart.patience.grace_seconds:
        return None
    detail = f"order {order.id} is {order.status.value}, and expired {seconds(max(late))} ago"
    return Finding("expired", "broken", detail, f"a sweep ends it, and none has: {FIX}", order.id, fix="sweep")


def _overdue(chart: Chart, order: SeenOrder) -> Finding | None:
    if order.status is not OrderStatus.WAITING or order.reason not in TIMED or order.not_before is None:
        return None
    late = chart.ago(order.not_before)
    if late <= chart.patience.grace_seconds:
        return None
    detail = f"order {order.id} waits ({order.reason}) although its time came {seconds(late)} ago"
    return Finding("overdue", "broken", detail, f"a sweep resumes it, and none has: {FIX}", order.id, fix="sweep")


def _strange_nodes(chart: Chart) -> Iterator[Finding]:
    for node in chart.nodes or ():
        if not chart.processes(node):
            pid = f" (pid {node.pid})" if node.pid is not None else ""
            detail = f"Celery knows {node.name}{pid}, and this database knows no such drone"
            advice = "it still starts, or uses another database: see MCC_DATABASE_URL where it runs"
            yield Finding("ghost", "warning", detail, advice, drone=node.name)


def _unswept(chart: Chart) -> Finding | None:
    swept = chart.examined.swept_at
    if swept is None or not chart.examined.orders or chart.ago(swept) <= UNSWEPT_SECONDS:
        return None
    detail = f"nobody has swept for {seconds(chart.ago(swept))}: lost drones and times that come are noticed by nobody"
    return Finding("sweep", "warning", detail, "start an MCC or a drone: mcc up, mcc serve, or drone work")
