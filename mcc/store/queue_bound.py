"""The bound of the queue: how many orders may wait for a drone."""

from collections.abc import Callable
from threading import Lock

from mcc.store.clock import Clock
from mcc.store.errors import QueueFull

COUNT_SECONDS = 1.0
MOST_SECONDS = 60.0
OTHERS_A_SECOND = 1_000
"""A count is used for a second, and for up to a minute while there is room for what others may place. Of what this
process placed meanwhile it knows; of what began or ended it does not."""


class QueueBound:
    """At most `most` orders are queued, or wait for the time before which they may not begin; None: any number.

    Safe for several threads. On PostgreSQL two open transactions do not see each other, and processes that place orders
    in one database count for themselves: what those place within a second may come on top.
    """

    def __init__(self, most: int | None, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._counted_at = self._count_at = float("-inf")
        self._queued = 0

    def take(self, count: Callable[[int], int], places: int = 1) -> None:
        """Take places for orders that stand in the open transaction already; raises `QueueFull`, which undoes them.

        `count` tells how many there are with them, and looks no further than the number that it is given.
        """
        if self._most is None:
            return
        with self._lock:
            now = self._clock.uptime()
            # Places of orders that were undone are counted here until the next count, which no refusal goes without.
            looks_full = self._queued + places > self._most and now >= self._counted_at + COUNT_SECONDS
            if now >= self._count_at or looks_full:
                self._queued = count(self._most + places) - places
                room = self._most - self._queued
                self._counted_at = now
                self._count_at = now + min(max(room / OTHERS_A_SECOND, COUNT_SECONDS), MOST_SECONDS)
            if self._queued + places > self._most:
                raise queue_full(self._most, places)
            self._queued += places


def queue_full(most: int, places: int = 1) -> QueueFull:
    queued = f"{most:,} orders are queued, which is as many as are taken (MCC_MAX_QUEUED_ORDERS)"
    if places > 1:
        queued = f"with these {places:,}, more than {most:,} orders would be queued (MCC_MAX_QUEUED_ORDERS)"
    return QueueFull(f"{queued}: wait until some of them are done, cancel some, or start more drones")
