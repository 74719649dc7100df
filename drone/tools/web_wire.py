"""The wire to web pages: one request after the other, each to an address that was checked, within bytes and seconds."""

import asyncio
import socket
import ssl
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urljoin

import aiohttp
import certifi
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

from mcc.addresses import AddressRule, Endpoint, Refused, Url, url_of

REDIRECTS = 5
CONNECT_SECONDS = 10.0
SILENT_SECONDS = 15.0
"""Longest time in which not one byte comes."""

_PIECE = 64 * 1024
_MOVED = (301, 302, 303, 307, 308)
_OWN: Mapping[str, str] = {"user-agent": "mcc-drone", "accept-encoding": "gzip, deflate"}


class WebError(Exception):
    """The page cannot be had; a sentence that says why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one page with its redirects; `size` in bytes, unpacked."""

    seconds: float
    size: int


@dataclass(frozen=True, slots=True)
class Request:
    """`headers` and `body` go to the first address alone."""

    url: Url
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """`url` is where it was found in the end, `media_type` as it says itself, in lower case."""

    url: Url
    status: int
    reason: str
    media_type: str
    charset: str
    body: bytes


class Wire:
    """Fetches by the rule. Neither cookies nor proxies nor anything else of one request is seen by another one."""

    def __init__(self, rule: AddressRule) -> None:
        self._rule = rule

    async def fetch(self, request: Request, limits: Limits, allowed: Callable[[Url], None] | None = None) -> Fetched:
        """What stands there. `allowed` is asked before each request, the first one and every redirect, and raises
        `Refused`; None = no redirect is followed. Raises `WebError`, `Refused`."""
        try:
            async with asyncio.timeout(limits.seconds):
                return await self._followed(request, limits, allowed)
        except TimeoutError as error:
            raise WebError(f"{request.url} did not come within {limits.seconds:g} seconds.") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, Refused):
                raise
            raise WebError(f"{request.url.endpoint} cannot be read: {_said(error)}.") from error

    async def _followed(self, request: Request, limits: Limits, allowed: Callable[[Url], None] | None) -> Fetched:
        for _ in range(REDIRECTS + 1):
            if allowed is not None:
                allowed(request.url)
            found = await self._one(request, limits)
            if isinstance(found, Fetched):
                return found
            if allowed is None:
                raise WebError(f"{request.url.endpoint} sends its callers elsewhere, which is not followed here.")
            request = Request(url_of(urljoin(str(request.url), found)))
        raise WebError(f"{request.url} redirects more than {REDIRECTS} times.")

    async def _one(self, request: Request, limits: Limits) -> Fetched | str:
        """What stands there, or where it is said to stand."""
        addresses = await self._rule.resolve(request.url.endpoint)
        connector = aiohttp.TCPConnector(
            resolver=_Checked(addresses), use_dns_cache=False, force_close=True, ssl=self._trust, limit=1
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
                headers={**_OWN, **(request.headers or {})},
                data=request.body,
                allow_redirects=False,
            ) as answer,
        ):
            if answer.status in _MOVED and (elsewhere := answer.headers.get("location")):
                return elsewhere
            body = await _read(answer, limits.size)
            reason = (answer.reason or "")[:100]
            return Fetched(request.url, answer.status, reason, answer.content_type, answer.charset or "", body)

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        trusted = ssl.create_default_context()
        trusted.load_verify_locations(certifi.where())
        return trusted


class _Checked(AbstractResolver):
    """Answers with the addresses that were checked, so that a connection goes nowhere else."""

    def __init__(self, addresses: Sequence[Endpoint]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=one.host,
                port=one.port,
                family=socket.AF_INET6 if ":" in one.host else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for one in self._addresses
        ]

    async def close(self) -> None:
        """Nothing is held."""


async def _read(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """The body, unpacked. Raises `WebError`."""
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


def _said(error: BaseException) -> str:
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
