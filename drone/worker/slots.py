"""This room is for the slots of a drone: one counter for Celery's tasks and for the database poll."""

import threading


class Slots:
    """At most `total` orders at a time. Safe for several threads."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._active = 0
        self._fillings = 0
        self._lock = threading.Lock()

    @property
    def active(self) -> int:
        return self._active

    @property
    def free(self) -> int:
        return self.total - self._active

    @property
    def fillings(self) -> int:
        """How often the last free slot was taken so far; tells whether a drone was full in between."""
        return self._fillings

    def take(self) -> bool:
        """Take a slot; False when none is free."""
        with self._lock:
            if self._active >= self.total:
                return False
            self._active += 1
            self._fillings += self._active == self.total
            return True

    def release(self) -> None:
        with self._lock:
            self._active -= 1
