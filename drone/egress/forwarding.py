"""One connection of a program to the proxy: its requests, checked and passed on, or a tunnel."""

import asyncio
import ssl
import zlib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from drone.egress.http1 import (
    HEAD_BYTES,
    LAST_CHUNK,
    PIECE,
    BadMessage,
    Framing,
    Head,
    answer_of,
    body_of,
    chunk,
    request_of,
)
from drone.egress.secrets import Secrets
from drone.egress.ways import Denied, Way
from mcc.addresses import Endpoint, Refused, endpoint_of, url_of

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 300.0
"""A connection on which nothing moves for so long is closed."""

_TROUBLE = (OSError, ssl.SSLError, TimeoutError, EOFError)


@dataclass(slots=True)
class _Upstream:
    """A connection to where requests go; it is used again while both sides want that."""

    endpoint: Endpoint
    secure: bool
    reader: StreamReader
    writer: StreamWriter

    def serves(self, endpoint: Endpoint, secure: bool) -> bool:
        still = not self.reader.at_eof() and not self.writer.is_closing()
        return still and (self.endpoint, self.secure) == (endpoint, secure)


class Connection:
    """Serves one client until it is done. `trust`: how servers are known, for an order that has secrets."""

    def __init__(self, way: Way, trust: ssl.SSLContext | None, reader: StreamReader, writer: StreamWriter) -> None:
        self._way = way
        self._trust = trust
        self._reader = reader
        self._writer = writer
        self._upstream: _Upstream | None = None

    async def serve(self) -> None:
        try:
            await self._requests(None)
        except _TROUBLE:
            pass
        finally:
            self._close_upstream()
            self._writer.close()
            with suppress(*_TROUBLE):
                await self._writer.wait_closed()

    async def _requests(self, inside: Endpoint | None) -> None:
        """`inside`: whom the client takes us for, behind a CONNECT; None while it knows that we are a proxy."""
        while True:
            asked = ""
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    head = await request_of(self._reader)
                if head is None:
                    return
                asked = ascii(head.first[1].decode("latin-1"))[1:-1]
                if head.first[0] == b"CONNECT" and inside is None:
                    await self._connect(head)
                    return
                goes_on = await self._exchange(head, inside)
            except Denied as denied:
                await self._refuse(403, str(denied))
                return
            except Refused as refused:
                self._way.deny(asked)
                await self._refuse(400, str(refused))
                return
            except BadMessage as bad:
                await self._refuse(bad.status, f"This request cannot be passed on: {bad}.")
                return
            if not goes_on:
                return

    async def _connect(self, head: Head) -> None:
        """Raises `Denied`, `Refused`."""
        endpoint = endpoint_of(head.first[1].decode("latin-1"))
        order = self._way.order
        if order.authority is not None and order.secrets.sent_to(endpoint):
            await self._way.reached(endpoint)
            await self._established()
            await self._writer.start_tls(order.authority.context(endpoint.host))
            await self._requests(endpoint)
            return
        upstream = await self._opened(endpoint, secure=False)
        if upstream is None:
            return
        await self._established()
        await _tunnel((self._reader, self._writer), (upstream.reader, upstream.writer))

    async def _established(self) -> None:
        self._writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._writer.drain()

    async def _exchange(self, head: Head, inside: Endpoint | None) -> bool:
        """One request and its answer; whether the client may go on with another one."""
        method, target, version = head.first
        if inside is None:
            url = url_of(target.decode("latin-1"))
            if url.scheme != "http":
                raise BadMessage("https is asked for with CONNECT")
            endpoint, authority, target = url.endpoint, url.authority, url.target.encode()
        else:
            endpoint, authority = inside, _authority(head, inside)
            if not target.startswith(b"/") and target != b"*":
                raise BadMessage("it names its host twice")
        length = head.of_request
        upstream = await self._opened(endpoint, secure=inside is not None)
        if upstream is None:
            return False
        secrets = self._way.order.secrets.sent_to(endpoint)
        try:
            upstream.writer.write(_request(head, target, authority, secrets))
            if length is not Framing.NONE and head.says(b"expect", b"100-continue"):
                self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await _sent(body_of(self._reader, length), upstream.writer, chunked=length is Framing.CHUNKED)
            async with asyncio.timeout(IDLE_SECONDS):
                answer = await answer_of(upstream.reader)
            framing = answer.of_answer(method)
            pieces = _unpacked(answer, body_of(upstream.reader, framing)) if secrets else None
        except (BadMessage, *_TROUBLE) as error:
            await self._refuse(502, f"{endpoint} did not answer as it should: {_said(error)}.")
            return False
        stays = version == b"HTTP/1.1" and not head.says(b"connection", b"close")
        chunked = version == b"HTTP/1.1" and framing is not Framing.NONE
        self._writer.write(_answer(answer, secrets, framing, chunked=chunked, stays=stays))
        body = pieces if pieces is not None else body_of(upstream.reader, framing)
        try:
            await _sent(_scrubbed(body, secrets), self._writer, chunked=chunked)
        except BadMessage:
            # The head is gone already: an end without the last chunk is how the client learns of it.
            return False
        if framing is Framing.TO_THE_END or answer.says(b"connection", b"close") or answer.first[0] == b"HTTP/1.0":
            self._close_upstream()
        return stays and (chunked or framing is Framing.NONE)

    async def _opened(self, endpoint: Endpoint, *, secure: bool) -> _Upstream | None:
        """A connection to there; None where nobody answers, which the client is told. Raises `Denied`."""
        if self._upstream is not None and self._upstream.serves(endpoint, secure):
            return self._upstream
        self._close_upstream()
        assert not secure or self._trust is not None, "only an order with secrets is looked into"
        error: BaseException | None = None
        for address in await self._way.reached(endpoint):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(
                        address.host,
                        address.port,
                        limit=HEAD_BYTES,
                        ssl=self._trust if secure else None,
                        server_hostname=endpoint.host if secure else None,
                    )
            except _TROUBLE as trouble:
                error = trouble
                continue
            self._upstream = _Upstream(endpoint, secure, reader, writer)
            return self._upstream
        await self._refuse(502, f"{endpoint} cannot be reached: {_said(error)}.")
        return None

    async def _refuse(self, status: int, said: str) -> None:
        body = f"mcc: {said}\n".encode("utf-8", "replace")
        head = (
            f"HTTP/1.1 {status} Refused by the proxy\r\ncontent-type: text/plain; charset=utf-8\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        with suppress(*_TROUBLE):
            await self._writer.drain()

    def _close_upstream(self) -> None:
        if self._upstream is not None:
            self._upstream.writer.close()
            self._upstream = None


def _authority(head: Head, endpoint: Endpoint) -> str:
    """The header Host, which must name whom the connection goes to: others may be served at the same address, and would
    be sent the secret."""
    named = head.all_of(b"host")
    if len(named) != 1 or endpoint_of(named[0].decode("latin-1"), 443) != endpoint:
        raise BadMessage("its Host is not the one that it connected to", 421)
    return named[0].decode("latin-1")


def _request(head: Head, target: bytes, authority: str, secrets: Secrets) -> bytes:
    headers = [(name, value) for name, value in head.passed_on if name.lower() != b"host"]
    if secrets:
        # What is packed cannot be searched for secrets, what is a part of a body only half.
        headers = [(name, value) for name, value in headers if name.lower() not in (b"accept-encoding", b"range")]
        headers.append((b"accept-encoding", b"identity"))
    all_headers = [(b"host", authority.encode("latin-1")), *secrets.put_in(headers), *_framing(head)]
    return Head((head.first[0], target, b"HTTP/1.1"), tuple(all_headers)).encoded()


def _framing(head: Head) -> Sequence[tuple[bytes, bytes]]:
    if head.is_chunked:
        return [(b"transfer-encoding", b"chunked")]
    return [] if head.length is None else [(b"content-length", str(head.length).encode())]


def _answer(answer: Head, secrets: Secrets, framing: int | Framing, *, chunked: bool, stays: bool) -> bytes:
    headers = [*secrets.taken_out(answer.passed_on)]
    if secrets:
        headers = [(name, value) for name, value in headers if name.lower() not in (b"content-encoding", b"alt-svc")]
    if chunked:
        headers.append((b"transfer-encoding", b"chunked"))
    elif framing is Framing.NONE and int(answer.first[1]) not in (204, 304):
        # To HEAD the length is that of what GET would bring.
        headers.append((b"content-length", str(answer.length or 0).encode()))
    headers.append((b"connection", b"keep-alive" if stays and (chunked or framing is Framing.NONE) else b"close"))
    reason = secrets.taken_out([(b"", answer.first[2])])[0][1]
    return Head((b"HTTP/1.1", answer.first[1], reason), tuple(headers)).encoded()


async def _sent(pieces: AsyncIterator[bytes], writer: StreamWriter, *, chunked: bool) -> None:
    async for piece in pieces:
        if piece:
            writer.write(chunk(piece) if chunked else piece)
            await writer.drain()
    if chunked:
        writer.write(LAST_CHUNK)
    await writer.drain()


async def _scrubbed(pieces: AsyncIterator[bytes], secrets: Secrets) -> AsyncIterator[bytes]:
    scrubber = secrets.scrubber()
    async for piece in pieces:
        yield scrubber.feed(piece)
    yield scrubber.end()


def _unpacked(answer: Head, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The plain body, although a server packed it that was asked not to. Raises `BadMessage`."""
    coding = b",".join(answer.all_of(b"content-encoding")).strip().lower()
    if coding in (b"", b"identity"):
        return pieces
    if coding in (b"gzip", b"x-gzip", b"deflate"):
        return _inflated(pieces)
    raise BadMessage("it packed its answer although it was asked not to")


async def _inflated(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
    async for piece in pieces:
        while piece:
            try:
                # Piece by piece, so that little which becomes much is passed on as it is read, and never held.
                yield inflate.decompress(piece, PIECE)
            except zlib.error as error:
                raise BadMessage("what it packed is broken") from error
            piece = inflate.unconsumed_tail
    yield inflate.flush(PIECE)


Streams = tuple[StreamReader, StreamWriter]


async def _tunnel(one: Streams, other: Streams) -> None:
    """Pass bytes both ways until both sides are done, one breaks, or nothing moves."""
    moved = [asyncio.get_running_loop().time()]
    ways = [
        asyncio.create_task(_pumped(one[0], other[1], moved)),
        asyncio.create_task(_pumped(other[0], one[1], moved)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pumped(source: StreamReader, sink: StreamWriter, moved: list[float]) -> None:
    now = asyncio.get_running_loop().time
    while True:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                piece = await source.read(PIECE)
        except TimeoutError:
            if now() - moved[0] < IDLE_SECONDS:
                continue
            raise
        moved[0] = now()
        if not piece:
            sink.write_eof()
            return
        sink.write(piece)
        await sink.drain()


def _said(error: BaseException | None) -> str:
    match error:
        case TimeoutError():
            return "it took too long"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case OSError() if error.strerror:
            return error.strerror
        case BadMessage():
            return str(error)
    return "the connection broke"
