"""Times are stored to the microsecond, and leases count from the boot."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mcc.contracts.ids import fresh_id
from mcc.store.database.clock import SystemClock, micros, moment
from mcc.testing import FakeClock, temporary_store


@pytest.mark.parametrize(
    "time",
    [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 31, 12, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=5))),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1901, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    ],
)
def test_a_time_comes_back_to_the_microsecond(time: datetime) -> None:
    assert moment(micros(time)) == time


def test_the_real_clock_counts_from_a_boot() -> None:
    clock = SystemClock()
    before = clock.uptime()
    assert clock.uptime() >= before > 0
    assert clock.boot() and clock.boot() == SystemClock().boot()
    assert clock.now().tzinfo is UTC


def test_a_fake_clock_moves_when_it_is_told_to() -> None:
    clock = FakeClock()
    now, uptime, boot = clock.now(), clock.uptime(), clock.boot()
    clock.advance(1.5)
    clock.turn_back(10)
    assert (clock.now() - now, clock.uptime() - uptime) == (timedelta(seconds=-8.5), 1.5)
    clock.reboot()
    assert clock.boot() != boot and clock.uptime() < uptime


def test_ids_sort_by_the_time_they_were_made() -> None:
    made = []
    for _ in range(200):
        start = SystemClock().now()
        made.append(fresh_id())
        while SystemClock().now() - start < timedelta(microseconds=5):
            pass
    assert made == sorted(made)


def test_all_stores_of_a_process_ask_for_the_time_in_the_same_words() -> None:
    stores = [temporary_store(), temporary_store(FakeClock())]
    assert stores[0].database.time is stores[1].database.time is stores[0].beats.time
    for store in stores:
        store.close()
