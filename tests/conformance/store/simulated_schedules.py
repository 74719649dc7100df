"""Three services that fire schedules on one database, on a clock that jumps, and that are killed at their work.

`python -m tests.conformance.store.simulated_schedules [--changes 1000] [--seed N] [--database URL]` runs it at length,
by default on an SQLite file of its own; a seed replays its clock.
"""

import argparse
import logging
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy.engine import Connection

from mcc.api.catalogue import Catalogue
from mcc.api.schedules.fires import ScheduleFires
from mcc.api.schedules.preparing import Preparing
from mcc.contracts.callers import OPERATOR, Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import WorkOrder
from mcc.contracts.schedules import NewSchedule, Schedule, ScheduleRun
from mcc.contracts.status import OrderStatus
from mcc.resources import Reserve
from mcc.schedules.timing import Timing
from mcc.settings import ServiceSettings
from mcc.store.documents.changes import OpenChanges
from mcc.store.doors.firing import DueRun, Firing, PreparedRun
from mcc.store.rows.new_rows import AcceptedOrder
from mcc.store.store import Store, open_store
from mcc.store.work.orders import OrderStore
from mcc.store.work.placing import Placing
from mcc.testing import FakeClock
from mcc.testing.store import migrated_copy

SERVICES = 3
BEGINNING = datetime(2027, 10, 29, 23, 17, 5, tzinfo=UTC)
"""Two days before clocks are set back in Berlin, and after they were set forward in Lord Howe."""

TWO = {"policy": "all", "most": 2}
SCHEDULES: Sequence[dict[str, Any]] = (
    {
        "name": "often",
        "cron": "*/20 * * * *",
        "zone": "Europe/Berlin",
        "catch_up": {"policy": "all", "most": 2},
        "max_running": 9,
    },
    {"name": "nightly", "cron": "30 2 * * *", "zone": "Europe/Berlin", "jitter_seconds": 600},
    {"name": "paced", "every_seconds": 2_700, "catch_up": {"policy": "skip"}, "when_full": "cancel_older"},
    {"name": "half", "cron": "0 */2 * * *", "zone": "Australia/Lord_Howe", "when_full": "queue", "session": "same"},
)
JUMPS = ((0.0, 90.0), (60.0, 1_800.0), (60.0, 1_800.0), (1_800.0, 36_000.0), (-3_600.0, 0.0))
"""By how many seconds the clock moves at a change, from and to."""


class Killed(BaseException):
    """The process ends here: no handler of the product's sees it."""


@dataclass
class Fate:
    """Whether a service dies at a place that it comes to."""

    chance: random.Random
    share: float = 0.0

    def met(self) -> None:
        if self.chance.random() < self.share:
            raise Killed


class MortalPreparing(Preparing):
    """Its service may die before the transaction."""

    def __init__(self, store: Store, settings: ServiceSettings, fate: Fate) -> None:
        super().__init__(store, settings, Catalogue(settings.own_blueprints(), store.blueprints))
        self._fate = fate

    def prepared(self, due: DueRun) -> PreparedRun:
        self._fate.met()
        return super().prepared(due)


class MortalOrders(OrderStore):
    """Its service may die within the transaction, once the order is placed and before it is committed."""

    def __init__(self, orders: OrderStore, fate: Fate) -> None:
        super().__init__(orders._database, orders._bound, orders._documents)
        self._fate = fate

    def place_within(
        self, connection: Connection, changes: OpenChanges, placings: Sequence[Placing]
    ) -> Sequence[AcceptedOrder]:
        accepted = super().place_within(connection, changes, placings)
        self._fate.met()
        return accepted


class SimulatedService:
    """A service that fires schedules, on connections of its own; `kills` counts how often it died."""

    def __init__(self, url: str, clock: FakeClock, settings: ServiceSettings, fate: Fate) -> None:
        opened = open_store(url, clock=clock, patience_seconds=60)
        orders = MortalOrders(opened.orders, fate)
        self.store = replace(opened, firing=Firing(opened.database, orders, opened.documents))
        self._fate = fate
        self.kills = 0
        self.fires = ScheduleFires(
            self.store, MortalPreparing(self.store, settings, fate), Reserve((), 0), lambda outcome, count: fate.met()
        )

    def sweep(self) -> None:
        try:
            self.fires.once()
        except Killed:
            self.kills += 1


