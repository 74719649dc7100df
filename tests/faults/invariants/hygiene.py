"""What must not be left: processes, locks, swollen memory, secrets."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from mcc.contracts.status import FINAL, OrderStatus
from tests.faults.invariants.evidence import Evidence, Resource, Violation

GROWTH = 1.1
LONG_ENOUGH_SECONDS = 300.0
"""Shorter runs end before a process has reached the size that it keeps."""

LOCK_ONLY_WHILE = "running"


def nothing_left(evidence: Evidence) -> Iterator[Violation]:
    """I12: no process, directory or lock is left, and nothing has grown by more than a tenth."""
    for what in evidence.left_over:
        yield Violation("I12", None, f"left over: {what}")
    for lock in evidence.locks:
        order = evidence.orders.get(lock.order_id)
        if order is not None and not lock.exclusive and OrderStatus(order.status) not in FINAL:
            continue  # Its mark in the line, which outlasts its claims.
        if order is None or order.status != LOCK_ONLY_WHILE or order.epoch != lock.epoch:
            status = order.status if order else "not there"
            yield Violation("I12", lock.order_id, f"it holds the workspace {lock.key} and is {status}")
    for name, samples in by_process(evidence).items():
        yield from _grown(name, samples)


def by_process(evidence: Evidence) -> dict[str, list[Resource]]:
    found: dict[str, list[Resource]] = defaultdict(list)
    for one in sorted(evidence.resources, key=lambda sample: sample.t):
        found[one.name].append(one)
    return found


def _grown(name: str, samples: Sequence[Resource]) -> Iterator[Violation]:
    if samples[-1].t - samples[0].t < LONG_ENOUGH_SECONDS:
        return
    tenth = max(1, len(samples) // 10)
    first, last = samples[tenth : 2 * tenth] or samples[:1], samples[-tenth:]
    for what, before, after in (
        ("resident bytes", median(one.rss_bytes for one in first), median(one.rss_bytes for one in last)),
        ("open files", median(one.fds for one in first), median(one.fds for one in last)),
    ):
        if before and after > before * GROWTH:
            yield Violation("I12", None, f"{name} went from {before:.0f} to {after:.0f} {what}")


def no_secret_told(evidence: Evidence) -> Iterator[Violation]:
    """I13: the canaries of `run.json` (name -> value) stand in no table, log, stream or request."""
    canaries = evidence.run.get("canaries") or {}
    for name, value in canaries.items():
        for place, text in evidence.texts.items():
            if str(value) in text:
                yield Violation("I13", None, f"the secret {name} stands in {place}")
