"""HTTP/1.1 on the wire: heads and bodies, parsed strictly, so that both sides of the proxy see the same messages."""

from asyncio import IncompleteReadError, LimitOverrunError, StreamReader
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

HEAD_BYTES = 64 * 1024
"""Longest accepted head; a `StreamReader` must have this limit."""

MOST_HEADERS = 200
PIECE = 64 * 1024

_TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_LINE = 1_024
_OF_ONE_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"),
        *(b"trailer", b"transfer-encoding", b"upgrade", b"expect", b"content-length"),
    }
)
"""Hop-by-hop headers, which are not forwarded; the proxy writes its own for the other side."""


class BadMessage(ValueError):
    """A message that violates HTTP/1.1 or exceeds a limit; `status` is the HTTP status for its sender."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Framing(Enum):
    """How a body without a known length ends: there is none, the last chunk, or the end of the connection."""

    NONE = auto()
    CHUNKED = auto()
    TO_THE_END = auto()


Length = int | Framing


@dataclass(frozen=True, slots=True)
class MessageHead:
    """The start line in its three parts, and the headers in their order. Header names keep their case."""

    start_line: tuple[bytes, bytes, bytes]
    headers: tuple[tuple[bytes, bytes], ...]

    def all_of(self, name: bytes) -> Sequence[bytes]:
        return [value for one, value in self.headers if one.lower() == name]

    def has_token(self, name: bytes, word: bytes) -> bool:
        """Whether a header that is a list holds this token (lower case); the comparison ignores case."""
        return any(word == one.strip().lower() for value in self.all_of(name) for one in value.split(b","))

    @property
    def length(self) -> int | None:
        """The Content-Length, None where there is none. Raises `BadMessage`."""
        lengths = {length.strip() for value in self.all_of(b"content-length") for length in value.split(b",")}
        if not lengths:
            return None
        only = lengths.pop()
        # Two different lengths are how a request is smuggled past one of two readers.
        if lengths or not only.isdigit() or len(only) > 18:
            raise BadMessage("Content-Length is no length")
        return int(only)

    @property
    def is_chunked(self) -> bool:
        """Whether the transfer coding is chunked. Raises `BadMessage` for any other, and for one beside a length."""
        codings = b",".join(self.all_of(b"transfer-encoding")).strip().lower()
        if codings and (codings != b"chunked" or self.length is not None):
            raise BadMessage("Transfer-Encoding is not understood")
        return bool(codings)

    @property
    def request_framing(self) -> Length:
        """How the body of this request ends. Raises `BadMessage`."""
        if self.is_chunked:
            return Framing.CHUNKED
        return self.length or Framing.NONE

    def response_framing(self, method: bytes) -> Length:
        """How the body of this response to a request with this method ends. Raises `BadMessage`."""
        status = int(self.start_line[1])
        if method == b"HEAD" or status in (204, 304) or status < 200:
            return Framing.NONE
        if self.is_chunked:
            return Framing.CHUNKED
        return Framing.TO_THE_END if self.length is None else self.length or Framing.NONE

    @property
    def end_to_end(self) -> Iterator[tuple[bytes, bytes]]:
        """The end-to-end headers: those that are not about this connection only."""
        named = {one.strip().lower() for value in self.all_of(b"connection") for one in value.split(b",")}
        return ((name, value) for name, value in self.headers if name.lower() not in _OF_ONE_HOP | named)

    def encoded(self) -> bytes:
        lines = (b" ".join(self.start_line), *(b"%b: %b" % one for one in self.headers), b"", b"")
        return b"\r\n".join(lines)


async def read_head(reader: StreamReader) -> MessageHead | None:
    """The next head; None where the peer has closed the connection. Raises `BadMessage`, `OSError`."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except IncompleteReadError as error:
        if error.partial.strip():
            raise BadMessage("the message ends in its head") from error
        return None
    except LimitOverrunError as error:
        raise BadMessage("the head is too long", 431) from error
    first, *lines = raw[:-4].split(b"\r\n")
    if len(lines) > MOST_HEADERS:
        raise BadMessage("there are too many headers", 431)
    parts = first.split(b" ", 2)
    if _is_spoilt(first) or len(parts) < 2 or not all(parts[:2]):
        raise BadMessage("the first line is not understood")
    return MessageHead((parts[0], parts[1], parts[2] if len(parts) > 2 else b""), tuple(map(_header, lines)))


async def read_request(reader: StreamReader) -> MessageHead | None:
    """The head of the next request; None where the client has closed the connection. Raises `BadMessage`, `OSError`."""
    head = await read_head(reader)
    if head is not None:
        method, _, version = head.start_line
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or not _TOKEN.issuperset(method):
            raise BadMessage("only HTTP/1.1 is spoken here", 505)
    return head


async def read_response(reader: StreamReader) -> MessageHead:
    """The head of the final response, skipping interim ones (1xx). Raises `BadMessage`, `OSError`."""
    while True:
        head = await read_head(reader)
        if head is None:
            raise BadMessage("it closed the connection without an answer")
        version, status, _ = head.start_line
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or not (status.isdigit() and len(status) == 3 and status >= b"1"):
            raise BadMessage("it answered something that is not HTTP")
        if status == b"101":
            raise BadMessage("it changed to another protocol, which nobody asked for")
        if status >= b"200":
            return head


async def read_body(reader: StreamReader, length: Length) -> AsyncIterator[bytes]:
    """The body in pieces. Raises `BadMessage`, `OSError`."""
    match length:
        case Framing.NONE:
            return
        case Framing.TO_THE_END:
            while piece := await reader.read(PIECE):
                yield piece
        case Framing.CHUNKED:
            while size := await _chunk_size(reader):
                async for piece in _exactly(reader, size):
                    yield piece
                if await _line(reader):
                    raise BadMessage("a chunk is longer than it says")
            for _ in range(MOST_HEADERS):
                if not await _line(reader):
                    return
            raise BadMessage("there are too many trailers")
        case _:
            async for piece in _exactly(reader, length):
                yield piece


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


async def _exactly(reader: StreamReader, left: int) -> AsyncIterator[bytes]:
    while left:
        piece = await reader.read(min(PIECE, left))
        if not piece:
            raise BadMessage("the message ends in its body")
        left -= len(piece)
        yield piece


async def _chunk_size(reader: StreamReader) -> int:
    digits = (await _line(reader)).partition(b";")[0].strip(b" \t")
    if not digits or len(digits) > 15 or not _HEX.issuperset(digits):
        raise BadMessage("the size of a chunk is not understood")
    return int(digits, 16)


async def _line(reader: StreamReader) -> bytes:
    try:
        line = await reader.readuntil(b"\r\n")
    except (IncompleteReadError, LimitOverrunError) as error:
        raise BadMessage("the message ends in its body") from error
    if len(line) > _LINE:
        raise BadMessage("a line is too long")
    return line[:-2]


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name or not _TOKEN.issuperset(name) or _is_spoilt(value):
        raise BadMessage("a header is not understood")
    return name, value.strip(b" \t")


def _is_spoilt(line: bytes) -> bool:
    """Whether it has a byte that some parsers take for the end of a line and others do not (request smuggling)."""
    return any(one in line for one in (b"\r", b"\n", b"\0"))