@dataclass
class SimulatedSchedules:
    """The run of a seed. `problems`: what must not be, as sentences."""

    url: str
    folder: Path
    seed: int
    clock: FakeClock = field(default_factory=lambda: FakeClock(BEGINNING))
    latest: datetime = BEGINNING
    kills: int = 0
    problems: list[str] = field(default_factory=list)

    def run(self, changes: int) -> Counter[str]:
        """Change the clock so often; answers how many runs there were, by outcome."""
        chance = random.Random(self.seed)
        settings = ServiceSettings(data_dir=self.folder)
        fates = [Fate(random.Random(f"{self.seed} {number}"), share=0.1) for number in range(SERVICES)]
        services = [SimulatedService(self.url, self.clock, settings, fate) for fate in fates]
        store = services[0].store
        schedules = [
            store.schedules.add(
                NewSchedule.model_validate({**fields, "order": {"prompt": "Look", "labels": ["{name} {instant}"]}}),
                by=Actor(OPERATOR, "cli"),
            )
            for fields in SCHEDULES
        ]
        with ThreadPoolExecutor(SERVICES) as pool:
            for _ in range(changes):
                seconds = chance.uniform(*chance.choice(JUMPS))
                self.clock.advance(seconds) if seconds > 0 else self.clock.turn_back(-seconds)
                self.latest = max(self.latest, self.clock.now())
                list(pool.map(SimulatedService.sweep, services))
                end_some(store, chance)
        for fate in fates:
            fate.share = 0.0
        # What the dead have left is done by whoever lives, by the latest moment that the clock has shown.
        self.clock.advance(max(0.0, (self.latest - self.clock.now()).total_seconds()))
        services[0].sweep()
        self.kills = sum(service.kills for service in services)
        outcomes = Counter(outcome for schedule in schedules for outcome in self._judged(store, schedule))
        for service in services:
            service.store.close()
        return outcomes

    def _judged(self, store: Store, schedule: Schedule) -> Iterator[str]:
        """The outcomes of its runs; instants that were run twice, or by none, are problems."""
        timing = Timing.of(schedule)
        expected: list[datetime] = []
        for instant in timing.after(timing.begun(BEGINNING)):
            if timing.due(schedule.id, instant) > self.latest:
                break
            expected.append(instant)
        runs = all_runs(store, schedule.id)
        seen = [instant for run in runs for instant in instants_of(run, expected)]
        twice = [str(instant) for instant, count in Counter(seen).items() if count > 1]
        lost = [str(instant) for instant in sorted(set(expected) - set(seen))]
        strange = [str(instant) for instant in sorted(set(seen) - set(expected))]
        for what, instants in (("run twice", twice), ("run by nobody", lost), ("run and not due", strange)):
            if instants:
                self.problems.append(f"{schedule.name}: {len(instants)} instants were {what}: {instants[:3]}")
        orders = {run.order_id for run in runs if run.order_id is not None}
        door = f"schedule/{schedule.name}"
        placed = Counter(order.labels for order in all_orders(store) if order.door == door)
        if len(orders) != placed.total() or any(count > 1 for count in placed.values()):
            self.problems.append(f"{schedule.name}: {len(orders)} runs have placed {placed.total()} orders")
        yield from (run.outcome for run in runs)


def instants_of(run: ScheduleRun, expected: Sequence[datetime]) -> Sequence[datetime]:
    """Those for which the run stands; more or fewer than it says are told by an instant that nobody expects."""
    if run.missed is None:
        return [run.instant]
    within = [instant for instant in expected if run.missed.since <= instant <= run.missed.until]
    return within if len(within) == run.missed.count else [datetime.min.replace(tzinfo=UTC)]


def end_some(store: Store, chance: random.Random) -> None:
    """Some of the unfinished orders end, so that there is room again."""
    for order in store.orders.list(status=OrderStatus.QUEUED, limit=200).items:
        if chance.random() < 0.2:
            store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor(OPERATOR, "cli"))


def all_runs(store: Store, schedule_id: str) -> list[ScheduleRun]:
    runs: list[ScheduleRun] = []
    cursor: str | None = None
    while True:
        page = store.schedules.runs(schedule_id, cursor=cursor, limit=200)
        runs += page.items
        cursor = page.next_cursor
        if cursor is None:
            return runs


def all_orders(store: Store) -> Iterator[WorkOrder]:
    cursor: str | None = None
    while True:
        page = store.orders.list(cursor=cursor, limit=200)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.store.simulated_schedules")
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--database", help="an empty database with the schema of this version")
    asked = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    with TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
        url = asked.database or f"sqlite:///{migrated_copy(Path(folder) / 'mcc.db')}"
        simulated = SimulatedSchedules(url, Path(folder), asked.seed)
        outcomes = simulated.run(asked.changes)
        days = (simulated.latest - BEGINNING) / timedelta(days=1)
        print(f"seed {asked.seed}: {days:.0f} days, {simulated.kills} kills, runs {dict(outcomes)}")
        print(*simulated.problems, sep="\n")
        return 1 if simulated.problems else 0
    return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
