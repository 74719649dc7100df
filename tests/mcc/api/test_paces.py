"""How often somebody may do something in a minute, counted without a thread and without growing for ever."""

from threading import active_count

from mcc.api.access.per_minute import SECONDS, PerMinute


class Uptime:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_as_many_as_are_taken_pass_and_the_next_is_refused_until_its_minute_is_over() -> None:
    uptime = Uptime()
    pace = PerMinute(2, monotonic=uptime)
    assert [pace.takes("ann") for _ in range(3)] == [True, True, False]
    uptime.now += SECONDS - 1
    assert not pace.takes("ann")
    uptime.now += 1
    assert pace.takes("ann")


def test_each_one_has_a_minute_of_their_own() -> None:
    uptime = Uptime()
    pace = PerMinute(1, monotonic=uptime)
    assert pace.takes("ann")
    uptime.now += SECONDS / 2
    assert pace.takes("ben")
    uptime.now += SECONDS / 2
    assert pace.takes("ann") and not pace.takes("ben")


def test_asking_for_room_counts_nothing() -> None:
    pace = PerMinute(1)
    assert pace.has_room("ann") and pace.has_room("ann")
    assert pace.takes("ann")
    assert not pace.has_room("ann")


def test_the_wait_ends_with_the_minute_and_is_never_nothing() -> None:
    uptime = Uptime()
    pace = PerMinute(1, monotonic=uptime)
    assert pace.wait_seconds("ann") == 1
    pace.takes("ann")
    uptime.now += 12.5
    assert pace.wait_seconds("ann") == 48
    uptime.now += 47.4
    assert pace.wait_seconds("ann") == 1


def test_nobody_is_remembered_after_their_minute() -> None:
    uptime = Uptime()
    pace = PerMinute(1, monotonic=uptime)
    for number in range(1_000):
        pace.takes(f"10.0.0.{number}")
    assert len(pace._windows) == 1_000
    uptime.now += SECONDS
    pace.takes("ann")
    assert list(pace._windows) == ["ann"]


def test_counting_starts_no_thread() -> None:
    before = active_count()
    pace = PerMinute(1)
    for _ in range(10):
        pace.takes("ann")
    assert active_count() == before
