"""This room is for following an order: the place in its journal, over any number of connections."""

import json
import random
import time
from typing import TYPE_CHECKING

from mcc.client.calls import TRIES
from mcc.client.errors import ClientError
from mcc.client.event_stream import Event

if TYPE_CHECKING:
    from mcc.contracts.journal import Entry
    from mcc.contracts.wire import Delta

DELTAS = frozenset({"model.delta", "thinking.delta", "tool.progress"})
SHORTEST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
PATIENCE_SECONDS = 300.0
READ_SECONDS = 45.0
"""The service pings every 15 s; silence for longer means that the connection is dead."""


class LostEntry(Exception):
    """The stream skipped an entry: connect again at the place reached."""


class Place:
    """Where a watcher is. Entries pass once and in order, whatever the connections bring.

    `patience_seconds` is how long the service may be away once it has answered.
    """

    def __init__(self, after: int, deltas: bool, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.seq = after
        self.over = False
        self._deltas = deltas
        self._patience_seconds = patience_seconds
        self._failures = 0
        self._heard: float | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Accept": "text/event-stream", "Last-Event-ID": str(self.seq)}

    def take(self, event: Event) -> "Entry | Delta | None":
        """What the watcher is given of this event; None for what it has seen or did not ask for."""
        self._failures = 0
        self._heard = time.monotonic()
        if event.name in DELTAS:
            return _delta(event) if self._deltas else None
        if event.id is None or int(event.id) <= self.seq:
            return None
        if int(event.id) != self.seq + 1:
            raise LostEntry(f"entry {self.seq + 1} is missing before {event.id}")
        entry = _entry(event)
        self.seq = entry.seq
        self.over = entry.kind == "order.finished"
        return entry

    def next_wait(self, problem: ClientError | None) -> float:
        """Seconds until the next connection: longer with each failure, with some chance in it.

        Raises `problem` when patience is over; a service that never answered is tried a few times only.
        """
        self._failures += 1
        if self._heard is None:
            given_up = self._failures >= TRIES
        else:
            given_up = time.monotonic() - self._heard > self._patience_seconds
        if given_up and problem is not None:
            raise problem
        wait = min(SHORTEST_WAIT_SECONDS * 2.0 ** (self._failures - 1), LONGEST_WAIT_SECONDS)
        return wait * random.uniform(0.5, 1.0)


def _entry(event: Event) -> "Entry":
    from mcc.contracts.journal import Entry

    return Entry.model_validate(json.loads(event.data))


def _delta(event: Event) -> "Delta":
    from mcc.contracts.wire import Delta

    return Delta.model_validate(json.loads(event.data))
