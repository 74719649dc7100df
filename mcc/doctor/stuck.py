"""This room is for orders that are in good hands, or could be, and do not get on."""

from collections.abc import Iterator, Sequence

from mcc.contracts.limits import Limits
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.doctor.chart import Chart, OpenCall, Silence
from mcc.doctor.finding import Finding
from mcc.doctor.words import FIX, kill, seconds
from mcc.store.examined import SeenDrone, SeenOrder

SLACK_SECONDS = 30.0
"""A call may be this late before anybody worries: its time limit works from within the drone."""

ANSWERED = frozenset({WaitingReason.APPROVAL.value, WaitingReason.QUESTION.value})


def stuck(chart: Chart) -> Iterator[Finding]:
    yield from _silent(chart)
    yield from _unclaimed(chart)
    yield from _endless(chart)
    yield from _blocked(chart)


def allowed_seconds(limits: Limits, silence: Silence) -> float:
    """So long an order may be silent: as long as its slowest open call may take, and some slack."""
    if not silence.calls:
        return max(limits.model_call_seconds, limits.tool_seconds) + SLACK_SECONDS
    return max(_allowed(limits, call) for call in silence.calls) + SLACK_SECONDS


def _allowed(limits: Limits, call: OpenCall) -> float:
    return call.waits_seconds + (limits.model_call_seconds if call.kind == "model" else limits.tool_seconds)


def _silent(chart: Chart) -> Iterator[Finding]:
    for order in chart.examined.orders:
        holder = chart.drone(order.incarnation)
        if order.status is not OrderStatus.RUNNING or holder is None or not holder.up:
            continue
        silence = chart.silences.get(order.id, Silence())
        allowed = chart.patience.stuck_seconds or allowed_seconds(order.limits, silence)
        quiet = chart.ago(order.last_entry_at)
        if quiet > allowed and not silence.paused:
            yield _stuck(chart, order, holder, silence, f"{seconds(quiet)} (expected: at most {seconds(allowed)})")


def _stuck(chart: Chart, order: SeenOrder, holder: SeenDrone, silence: Silence, quiet: str) -> Finding:
    detail = (
        f"order {order.id} runs on {holder.name}, and nothing has happened for {quiet}: {_waits_for(chart, silence)}"
    )
    advice = f"mcc orders cancel {order.id}; if that does nothing, {kill(holder, 'KILL')}, and another drone goes on"
    return Finding("stuck", "broken", detail, advice, order.id, holder.name)


def _waits_for(chart: Chart, silence: Silence) -> str:
    if not silence.calls:
        return "no call is open"
    newest = silence.calls[-1]
    whose = f" of {newest.agent}" if newest.agent else ""
    return f"the {newest.kind} call {newest.name}{whose} has been open for {seconds(chart.ago(newest.since))}"


def _unclaimed(chart: Chart) -> Iterator[Finding]:
    queued = [order for order in chart.examined.orders if order.status is OrderStatus.QUEUED]
    for queue in dict.fromkeys(order.queue for order in queued):
        serving = [one for one in chart.examined.drones if one.up and not one.draining and queue in one.queues]
        late = [one for one in queued if one.queue == queue and one.claimable and _for_long(chart, one)]
        if not serving:
            yield _unserved(chart, queue, [order for order in queued if order.queue == queue])
        elif (free := sum(max(drone.slots - drone.active, 0) for drone in serving)) > 0:
            yield from (_overlooked(chart, order, free) for order in late)
    yield from (_unreadable(order) for order in queued if _is_unreadable(chart, order))


def _for_long(chart: Chart, order: SeenOrder) -> bool:
    since = max(order.moved_at, order.not_before or order.moved_at)
    return chart.ago(since) > chart.patience.queued_seconds


def _unserved(chart: Chart, queue: str, orders: Sequence[SeenOrder]) -> Finding:
    oldest = min(orders, key=lambda order: order.moved_at)
    waited = seconds(chart.ago(oldest.moved_at))
    detail = f"no live drone serves queue {queue}: {len(orders)} queued, the first for {waited} ({oldest.id})"
    advice = f"start one: drone work --queues {queue}"
    return Finding("queue", "warning", detail, advice, oldest.id)


def _overlooked(chart: Chart, order: SeenOrder, free: int) -> Finding:
    waited = seconds(chart.ago(order.moved_at))
    detail = (
        f"order {order.id} has been queued for {waited} although drones of queue {order.queue} have {free} free slots"
    )
    advice = f"{FIX} nudges them; one that lost several drones waits for a drone that holds nothing else"
    return Finding("overlooked", "warning", detail, advice, order.id, fix="nudge")


def _is_unreadable(chart: Chart, order: SeenOrder) -> bool:
    """Nothing that the store tells keeps it from being claimed, and yet it cannot be: its journal has other shapes."""
    due = order.not_before is None or chart.ago(order.not_before) >= 0
    fresh = order.expires_at is None or chart.ago(order.expires_at) < 0
    return not order.claimable and order.blocked_by is None and due and fresh


def _unreadable(order: SeenOrder) -> Finding:
    detail = f"order {order.id} is queued, and its journal is of a version that this one does not know"
    return Finding("stuck", "warning", detail, "start a drone of the version that took it in", order.id)


def _endless(chart: Chart) -> Iterator[Finding]:
    for order in chart.examined.orders:
        if order.status is OrderStatus.WAITING and order.expires_at is None and order.waits_until is None:
            detail = f"order {order.id} waits ({order.reason}) without an end"
            yield Finding("stuck", "broken", detail, _unblock(order), order.id)


def _blocked(chart: Chart) -> Iterator[Finding]:
    heads = {order.id: order for order in chart.examined.orders if order.status is OrderStatus.WAITING}
    behind = [order.blocked_by for order in chart.examined.orders if order.blocked_by in heads]
    for order_id in dict.fromkeys(filter(None, behind)):
        head = heads[order_id]
        until = min((end for end in (head.expires_at, head.waits_until) if end), default=None)
        ends = f", until {until:%Y-%m-%d %H:%M} UTC at the latest" if until else ""
        held_up = behind.count(order_id)
        detail = f"order {head.id} waits ({head.reason}{ends}) and keeps later ones of its session back: {held_up}"
        yield Finding("blocked", "warning", detail, _unblock(head), head.id)


def _unblock(order: SeenOrder) -> str:
    first = "answer it" if order.reason in ANSWERED else f"mcc orders resume {order.id}"
    return f"{first}, or mcc orders cancel {order.id}"
