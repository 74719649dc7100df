"""This room is for reading server-sent events: bytes in, events out."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """`id` None: this event is not an entry and does not change the place in the journal."""

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
            return self._dispatch()
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

    def _dispatch(self) -> Event | None:
        event = Event(self._name or "message", "\n".join(self._data), self._id) if self._data else None
        self._name, self._id, self._data = "", None, []
        return event
