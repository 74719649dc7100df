"""A clock that stands still until a test moves it."""

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Implements `mcc.store.clock.Clock`; `advance` moves wall clock and uptime alike."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self._now = start
        self._uptime = 1_000.0
        self._boots = 1

    def now(self) -> datetime:
        return self._now

    def uptime(self) -> float:
        return self._uptime

    def boot(self) -> str:
        return f"boot-{self._boots}"

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._uptime += seconds

    def turn_back(self, seconds: float) -> None:
        """Somebody sets the wall clock; uptime does not care."""
        self._now -= timedelta(seconds=seconds)

    def reboot(self) -> None:
        self._uptime = 1.0
        self._boots += 1
