"""This room is for looking the memory store over; a shelf has no leftovers, since nothing on it can break off."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from mcc.contracts.journal import Entry
from mcc.contracts.limits import Limits
from mcc.contracts.status import FINAL, UNFINISHED, OrderStatus
from mcc.store.entries import ENDED
from mcc.store.examined import Examined, Health, LateReceipt, SeenDrone, SeenOrder, StaleLock
from mcc.testing.shelf import Kept, Lease, Shelf


class MemoryExaminer:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def look(self, *, limit: int = 1_000) -> Examined:
        with self._shelf.lock:
            unfinished = [kept for kept in self._shelf.orders.values() if kept.status in UNFINISHED]
            unfinished.sort(key=lambda kept: (kept.status is OrderStatus.QUEUED, kept.id))
            return Examined(
                now=self._shelf.clock.now(),
                drones=[self._drone(lease) for lease in self._ordered()],
                orders=[self._order(kept) for kept in unfinished[:limit]],
                whole=len(unfinished) <= limit,
                locks=(),
                receipts=[late for kept in self._shelf.orders.values() for late in _late(kept)],
                swept_at=None,
            )

    def orders(self, order_ids: Sequence[str]) -> Mapping[str, SeenOrder]:
        with self._shelf.lock:
            known = [self._shelf.orders[one] for one in dict.fromkeys(order_ids) if one in self._shelf.orders]
            return {kept.id: self._order(kept) for kept in known}

    def health(self, *, seconds: float) -> Health:
        return Health()

    def _ordered(self) -> Sequence[Lease]:
        return sorted(
            self._shelf.leases.values(),
            key=lambda one: (one.registration.name, one.started_at, one.registration.incarnation),
        )

    def _drone(self, lease: Lease) -> SeenDrone:
        said = lease.registration
        return SeenDrone(
            incarnation=said.incarnation,
            name=said.name,
            host=said.host,
            pid=said.pid,
            queues=said.queues,
            slots=said.slots,
            active=lease.active,
            draining=lease.draining,
            state=lease.state,
            in_time=self._shelf.in_time(lease),
            started_at=lease.started_at,
            heartbeat_at=lease.heartbeat_at,
            refused_messages=lease.refused_messages,
        )

    def _order(self, kept: Kept) -> SeenOrder:
        moves = [entry for entry in kept.entries if entry.kind.startswith("order.")]
        head = self._shelf.head(kept.session_id)
        queued = kept.status is OrderStatus.QUEUED
        return SeenOrder(
            id=kept.id,
            session_id=kept.session_id,
            queue=kept.spec.queue,
            priority=kept.spec.priority,
            status=kept.status,
            reason=kept.reason.value if kept.reason else None,
            epoch=kept.epoch,
            incarnation=kept.incarnation if kept.status is OrderStatus.RUNNING else None,
            last_seq=kept.last_seq,
            not_before=kept.not_before,
            expires_at=kept.spec.expires_at if kept.attempt == 0 else None,
            waits_until=kept.waits_until,
            moved_at=_last(moves, kept),
            last_entry_at=_last(kept.entries, kept),
            claimable=self._shelf.is_claimable(kept),
            blocked_by=head.id if queued and head is not None and head is not kept else None,
            limits=kept.spec.limits or Limits(),
        )


class MemoryMender:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def unlock(self, stale: StaleLock) -> bool:
        """There are no stale ones here."""
        return False

    def settle(self, order_id: str) -> int:
        with self._shelf.lock:
            kept = self._shelf.orders.get(order_id)
            late = _late(kept) if kept is not None else []
            for receipt in late:
                self._shelf.orders[order_id].settle(receipt.control_id, refused=ENDED)
            return len(late)


def _late(kept: Kept) -> list[LateReceipt]:
    if kept.status not in FINAL:
        return []
    return [LateReceipt(control.id, kept.id, control.kind.value) for control in kept.controls if control.open]


def _last(entries: Sequence[Entry], kept: Kept) -> datetime:
    return entries[-1].at if entries else kept.created_at
