"""The slots of a drone, shared by Celery's tasks and the database poll, and what the drone counts."""

import threading

from mcc.contracts.drones import DroneCounters


class Slots:
    """At most `total` orders at a time, or one that has the process to itself. Safe for several threads."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._active = 0
        self._fillings = 0
        self._alone = False
        self._kept_clear = False
        self._lock = threading.Lock()

    @property
    def active(self) -> int:
        return self._active

    @property
    def free(self) -> int:
        return 0 if self._alone or self._kept_clear else self.total - self._active

    @property
    def alone(self) -> bool:
        """Whether one order has the process to itself."""
        return self._alone

    def keep_clear(self, wanted: bool) -> None:
        """Take nothing more, so that an order that must be alone finds this process empty; False: as usual again."""
        self._kept_clear = wanted

    @property
    def fillings(self) -> int:
        """How often the last free slot was taken so far. Two equal answers: the drone was never full in between."""
        return self._fillings

    def take(self, *, alone: bool = False) -> bool:
        """Take a slot, or all of them; False when none is free, or not all."""
        with self._lock:
            if self._active >= (1 if alone else self.total) or self._alone or (self._kept_clear and not alone):
                return False
            self._active += 1
            self._alone = alone
            self._fillings += self._active == self.total
            return True

    def release(self) -> None:
        with self._lock:
            self._active -= 1
            self._alone = False


class Counting:
    """Counts what `DroneCounters` names, since this process started. Safe for several threads."""

    def __init__(self) -> None:
        self._counters = DroneCounters()
        self._lock = threading.Lock()

    def add(self, counter: str) -> None:
        """One more; `counter` is a field of `DroneCounters`, AttributeError is raised for other names."""
        with self._lock:
            more = {counter: getattr(self._counters, counter) + 1}
            self._counters = self._counters.model_copy(update=more)

    @property
    def counters(self) -> DroneCounters:
        return self._counters
