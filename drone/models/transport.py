"""HTTP requests to providers over one aiohttp session, whose types stay inside this module.

There is deliberately no httpx client in between: docs/decisions/07-http-without-a-client.md.
"""

import asyncio
import ssl
import zlib
from collections.abc import AsyncGenerator, Awaitable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol, cast

import aiohttp
import certifi
import httpx

from drone.agent.ports.model import BadReply, ModelError
from drone.models.body import LongBody, ShortBody
from mcc.addresses import is_loopback

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 60.0
MAX_UNPACKED_BYTES = 16 * 1024 * 1024
"""Bound on an unpacked body. Requests ask for plain text, so a compressed answer is rare."""

_NOT_HERE = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, aiohttp.ClientError, OSError)


class ProviderUnreachable(ModelError):
    """The connection could not be made, was silent or broke; the provider itself said nothing."""


@dataclass(frozen=True, slots=True)
class Target:
    """Destination of a model's requests: its name for sentences, the address and the headers, built once.

    `proxy`: empty for none, None = the one of the wire. `address` and `sent` are `url` and `headers` as an aiohttp
    session takes them.
    """

    name: str
    url: httpx.URL
    headers: httpx.Headers = field(repr=False)
    proxy: str | None = field(default=None, repr=False)
    address: str = field(init=False, repr=False, compare=False)
    sent: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", str(self.url))
        object.__setattr__(self, "sent", dict(self.headers))

    def with_alias(self, alias: str) -> "Target":
        """This target under the alias that the user gave the model, if any."""
        return replace(self, name=f"{alias} ({self.name})") if alias else self

    @property
    def place(self) -> str:
        """Host and port; the rest of an address may hold a key."""
        return self.url.host if self.url.port is None else f"{self.url.host}:{self.url.port}"

    @classmethod
    def at(cls, name: str, url: str, headers: Mapping[str, str]) -> "Target":
        own = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "mcc-drone"}
        at = httpx.URL(url)
        return cls(name, at, httpx.Headers({"host": at.netloc.decode("ascii"), **own, **headers}))

    def with_headers(self, headers: Mapping[str, str]) -> "Target":
        """This target with additional headers, which replace those of the same name."""
        own = self.headers.copy()
        own.update(headers)
        return replace(self, headers=own)

    def with_proxy(self, proxy: str | None) -> "Target":
        return replace(self, proxy=proxy)


REQUEST_ID_HEADERS = ("x-request-id", "request-id")
MAX_REQUEST_ID = 200
"""Longest part of a provider's request id that is kept, in characters."""


class _Body(Protocol):
    """The body of an answer still being received."""

    async def piece(self) -> bytes:
        """The next piece; empty at the end."""

    async def close(self) -> None:
        """Return the connection to the pool, or cut it if the body was not read to its end."""


class _SessionBody:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.piece = response.content.readany

    async def close(self) -> None:
        self._response.release()
        await self._response.wait_for_close()


class _TransportBody:
    def __init__(self, response: httpx.Response) -> None:
        self._stream = cast(httpx.AsyncByteStream, response.stream)
        self._pieces = aiter(self._stream)

    async def piece(self) -> bytes:
        async for piece in self._pieces:
            if piece:
                return piece
        return b""

    async def close(self) -> None:
        if isinstance(self._pieces, AsyncGenerator):
            await self._pieces.aclose()
        await self._stream.aclose()


class Answer:
    """A provider's answer whose body is still being received. Must be closed in every case."""

    def __init__(self, name: str, status: int, headers: Mapping[str, str], body: _Body) -> None:
        self.status = status
        self.headers = headers
        self._name = name
        self._body = body
        encoding = headers.get("content-encoding", "identity").strip().lower()
        self._unpack = None if encoding in ("", "identity") else _Unpack(name, encoding)

    @property
    def request_id(self) -> str:
        """The provider's id of the request; empty if it gives none."""
        for name in REQUEST_ID_HEADERS:
            if said := self.headers.get(name):
                return said[:MAX_REQUEST_ID].encode("utf-8", "replace").decode()
        return ""

    def __aiter__(self) -> "Answer":
        return self

    async def __anext__(self) -> bytes:
        """The next piece of the body, decompressed. Raises `ModelError` when the connection fails."""
        try:
            piece = await self._body.piece()
        except _NOT_HERE as error:
            raise _model_error(self._name, error) from error
        if not piece:
            raise StopAsyncIteration
        return piece if self._unpack is None else self._unpack(piece)

    async def at_most(self, limit: int) -> bytes:
        """The body, or its beginning up to the piece that exceeds `limit`. Raises `ModelError`."""
        pieces, size = [], 0
        async for piece in self:
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                break
        return b"".join(pieces)

    async def close(self) -> None:
        """Return the connection to the pool, or cut it if the body was not read to its end."""
        try:
            await self._body.close()
        except _NOT_HERE:
            return


