"""Cron expressions in a time zone: which instants they name, over gaps and repetitions of the clock."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from zoneinfo import ZoneInfo

import tzdata
from cronsim import CronSim, CronSimError

from mcc.contracts.similar import did_you_mean

ZONE_DATA = str(tzdata.IANA_VERSION)
"""The version of the zones' tables, such as `2026a`; a later one is greater as a text."""

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class BadTiming(ValueError):
    """A schedule that cannot be. `place`: its field that is wrong; `str()` is a sentence that says what to do."""

    def __init__(self, place: str, sentence: str) -> None:
        super().__init__(sentence)
        self.place = place


@functools.cache
def zone_names() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())


@functools.lru_cache(maxsize=64)
def zone_named(name: str) -> ZoneInfo:
    """The zone as its package has it, whatever the machine says. Raises `BadTiming`."""
    if name not in zone_names():
        hint = did_you_mean(name, sorted(zone_names()))
        raise BadTiming("zone", f"there is no time zone {name!r}{hint}; name one such as Europe/Berlin or UTC.")
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as table:
        return ZoneInfo.from_file(table, name)


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields, on the clock of a zone.

    Where minutes or hours begin with `*`, each minute that the clock shows counts, so both when it is set back over
    them and none that it skips. All other times come once a day: what the clock skips comes right after the gap, and
    what it repeats the first time.
    """

    text: str
    zone: ZoneInfo

    @classmethod
    def of(cls, text: str, zone_name: str) -> "Cron":
        """Raises `BadTiming`."""
        if (five := NICKNAMES.get(text.strip().lower())) is not None:
            raise BadTiming("cron", f"{text.strip()} is written with five fields: {five}")
        if len(fields := text.split()) != 5:
            raise BadTiming(
                "cron",
                f"this has {len(fields)} fields, and cron has five: minute, hour, day of the month, month, weekday; "
                'such as "30 2 * * 1-5". There are no seconds.',
            )
        cron = cls(" ".join(fields), zone_named(zone_name))
        try:
            days = CronSim(cron.text, datetime(2000, 1, 1))
        except (CronSimError, ValueError) as error:
            raise BadTiming("cron", f"this is no cron expression: {str(error).lower()}.") from error
        if next(days, None) is None:
            raise BadTiming("cron", "this never comes: no month has such a day.")
        return cron

    def after(self, last: datetime) -> Iterator[datetime]:
        """The instants later than `last`, in UTC, one after the other."""
        minutes, hours = self.text.split()[:2]
        start = last.astimezone(UTC).replace(microsecond=0)
        return self._each_shown(start) if "*" in (minutes[0], hours[0]) else self._once_a_day(start, last)

    # The library is asked about a clock without a zone alone. With one it forgets minutes where clocks are set by half
    # an hour, and has some that no clock shows where a midnight is skipped (Lord Howe, Beirut, Havana).

    def _once_a_day(self, start: datetime, last: datetime) -> Iterator[datetime]:
        for wall in CronSim(self.text, start + self._offset(start)):
            # Where the clock was set back before `start`, the first showing of a later time is earlier.
            if (instant := self._first_showing(wall)) > last:
                last = instant
                yield instant

    def _first_showing(self, wall: datetime) -> datetime:
        """When the clock first shows `wall`, or the end of the gap in which it skips it."""
        naive = wall.replace(tzinfo=None)
        before, after = (naive.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if before.astimezone(self.zone).replace(tzinfo=None) == naive:
            return before
        # In a gap, the offset before it is too late for `wall`, and the one after it too early.
        return self._change(after, before) or before

    def _each_shown(self, start: datetime) -> Iterator[datetime]:
        change: datetime | None = start + SECOND
        while change is not None:
            offset, instant, change = self._offset(change), change - SECOND, None
            # As a clock that has been at this offset all the time.
            for wall in CronSim(self.text, instant + offset):
                following = wall - offset
                if (change := self._change(instant + SECOND, following)) is not None:
                    break
                instant = following
                yield instant

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self.zone).utcoffset() or timedelta()

    def _change(self, start: datetime, end: datetime) -> datetime | None:
        """The first second after `start`, up to `end`, at which the clock is set; None where it is not."""
        offset = self._offset(start)
        while start < end:
            following = min(start + DAY, end)
            if self._offset(following) != offset:
                while following - start > SECOND:
                    middle = start + (following - start) // 2 // SECOND * SECOND
                    start, following = (middle, following) if self._offset(middle) == offset else (start, middle)
                return following
            start = following
        return None
