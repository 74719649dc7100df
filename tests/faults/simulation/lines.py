"""`python -m tests.faults.simulation.lines`: the lines of those that want to write in a few workspaces, order by order.

Drones that claim, ask, park, die, stand still and hand back, played by hand on the product's store and in its time, so
that very many orders take minutes: is there ever a second writer, does somebody come before one who came earlier, does
anybody wait for ever? The seed decides about all of them.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import sqlalchemy as sa

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.drones import Registration
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder
from mcc.contracts.status import FINAL, WaitingReason
from mcc.store.database.errors import ControlsPending, OrderIsFinal, StoreFenced
from mcc.store.rows.values import Parking, WorkspaceHold
from mcc.store.store import Store
from mcc.store.work.workspaces import PATIENCE_SECONDS
from mcc.testing import FakeClock, temporary_store
from mcc.testing.hand_drone import HeldOrder
from tests.faults.simulation.surroundings import global_dice, quiet

WORKSPACES: Mapping[str, WorkspaceHold] = {
    "harbour": WorkspaceHold("harbour", above=("root",)),
    "quay": WorkspaceHold("quay", above=("harbour", "root")),
    "shed": WorkspaceHold("shed", above=("root",)),
}
DRONES, SLOTS, LIVE = 3, 4, 40
LEASE_SECONDS, TICK_SECONDS = 6.0, 0.5
PARKS_AFTER = 3
"""So often an order asks before its whole tree is idle, and it parks."""

FREE_SECONDS = 2 * PATIENCE_SECONDS + LEASE_SECONDS
"""So long the first of a line waits at most while nobody writes in its workspace, above or below it: its drone may have
died, and whoever was woken before it may not have come."""


@dataclass(slots=True)
class Work:
    """One claimed order: how many ticks it reads, and then writes (0: never)."""

    held: HeldOrder
    place: str
    reads: int
    writes: int
    alone: bool = False
    asked: int = 0
    holds: bool = False


@dataclass(slots=True, eq=False)
class Drone:
    incarnation: str
    work: list[Work] = field(default_factory=list)
    frozen_until: float = 0.0


@dataclass(slots=True)
class Told:
    """What a run has shown; `problems` is empty where every promise was kept."""

    orders: int = 0
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    longest_seconds: float = 0.0


class Lines:
    """A world of orders. `play` runs it to its end."""

    def __init__(self, seed: int, orders: int) -> None:
        self.told = Told(orders)
        self._dice = Random(f"lines {seed}")
        self._clock = FakeClock()
        self._store: Store = temporary_store(self._clock)
        self._drones = [self._registered() for _ in range(DRONES)]
        self._place: dict[str, str] = {}
        self._wants: dict[str, int] = {}
        self._writers: dict[str, str] = {}
        self._free_since: dict[str, float] = {}

    def play(self) -> Told:
        try:
            placed = 0
            while placed < self.told.orders or self._place:
                count = min(LIVE - len(self._place), self.told.orders - placed)
                placed += count
                for _ in range(count):
                    self._order()
                self._tick()
                if len(self.told.problems) > 5:
                    break
        finally:
            self._store.close()
        return self.told

    def _order(self) -> None:
        place = self._dice.choice(list(WORKSPACES))
        new = NewOrder.model_validate({"prompt": "x", "workspace": f"/{place}"})
        self._place[self._store.orders.place(new, by=Actor("lines")).order.id] = place

    def _registered(self) -> Drone:
        incarnation = fresh_id()
        said = {"incarnation": incarnation, "name": "d", "pid": 1, "host": "h", "version": "0", "slots": SLOTS}
        registration = Registration.model_validate({**said, "queues": ("default",)})
        self._store.leases.register(registration, lease_seconds=LEASE_SECONDS)
        return Drone(incarnation)

    def _tick(self) -> None:
        self._clock.advance(TICK_SECONDS)
        self._misfortune()
        for drone in self._drones:
            if drone.frozen_until <= self._clock.uptime():
                self._turn(drone)
        swept = self._store.sweeper.sweep(may_expire=True)
        for order_id in (*swept.requeued, *swept.ended):
            self._writers.pop(order_id, None)
        for order_id in swept.ended:
            self._left(order_id)
        self._look()

    def _misfortune(self) -> None:
        drone, dice = self._dice.choice(self._drones), self._dice.random()
        if dice < 0.01:
            self.told.counts["drones killed"] += 1
            self._drones.remove(drone)
            self._drones.append(self._registered())
        elif dice < 0.02:
            self.told.counts["drones frozen"] += 1
            drone.frozen_until = self._clock.uptime() + self._dice.choice([2.0, 5.0, 15.0])
        elif dice < 0.03 and drone.work and drone.frozen_until <= self._clock.uptime():
            self.told.counts["handed back"] += 1
            for work in drone.work:
                self._writers.pop(work.held.id, None)
            held = [(work.held.id, work.held.claim.epoch) for work in drone.work]
            self._store.claims.hand_back(held, drone="d", message="told to stop")
            drone.work.clear()
        elif dice < 0.05 and self._wants:
            self._cancel(self._dice.choice(sorted(self._wants)))

    def _cancel(self, order_id: str) -> None:
        try:
            self._store.controls.request(order_id, ControlKind.CANCEL, NewControl(), by=Actor("lines"))
        except OrderIsFinal:
            return
        if self._store.journal.reached([order_id])[order_id].status in FINAL:
            self.told.counts["cancelled in the line"] += 1
            self._left(order_id)

    def _turn(self, drone: Drone) -> None:
        """What a drone does in one tick. One that has lost its lease drops what it has, and registers again."""
        if not self._store.leases.renew(drone.incarnation, lease_seconds=LEASE_SECONDS, active=len(drone.work)):
            self._drones[self._drones.index(drone)] = self._registered()
            return
        self._fill(drone)
        for work in list(drone.work):
            try:
                going_on = self._step(work)
            except (StoreFenced, ControlsPending):
                self._writers.pop(work.held.id, None)
                self._store.claims.hand_back([(work.held.id, work.held.claim.epoch)], drone="d", message="asked")
                if self._store.journal.reached([work.held.id])[work.held.id].status in FINAL:
                    self._left(work.held.id)
                going_on = False
            if not going_on:
                drone.work.remove(work)

    def _fill(self, drone: Drone) -> None:
        """Claim what there is room for. An order that has lost several drones gets one to itself: the first."""
        room = 0 if any(work.alone for work in drone.work) else SLOTS - len(drone.work)
        claimable = self._store.claims.claimable(("default",), LIVE) if room else ()
        if drone is self._drones[0] and (lonely := [item for item in claimable if item.alone]):
            if not drone.work:
                self._claim(drone, lonely[0].order_id, alone=True)
            return
        for item in [item for item in claimable if not item.alone][:room]:
            self._claim(drone, item.order_id)

    def _claim(self, drone: Drone, order_id: str, *, alone: bool = False) -> None:
        hold = WORKSPACES[self._place[order_id]]
        claim = self._store.claims.claim(
            order_id, incarnation=drone.incarnation, claim_token=fresh_id(), drone="d", alone=alone, workspace=hold
        )
        if claim is not None:
            reads = 0 if claim.writes or order_id in self._wants else self._dice.randint(0, 3)
            writes = self._dice.randint(1, 3) if reads == 0 or self._dice.random() < 0.6 else 0
            held = HeldOrder(self._store, claim, claim.last_seq)
            drone.work.append(Work(held, self._place[order_id], reads, writes, alone))
            self.told.counts["alone in a drone"] += alone

    def _step(self, work: Work) -> bool:
        """Whether the order stays with its drone. Raises `StoreFenced`, `ControlsPending`."""
        if work.reads:
            work.reads -= 1
            return True
        if work.writes and not work.holds:
            return self._ask(work)
        if work.writes > 1:
            work.writes -= 1
            return True
        work.held.finish_without_start()
        self._left(work.held.id)
        self._writers.pop(work.held.id, None)
        self._store.workspaces.wake()
        return False

    def _ask(self, work: Work) -> bool:
        order_id, claim = work.held.id, work.held.claim
        taken = self._store.workspaces.acquire(order_id, claim.epoch, WORKSPACES[work.place])
        if taken is None:
            self._began(order_id, work.place)
            work.holds = True
            return True
        self._wants.setdefault(order_id, self._now())
        self.told.counts["asked in vain"] += 1
        work.asked += 1
        if work.asked < PARKS_AFTER:
            return True
        seen = claim.control_seq
        parking = Parking(order_id, claim.epoch, work.held.seq, seen, WaitingReason.WORKSPACE, "it waits", in_line=True)
        self._store.claims.park(parking)
        self.told.counts["parked"] += 1
        return False

    def _began(self, order_id: str, place: str) -> None:
        """An order has got its workspace: nobody else has, or wanted before it, one that is the same, above or
        below."""
        related = set(_related(place))
        for other, where in self._writers.items():
            if other != order_id and where in related:
                self.told.problems.append(f"{order_id} writes in {place} while {other} writes in {where}")
        self._writers[order_id] = place
        since = self._wants.pop(order_id, None)
        for other, wanted in self._wants.items():
            if self._place[other] in related and (since is None or wanted < since):
                self.told.problems.append(f"{order_id} writes in {place} before {other}, which came earlier")
        if since is not None:
            waited = (self._now() - since) / 1e6
            self.told.longest_seconds = max(self.told.longest_seconds, waited)
            self.told.counts["waited in a line"] += 1
        self.told.counts["writers"] += 1

    def _left(self, order_id: str) -> None:
        for known in (self._place, self._wants, self._free_since):
            known.pop(order_id, None)

    def _look(self) -> None:
        """Take in who lost its place, and how long nobody has written where somebody wants to."""
        for order_id, at, status in self._in_line():
            if order_id in self._wants and at != self._wants[order_id]:
                if status != "queued" or at - self._wants[order_id] < PATIENCE_SECONDS * 1e6:
                    self.told.problems.append(f"{order_id} lost its place in the line while it was {status}")
                self._wants[order_id] = at
                self.told.counts["to the end of the line"] += 1
        busy = {place for where in self._writers.values() for place in _related(where)}
        waiting = {self._place[order_id] for order_id in self._wants}
        for place in WORKSPACES:
            if place in busy or place not in waiting:
                self._free_since.pop(place, None)
            since = self._free_since.setdefault(place, self._clock.uptime()) if place in waiting - busy else None
            if since is not None and self._clock.uptime() - since > FREE_SECONDS:
                line = [one for one in self._in_line() if self._place[one[0]] == place]
                said = f"nobody writes in {place} for {FREE_SECONDS:g} s, and some want to: {line}"
                self.told.problems.append(said)
                self._free_since.pop(place)

    def _in_line(self) -> Sequence[tuple[str, int, str]]:
        asked = sa.text("SELECT order_id, wants_at, status FROM order_state WHERE wants_key IS NOT NULL")
        rows = self._store.database.read(lambda connection: connection.execute(asked).all())
        return [(str(row.order_id), int(row.wants_at), str(row.status)) for row in rows]

    def _now(self) -> int:
        """As the store dates the line, in microseconds."""
        return int(
            self._store.database.read(lambda connection: connection.scalar(sa.select(self._store.database.time.now)))
            or 0
        )


def _reach(place: str) -> set[str]:
    """A workspace and those above it."""
    return {place, *WORKSPACES[place].above}


def _related(place: str) -> Iterator[str]:
    """A workspace and those above and below it."""
    return (other for other in WORKSPACES if other in _reach(place) or place in _reach(other))


def lines(seed: int, orders: int) -> Told:
    """Play one seed."""
    with quiet(), global_dice(seed):
        return Lines(seed, orders).play()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.simulation.lines", description=__doc__)
    parser.add_argument("--orders", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args(arguments)
    began = time.monotonic()
    told = lines(said.seed, said.orders)
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(told.counts.items()))
    print(f"seed {said.seed}: {told.orders:,} orders in {time.monotonic() - began:.0f} s; {counts}")
    print(f"longest wait in a line {told.longest_seconds:.1f} s")
    print("\n".join(told.problems) or "one writer at a time, first come first served, nobody left waiting")
    return int(bool(told.problems))


if __name__ == "__main__":
    sys.exit(main())