class _Unpack:
    """Decompresses gzip and deflate within a bound: a few kilobytes could otherwise become gigabytes."""

    def __init__(self, name: str, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise ModelError(f"{name} answered in the encoding {encoding[:40]!r}, although plain text was asked for.")
        self._name = name
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: detects gzip and zlib by their headers
        self._left = MAX_UNPACKED_BYTES

    def __call__(self, piece: bytes) -> bytes:
        try:
            unpacked = self._inflate.decompress(piece, self._left)
        except zlib.error as error:
            raise BadReply(f"{self._name} sent a compressed answer that is broken.") from error
        self._left -= len(unpacked)
        if self._left <= 0:
            limit = MAX_UNPACKED_BYTES >> 20
            raise ModelError(f"{self._name} sent a compressed answer that unpacks to more than {limit} MB.")
        return unpacked


class _JoinedPayload(aiohttp.payload.Payload):
    """A payload that is joined only while it is written: hundreds of bodies may wait to be sent and then for their
    answers."""

    _autoclose = True

    def __init__(self, body: ShortBody) -> None:
        super().__init__(body)
        self._size = len(body)

    async def write(self, writer: aiohttp.abc.AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: aiohttp.abc.AbstractStreamWriter, content_length: int | None) -> None:
        await writer.write(self.take())

    def take(self) -> bytes:
        """The body, which can be taken once."""
        body: bytes = self._value.whole()
        self._value = _SENT
        return body

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return str(self._value.whole(), encoding, errors)


_SENT = ShortBody((), 0)

SENT_AT_ONCE_BYTES = 64 * 1024
"""Longest body that is given to the operating system in one piece; it fits into the send buffer of a connection."""


class _Request(aiohttp.ClientRequest):
    """Sends a short body at once. aiohttp starts a task for it, which runs after all tasks that are ready: when many
    replies arrive together, no next request would be sent before all of them are processed."""

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        payload, protocol = self._body, conn.protocol
        if (
            not isinstance(payload, _JoinedPayload)
            or protocol is None
            or protocol.writing_paused
            # A configured header can ask the provider first; then the head is not sent yet.
            or self._continue is not None
            or (payload.size or 0) > SENT_AT_ONCE_BYTES
        ):
            return await super().send(conn)
        self._body = None
        response = await super().send(conn)
        transport = protocol.transport
        if transport is not None:
            transport.write(payload.take())
            if transport.get_write_buffer_size():
                # An early answer would otherwise put the connection back into the pool with half a request in it.
                # Over TLS the rest is in a buffer that asyncio does not count; the next request then waits behind it.
                protocol.force_close()
        return response


class ModelWire:
    """One session per process, shared by all models. `transport` replaces it in tests and is not closed here.

    `proxy` is the address of an HTTP proxy for all https requests. They use CONNECT, so the proxy sees the provider's
    host but neither key nor text. Servers on this machine and http addresses are contacted directly. A target with its
    own proxy always uses that one.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None, *, proxy: str | None = None) -> None:
        self._given = transport
        self._proxy = proxy or ""
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def post(self, target: Target, body: ShortBody | LongBody) -> Awaitable[Answer]:
        """Send `body` and return as soon as the status has arrived. Connecting has a time limit; the caller must bound
        the time to the status and for the body.

        Raises `ModelError`. A redirect is returned like any other answer and never followed, as it would carry the key
        along.
        """
        return self._answer("POST", target, body)

    def get(self, target: Target) -> Awaitable[Answer]:
        """Fetch the target with GET, with the same promises as `post`."""
        return self._answer("GET", target, None)

    async def _answer(self, method: str, target: Target, body: ShortBody | LongBody | None) -> Answer:
        headers = target.sent
        if isinstance(body, LongBody):
            headers = {**headers, "content-length": str(len(body))}
        try:
            if self._given is not None:
                request = _request(method, target, headers, body)
                given = await self._given.handle_async_request(request)
                return Answer(target.name, given.status_code, given.headers, _TransportBody(given))
            data = _JoinedPayload(body) if isinstance(body, ShortBody) else body
            del body
            response = await self._open_session().request(
                method,
                target.address,
                headers=headers,
                data=data,
                allow_redirects=False,
                auto_decompress=False,
                timeout=_TIMEOUTS,
                **_proxy_arguments(self._proxy_of(target)),
            )
        except _NOT_HERE as error:
            raise _model_error(target.name, error, target.place) from error
        return Answer(target.name, response.status, response.headers, _SessionBody(response))

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or loop is not self._loop:
            self._loop, self._session = loop, _session()
        return self._session

    def _proxy_of(self, target: Target) -> str:
        if target.proxy is not None:
            return target.proxy
        return "" if target.url.scheme == "http" or is_loopback(target.url.host) else self._proxy


_TIMEOUTS = aiohttp.ClientTimeout(connect=CONNECT_SECONDS, sock_connect=CONNECT_SECONDS)
"""No read limit: it would set a timer for each piece that arrives, on top of the caller's own."""


def _proxy_arguments(proxy: str) -> dict[str, Any]:
    """Session arguments for this proxy."""
    if not proxy:
        return {}
    there = httpx.Proxy(proxy)
    return {"proxy": str(there.url), "proxy_auth": there.auth and aiohttp.BasicAuth(*there.auth)}


def _request(
    method: str, target: Target, headers: Mapping[str, str], body: ShortBody | LongBody | None
) -> httpx.Request:
    limits = {"connect": CONNECT_SECONDS, "pool": CONNECT_SECONDS, "read": None, "write": None}
    sent: Any = {"content": body.whole()} if isinstance(body, ShortBody) else {"stream": body}
    return httpx.Request(method, target.url, headers=headers, extensions={"timeout": limits}, **sent)


@cache
def _ssl_context() -> ssl.SSLContext:
    """Cached: reading the certificates takes longer than a model on this machine takes to answer."""
    trusted = ssl.create_default_context()
    trusted.load_verify_locations(certifi.where())
    return trusted


def _session() -> aiohttp.ClientSession:
    # No limit on connections: orders and their limits bound the calls, and a call queued here would seem unreachable.
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS, ssl=_ssl_context())
    # No cookies, which would link orders, and no proxy from the environment, which nobody configured for models.
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, request_class=_Request
    )


