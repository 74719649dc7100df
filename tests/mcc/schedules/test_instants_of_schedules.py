"""When schedules are due: cron on clocks that are set, intervals, and timetables that cannot be."""

import random
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from mcc.contracts.schedules import Timetable
from mcc.schedules.cron import BadTiming, Cron
from mcc.schedules.timing import Timing
from tests.mcc.schedules.walk import EXPRESSIONS, ZONES, around, stretches, told, walked

SAMPLED = 2
"""Years of each zone, out of a hundred; in most of them its clock is set twice."""

NOW = datetime(2027, 1, 1, tzinfo=UTC)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize("zone_name", ZONES)
def test_the_instants_are_those_that_a_walk_along_the_clock_finds(zone_name: str) -> None:
    years = random.Random(zone_name).sample(range(2000, 2099), SAMPLED)
    # The year of its lost day.
    for year in [*years, 2011] if zone_name == "Pacific/Apia" else years:
        all_of_year = stretches(zone_name, datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC))
        summer = datetime(year, 7, 1, tzinfo=UTC)
        for begin, end in map(around, [each.start for each in all_of_year[1:]] or [summer]):
            for text in EXPRESSIONS:
                assert told(text, zone_name, begin, end) == walked(text, all_of_year, begin, end), (text, begin)


@pytest.mark.parametrize(
    ("text", "zone_name", "last", "following"),
    [
        # The hour from 2 to 3 comes twice; its first showing is over when asked in the second.
        ("30 2 * * *", "Europe/Berlin", "2027-10-31T01:10Z", "2027-11-01T02:30+01:00"),
        ("30 2 * * *", "Europe/Berlin", "2027-10-31T00:10Z", "2027-10-31T02:30+02:00"),
        ("30 2 * * *", "Europe/Berlin", "2027-10-31T00:30Z", "2027-11-01T02:30+01:00"),
        ("*/30 2 * * *", "Europe/Berlin", "2027-10-31T00:30Z", "2027-10-31T02:00+01:00"),
        # It is skipped.
        ("30 2 * * *", "Europe/Berlin", "2027-03-28T00:10Z", "2027-03-28T03:00+02:00"),
        ("*/30 2 * * *", "Europe/Berlin", "2027-03-28T00:10Z", "2027-03-29T02:00+02:00"),
        # Clocks that are set by half an hour, and a midnight that is skipped.
        ("*/15 3 * * *", "Australia/Lord_Howe", "2027-04-03T14:50Z", "2027-04-04T03:00+10:30"),
        ("* 0 * 3 0", "Asia/Beirut", "2027-03-27T12:00Z", "2028-03-05T00:00+02:00"),
        # A day that never was.
        ("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00Z", "2011-12-31T00:00+14:00"),
        # Days of month and week: either, where both are told.
        ("0 0 30 2 1", "UTC", "2027-02-02T00:00Z", "2027-02-08T00:00Z"),
    ],
)
def test_the_instant_after_another_is_never_one_that_is_past(
    text: str, zone_name: str, last: str, following: str
) -> None:
    assert next(Cron.of(text, zone_name).after(moment(last))) == moment(following)


def test_whoever_asks_after_each_instant_gets_them_all_and_none_twice() -> None:
    cron, last = Cron.of("*/20 * * * *", "Australia/Lord_Howe"), moment("2027-04-03T12:00Z")
    together = list(islice(cron.after(last), 40))
    for instant in together:
        last = next(cron.after(last))
        assert last == instant


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("* * * * * *", "6 fields"),
        ("@daily", "0 0 * * *"),
        ("0 0 30 2 *", "day-of-month"),
        ("0 0 */31 2 MON#2", "never comes"),
        ("61 * * * *", "bad minute"),
        ("9" * 60 + " * * * *", "bad minute"),
        ("soon", "1 fields"),
    ],
)
def test_an_expression_that_is_none_or_never_comes_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(BadTiming, match=sentence.replace("*", r"\*")) as refused:
        Cron.of(text, "UTC")
    assert refused.value.place == "cron"


@pytest.mark.parametrize("zone_name", ["Europe/Berln", "../Europe/Berlin", "zones", ""])
def test_a_zone_that_nobody_knows_is_refused(zone_name: str) -> None:
    with pytest.raises(BadTiming, match="no time zone") as refused:
        Cron.of("* * * * *", zone_name)
    assert refused.value.place == "zone"


def test_intervals_count_from_their_beginning_and_end_with_the_timetable() -> None:
    every = Timing.of(
        Timetable(every_seconds=600, starts_at=NOW, until=NOW + timedelta(minutes=35)),
    )
    minutes = [(instant - NOW).total_seconds() / 60 for instant in every.after(NOW + timedelta(minutes=5))]
    assert minutes == [10, 20, 30]
    assert next(every.after(every.begun(NOW - timedelta(days=1)))) == NOW
    assert next(every.after(NOW)) == NOW + timedelta(minutes=10)


def test_a_beginning_that_is_to_come_is_itself_an_instant_of_cron() -> None:
    timing = Timing.of(Timetable(cron="0 0 * * *", starts_at=NOW + timedelta(days=9)))
    assert next(timing.after(timing.begun(NOW))) == NOW + timedelta(days=9)


def test_an_instant_is_due_within_its_jitter_and_always_at_the_same_moment() -> None:
    timing = Timing.of(Timetable(cron="0 * * * *", jitter_seconds=900))
    instants = list(islice(timing.after(NOW), 50))
    delays = [(timing.due("a", instant) - instant).total_seconds() for instant in instants]
    assert all(0 <= delay <= 900 for delay in delays)
    assert len(set(delays)) > 25
    assert delays == [(timing.due("a", instant) - instant).total_seconds() for instant in instants]
    assert delays != [(timing.due("b", instant) - instant).total_seconds() for instant in instants]


@pytest.mark.parametrize(
    "table", [Timetable(every_seconds=600, jitter_seconds=600), Timetable(cron="0,9 3 * * 1", jitter_seconds=540)]
)
def test_jitter_that_reaches_the_next_instant_is_refused(table: Timetable) -> None:
    with pytest.raises(BadTiming, match="seconds apart") as refused:
        Timing.of(table).check_jitter(NOW)
    assert refused.value.place == "jitter_seconds"
    less = table.model_copy(update={"jitter_seconds": table.jitter_seconds - 1})
    Timing.of(less).check_jitter(NOW)
