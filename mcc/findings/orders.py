"""Findings about orders: held by no live drone, overdue, stuck, or left in the queue."""

from collections.abc import Iterator, Sequence

from mcc.contracts.limits import Limits
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.findings.finding import FIX_COMMAND, Finding, duration, kill, process_of
from mcc.findings.snapshot import OpenCalls, Snapshot
from mcc.store.rows.values import SeenOrder

TIMED = frozenset(
    {
        WaitingReason.NOT_BEFORE.value,
        WaitingReason.RATE_LIMIT.value,
        WaitingReason.PROVIDER.value,
        WaitingReason.DISK.value,
        WaitingReason.MEMORY.value,
        WaitingReason.FUNCTION.value,
        WaitingReason.DELIVERY.value,
    }
)
"""Waiting reasons that end at a set time."""

ANSWERED = frozenset({WaitingReason.APPROVAL.value, WaitingReason.QUESTION.value})
"""Waiting reasons that end with a person's answer."""

STREAMED_SECONDS = 900.0
"""How long a streamed reply may take. It has no time limit of its own, and reaches the journal only when it is
complete; few take longer."""

SLACK_SECONDS = 30.0
"""How late a call's time limit, which the drone enforces, may take effect."""


def ghosts(snapshot: Snapshot) -> Iterator[Finding]:
    """Orders that a sweep should have taken back, ended or resumed."""
    for order in snapshot.examined.orders:
        if order.status is not OrderStatus.RUNNING:
            if late := _expired(snapshot, order) or _overdue(snapshot, order):
                yield late
        elif lost := _lost(snapshot, order):
            advice = f"a sweep takes it back, and none has: see that an MCC or a drone runs, or {FIX_COMMAND}"
            yield Finding("ghost", "broken", f"order {order.id} runs under {lost}", advice, order.id, fix="sweep")


def _lost(snapshot: Snapshot, order: SeenOrder) -> str | None:
    """How the order's holder was lost, where a sweep should have noticed by now; else None."""
    holder, grace = snapshot.drone(order.incarnation), snapshot.thresholds.grace_seconds
    if snapshot.age(order.moved_at) <= grace:
        return None
    if holder is None:
        return f"{order.incarnation}, which is no drone that the database knows"
    heard = snapshot.age(holder.heartbeat_at)
    if holder.up or heard <= grace:
        return None
    if holder.state == "left":
        return f"{process_of(holder)}, which left {duration(heard)} ago"
    if heard <= snapshot.thresholds.lost_seconds:
        return None
    how = "whose lease ran out" if holder.state == "live" else "which was declared lost"
    return f"{process_of(holder)}, {how}; it was last heard of {duration(heard)} ago"


def _expired(snapshot: Snapshot, order: SeenOrder) -> Finding | None:
    ends = [order.expires_at, order.waits_until if order.status is OrderStatus.WAITING else None]
    late = [snapshot.age(end) for end in ends if end is not None]
    if not late or max(late) <= snapshot.thresholds.grace_seconds:
        return None
    detail = f"order {order.id} is {order.status.value}, and expired {duration(max(late))} ago"
    return Finding("expired", "broken", detail, f"a sweep ends it, and none has: {FIX_COMMAND}", order.id, fix="sweep")


def _overdue(snapshot: Snapshot, order: SeenOrder) -> Finding | None:
    if order.status is not OrderStatus.WAITING or order.reason not in TIMED or order.not_before is None:
        return None
    late = snapshot.age(order.not_before)
    if late <= snapshot.thresholds.grace_seconds:
        return None
    detail = f"order {order.id} waits ({order.reason}) although its time came {duration(late)} ago"
    advice = f"a sweep resumes it, and none has: {FIX_COMMAND}"
    return Finding("overdue", "broken", detail, advice, order.id, fix="sweep")


def stuck(snapshot: Snapshot) -> Iterator[Finding]:
    """Orders that make no progress although no drone was lost."""
    yield from _silent(snapshot)
    yield from _unclaimed(snapshot)
    yield from _endless(snapshot)
    yield from _blocked(snapshot)


def allowed_seconds(limits: Limits, waiting: OpenCalls) -> float:
    """For how long an order may write no entry: the time that its slowest open call may take, plus `SLACK_SECONDS`."""
    asking = min(limits.wall_seconds, max(limits.model_call_seconds, STREAMED_SECONDS))
    if not waiting.calls:
        return max(asking, limits.tool_seconds) + SLACK_SECONDS
    longest = max(
        call.waits_seconds + (asking if call.kind == "model" else limits.tool_seconds) for call in waiting.calls
    )
    return longest + SLACK_SECONDS


