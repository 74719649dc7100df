"""Server-sent events: bytes in pieces of any size go in, whole events come out."""

from typing import TypeAlias

Event: TypeAlias = tuple[bytes, bytes]
"""Name and data; the name is empty for most providers. Lines of data are joined by a line feed."""

MAX_EVENT_BYTES = 8 * 1024 * 1024
_MARK = b"\xef\xbb\xbf"


class TooLarge(ValueError):
    """One event is larger than `MAX_EVENT_BYTES`."""


class EventStream:
    """Parses as the HTML standard says: LF, CRLF and CR end lines, comments are skipped, a BOM at the start too."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._name = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._begun = False
        self._ended_by_cr = False

    def feed(self, piece: bytes) -> list[Event]:
        """The events that this piece completes. Raises `TooLarge`."""
        if not self._begun:
            piece = self._without_mark(piece)
        if self._ended_by_cr or b"\r" in piece:
            piece = self._with_line_feeds(piece)
        if b"\n" not in piece:
            self._keep(piece)
            return []
        lines = piece.split(b"\n")
        if self._rest:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest, self._rest_bytes = [], 0
        self._keep(lines.pop())
        return self._events(lines)

    def _events(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        for line in lines:
            if line:
                self._line(line)
            elif self._data:
                events.append((self._name, self._data[0] if len(self._data) == 1 else b"\n".join(self._data)))
                self._name, self._data, self._data_bytes = b"", [], 0
            else:
                self._name = b""
        return events

    def _line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            self._data_bytes += len(line)
            if self._data_bytes > MAX_EVENT_BYTES:
                raise TooLarge
        elif line.startswith(b"event:"):
            self._name = line[6:].strip()
        elif line == b"data":
            self._data.append(b"")

    def _keep(self, rest: bytes) -> None:
        """Hold the beginning of a line until the rest of it comes."""
        if rest:
            self._rest.append(rest)
            self._rest_bytes += len(rest)
            if self._rest_bytes > MAX_EVENT_BYTES:
                raise TooLarge

    def _without_mark(self, piece: bytes) -> bytes:
        """The byte order mark may itself come in pieces."""
        start = b"".join((*self._rest, piece))
        self._rest = []
        if len(start) < len(_MARK) and _MARK.startswith(start):
            self._rest = [start]
            return b""
        self._begun = True
        return start.removeprefix(_MARK)

    def _with_line_feeds(self, piece: bytes) -> bytes:
        """A CR ends its line at once, also as the last byte of a piece; a line feed right after it is its own."""
        if self._ended_by_cr and piece.startswith(b"\n"):
            piece = piece[1:]
            self._ended_by_cr = False
        if piece:
            self._ended_by_cr = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
