"""The repairs of `mcc doctor --fix`, each noted in the audit log; orders held by a live drone are never touched."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass

from mcc.contracts.callers import Actor
from mcc.contracts.shape import JsonObject
from mcc.dispatch.broker import DispatchUnavailable, RedisAt
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import Publisher
from mcc.dispatch.sweep import STEADY_SECONDS, SweepLoop, boot_seconds
from mcc.doctor.redis import clear
from mcc.findings.finding import Fix
from mcc.findings.snapshot import Snapshot
from mcc.store.database.errors import StoreError
from mcc.store.rows.values import DOCTOR, Swept
from mcc.store.store import Store

PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair did; or where `done` is False, why it could not be made."""

    fix: Fix
    detail: str
    order_id: str | None = None
    done: bool = True

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Broker:
    """The Redis with its declared `queues`. `canaries`: abandoned queues of single drones."""

    at: RedisAt
    queues: Sequence[str]
    canaries: Sequence[str] = ()
    seconds: float = 3.0

    def nudger(self) -> Nudger:
        return Nudger(self.at, self.queues, seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class RepairContext:
    """What repairs work on. `broker` None: there is no usable Redis."""

    store: Store
    broker: Broker | None
    pause: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = boot_seconds


Maker = Callable[[Snapshot, RepairContext], Iterator[Repair]]


def repair(fixes: Collection[Fix], snapshot: Snapshot, context: RepairContext) -> list[Repair]:
    """Make the repairs `fixes`, in the order in which one helps the next. Answers failed ones too."""
    makers: dict[Fix, Maker] = {
        # Locks go first, so that an order that is swept or nudged later finds its workspace free.
        "locks": _unlock,
        "receipts": _settle,
        "messages": _clear,
        "sweep": _sweep,
        "nudge": _nudge,
    }
    return [made for fix, make in makers.items() if fix in fixes for made in _safely(fix, make, snapshot, context)]


def _safely(fix: Fix, make: Maker, snapshot: Snapshot, context: RepairContext) -> Iterator[Repair]:
    try:
        for made in make(snapshot, context):
            detail: JsonObject = {"did": made.detail}
            context.store.audit.note(f"doctor.{made.fix}", by=Actor(DOCTOR), order_id=made.order_id, detail=detail)
            yield made
    except (StoreError, DispatchUnavailable) as problem:
        yield Repair(fix, f"could not be done: {problem}", done=False)


def _unlock(snapshot: Snapshot, context: RepairContext) -> Iterator[Repair]:
    for stale in snapshot.examined.locks:
        if context.store.mender.unlock(stale):
            detail = f"removed the lock of epoch {stale.epoch} on workspace {stale.workspace_key}"
            yield Repair("locks", detail, stale.order_id)


def _settle(snapshot: Snapshot, context: RepairContext) -> Iterator[Repair]:
    for order_id in dict.fromkeys(receipt.order_id for receipt in snapshot.examined.receipts):
        if count := context.store.mender.settle(order_id):
            yield Repair("receipts", f"settled {count} open receipts", order_id)


def _clear(snapshot: Snapshot, context: RepairContext) -> Iterator[Repair]:
    broker = context.broker
    if broker and (count := clear(broker.at, broker.queues, broker.canaries, seconds=broker.seconds)):
        yield Repair("messages", f"moved what is no message for drones out of the way: {count}")


def _nudge(snapshot: Snapshot, context: RepairContext) -> Iterator[Repair]:
    if context.broker is not None:
        with closing(context.broker.nudger()) as nudger:
            if count := nudger.nudge_claimable(context.store):
                yield Repair("nudge", f"sent nudges: {count}")


def _sweep(snapshot: Snapshot, context: RepairContext) -> Iterator[Repair]:
    """Sweep as a service does. A lease counts as lost only after this process ran steadily for `STEADY_SECONDS`."""
    with ExitStack() as stack:
        nudger = publisher = None
        if context.broker is not None:
            nudger = stack.enter_context(closing(context.broker.nudger()))
            publisher = stack.enter_context(closing(Publisher(context.broker.at)))
        loop = SweepLoop(context.store, nudger, publisher, sweeper=DOCTOR, clock=context.clock)
        yield from _swept(loop.once())
        # The first round after `STEADY_SECONDS` declares leases lost that ran out while nobody swept.
        overdue = any(drone.state == "live" and not drone.in_time for drone in snapshot.examined.drones)
        for _ in range(int(STEADY_SECONDS / PAUSE_SECONDS) + 2 if overdue else 0):
            context.pause(PAUSE_SECONDS)
            yield from _swept(loop.once())


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
