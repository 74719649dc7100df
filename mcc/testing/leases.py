"""This room is for leases and the sweep in memory."""

import math
from collections.abc import Sequence
from datetime import timedelta
from itertools import takewhile

from mcc.contracts.drones import Drone, DroneStatus, Registration
from mcc.contracts.journal import OrderClaimed
from mcc.contracts.status import OrderStatus
from mcc.store.entries import Verdict, cancelled_by, expired, told
from mcc.store.losses import DOUBT_SECONDS, Counted, after_loss, is_progress, requeued
from mcc.store.losses import Lease as State
from mcc.store.values import Swept
from mcc.testing.requests import resume
from mcc.testing.shelf import Kept, Lease, Shelf

SHOWN = timedelta(days=1)


class MemoryLeases:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def register(self, registration: Registration, *, lease_seconds: float) -> None:
        with self._shelf.lock:
            if registration.incarnation in self._shelf.leases:
                raise ValueError(f"incarnation {registration.incarnation} exists: every start has a new one")
            now, until = self._shelf.clock.now(), self._shelf.clock.uptime() + lease_seconds
            lease = Lease(registration, State.LIVE.value, now, now, until, self._shelf.clock.boot())
            self._shelf.leases[registration.incarnation] = lease

    def renew(
        self,
        incarnation: str,
        *,
        lease_seconds: float,
        active: int,
        draining: bool = False,
        refused_messages: int = 0,
    ) -> bool:
        with self._shelf.lock:
            if not self._shelf.is_live(incarnation):
                return False
            lease = self._shelf.leases[incarnation]
            lease.until, lease.boot = self._shelf.clock.uptime() + lease_seconds, self._shelf.clock.boot()
            lease.heartbeat_at = self._shelf.clock.now()
            lease.active, lease.draining, lease.refused_messages = active, draining, refused_messages
            return True

    def leave(self, incarnation: str) -> None:
        with self._shelf.lock:
            if self._shelf.is_live(incarnation):
                self._shelf.leases[incarnation].state = State.LEFT.value

    def drones(self) -> Sequence[Drone]:
        with self._shelf.lock:
            return [_drone(lease, up=self._is_up(lease)) for lease in self._heard_of()]

    def registrations(self) -> Sequence[Registration]:
        with self._shelf.lock:
            return [lease.registration for lease in self._heard_of() if self._is_up(lease)]

    def _heard_of(self) -> Sequence[Lease]:
        oldest = self._shelf.clock.now() - SHOWN
        found = [one for one in self._shelf.leases.values() if one.state != State.LEFT and one.heartbeat_at > oldest]
        live = [one for one in found if one.state == State.LIVE]
        found = [one for one in found if one.state == State.LIVE or not any(_succeeds(each, one) for each in live)]
        return sorted(found, key=lambda one: (one.registration.name, one.started_at, one.registration.incarnation))

    def _is_up(self, lease: Lease) -> bool:
        return lease.state == State.LIVE and self._shelf.in_time(lease)


def _succeeds(later: Lease, lease: Lease) -> bool:
    return later.registration.name == lease.registration.name and later.started_at > lease.started_at


def _drone(lease: Lease, *, up: bool) -> Drone:
    said = lease.registration
    status = DroneStatus.DRAINING if lease.draining else DroneStatus.UP
    return Drone(
        name=said.name,
        pid=said.pid,
        host=said.host,
        version=said.version,
        queues=said.queues,
        slots=said.slots,
        active=lease.active if lease.state == State.LIVE else 0,
        refused_messages=lease.refused_messages,
        status=status if up else DroneStatus.SILENT,
        sandbox=said.sandbox,
        started_at=lease.started_at,
        last_heartbeat_at=lease.heartbeat_at,
        incarnation=said.incarnation,
    )


class MemorySweeper:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def beat(self, sweeper: str) -> None:
        """Memory is always there, so there is nothing to find out."""

    def sweep(self, *, may_expire: bool, steady_seconds: float = math.inf) -> Swept:
        with self._shelf.lock:
            lost = self._declare_lost(steady_seconds) if may_expire else []
            orphaned = [kept for kept in self._ordered() if self._is_orphaned(kept)]
            ended = [kept.id for kept in self._ordered() if self._expire(kept)]
            resumed = [kept.id for kept in self._ordered() if self._resume(kept)]
            requeued = [kept.id for kept in orphaned if self._take_back(kept)]
            ended += [kept.id for kept in orphaned if kept.id not in requeued]
            cut = [one for one in lost if self._shelf.leases[one].state == State.CUT]
            return Swept(tuple(lost), tuple(requeued), tuple(ended), tuple(resumed), tuple(cut))

    def _ordered(self) -> Sequence[Kept]:
        return sorted(self._shelf.orders.values(), key=lambda kept: kept.id)

    def _declare_lost(self, steady_seconds: float) -> Sequence[str]:
        lost = []
        for incarnation, lease in self._shelf.leases.items():
            if lease.state == State.LIVE and not self._shelf.in_time(lease):
                judged = self._judged(lease, steady_seconds)
                if judged is not None:
                    lease.state = judged.value
                    lost.append(incarnation)
        return lost

    def _judged(self, lease: Lease, steady_seconds: float) -> State | None:
        """None: others may know more."""
        clock = self._shelf.clock
        if (clock.now() - lease.heartbeat_at).total_seconds() <= steady_seconds:
            return State.LOST
        undoubted = lease.boot != clock.boot() or lease.until <= clock.uptime() - DOUBT_SECONDS
        return State.CUT if undoubted else None

    def _is_orphaned(self, kept: Kept) -> bool:
        return kept.status is OrderStatus.RUNNING and not self._shelf.is_live(kept.incarnation)

    def _expire(self, kept: Kept) -> bool:
        now, waiting = self._shelf.clock.now(), kept.status is OrderStatus.WAITING
        latest = [kept.spec.expires_at if kept.attempt == 0 else None, kept.waits_until if waiting else None]
        if not (waiting or kept.status is OrderStatus.QUEUED) or not any(one and one <= now for one in latest):
            return False
        if not kept.endable:
            return False
        kept.end_by_store(expired(), now)
        return True

    def _resume(self, kept: Kept) -> bool:
        due = kept.not_before is not None and kept.not_before <= self._shelf.clock.now()
        if kept.status is not OrderStatus.WAITING or not due:
            return False
        resume(self._shelf, kept, "its time has come")
        return True

    def _take_back(self, kept: Kept) -> bool:
        """True: requeued; False: ended."""
        now = self._shelf.clock.now()
        if kept.endable and (cancel := kept.open_cancel()):
            kept.end_by_store(cancelled_by(cancel), now)
            return False
        lease = self._shelf.leases.get(kept.incarnation or "")
        state = lease.state if lease else State.LOST.value
        before = Counted(kept.takeovers, kept.barren)
        counted = after_loss(before, state, progress=_has_progress(kept))
        if isinstance(counted, Verdict):
            if kept.endable:
                kept.end_by_store(counted, now)
                return False
            counted = before
        kept.takeovers, kept.barren = counted.takeovers, counted.barren
        name = lease.registration.name if lease else kept.incarnation or ""
        kept.release(OrderStatus.QUEUED)
        kept.write([told(now, requeued(kept.epoch, name, state))])
        return True


def _has_progress(kept: Kept) -> bool:
    """Whether anything since the last claim got the order further."""
    since = takewhile(lambda entry: not isinstance(entry.data, OrderClaimed), reversed(kept.entries))
    return any(is_progress(entry.data) for entry in since)
