"""Servers behind the drone's proxy: by https and on other machines alone; else the proxy would read their tokens."""

import asyncio
from collections.abc import Sequence

import httpx2
import pytest

from drone.mcp_servers.http import CheckedTransport
from mcc.addresses import AddressRule, Endpoint


async def first_line_of(url: str) -> tuple[str, list[str]]:
    """Which of two listeners gets a request for `url`, the "proxy" or the "server", and the first lines that it got."""
    got: dict[str, list[str]] = {"proxy": [], "server": []}

    async def take(name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got[name].append((await reader.readline()).decode("utf-8", "replace").strip())
        writer.close()

    proxy = await asyncio.start_server(lambda r, w: take("proxy", r, w), "127.0.0.1", 0)
    server = await asyncio.start_server(lambda r, w: take("server", r, w), "127.0.0.1", 0)
    place = Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])

    async def resolve(host: str) -> Sequence[str]:
        return ("93.184.216.34",)

    at = httpx2.URL(url)
    port = at.port or {"http": 80, "https": 443}[at.scheme]
    rule = AddressRule(
        resolve, allow_private=[Endpoint("127.0.0.1", port)], dial=lambda _: place, is_here=lambda _: False
    )
    async with proxy, server:
        transport = CheckedTransport(rule, f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            with pytest.raises(httpx2.TransportError):
                await client.get(url, headers={"Authorization": "Bearer x"})
    [name] = [name for name, lines in got.items() if lines]
    return name, got[name]


async def test_another_machine_is_reached_through_the_proxy_by_a_tunnel() -> None:
    assert await first_line_of("https://far.example/mcp") == ("proxy", ["CONNECT far.example:443 HTTP/1.1"])


@pytest.mark.parametrize("url", ["http://far.example/mcp", "http://127.0.0.1:8000/mcp", "https://127.0.0.1:8443/mcp"])
async def test_by_http_and_on_this_machine_the_proxy_sees_nothing(url: str) -> None:
    assert (await first_line_of(url))[0] == "server"
