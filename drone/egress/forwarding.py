"""One connection of a program to the proxy: its requests are checked and forwarded, or it becomes a tunnel."""

import asyncio
import ssl
import zlib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from drone.egress.access import Denied, ProgramAccess
from drone.egress.http1 import (
    HEAD_BYTES,
    LAST_CHUNK,
    PIECE,
    BadMessage,
    Framing,
    MessageHead,
    chunk,
    read_body,
    read_request,
    read_response,
)
from drone.egress.secrets import Secrets
from mcc.addresses import AddressRefused, Endpoint, endpoint_of, url_of

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 300.0
"""A connection on which no byte moves for this long is closed."""

_TROUBLE = (OSError, ssl.SSLError, TimeoutError, EOFError)


@dataclass(slots=True)
class _Upstream:
    """A connection to a server; it is reused while both sides keep it open."""

    endpoint: Endpoint
    secure: bool
    reader: StreamReader
    writer: StreamWriter

    def serves(self, endpoint: Endpoint, secure: bool) -> bool:
        """Whether it is open and leads to this endpoint, with TLS (`secure`) or without."""
        is_open = not self.reader.at_eof() and not self.writer.is_closing()
        return is_open and (self.endpoint, self.secure) == (endpoint, secure)


class ClientConnection:
    """Serves one client until it is done. `trust`: the context that verifies servers, for an order with secrets."""

    def __init__(
        self, access: ProgramAccess, trust: ssl.SSLContext | None, reader: StreamReader, writer: StreamWriter
    ) -> None:
        self._access = access
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
        """Serve requests one after the other. `inside`: the server that the proxy impersonates, after a CONNECT whose
        TLS it terminates; None while the client talks to it as a proxy."""
        while True:
            target_text = ""
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    head = await read_request(self._reader)
                if head is None:
                    return
                target_text = ascii(head.start_line[1].decode("latin-1"))[1:-1]
                if head.start_line[0] == b"CONNECT" and inside is None:
                    await self._connect(head)
                    return
                goes_on = await self._exchange(head, inside)
            except Denied as denied:
                await self._refuse(403, str(denied))
                return
            except AddressRefused as refused:
                self._access.deny(target_text)
                await self._refuse(400, str(refused))
                return
            except BadMessage as bad:
                await self._refuse(bad.status, f"This request cannot be passed on: {bad}.")
                return
            if not goes_on:
                return

    async def _connect(self, head: MessageHead) -> None:
        """Serve a CONNECT: terminate TLS when a secret is sent to this endpoint, otherwise open a tunnel. Raises
        `Denied`, `AddressRefused`."""
        endpoint = endpoint_of(head.start_line[1].decode("latin-1"))
        order = self._access.order
        if order.authority is not None and order.secrets.for_host(endpoint):
            # Before TLS begins, within which a refusal would be the answer of the server.
            await self._access.reached(endpoint)
            await self._established()
            await self._writer.start_tls(order.authority.context(endpoint.host))
            await self._requests(endpoint)
            return
        upstream = await self._open_upstream(endpoint, secure=False)
        if upstream is None:
            return
        await self._established()
        await _tunnel((self._reader, self._writer), (upstream.reader, upstream.writer))

    async def _established(self) -> None:
        self._writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._writer.drain()

    async def _exchange(self, head: MessageHead, inside: Endpoint | None) -> bool:
        """Forward one request and its answer; answers whether the client may send another request."""
        method, target, version = head.start_line
        if inside is None:
            url = url_of(target.decode("latin-1"))
            if url.scheme != "http":
                raise BadMessage("https is asked for with CONNECT")
            endpoint, authority, target = url.endpoint, url.authority, url.target.encode()
        else:
            endpoint, authority = inside, _checked_host(head, inside)
            if not target.startswith(b"/") and target != b"*":
                raise BadMessage("it names its host twice")
        length = head.request_framing
        upstream = await self._open_upstream(endpoint, secure=inside is not None)
        if upstream is None:
            return False
        secrets = self._access.order.secrets.for_host(endpoint)
        try:
            # Secrets go to the endpoint that was checked, whatever the program's Host header says.
            upstream.writer.write(_request_head(head, target, authority, secrets))
            # Answered here: the server gets the body in any case.
            if length is not Framing.NONE and head.has_token(b"expect", b"100-continue"):
                self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await _send(read_body(self._reader, length), upstream.writer, chunked=length is Framing.CHUNKED)
            async with asyncio.timeout(IDLE_SECONDS):
                answer = await read_response(upstream.reader)
            framing = answer.response_framing(method)
            pieces = _unpacked(answer, read_body(upstream.reader, framing)) if secrets else None
        except (BadMessage, *_TROUBLE) as error:
            await self._refuse(502, f"{endpoint} did not answer as it should: {_in_words(error)}.")
            return False
        stays = version == b"HTTP/1.1" and not head.has_token(b"connection", b"close")
        chunked = version == b"HTTP/1.1" and framing is not Framing.NONE
        self._writer.write(_response_head(answer, secrets, framing, chunked=chunked, stays=stays))
        body = pieces if pieces is not None else read_body(upstream.reader, framing)
        try:
            await _send(_scrubbed(body, secrets), self._writer, chunked=chunked)
        except BadMessage:
            # The head is sent already: the missing last chunk tells the client that the answer is incomplete.
            return False
        closes = answer.has_token(b"connection", b"close") or answer.start_line[0] == b"HTTP/1.0"
        if framing is Framing.TO_THE_END or closes:
            self._close_upstream()
        return stays and (chunked or framing is Framing.NONE)

    async def _open_upstream(self, endpoint: Endpoint, *, secure: bool) -> _Upstream | None:
        """A connection to this endpoint; None where none could be made, after telling the client. Raises `Denied`."""
        if self._upstream is not None and self._upstream.serves(endpoint, secure):
            return self._upstream
        self._close_upstream()
        assert not secure or self._trust is not None, "TLS is terminated only for an order with secrets"
        error: BaseException | None = None
        for address in await self._access.reached(endpoint):
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
        await self._refuse(502, f"{endpoint} cannot be reached: {_in_words(error)}.")
        return None

    async def _refuse(self, status: int, sentence: str) -> None:
        body = f"mcc: {sentence}\n".encode("utf-8", "replace")
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


