"""HTTP requests to providers: httpx's requests and answers over one aiohttp session, which stays inside this module.

There is deliberately no httpx client in between: docs/decisions/07-http-without-a-client.md.
"""

import asyncio
import ssl
import zlib
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from drone.agent.ports.model import BadReply, ModelError
from drone.models.body import Body
from mcc.addresses import is_loopback
from mcc.addresses.trust import trusted_servers

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 60.0
MAX_UNPACKED_BYTES = 16 * 1024 * 1024
"""Bound on an unpacked body. Requests ask for plain text, so a compressed answer is rare."""

_NOT_HERE = (httpx.TransportError, aiohttp.ClientError, OSError)


class ProviderUnreachable(ModelError):
    """The connection could not be made, was silent or broke; the provider itself said nothing."""


@dataclass(frozen=True, slots=True)
class Target:
    """Destination of a model's requests: its name for sentences, the address and the headers, built once.

    `proxy`: empty for none, None = the one of the wire.
    """

    name: str
    url: httpx.URL
    headers: httpx.Headers = field(repr=False)
    proxy: str | None = field(default=None, repr=False)

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


class Answer:
    """A provider's answer whose body is still being received. Must be closed in every case."""

    def __init__(self, name: str, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = dict(response.headers.items())
        self._name = name
        self._stream = cast(httpx.AsyncByteStream, response.stream)
        self._pieces = cast(AsyncGenerator[bytes, None], aiter(self._stream))
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
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
            piece = await anext(self._pieces)
        except _NOT_HERE as error:
            raise _model_error(self._name, error) from error
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
            await self._pieces.aclose()
            await self._stream.aclose()
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


class _Payload(aiohttp.payload.Payload, httpx.AsyncByteStream):
    """A body that passes through httpx untouched and is made into bytes only while it is written: hundreds of bodies
    may wait to be sent and then for their answers."""

    autoclose = True

    def __init__(self, body: Body) -> None:
        super().__init__(None)
        self._pieces: Iterable[bytes] = body
        self._length = len(body)

    @property
    def size(self) -> int:
        return self._length

    async def write(self, writer: aiohttp.abc.AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: aiohttp.abc.AbstractStreamWriter, content_length: int | None) -> None:
        pieces, self._pieces = self._pieces, ()
        transport = getattr(writer, "transport", None)
        if transport is not None:
            # A body counts as written once the operating system has it: an early answer would otherwise put the
            # connection back into the pool with half a request in it.
            transport.set_write_buffer_limits(high=1, low=0)
        for piece in pieces:
            await writer.write(piece)
        await writer.drain()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._pieces).decode(encoding, errors)


class ModelWire:
    """One session per process, shared by all models.

    `proxy` is the address of an HTTP proxy for all https requests. They use CONNECT, so the proxy sees the provider's
    host but neither key nor text. Servers on this machine and http addresses are contacted directly. A target with its
    own proxy always uses that one.
    """

    def __init__(self, *, proxy: str | None = None, connect_seconds: float = CONNECT_SECONDS) -> None:
        self._proxy = proxy or ""
        # No read limit: it would set a timer for each piece that arrives, on top of the caller's own.
        self._extensions = {"timeout": {"connect": connect_seconds, "pool": connect_seconds}}
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transports: dict[str, AiohttpTransport] = {}

    def post(self, target: Target, body: Body) -> Awaitable[Answer]:
        """Send `body` and return as soon as the status has arrived. Connecting has a time limit; the caller must bound
        the time to the status and for the body.

        Raises `ModelError`. A redirect is returned like any other answer and never followed, as it would carry the key
        along.
        """
        return self._answer("POST", target, _Payload(body))

    def get(self, target: Target) -> Awaitable[Answer]:
        """Fetch the target with GET, with the same promises as `post`."""
        return self._answer("GET", target, None)

    def transport(self, target: Target) -> httpx.AsyncBaseTransport:
        """What carries requests to this target. All transports share the session, and so its connections."""
        loop = asyncio.get_running_loop()
        if self._session is None or loop is not self._loop:
            self._loop, self._session, self._transports = loop, _session(), {}
        proxy = self._proxy_of(target)
        if proxy not in self._transports:
            through = httpx.Proxy(proxy) if proxy else None
            self._transports[proxy] = AiohttpTransport(
                verify=trusted_servers(), trust_env=False, client=self._session, proxy=through
            )
        return self._transports[proxy]

    async def _answer(self, method: str, target: Target, payload: _Payload | None) -> Answer:
        request = httpx.Request(method, target.url, headers=target.headers, stream=payload, extensions=self._extensions)
        try:
            response = await self.transport(target).handle_async_request(request)
        except _NOT_HERE as error:
            raise _model_error(target.name, error, target.place, self._extensions["timeout"]["connect"]) from error
        try:
            return Answer(target.name, response)
        except ModelError:
            await response.aclose()
            raise

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _proxy_of(self, target: Target) -> str:
        if target.proxy is not None:
            return target.proxy
        return "" if target.url.scheme == "http" or is_loopback(target.url.host) else self._proxy


def _session() -> aiohttp.ClientSession:
    # No limit on connections: orders and their limits bound the calls, and a call queued here would seem unreachable.
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS, ssl=trusted_servers())
    # No cookies, which would link orders, and no proxy from the environment, which nobody configured for models.
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)


def _model_error(name: str, error: Exception, place: str = "", connect_seconds: float = CONNECT_SECONDS) -> ModelError:
    """The failure as a sentence. `place` is named if the host could not be reached, never the whole address."""
    # The transport sorts the session's errors into fewer kinds: what happened is in their causes.
    cause = error if isinstance(error, aiohttp.ClientError) else error.__cause__ or error
    at = f" at {place}" if place else ""
    match cause:
        case aiohttp.ClientConnectorCertificateError() | ssl.SSLCertVerificationError():
            return ModelError(f"{name} could not be reached{at}: its certificate is not trusted on this machine.")
        case aiohttp.InvalidURL():
            return ModelError(f"The base_url of {name} is not an address that can be asked; correct it.")
        case aiohttp.ClientHttpProxyError(status=status):
            return ModelError(f"{name} could not be reached{at}: the proxy answered {status}; allow its host there.")
        case aiohttp.ConnectionTimeoutError():
            happened = f"could not be reached{at} within {connect_seconds:g} seconds"
        case aiohttp.ClientProxyConnectionError():
            happened = f"could not be reached{at}: the proxy does not answer"
        case aiohttp.ClientConnectorDNSError():
            happened = f"could not be reached{at}: its host name is not known"
        case aiohttp.ClientConnectorError():
            why = "the connection was refused or failed; check that it runs there, and its base_url"
            happened = f"could not be reached{at}: {why}"
        case TimeoutError():
            happened = "was silent for too long"
        case _:
            happened = "broke the connection"
    return ProviderUnreachable(f"{name} {happened}.", retryable=True)
