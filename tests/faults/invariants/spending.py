"""Money and obedience: budgets that hold, cancels that stop, receipts that are answered."""

from collections.abc import Iterator

from tests.faults.invariants.evidence import Asked, Evidence, Order, Violation
from tests.faults.invariants.journals import DECIDED

CANCEL_SECONDS = 2.0


def overshoot(evidence: Evidence, order: Order) -> tuple[int, int] | None:
    """(tokens beyond the order's `total_tokens`, tokens of its dearest call), as the model server counted them."""
    limit = ((order.spec.get("limits") or {}) or evidence.run.get("limits") or {}).get("total_tokens")
    calls = evidence.model_calls_of(order.id)
    if limit is None or not calls:
        return None
    return sum(call.tokens for call in calls) - int(limit), max(call.tokens for call in calls)


def within_budget(evidence: Evidence) -> Iterator[Violation]:
    """I10: the whole tree spends its budget and at most one call more; what the record says was spent, was."""
    for order in evidence.orders.values():
        beyond = overshoot(evidence, order)
        if beyond is not None and beyond[0] > beyond[1]:
            yield Violation(
                "I10", order.id, f"it spent {beyond[0]} tokens beyond its budget, its dearest call cost {beyond[1]}"
            )
        yield from _limits_of_counts(evidence, order)
        yield from _usage_is_told(order)


def _limits_of_counts(evidence: Evidence, order: Order) -> Iterator[Violation]:
    limits = order.spec.get("limits") or {}
    effects = len({(effect.call_id, effect.epoch) for effect in evidence.effects_of(order.id)})
    most = limits.get("tool_calls")
    reruns = sum(1 for entry in order.own if entry.kind == "order.claimed")
    if most is not None and effects > int(most) * max(1, reruns):
        yield Violation("I10", order.id, f"{effects} effects under a limit of {most} tool calls")


def _usage_is_told(order: Order) -> Iterator[Violation]:
    """The outcome's usage is the sum of what its entries say."""
    if not order.final or order.derived or order.outcome is None:
        return
    used = [entry.data.get("usage") or {} for entry in order.of_kind("model.replied", "agent.step")]
    for name in ("input_tokens", "output_tokens"):
        told = int((order.outcome.get("usage") or {}).get(name, 0))
        summed = sum(int(one.get(name, 0)) for one in used)
        if told != summed:
            yield Violation("I10", order.id, f"its outcome tells {told} {name}, its entries {summed}")


def last_activity(evidence: Evidence, order_id: str) -> float:
    """When the order last began something that costs or changes anything; 0 for never."""
    began = [call.t for call in evidence.model_calls_of(order_id)]
    return max([*began, *(effect.t for effect in evidence.effects_of(order_id))], default=0.0)


def whole_cancels(evidence: Evidence) -> Iterator[Asked]:
    """The acknowledged cancels of whole orders, the first of each order."""
    seen: set[str] = set()
    for asked in sorted(evidence.asked, key=lambda one: one.t):
        if asked.kind == "cancel" and asked.acknowledged and asked.record_id is None and asked.order_id not in seen:
            seen.add(asked.order_id)
            yield asked


def obeyed(evidence: Evidence) -> Iterator[Violation]:
    """I11: a cancelled order begins nothing after a moment and stays cancelled."""
    allowed = float(evidence.run.get("cancel_seconds", CANCEL_SECONDS))
    for asked in whole_cancels(evidence):
        order = evidence.orders.get(asked.order_id)
        late = last_activity(evidence, asked.order_id) - asked.t
        if late > allowed:
            yield Violation("I11", asked.order_id, f"a call began {late:.2f} s after its cancel was acknowledged")
        if order is not None and order.status != "cancelled":
            yield Violation("I11", asked.order_id, f"its cancel was acknowledged, and it is {order.status}")


def receipts_settled(evidence: Evidence) -> Iterator[Violation]:
    """I11: each receipt that a client has is kept, and tells in the end what came of what was asked."""
    kept = {receipt.id for order in evidence.orders.values() for receipt in order.receipts}
    for asked in evidence.asked:
        if asked.acknowledged and asked.receipt_id is not None and asked.receipt_id not in kept:
            yield Violation("I11", asked.order_id, f"the receipt {asked.receipt_id} of a {asked.kind} is not kept")
    for order in evidence.orders.values():
        applied = {entry.seq for entry in order.of_kind("control.applied", "order.finished", *DECIDED)}
        for receipt in order.receipts:
            if order.final and not receipt.settled:
                yield Violation("I11", order.id, f"the receipt of {receipt.kind} number {receipt.number} is open still")
            if receipt.applied_seq is not None and receipt.applied_seq not in applied:
                place = receipt.applied_seq
                yield Violation("I11", order.id, f"{receipt.kind} number {receipt.number} points at entry {place}")