def _checked_host(head: MessageHead, endpoint: Endpoint) -> str:
    """The Host header, which must name the endpoint of the connection: otherwise another site served at the same
    address would get the secret. Raises `BadMessage`."""
    named = head.all_of(b"host")
    if len(named) != 1 or endpoint_of(named[0].decode("latin-1"), 443) != endpoint:
        raise BadMessage("its Host is not the one that it connected to", 421)
    return named[0].decode("latin-1")


def _request_head(head: MessageHead, target: bytes, authority: str, secrets: Secrets) -> bytes:
    """The head that is sent to the server, with the secrets in place of their stand-ins."""
    headers = [(name, value) for name, value in head.end_to_end if name.lower() != b"host"]
    if secrets:
        # A compressed answer cannot be searched for secrets, and a partial one may hold only a part of one.
        headers = [(name, value) for name, value in headers if name.lower() not in (b"accept-encoding", b"range")]
        headers.append((b"accept-encoding", b"identity"))
    all_headers = [(b"host", authority.encode("latin-1")), *secrets.substituted(headers), *_framing_headers(head)]
    return MessageHead((head.start_line[0], target, b"HTTP/1.1"), tuple(all_headers)).encoded()


def _framing_headers(head: MessageHead) -> Sequence[tuple[bytes, bytes]]:
    if head.is_chunked:
        return [(b"transfer-encoding", b"chunked")]
    return [] if head.length is None else [(b"content-length", str(head.length).encode())]


def _response_head(
    answer: MessageHead, secrets: Secrets, framing: int | Framing, *, chunked: bool, stays: bool
) -> bytes:
    """The head that is sent to the client, without secrets. `stays`: the client may send another request."""
    headers = [*secrets.redacted(answer.end_to_end)]
    if secrets:
        headers = [(name, value) for name, value in headers if name.lower() not in (b"content-encoding", b"alt-svc")]
    if chunked:
        headers.append((b"transfer-encoding", b"chunked"))
    elif framing is Framing.NONE and int(answer.start_line[1]) not in (204, 304):
        # The answer to HEAD states the length that the body of GET would have.
        headers.append((b"content-length", str(answer.length or 0).encode()))
    headers.append((b"connection", b"keep-alive" if stays and (chunked or framing is Framing.NONE) else b"close"))
    reason = secrets.redacted([(b"", answer.start_line[2])])[0][1]
    return MessageHead((b"HTTP/1.1", answer.start_line[1], reason), tuple(headers)).encoded()


async def _send(pieces: AsyncIterator[bytes], writer: StreamWriter, *, chunked: bool) -> None:
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


def _unpacked(answer: MessageHead, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The uncompressed body: some servers compress it although the request asked for identity. Raises `BadMessage`."""
    coding = b",".join(answer.all_of(b"content-encoding")).strip().lower()
    if coding in (b"", b"identity"):
        return pieces
    if coding in (b"gzip", b"x-gzip", b"deflate"):
        return _inflated(pieces)
    raise BadMessage("it compressed its answer although it was asked not to")


async def _inflated(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
    async for piece in pieces:
        while piece:
            try:
                # In bounded pieces: a small body that expands hugely is passed on as it is read and never held whole.
                yield inflate.decompress(piece, PIECE)
            except zlib.error as error:
                raise BadMessage("what it compressed is broken") from error
            piece = inflate.unconsumed_tail
    yield inflate.flush(PIECE)


Streams = tuple[StreamReader, StreamWriter]


async def _tunnel(one: Streams, other: Streams) -> None:
    """Copy bytes in both directions until both sides are done, one breaks, or both are idle."""
    moved = [asyncio.get_running_loop().time()]
    directions = [
        asyncio.create_task(_copy(one[0], other[1], moved)),
        asyncio.create_task(_copy(other[0], one[1], moved)),
    ]
    try:
        await asyncio.wait(directions, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for direction in directions:
            direction.cancel()
        await asyncio.gather(*directions, return_exceptions=True)


async def _copy(source: StreamReader, sink: StreamWriter, moved: list[float]) -> None:
    """Copy one direction to its end. `moved` holds the time of the last byte in either direction: one direction may be
    idle while the other one moves. Raises TimeoutError when both are idle."""
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


def _in_words(error: BaseException | None) -> str:
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
