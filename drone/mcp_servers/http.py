"""Servers at an address, over HTTP: connections only to addresses that the rule allows, responses of limited size."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from drone.mcp_servers.results import MOST_BYTES
from mcc.addresses import AddressRefused, AddressRule, Endpoint, host_of, is_loopback

CONNECT_SECONDS = 15.0
SILENCE_SECONDS = 300.0
_PORTS = {"http": 80, "https": 443}


class TooMuch(httpx2.StreamError):
    """A response has more bytes than are read."""


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Sends each request to the address that the rule has checked, with one connection pool per host.

    A proxy is for https to other machines alone, for by http it would read the token. For what goes through it, no
    address is looked up here: the proxy decides where connections go.
    """

    def __init__(self, rule: AddressRule, proxy: str | None = None, most_bytes: int = MOST_BYTES) -> None:
        self._rule = rule
        self._proxy = proxy
        self._most_bytes = most_bytes
        # By host: a connection verified for one host must not be reused for another host at the same address.
        self._pools: dict[tuple[str, str | None], httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        if url.scheme not in _PORTS:
            raise httpx2.UnsupportedProtocol(f"{url.scheme} is not spoken")
        proxy = self._proxy if url.scheme == "https" and not is_loopback(url.host) else None
        sent = request if proxy else await self._checked(request)
        response = await self._pool(url.host, proxy).handle_async_request(sent)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, self._most_bytes)
        return response

    async def _checked(self, request: httpx2.Request) -> httpx2.Request:
        url = request.url
        try:
            endpoint = Endpoint(host_of(url.host), url.port or _PORTS[url.scheme])
            address = (await self._rule.resolve(endpoint))[0]
        except AddressRefused as refused:
            raise httpx2.ConnectError(str(refused), request=request) from refused
        return httpx2.Request(
            request.method,
            url.copy_with(host=address.host, port=address.port),
            headers=request.headers,  # Host is among them
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": url.host},
        )

    def _pool(self, host: str, proxy: str | None) -> httpx2.AsyncHTTPTransport:
        if (host, proxy) not in self._pools:
            self._pools[host, proxy] = httpx2.AsyncHTTPTransport(trust_env=False, proxy=proxy)
        return self._pools[host, proxy]

    async def aclose(self) -> None:
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.aclose()


class _Bounded(httpx2.AsyncByteStream):
    """A response stream that ends with `TooMuch` after `most_bytes`."""

    def __init__(self, stream: httpx2.AsyncByteStream, most_bytes: int) -> None:
        self._stream = stream
        self._most_bytes = most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > self._most_bytes:
                raise TooMuch(f"the answer has more than {self._most_bytes:,} bytes, which nobody reads")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class Bearer(httpx2.Auth):
    """Sends the token to the server's own origin only."""

    def __init__(self, url: str, token: Callable[[], str | None]) -> None:
        self._origin = _origin(httpx2.URL(url))
        self._token = token

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token = self._token()
        if token and _origin(request.url) == self._origin:
            request.headers["Authorization"] = f"Bearer {token}"
        yield request


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


@asynccontextmanager
async def streams(
    url: str, transport: httpx2.AsyncBaseTransport, auth: httpx2.Auth | None
) -> AsyncIterator[TransportStreams]:
    """The two directions of a session. The SDK follows redirects within the server's own origin."""
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS)
    async with (
        httpx2.AsyncClient(transport=transport, auth=auth, timeout=timeout, trust_env=False) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MOST_BYTES) as pair,
    ):
        yield pair
