"""This room is for the count of messages that nobody here can use; what they were stands in the log."""

import threading


class RefusedMessages:
    """How many there were since this process started. Safe for several threads."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        return self._count

    def add(self) -> None:
        with self._lock:
            self._count += 1
