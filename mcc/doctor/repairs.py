"""This room is for repairs by rule: what a sweep, a nudge or nobody at all should have done, each noted in the audit.

An order that a live drone holds is never touched.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from mcc.contracts.shape import JsonObject
from mcc.dispatch.errors import DispatchUnavailable
from mcc.dispatch.hints import Hints, Told
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.sweep import STEADY_SECONDS, Nudges, SweepLoop, Teller, boot_seconds
from mcc.doctor.chart import Chart
from mcc.doctor.finding import Fix
from mcc.doctor.redis_seen import clear
from mcc.store.errors import StoreError
from mcc.store.examined import DOCTOR
from mcc.store.ports import Store
from mcc.store.values import Swept

PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done, or (`done` False) why it could not be."""

    fix: Fix
    detail: str
    order_id: str | None = None
    done: bool = True

    def told(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Means:
    """What repairs are made with. `redis_url` "": there is no Redis; `canaries`: queues that may be forgotten."""

    store: Store
    redis_url: str
    queues: Sequence[str]
    canaries: Sequence[str] = ()
    seconds: float = 3.0
    pause: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = boot_seconds


def repair(fixes: Collection[Fix], chart: Chart, means: Means) -> list[Repair]:
    """Make these repairs, in an order in which one helps the next; one that fails does not keep the others back."""
    makers: dict[Fix, Callable[[Chart, Means], Iterator[Repair]]] = {
        "locks": _unlock,
        "receipts": _settle,
        "messages": _clear,
        "sweep": _sweep,
        "nudge": _nudge,
    }
    return [one for fix, make in makers.items() if fix in fixes for one in _safely(fix, make, chart, means)]


def _safely(fix: Fix, make: Callable[[Chart, Means], Iterator[Repair]], chart: Chart, means: Means) -> Iterator[Repair]:
    try:
        for made in make(chart, means):
            _note(means.store, made)
            yield made
    except (StoreError, DispatchUnavailable) as problem:
        yield Repair(fix, f"could not be done: {problem}", done=False)


def _note(store: Store, made: Repair) -> None:
    detail: JsonObject = {"did": made.detail}
    store.audit.note(f"doctor.{made.fix}", principal=DOCTOR, order_id=made.order_id, detail=detail)


def _unlock(chart: Chart, means: Means) -> Iterator[Repair]:
    for stale in chart.examined.locks:
        if means.store.mender.unlock(stale):
            detail = f"removed the lock of epoch {stale.epoch} on workspace {stale.workspace_key}"
            yield Repair("locks", detail, stale.order_id)


def _settle(chart: Chart, means: Means) -> Iterator[Repair]:
    for order_id in dict.fromkeys(receipt.order_id for receipt in chart.examined.receipts):
        if count := means.store.mender.settle(order_id):
            yield Repair("receipts", f"settled {count} open receipts", order_id)


def _clear(chart: Chart, means: Means) -> Iterator[Repair]:
    if means.redis_url:
        count = clear(means.redis_url, means.queues, means.canaries, seconds=means.seconds)
        if count:
            yield Repair("messages", f"moved what is no message for drones out of the way: {count}")


def _nudge(chart: Chart, means: Means) -> Iterator[Repair]:
    if not means.redis_url:
        return
    nudger = Nudger(means.redis_url, means.queues, seconds=means.seconds)
    try:
        if count := nudger.round(means.store):
            yield Repair("nudge", f"sent nudges: {count}")
    finally:
        nudger.close()


def _sweep(chart: Chart, means: Means) -> Iterator[Repair]:
    """As any MCC would: leases are declared lost only after our own heartbeats have been steady for a while."""
    nudger = Nudger(means.redis_url, means.queues, seconds=means.seconds) if means.redis_url else None
    hints = Hints(means.redis_url) if means.redis_url else None
    try:
        loop = SweepLoop(means.store, nudger or _NoNudges(), hints or _NoHints(), sweeper=DOCTOR, clock=means.clock)
        yield from _swept(loop.once())
        for _ in range(_rounds(chart)):
            means.pause(PAUSE_SECONDS)
            yield from _swept(loop.once())
    finally:
        if nudger is not None:
            nudger.close()
        if hints is not None:
            hints.close()


def _rounds(chart: Chart) -> int:
    """How many more sweeps it takes until leases may be declared lost; none when no lease has run out unnoticed."""
    overdue = any(drone.state == "live" and not drone.in_time for drone in chart.examined.drones)
    return int(STEADY_SECONDS / PAUSE_SECONDS) + 2 if overdue else 0


def _swept(swept: Swept) -> Iterator[Repair]:
    for incarnation in swept.lost:
        yield Repair("sweep", f"declared incarnation {incarnation} lost")
    for what, order_ids in (
        ("took it back: queued again", swept.requeued),
        ("ended it", swept.ended),
        ("resumed it", swept.resumed),
    ):
        for order_id in order_ids:
            yield Repair("sweep", what, order_id)


class _NoNudges(Nudges):
    def round(self, known: Store) -> int:
        return 0


class _NoHints(Teller):
    def tell(self, told: Iterable[Told]) -> bool:
        return False
