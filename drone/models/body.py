"""HTTP bodies: requests built from messages encoded once, and server-sent events parsed from arbitrary pieces."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias, TypeVar

from drone.agent.ports.model import Ask, TooManyPictures
from mcc.contracts.blocks import AnyBlock, OpaqueBlock, RedactedBlock, ThinkingBlock
from mcc.transcript.messages import AssistantMessage, Message
from mcc.transcript.pictures import PictureLimits, has_pictures, is_beyond, shown_pictures, with_pictures

UNREADABLE_ARGUMENTS = "arguments_that_were_not_a_json_object"
"""Key of the object that carries a call's text arguments back to providers, all of which require an object."""

AT_FAULT = (400, 413, 422)
"""Statuses of a request that its provider finds at fault, among them those that may state the context size."""


def unreadable_thinking(messages: Sequence[Message], name: str) -> Iterator[str]:
    """Sentences for people: the other models whose sealed thinking is not sent to the model `name`, which gets only the
    words and calls of their replies."""
    others = {one.model: None for one in messages if isinstance(one, AssistantMessage) and one.model not in ("", name)}
    for other in others:
        replies = (one for one in messages if isinstance(one, AssistantMessage) and one.model == other)
        if any(map(_is_sealed, chain.from_iterable(reply.blocks for reply in replies))):
            yield f"{name} is not told the thinking in earlier replies that only {other} can read."


def _is_sealed(block: AnyBlock) -> bool:
    match block:
        case ThinkingBlock(signature=signature, extra=extra):
            return bool(signature or extra)
        case RedactedBlock() | OpaqueBlock():
            return True
    return False


def with_readable_pictures(ask: Ask, name: str, limits: PictureLimits) -> tuple[Ask, str]:
    """The question as the model `name` can take it: with its pictures, or where it is shown none, without them; then
    also a sentence about that for people. Raises `TooManyPictures`: fewer of them would have to be chosen for good.
    """
    if not has_pictures(ask.messages):
        return ask, ""
    if limits.most:
        if is_beyond(shown_pictures(ask.messages), limits):
            raise TooManyPictures(f"{name} is shown at most {limits.most} pictures at once.", limits)
        return ask, ""
    messages = with_pictures(ask.messages, lambda _: f"{name} takes no pictures, as far as is known")
    return replace(ask, messages=messages), f"{name} is not shown the pictures of this conversation."


M = TypeVar("M", bound=Message)

Pieces: TypeAlias = Callable[[], Iterator[bytes]]
"""Makes the pieces of a body; every call makes the same ones."""

SMALL_BYTES = 1024 * 1024
"""Larger bodies are sent piece by piece."""

LARGE_BYTES = 64 * 1024
"""Larger messages are encoded anew for each request: encoding costs less than sending (some 30 µs), and no bytes stay
in memory."""


def encoded(message: M, form: str, encode: Callable[[M], bytes]) -> bytes:
    """The message encoded for the provider's `form`: made by `encode`, and cached in the message unless it is large."""
    known = message.encoded_as(form)
    if known is None:
        known = encode(message)
        if len(known) <= LARGE_BYTES:
            message.remember(form, known)
    return known


def comma_separated(elements: Iterable[bytes]) -> Iterator[bytes]:
    """The elements of a JSON list with commas between them."""
    first = True
    for element in elements:
        if first:
            first = False
        else:
            yield b","
        yield element


def coalesced(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces: small pieces are joined, because each piece sent costs CPU."""
    together: list[bytes] = []
    size = 0
    for piece in pieces:
        together.append(piece)
        size += len(piece)
        if size > LARGE_BYTES:
            yield b"".join(together)
            together, size = [], 0
    if together:
        yield b"".join(together)


class Body:
    """A body of known length; every iteration makes the same pieces. A short one is a single piece, joined only then,
    so that of hundreds of concurrent bodies only one is whole at a time. A long one is never whole in memory."""

    __slots__ = ("_pieces", "_size")

    def __init__(self, pieces: Pieces, size: int) -> None:
        self._pieces = pieces
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        return iter((b"".join(self._pieces()),)) if self._size <= SMALL_BYTES else coalesced(self._pieces())


def body_of(pieces: Pieces) -> Body:
    """The body made of `pieces`. A long body is iterated once here to learn its length, which servers want to know in
    advance; of a short one the pieces are kept, most of them bytes cached in messages."""
    kept: list[bytes] = []
    size = 0
    for piece in pieces():
        size += len(piece)
        if size <= SMALL_BYTES:
            kept.append(piece)
        else:
            kept.clear()
    return Body(kept.__iter__ if size <= SMALL_BYTES else pieces, size)


Event: TypeAlias = tuple[bytes, bytes]
"""Name and data. Most providers leave the name empty. Several data lines are joined by line feeds."""

_BLANKS = 1_024
MAX_EVENT_BYTES = 8 * 1024 * 1024
_MARK = b"\xef\xbb\xbf"


class TooLarge(ValueError):
    """One event exceeds `MAX_EVENT_BYTES`."""


class EventStreamParser:
    """A server-sent events parser after the HTML standard: lines end with LF, CRLF or CR; comments and a leading BOM
    are skipped."""

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
        """Keep the start of a line until its rest arrives."""
        if rest:
            self._rest.append(rest)
            self._rest_bytes += len(rest)
            if self._rest_bytes > MAX_EVENT_BYTES:
                raise TooLarge

    def _without_mark(self, piece: bytes) -> bytes:
        """Strip the byte order mark, which may itself arrive in pieces."""
        start = b"".join((*self._rest, piece))
        self._rest = []
        if len(start) < len(_MARK) and _MARK.startswith(start):
            self._rest = [start]
            return b""
        self._begun = True
        return start.removeprefix(_MARK)

    def _with_line_feeds(self, piece: bytes) -> bytes:
        """Convert line ends to LF. A CR ends its line at once, even as the last byte of a piece; an LF right after it
        belongs to it."""
        if self._ended_by_cr and piece.startswith(b"\n"):
            piece = piece[1:]
            self._ended_by_cr = False
        if piece:
            self._ended_by_cr = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def is_page(body: bytes) -> bool:
    """Whether the body starts like an HTML page, regardless of its headers; JSON and event streams never do."""
    return body[:_BLANKS].lstrip()[:1] == b"<"
