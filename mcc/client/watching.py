"""Watching an order: a parser of server-sent events, and the position reached in the journal."""

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from mcc.client.calls import TRIES
from mcc.client.errors import ClientError, refusal

if TYPE_CHECKING:
    from mcc.contracts.entry import Entry
    from mcc.contracts.wire import OrderEvent

Away: TypeAlias = Callable[[ClientError | None], None]

NDJSON = "application/x-ndjson"
DELTAS = frozenset({"model.delta", "thinking.delta", "tool_call.delta", "tool.progress"})
PROGRESS = "generation.progress"
WAITS = "order.waits"
SHORTEST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
PATIENCE_SECONDS = 300.0
READ_SECONDS = 45.0
"""Read timeout of the event stream. The service pings every 15 s: after three missed pings the connection is dead."""


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event. `id`: the number of a journal entry; None for any other event."""

    name: str
    data: str
    id: str | None = None


class EventParser:
    """Parses server-sent events from chunks of bytes. Only line feeds end a line: text may hold other separators."""

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


class LineParser:
    """Parses entries from chunks of bytes, one line of JSON each."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> "Iterator[Entry]":
        """Raises `Unauthorized` where the last line says that the right has ended."""
        from mcc.contracts.entry import Entry

        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in filter(None, lines):
            told = json.loads(line)
            if "type" not in told:
                yield Entry.model_validate(told)
            elif told["type"] == "signed_out":
                raise refusal(401, {"detail": str(told.get("why"))})


class Patience:
    """How long to go on trying while the service is away: PATIENCE_SECONDS once it has answered; a service that never
    has is given up after this number of `tries`."""

    def __init__(
        self, tries: int = TRIES, uptime: Callable[[], float] = time.monotonic, away: "Away | None" = None
    ) -> None:
        """`away`: is told why the service is missed, at each try; and None once it answers again."""
        self._tries = tries
        self._away = away
        self._uptime = uptime
        self._failures = 0
        self._has_answered = False
        self._away_since = 0.0

    @property
    def is_away(self) -> bool:
        """Whether the service has not answered since it was last missed."""
        return self._failures > 0

    def answered(self) -> None:
        if self._failures and self._away is not None:
            self._away(None)
        self._failures, self._has_answered = 0, True

    def next_wait(self, problem: ClientError | None) -> float:
        """Seconds before the next try: exponential backoff with jitter. Raises `problem` when it is time to give up."""
        # From the first failure: an order may have had nothing to tell for hours before it.
        self._away_since = self._away_since if self._failures else self._uptime()
        self._failures += 1
        if self._has_answered:
            given_up = self._uptime() - self._away_since > PATIENCE_SECONDS
        else:
            given_up = self._failures >= self._tries
        if given_up and problem is not None:
            raise problem
        if problem is not None and self._away is not None:
            self._away(problem)
        wait = min(SHORTEST_WAIT_SECONDS * 2.0 ** (self._failures - 1), LONGEST_WAIT_SECONDS)
        # With jitter: when a service restarts, all of its clients lose it at the same moment.
        return wait * random.uniform(0.5, 1.0)


class LostEntry(Exception):
    """The stream skipped an entry: reconnect from the position reached."""


class Position:
    """The last entry that a watcher has read; it passes each entry once and in order, across reconnects."""

    def __init__(self, after: int, deltas: bool, away: "Away | None" = None) -> None:
        self.seq = after
        self.over = False
        self._deltas = deltas
        self.patience = Patience(away=away)

    @property
    def headers(self) -> dict[str, str]:
        return {"Accept": "text/event-stream", "Last-Event-ID": str(self.seq)}

    def take(self, event: Event) -> "OrderEvent | None":
        """The item to pass on for this event; None for an entry read before, or a delta nobody asked for.

        Raises `LostEntry`.
        """
        if event.name in DELTAS:
            from mcc.contracts.wire import Delta

            return Delta.model_validate(json.loads(event.data)) if self._deltas else None
        if event.name == PROGRESS:
            from mcc.contracts.wire import GenerationProgress

            return GenerationProgress.model_validate(json.loads(event.data)) if self._deltas else None
        if event.name == WAITS:
            from mcc.contracts.wire import OrderWaits

            return OrderWaits.model_validate(json.loads(event.data)) if self._deltas else None
        if event.id is None or int(event.id) <= self.seq:
            return None
        # A gap is never passed on: whoever follows a journal relies on having every entry.
        if int(event.id) != self.seq + 1:
            raise LostEntry(f"entry {self.seq + 1} is missing before {event.id}")
        from mcc.contracts.entry import Entry

        entry = Entry.model_validate(json.loads(event.data))
        self.seq = entry.seq
        self.over = entry.kind == "order.finished"
        return entry
