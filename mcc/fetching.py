"""HTTP requests to other hosts: only to checked addresses, with limits on bytes and seconds."""

import asyncio
import socket
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

from mcc.addresses import AddressRefused, AddressRule, Endpoint, Url, url_of
from mcc.addresses.trust import trusted_servers

REDIRECTS = 5
CONNECT_SECONDS = 10.0
SILENT_SECONDS = 15.0
"""The longest time without any byte of the response."""

_PIECE = 64 * 1024
_REDIRECT_STATUSES = (301, 302, 303, 307, 308)


class WebError(Exception):
    """The page cannot be fetched or read; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of one fetch, redirects included; `size` in bytes, decompressed."""

    seconds: float
    size: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A request; `headers` and `body` are sent to the first address only, not to redirects."""

    url: Url
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response; `url` is the address after redirects, `media_type` that of its header, in lower case."""

    url: Url
    status: int
    reason: str
    media_type: str
    charset: str
    body: bytes


class WebWire:
    """Fetches pages from addresses that the rule permits. Requests share no cookies, connections or other state."""

    def __init__(self, rule: AddressRule, *, agent: str = "mcc-drone") -> None:
        """`agent`: what requests call their sender."""
        self._rule = rule
        self._headers = {"user-agent": agent, "accept-encoding": "gzip, deflate"}

    async def fetch(
        self, request: FetchRequest, limits: FetchLimits, allowed: Callable[[Url], None] | None = None
    ) -> Fetched:
        """The response to a request, redirects followed. Raises `WebError` and `AddressRefused`.

        `allowed` is called before each request, the first and every redirect, and raises `AddressRefused` to forbid
        it; None = follow no redirect.
        """
        try:
            async with asyncio.timeout(limits.seconds):
                return await self._follow(request, limits, allowed)
        except TimeoutError as error:
            raise WebError(f"{request.url} did not come within {limits.seconds:g} seconds.") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, AddressRefused):
                raise
            raise WebError(f"{request.url.endpoint} cannot be read: {_reason(error)}.") from error

    async def _follow(
        self, request: FetchRequest, limits: FetchLimits, allowed: Callable[[Url], None] | None
    ) -> Fetched:
        for _ in range(REDIRECTS + 1):
            if allowed is not None:
                allowed(request.url)
            response = await self._send(request, limits)
            if isinstance(response, Fetched):
                return response
            if allowed is None:
                raise WebError(f"{request.url.endpoint} sends its callers elsewhere, which is not followed here.")
            request = FetchRequest(url_of(urljoin(str(request.url), response)))
        raise WebError(f"{request.url} redirects more than {REDIRECTS} times.")

    async def _send(self, request: FetchRequest, limits: FetchLimits) -> Fetched | str:
        """The response to one request, or the target of its redirect."""
        addresses = await self._rule.resolve(request.url.endpoint)
        connector = aiohttp.TCPConnector(
            resolver=_CheckedAddresses(addresses), use_dns_cache=False, force_close=True, ssl=trusted_servers(), limit=1
        )
        silence = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=silence,
            auto_decompress=False,
            trust_env=False,
        )
        async with (
            session,
            session.request(
                request.method,
                yarl.URL(str(request.url), encoded=True),
                headers={**self._headers, **(request.headers or {})},
                data=request.body,
                allow_redirects=False,
            ) as answer,
        ):
            if answer.status in _REDIRECT_STATUSES and (target := answer.headers.get("location")):
                return target
            body = await _read(answer, limits.size)
            reason = (answer.reason or "")[:100]
            return Fetched(request.url, answer.status, reason, answer.content_type, answer.charset or "", body)


class _CheckedAddresses(AbstractResolver):
    """Resolves every host to the addresses that were checked: a second DNS answer cannot redirect the connection."""

    def __init__(self, addresses: Sequence[Endpoint]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address.host,
                port=address.port,
                family=socket.AF_INET6 if ":" in address.host else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        """There is nothing to close."""


async def _read(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """The body, decompressed. Raises `WebError`."""
    coding = answer.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise WebError(f"It is packed as {coding[:40]!r}, although that was not asked for.")
    unpack = None if coding in ("", "identity") else zlib.decompressobj(zlib.MAX_WBITS | 32)
    body = bytearray()
    async for piece in answer.content.iter_chunked(_PIECE):
        body += piece if unpack is None else _unpacked(unpack, piece, most + 1 - len(body))
        if len(body) > most:
            raise WebError(f"It has more than {most / 1_000_000:g} MB, which is all that is read of a page.")
    return bytes(body)


def _unpacked(unpack: Any, piece: bytes, most: int) -> bytes:
    try:
        return bytes(unpack.decompress(piece, most))
    except zlib.error as error:
        raise WebError("It is packed, and that is broken.") from error


def _reason(error: BaseException) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return "its certificate is not trusted"
        case aiohttp.ClientConnectorError() if error.os_error.strerror:
            return error.os_error.strerror
        case aiohttp.ServerTimeoutError() | TimeoutError():
            return "it was silent for too long"
        case OSError() if error.strerror:
            return error.strerror
    return "what it answers is not HTTP, or breaks off"
