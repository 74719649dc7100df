"""Following an order: server-sent events out of bytes, and the position reached in its journal."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcc.client.calls import TRIES
from mcc.client.errors import ClientError

if TYPE_CHECKING:
    from mcc.contracts.wire import Seen

DELTAS = frozenset({"model.delta", "thinking.delta", "tool_call.delta", "tool.progress"})
PROGRESS = "generation.progress"
SHORTEST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
PATIENCE_SECONDS = 300.0
READ_SECONDS = 45.0
"""The service pings every 15 s; silence for longer means that the connection is dead."""


@dataclass(frozen=True, slots=True)
class Event:
    """`id` None: this event is not an entry and does not change the position in the journal."""

    name: str
    data: str
    id: str | None = None


class EventParser:
    """Fed with bytes as they come; only line feeds end a line, since text may hold every other separator."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._id: str | None = None
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            event = self._line(line.removesuffix(b"\r").decode("utf-8", "replace"))
            if event is not None:
                yield event

    def _line(self, text: str) -> Event | None:
        if not text:
            event = Event(self._name or "message", "\n".join(self._data), self._id) if self._data else None
            self._name, self._id, self._data = "", None, []
            return event
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "id":
                self._id = value
        return None


class LostEntry(Exception):
    """The stream skipped an entry: connect again at the position reached."""


class Position:
    """The last entry that a watcher has seen. Entries pass once and in order, whatever the connections bring.

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

    def take(self, event: Event) -> "Seen | None":
        """What the watcher is given of this event; None for what it has seen or did not ask for."""
        self._failures = 0
        self._heard = time.monotonic()
        if event.name in DELTAS:
            from mcc.contracts.wire import Delta

            return Delta.model_validate(json.loads(event.data)) if self._deltas else None
        if event.name == PROGRESS:
            from mcc.contracts.wire import GenerationProgress

            return GenerationProgress.model_validate(json.loads(event.data)) if self._deltas else None
        if event.id is None or int(event.id) <= self.seq:
            return None
        if int(event.id) != self.seq + 1:
            raise LostEntry(f"entry {self.seq + 1} is missing before {event.id}")
        from mcc.contracts.entry import Entry

        entry = Entry.model_validate(json.loads(event.data))
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
