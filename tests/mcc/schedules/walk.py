"""A naive walk of the clock, against which the instants of cron expressions are held: each minute that a zone's clock
shows is looked at, day by day, by a reader of the five fields that shares nothing with the one of the product.

`python -m tests.mcc.schedules.walk [ZONE …]` compares all expressions in all years of the century, which takes an hour;
of those that come more than once an hour, one year in ten and the days on which the clock is set.
"""

import calendar
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

from mcc.schedules.cron import Cron, zone_named

ZONES = (
    "Europe/Berlin",
    "Europe/Dublin",
    "Africa/Casablanca",
    "America/St_Johns",
    "America/New_York",
    "America/Santiago",
    "America/Havana",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
)
EXPRESSIONS = tuple(
    """
    * * * * *
    */5 * * * *
    */7 * * * *
    0 * * * *
    30 * * * *
    15,45 * * * *
    */15 3 * * *
    */30 2 * * *
    */20 0 * * *
    * 2 * * *
    */10 1-3 * * *
    0 */2 * * *
    0 */3 * * *
    30 */6 * * *
    0 0 * * *
    30 2 * * *
    0 2 * * *
    15 1 * * *
    45 1 * * *
    0,30 2 * * *
    0 1,2,3 * * *
    5 0-4 * * *
    59 23 * * *
    30 0 * * *
    0 3 * * 1
    30 2 * * 7
    30 2 * * SUN
    0 0 1 * *
    0 0 31 * *
    0 0 29 2 *
    0 12 1 1 *
    0 6 L * *
    0 9 * * MON#2
    0 9 * * 5L
    30 1 1 4,10 *
    0 0 13 * 5
    0 0 */2 * *
    */30 * * * 1
    23 0-20/2 * * *
    * 0 * 3,10,11 0
    """.strip().splitlines()
)
EXPRESSIONS = tuple(text.strip() for text in EXPRESSIONS)

CENTURY = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True)
class Stretch:
    """A time during which the clock of a zone was not set."""

    start: datetime
    end: datetime
    offset: timedelta


def stretches(zone_name: str, begin: datetime, end: datetime) -> list[Stretch]:
    """Those of this time and the days around it, found by looking at each hour, then at each minute."""
    zone = zone_named(zone_name)
    at, starts = begin - 3 * DAY, [begin - 3 * DAY]
    while at < end + 3 * DAY:
        if at.astimezone(zone).utcoffset() != (at + HOUR).astimezone(zone).utcoffset():
            minutes = (at + timedelta(minutes=minute) for minute in range(1, 61))
            offset = at.astimezone(zone).utcoffset()
            starts.append(next(minute for minute in minutes if minute.astimezone(zone).utcoffset() != offset))
        at += HOUR
    return [
        Stretch(start, until, start.astimezone(zone).utcoffset() or timedelta())
        for start, until in pairwise([*starts, end + 3 * DAY])
    ]


def numbers(field: str, low: int, high: int) -> set[int]:
    values: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        least, most = (low, high) if span == "*" else (int(first), int(last or (high if step else first)))
        values.update(range(least, most + 1, int(step or 1)))
    return values


def is_day(fields: Sequence[str], day: date) -> bool:
    """Whether the third to fifth field name this day."""
    of_month, month, of_week = fields
    if day.month not in numbers(month, 1, 12):
        return False
    last = calendar.monthrange(day.year, day.month)[1]
    by_month = day.day == last if of_month == "L" else day.day in numbers(of_month, 1, 31)
    weekday, _, nth = of_week.partition("#")
    wanted = {DAYS.index(weekday)} if weekday in DAYS else numbers(weekday.rstrip("L"), 0, 7)
    by_week = day.isoweekday() % 7 in {each % 7 for each in wanted}
    by_week = by_week and (not nth or (day.day + 6) // 7 == int(nth))
    by_week = by_week and (not weekday.endswith("L") or day.day + 7 > last)
    return by_month and by_week if "*" in (of_month[0], of_week[0]) else by_month or by_week


def shown(text: str, begin: datetime, end: datetime) -> Iterator[datetime]:
    """What the clock shows from one day to another when the expression says so."""
    minute, hour, *days = text.split()
    at = begin.replace(hour=0, minute=0)
    while at < end:
        if is_day(days, at.date()):
            for hours in sorted(numbers(hour, 0, 23)):
                for minutes in sorted(numbers(minute, 0, 59)):
                    yield at + timedelta(hours=hours, minutes=minutes)
        at += DAY


def walked(text: str, all_of_zone: Sequence[Stretch], begin: datetime, end: datetime) -> list[datetime]:
    """The instants between two whole days, ends not counted, as a person finds them who walks along the clock."""
    minute, hour, *_ = text.split()
    near = [each for each in all_of_zone if each.end > begin - 3 * DAY and each.start < end + 3 * DAY]
    instants: set[datetime] = set()
    for wall in shown(text, begin - 2 * DAY, end + 2 * DAY):
        showings = [wall - each.offset for each in near if each.start <= wall - each.offset < each.end]
        if minute.startswith("*") or hour.startswith("*"):
            instants.update(showings)
        elif showings:
            instants.add(showings[0])
        else:
            instants.add(next(each.start for each in near if wall - each.offset < each.start))
    return sorted(instant for instant in instants if begin < instant < end)


def told(text: str, zone_name: str, begin: datetime, end: datetime) -> list[datetime]:
    """The instants that the product has."""
    instants: list[datetime] = []
    for instant in Cron.of(text, zone_name).after(begin):
        if instant >= end:
            break
        instants.append(instant)
    return instants


def spans(text: str, all_of_zone: Sequence[Stretch]) -> Iterator[tuple[datetime, datetime]]:
    """What is compared of a century."""
    begin, end = CENTURY
    minute, hour, *_ = text.split()
    is_rare = len(numbers(minute, 0, 59)) * len(numbers(hour, 0, 23)) <= 24
    for year in range(begin.year, end.year):
        if is_rare or year % 10 == 7:
            yield datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    for each in all_of_zone[1:]:
        yield around(each.start)


def around(moment: datetime) -> tuple[datetime, datetime]:
    """The days around it."""
    midnight = moment.replace(hour=0, minute=0)
    return midnight - DAY, midnight + 2 * DAY


def main(zone_names: Sequence[str]) -> int:
    wrong = compared = 0
    for zone_name in zone_names or ZONES:
        all_of_zone = stretches(zone_name, *CENTURY)
        for text in EXPRESSIONS:
            for begin, end in spans(text, all_of_zone):
                expected, instants = walked(text, all_of_zone, begin, end), told(text, zone_name, begin, end)
                compared += len(expected)
                if instants != expected:
                    wrong += 1
                    print(f"{zone_name} {text}: {sorted(set(instants) ^ set(expected))[:3]}", flush=True)
        print(f"{zone_name}: {compared:,} instants compared so far, {wrong} spans wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
