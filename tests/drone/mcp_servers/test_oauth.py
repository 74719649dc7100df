"""All drones share tokens: one refreshes them, the others wait for it and use the new ones."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from drone.mcp_servers.server_state import MemoryTokens
from mcc.configuration.mcp_servers import OAuth

httpx2 = pytest.importorskip("httpx2")
oauth = pytest.importorskip("drone.mcp_servers.oauth")

URL = "https://mcp.example.org/mcp"
OLD = {"access_token": "old-access", "refresh_token": "old-refresh", "token_type": "Bearer"}


class Server:
    """An OAuth server that issues a new token for each refresh, once its gate is open."""

    def __init__(self) -> None:
        self.refreshed: list[str] = []
        self.sent: list[str] = []
        self.begun, self.gate = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: Any) -> Any:
        if request.url.path == "/token":
            self.refreshed.append(parse_qs(request.content.decode())["refresh_token"][0])
            self.begun.set()
            await self.gate.wait()
            number = len(self.refreshed)
            fresh = {"access_token": f"access-{number}", "refresh_token": f"refresh-{number}", "expires_in": 3600}
            return httpx2.Response(200, json=fresh | {"token_type": "Bearer"})
        self.sent.append(request.headers.get("Authorization", ""))
        return httpx2.Response(200, json={})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    yield Server()


async def ask(server: Server, tokens: MemoryTokens, learnt: list[str] | None = None) -> None:
    config = OAuth(client_id="us")
    heard: list[str] = [] if learnt is None else learnt
    auth = oauth.SharedOAuth(URL, config, oauth.ServerTokens("t", tokens, config, None, heard.append), None)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(server), auth=auth) as client:
        await client.post(URL, content=b"{}")


async def test_many_drones_refresh_a_token_once(server: Server) -> None:
    tokens = MemoryTokens()
    await tokens.save("t", {"tokens": OLD, "expires_at": time.time() - 5})
    drones = [asyncio.create_task(ask(server, tokens)) for _ in range(5)]
    await server.begun.wait()
    server.gate.set()
    await asyncio.gather(*drones)
    assert server.refreshed == ["old-refresh"] and server.sent == ["Bearer access-1"] * 5
    kept = await tokens.load("t")
    assert kept is not None and kept.token["tokens"]["refresh_token"] == "refresh-1"


async def test_a_token_that_lasts_is_sent_as_it_is_and_said_nowhere(server: Server) -> None:
    tokens, learnt = MemoryTokens(), list[str]()
    await tokens.save("t", {"tokens": OLD, "expires_at": time.time() + 3600})
    await ask(server, tokens, learnt)
    assert server.sent == ["Bearer old-access"] and server.refreshed == []
    assert {"old-access", "old-refresh"} <= set(learnt)


async def test_whoever_fails_to_refresh_lets_others_try(server: Server) -> None:
    tokens = MemoryTokens()
    await tokens.save("t", {"tokens": OLD, "expires_at": time.time() - 5})
    first = asyncio.create_task(ask(server, tokens))
    await server.begun.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    server.gate.set()
    await ask(server, tokens)
    assert len(server.refreshed) == 2 and server.sent == ["Bearer access-2"]


async def test_without_a_login_it_says_how_to_log_in() -> None:
    def closed(request: Any) -> Any:
        if request.url.path.startswith("/.well-known/oauth-authorization-server"):
            return httpx2.Response(
                200,
                json={
                    "issuer": "https://mcp.example.org",
                    "authorization_endpoint": "https://mcp.example.org/authorize",
                    "token_endpoint": "https://mcp.example.org/token",
                },
            )
        return httpx2.Response(404 if "well-known" in request.url.path else 401, content=json.dumps({}).encode())

    with pytest.raises(oauth.OAuthFlowError, match="drone login t"):
        await ask(closed, MemoryTokens())  # type: ignore[arg-type]
