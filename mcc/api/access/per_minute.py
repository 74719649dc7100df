"""How often somebody may do something: counts over windows of a minute, in memory."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

SECONDS = 60.0


@dataclass(slots=True)
class _Window:
    ends_at: float
    count: int = 0


class PerMinute:
    """Takes `most` times a minute of each one that is counted. A window begins with the first time that is counted in
    it, so that bursts pass. `monotonic` answers seconds."""

    def __init__(self, most: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._monotonic = monotonic
        self._windows: dict[str, _Window] = {}
        """In the sequence in which they end."""

    def takes(self, who: str) -> bool:
        """Count once more; whether that is within the pace."""
        now = self._now()
        window = self._windows.get(who)
        if window is None:
            window = self._windows[who] = _Window(now + SECONDS)
        window.count += 1
        return window.count <= self._most

    def has_room(self, who: str) -> bool:
        """Whether one more would be within the pace; nothing is counted."""
        self._now()
        return (window := self._windows.get(who)) is None or window.count < self._most

    def wait_seconds(self, who: str) -> int:
        """After how many seconds the next one is within the pace again; 1 at least."""
        now = self._now()
        window = self._windows.get(who)
        return 1 if window is None else max(1, math.ceil(window.ends_at - now))

    def _now(self) -> float:
        """The time, at which no window is left that is over."""
        now = self._monotonic()
        while self._windows and (first := next(iter(self._windows.items())))[1].ends_at <= now:
            del self._windows[first[0]]
        return now