def _model_error(name: str, error: Exception, place: str = "") -> ModelError:
    """The failure as a sentence. `place` is named if the host could not be reached, never the whole address."""
    # An error of the session says what happened itself; its cause is only a number of the operating system.
    cause = error if isinstance(error, aiohttp.ClientError) else error.__cause__ or error
    at = f" at {place}" if place else ""
    if isinstance(cause, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return ModelError(f"{name} could not be reached{at}: its certificate is not trusted on this machine.")
    if isinstance(
        error, httpx.InvalidURL | httpx.UnsupportedProtocol | aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError
    ):
        return ModelError(f"The base_url of {name} is not an address that can be asked; correct it.")
    if isinstance(cause, aiohttp.ClientHttpProxyError):
        return ModelError(f"{name} could not be reached{at}: the proxy answered {cause.status}; allow its host there.")
    return ProviderUnreachable(f"{name} {_what_happened(cause, at)}.", retryable=True)


def _what_happened(cause: BaseException, at: str) -> str:
    match cause:
        case aiohttp.ConnectionTimeoutError() | httpx.ConnectTimeout() | httpx.PoolTimeout():
            return f"could not be reached{at} within {CONNECT_SECONDS:g} seconds"
        case aiohttp.ClientProxyConnectionError():
            return f"could not be reached{at}: the proxy does not answer"
        case aiohttp.ClientConnectorDNSError():
            return f"could not be reached{at}: its host name is not known"
        case aiohttp.ClientConnectorError() | httpx.ConnectError():
            why = "the connection was refused or failed; check that it runs there, and its base_url"
            return f"could not be reached{at}: {why}"
        case aiohttp.SocketTimeoutError() | httpx.TimeoutException() | TimeoutError():
            return "was silent for too long"
    return "broke the connection"
