"""Timetables: the instants of a schedule, and when the run of each is due."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from mcc.contracts.schedules import Timetable
from mcc.schedules.cron import BadTiming, Cron, zone_named

COMPARED = 200
"""Distances between so many instants are looked at to find the smallest one."""

TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Timing:
    """A timetable that can be. All times are aware and in UTC."""

    table: Timetable
    zone: ZoneInfo
    cron: Cron | None

    @classmethod
    def of(cls, table: Timetable) -> "Timing":
        """Raises `BadTiming`."""
        zone = zone_named(table.zone)
        return cls(table, zone, Cron.of(table.cron, table.zone) if table.cron is not None else None)

    def begun(self, now: datetime) -> datetime:
        """What the first instant is later than, of a schedule that begins at `now`."""
        starts_at = self.table.starts_at
        return now if starts_at is None or starts_at <= now else starts_at - TICK

    def after(self, last: datetime) -> Iterator[datetime]:
        """The instants later than `last`, up to the end of the timetable."""
        until = self.table.until
        try:
            for instant in self._all_after(last):
                if until is not None and instant > until:
                    return
                yield instant
        except OverflowError:  # After the year 9999.
            return

    def _all_after(self, last: datetime) -> Iterator[datetime]:
        if self.cron is not None:
            yield from self.cron.after(last)
            return
        step = timedelta(seconds=self.table.every_seconds or 0)
        instant = first = self.table.starts_at or last
        if last >= first:
            instant += ((last - first) // step + 1) * step
        while True:
            yield instant
            instant += step

    def check_jitter(self, now: datetime) -> None:
        """Raises `BadTiming` where a run could begin after the next one."""
        instants = islice(self.after(self.begun(now)), COMPARED)
        closest = min((later - earlier for earlier, later in pairwise(instants)), default=None)
        jitter = self.table.jitter_seconds
        if closest is not None and timedelta(seconds=jitter) >= closest:
            seconds = int(closest.total_seconds())
            raise BadTiming(
                "jitter_seconds", f"its runs are {seconds:,} seconds apart, and jitter has to be less than that."
            )

    def due(self, schedule_id: str, instant: datetime) -> datetime:
        """When the run of an instant begins: the same in every process."""
        if not self.table.jitter_seconds:
            return instant
        drawn = hashlib.sha256(f"{schedule_id} {instant.timestamp():.0f}".encode()).digest()
        return instant + timedelta(seconds=int.from_bytes(drawn[:8]) % (self.table.jitter_seconds + 1))

    def shown(self, instant: datetime) -> datetime:
        """The instant as the clock of the zone shows it."""
        return instant.astimezone(UTC).astimezone(self.zone)
