"""How long recovery takes, and whether orders that no fault hit had to wait for it."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.faults.invariants.evidence import Entry, Evidence, Fault, Order, Violation
from tests.faults.invariants.spending import last_activity, whole_cancels

HAND_BACK_SECONDS = 3.0
BEYOND_LEASE_SECONDS = 3.0
"""The slowest takeover may take so much longer than a lease."""

SHORT_LEASE_SECONDS, SHORT_LEASE_GRACE = 5.0, 1.0
"""Beside a short lease the sweep and the next claim count for something; half of the takeovers may take that longer."""

ENOUGH = 5
"""Fewer takeovers say nothing of their median."""

DEADLY = ("kill", "term", "stop", "oom", "freeze", "blackhole", "down", "half_open", "reset")
"""Faults after which a drone may rightly be given up."""


def percentile(values: Sequence[float], percent: float) -> float:
    """By nearest rank; NaN of nothing."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]


def takeovers(evidence: Evidence) -> list[float]:
    """Seconds from the last sign of each lost holder (its last entry, or what was done to it) to the next claim."""
    return [
        claimed.at - _last_sign(evidence, order, lost)
        for order in evidence.orders.values()
        for lost, claimed in _followed(order, "order.requeued")
    ]


def hand_backs(evidence: Evidence) -> list[float]:
    """Seconds from each hand-back to the next claim."""
    pairs = (pair for order in evidence.orders.values() for pair in _followed(order, "order.handed_back"))
    return [claimed.at - back.at for back, claimed in pairs]


def _followed(order: Order, kind: str) -> Iterator[tuple[Entry, Entry]]:
    told = [entry for entry in order.own if entry.kind in (kind, "order.claimed", "order.waiting", "order.finished")]
    return ((one, two) for one, two in pairwise(told) if one.kind == kind and two.kind == "order.claimed")


def _last_sign(evidence: Evidence, order: Order, lost: Entry) -> float:
    before = [entry for entry in order.entries if entry.seq < lost.seq]
    hit = [fault.t for fault in _done_to(evidence, str(lost.data.get("lost"))) if fault.t <= lost.at]
    return max([entry.at for entry in before[-1:]] + hit, default=lost.at)


def _done_to(evidence: Evidence, drone: str) -> list[Fault]:
    deadly = (fault for fault in evidence.faults if any(word in fault.fault.lower() for word in DEADLY))
    return [fault for fault in deadly if fault.target in (drone, "*") or drone in fault.target]


def false_takeovers(evidence: Evidence) -> list[Entry]:
    """Requeued orders of a drone to which nothing was done while it held them."""
    found = []
    for order in evidence.orders.values():
        claimed: Entry | None = None
        for entry in order.own:
            if entry.kind == "order.claimed":
                claimed = entry
            elif entry.kind == "order.requeued" and claimed is not None:
                done = _done_to(evidence, str(claimed.data.get("drone")))
                if not any(claimed.at - evidence.lease_seconds <= fault.t <= entry.at for fault in done):
                    found.append(entry)
    return found


def cancel_latencies(evidence: Evidence) -> list[float]:
    """Seconds from each acknowledged cancel to the last call that began after it; 0 when none did."""
    return [max(0.0, last_activity(evidence, asked.order_id) - asked.t) for asked in whole_cancels(evidence)]


def recovered(evidence: Evidence) -> Iterator[Violation]:
    """I14: half of the takeovers within a lease, all within 3 s more; hand-backs within 3 s where
    another drone is there; none without a cause.

    `judge_times` false in `run.json`: not judged. `false_takeovers` there: so many are allowed, missing = not judged.
    """
    if evidence.run.get("judge_times", True):
        yield from _in_time(evidence)
    allowed = evidence.run.get("false_takeovers")
    wrong = false_takeovers(evidence)
    if allowed is not None and len(wrong) > int(allowed):
        yield Violation("I14", wrong[0].order_id, f"{len(wrong)} takeovers from drones to which nothing was done")


def _in_time(evidence: Evidence) -> Iterator[Violation]:
    lease = evidence.lease_seconds
    taken, returned = takeovers(evidence), hand_backs(evidence)
    grace = SHORT_LEASE_GRACE if lease < SHORT_LEASE_SECONDS else 0.0
    if len(taken) >= ENOUGH and percentile(taken, 50) > lease + grace:
        yield Violation("I14", None, f"the median of {len(taken)} takeovers took {percentile(taken, 50):.1f} s")
    if taken and percentile(taken, 99) > lease + BEYOND_LEASE_SECONDS:
        yield Violation("I14", None, f"the slowest 1 % of {len(taken)} takeovers took {percentile(taken, 99):.1f} s")
    if evidence.run.get("drones", 2) > 1 and percentile(returned, 99) > HAND_BACK_SECONDS:
        yield Violation("I14", None, f"of {len(returned)} hand-backs the slowest took {max(returned):.1f} s")


def waits(evidence: Evidence) -> list[float]:
    """Seconds in the queue of first turns that were done at the first attempt."""
    found = []
    for order in evidence.orders.values():
        claims = [entry for entry in order.own if entry.kind == "order.claimed"]
        if len(claims) == 1 and order.session_seq == 1 and not order.derived:
            found.append(claims[0].at - order.created_at)
    return found


def healthy_are_served(evidence: Evidence) -> Iterator[Violation]:
    """I16: the others wait at most twice as long (p95) as without faults, which `baseline_wait_seconds` tells."""
    baseline, waited = evidence.run.get("baseline_wait_seconds"), waits(evidence)
    if baseline is not None and waited and percentile(waited, 95) > 2 * float(baseline):
        yield Violation(
            "I16", None, f"p95 of {len(waited)} waits is {percentile(waited, 95):.2f} s, without faults {baseline} s"
        )