def _silent(snapshot: Snapshot) -> Iterator[Finding]:
    for order in snapshot.examined.orders:
        holder = snapshot.drone(order.incarnation)
        if order.status is not OrderStatus.RUNNING or holder is None or not holder.up:
            continue
        waiting = snapshot.open_calls.get(order.id, OpenCalls())
        allowed = snapshot.thresholds.stuck_seconds or allowed_seconds(order.limits, waiting)
        quiet = snapshot.age(order.last_entry_at)
        if quiet <= allowed or waiting.paused:
            continue
        detail = (
            f"order {order.id} runs on {holder.name}, and nothing has happened for {duration(quiet)} "
            f"(expected: at most {duration(allowed)}): {_waits_for(snapshot, waiting)}"
        )
        stop = f"mcc orders cancel {order.id}; if that does nothing, {kill(holder, 'KILL')}, and another drone goes on"
        yield Finding("stuck", "broken", detail, stop, order.id, holder.name)


def _waits_for(snapshot: Snapshot, waiting: OpenCalls) -> str:
    if not waiting.calls:
        return "no call is open"
    newest = waiting.calls[-1]
    whose = f" of {newest.agent}" if newest.agent else ""
    return f"the {newest.kind} call {newest.name}{whose} has been open for {duration(snapshot.age(newest.since))}"


def _unclaimed(snapshot: Snapshot) -> Iterator[Finding]:
    queued = [order for order in snapshot.examined.orders if order.status is OrderStatus.QUEUED]
    for queue, depth in snapshot.examined.queued.items():
        serving = [
            candidate
            for candidate in snapshot.examined.drones
            if candidate.up and not candidate.draining and queue in candidate.queues
        ]
        late = [
            candidate
            for candidate in queued
            if candidate.queue == queue and candidate.claimable and _waited_long(snapshot, candidate)
        ]
        if not serving:
            yield from _unserved(snapshot, queue, depth, [order for order in queued if order.queue == queue])
        elif (free := sum(max(drone.slots - drone.active, 0) for drone in serving)) > 0:
            yield from (_overlooked(snapshot, order, free) for order in late)
    for order in queued:
        if _is_unreadable(snapshot, order):
            detail = f"order {order.id} is queued, and its journal is of a version that this one does not know"
            yield Finding("stuck", "warning", detail, "start a drone of the version that took it in", order.id)


def _waited_long(snapshot: Snapshot, order: SeenOrder) -> bool:
    since = max(order.moved_at, order.not_before or order.moved_at)
    return snapshot.age(since) > snapshot.thresholds.queued_seconds


def _unserved(snapshot: Snapshot, queue: str, depth: int, orders: Sequence[SeenOrder]) -> Iterator[Finding]:
    """A finding about a queue without drones. `orders`: those seen in it, none where all were claimed meanwhile."""
    if oldest := min(orders, key=lambda order: order.moved_at, default=None):
        waited = duration(snapshot.age(oldest.moved_at))
        detail = f"no live drone serves queue {queue}: {depth:,} queued, the first for {waited} ({oldest.id})"
        yield Finding("queue", "warning", detail, f"start one: drone work --queues {queue}", oldest.id)


def _overlooked(snapshot: Snapshot, order: SeenOrder, free: int) -> Finding:
    waited = duration(snapshot.age(order.moved_at))
    detail = (
        f"order {order.id} has been queued for {waited} although drones of queue {order.queue} have {free} free slots"
    )
    advice = f"{FIX_COMMAND} nudges them; one that lost several drones waits for a drone that holds nothing else"
    return Finding("overlooked", "warning", detail, advice, order.id, fix="nudge")


def _is_unreadable(snapshot: Snapshot, order: SeenOrder) -> bool:
    """Whether the order's journal is of another version. That is so where it cannot be claimed although it is due, has
    not expired and is not blocked."""
    due = order.not_before is None or snapshot.age(order.not_before) >= 0
    fresh = order.expires_at is None or snapshot.age(order.expires_at) < 0
    return not order.claimable and order.blocked_by is None and due and fresh


def _endless(snapshot: Snapshot) -> Iterator[Finding]:
    for order in snapshot.examined.orders:
        if order.status is OrderStatus.WAITING and order.expires_at is None and order.waits_until is None:
            detail = f"order {order.id} waits ({order.reason}) without an end"
            yield Finding("stuck", "broken", detail, _unblock(order), order.id)


def _blocked(snapshot: Snapshot) -> Iterator[Finding]:
    heads = {order.id: order for order in snapshot.examined.orders if order.status is OrderStatus.WAITING}
    for order_id, held_up in snapshot.examined.held_up.items():
        if (head := heads.get(order_id)) is None:
            continue
        until = min((end for end in (head.expires_at, head.waits_until) if end), default=None)
        ends = f", until {until:%Y-%m-%d %H:%M} UTC at the latest" if until else ""
        detail = f"order {head.id} waits ({head.reason}{ends}) and keeps later ones of its session back: {held_up}"
        yield Finding("blocked", "warning", detail, _unblock(head), head.id)


def _unblock(order: SeenOrder) -> str:
    first = "answer it" if order.reason in ANSWERED else f"mcc orders resume {order.id}"
    return f"{first}, or mcc orders cancel {order.id}"
