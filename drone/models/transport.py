"""The road to providers: httpx requests over one aiohttp session, and nothing of httpx leaves it.

There is no `httpx.AsyncClient` in between, on purpose: docs/decisions/07-http-without-a-client.md.
"""

import asyncio
import math
import ssl
import zlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import aiohttp
import certifi
import httpx
from httpx_aiohttp import AiohttpTransport

from drone.agent.model import BadReply, ModelError
from drone.models.body import LongBody
from drone.models.providers import is_on_this_machine

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 60.0
MAX_UNPACKED_BYTES = 16 * 1024 * 1024
"""Plain text is asked for, so a compressed answer is rare; it may grow to this and no further."""

_NOT_HERE = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, aiohttp.ClientError, OSError)


class Unreachable(ModelError):
    """The connection could not be made, was silent or broke; nothing that the provider said."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a model's requests go: who is asked (for sentences), the address and the headers, made once.

    `proxy`: through which; empty for none, None = the one of the wire.
    """

    name: str
    url: httpx.URL
    headers: httpx.Headers = field(repr=False)
    proxy: str | None = field(default=None, repr=False)

    def known_as(self, alias: str) -> "Target":
        """The same under the name that its user gave it, if any."""
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
        """The same with these, in place of those of the same names."""
        own = self.headers.copy()
        own.update(headers)
        return replace(self, headers=own)

    def through(self, proxy: str | None) -> "Target":
        return replace(self, proxy=proxy)


REQUEST_ID_HEADERS = ("x-request-id", "request-id")
MAX_REQUEST_ID = 200
"""Characters that are kept of what a provider calls a request."""


class Answer:
    """A provider's answer whose body is still on its way. Close it in every case."""

    def __init__(self, name: str, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._name = name
        self._stream = cast(httpx.AsyncByteStream, response.stream)
        self._pieces = aiter(self._stream)
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        self._unpack = None if encoding in ("", "identity") else _Unpack(name, encoding)

    @property
    def request_id(self) -> str:
        """What the provider calls the request; empty where it does not say."""
        said = (self.headers.get(name, "") for name in REQUEST_ID_HEADERS)
        return next(filter(None, said), "")[:MAX_REQUEST_ID]

    def __aiter__(self) -> "Answer":
        return self

    async def __anext__(self) -> bytes:
        """The next piece of the body, unpacked. Raises `ModelError` when the connection fails."""
        try:
            piece = await anext(self._pieces)
        except _NOT_HERE as error:
            raise _told(self._name, error) from error
        return piece if self._unpack is None else self._unpack(piece)

    async def at_most(self, limit: int) -> bytes:
        """The body, or the beginning of it that passes `limit`. Raises `ModelError`."""
        pieces, size = [], 0
        async for piece in self:
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                break
        return b"".join(pieces)

    async def close(self) -> None:
        """Give the connection back, or cut it when the body was not read to its end."""
        try:
            if isinstance(self._pieces, AsyncGenerator):
                await self._pieces.aclose()
            await self._stream.aclose()
        except _NOT_HERE:
            return


class _Unpack:
    """Undoes gzip and deflate within a bound: a few kilobytes may otherwise become gigabytes."""

    def __init__(self, name: str, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise ModelError(f"{name} answered in the encoding {encoding[:40]!r}, although plain text was asked for.")
        self._name = name
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
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


class Wire:
    """One session for a whole process: all models share it. `transport` is for tests; it stays the caller's.

    `proxy` is the address of an HTTP proxy that every https request goes through, by CONNECT, so that it sees the
    provider's host and neither key nor text. Servers on this machine, and http, are asked directly. A target with a
    proxy of its own is asked through that, whatever its address.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None, *, proxy: str | None = None) -> None:
        self._given = transport
        self._proxy = proxy or ""
        self._session: aiohttp.ClientSession | None = None
        self._roads: dict[str, AiohttpTransport] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, target: Target, body: bytes | LongBody, read_seconds: float) -> Answer:
        """Send `body`; answers as soon as the status is there. No silence may last longer than `read_seconds`, which
        may be infinite.

        Raises `ModelError`. A redirect is an answer like others, never followed: it would carry the key along. The body
        is handed over as a stream that is read already: httpx takes ten times as long to make a request from `content`.
        """
        return await self._answer(target, _request(target, body, _limits(read_seconds)))

    async def get(self, target: Target, read_seconds: float) -> Answer:
        """What stands there, in the same way as `post`."""
        request = httpx.Request("GET", target.url, headers=target.headers, extensions=_limits(read_seconds))
        return await self._answer(target, request)

    async def _answer(self, target: Target, request: httpx.Request) -> Answer:
        try:
            response = await self._transport(target).handle_async_request(request)
        except _NOT_HERE as error:
            raise _told(target.name, error, target.place) from error
        return Answer(target.name, response)

    async def aclose(self) -> None:
        session, self._session, self._roads = self._session, None, {}
        if session is not None:
            await session.close()

    def _transport(self, target: Target) -> httpx.AsyncBaseTransport:
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if self._session is None or loop is not self._loop:
            self._loop, self._session, self._roads = loop, _session(), {}
        proxy = self._proxy_of(target)
        if proxy not in self._roads:
            unused, through = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), httpx.Proxy(proxy) if proxy else None
            self._roads[proxy] = AiohttpTransport(verify=unused, client=self._session, proxy=through)
        return self._roads[proxy]

    def _proxy_of(self, target: Target) -> str:
        if target.proxy is not None:
            return target.proxy
        return "" if target.url.scheme == "http" or is_on_this_machine(target.url.host) else self._proxy


def _limits(read_seconds: float) -> dict[str, Any]:
    silence = read_seconds if math.isfinite(read_seconds) else None
    return {"timeout": {"connect": CONNECT_SECONDS, "pool": CONNECT_SECONDS, "read": silence, "write": silence}}


def _request(target: Target, body: bytes | LongBody, extensions: dict[str, Any]) -> httpx.Request:
    if isinstance(body, LongBody):
        headers = {**target.headers, "content-length": str(len(body))}
        return httpx.Request("POST", target.url, headers=headers, stream=body, extensions=extensions)
    sent = httpx.ByteStream(body)
    request = httpx.Request("POST", target.url, headers=target.headers, stream=sent, extensions=extensions)
    request.read()
    return request


def _session() -> aiohttp.ClientSession:
    trusted = ssl.create_default_context()
    trusted.load_verify_locations(certifi.where())
    # No bound on connections: orders and their limits bound the calls, and one that waited here would seem unreachable.
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS, ssl=trusted)
    # No cookies, which would join orders, and no proxy out of the environment, which nobody named for models.
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)


def _told(name: str, error: Exception, place: str = "") -> ModelError:
    """What happened, as a sentence; `place` is said where nobody could be reached, never the whole address."""
    cause, at = error.__cause__ or error, f" at {place}" if place else ""
    if isinstance(cause, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return ModelError(f"{name} could not be reached{at}: its certificate is not trusted on this machine.")
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol | aiohttp.InvalidURL):
        return ModelError(f"The base_url of {name} is not an address that can be asked; correct it.")
    if isinstance(cause, aiohttp.ClientHttpProxyError):
        return ModelError(f"{name} could not be reached{at}: the proxy answered {cause.status}; allow its host there.")
    return Unreachable(f"{name} {_happened(error, cause, at)}.", retryable=True)


def _happened(error: Exception, cause: BaseException, at: str) -> str:
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
