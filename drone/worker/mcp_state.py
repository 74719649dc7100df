"""What all drones of a database share about MCP servers: approved definitions, OAuth tokens, and the login for one."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from drone.access import addresses_of_servers
from drone.mcp_servers.server_state import StoredToken
from drone.mcp_servers.servers import McpServers
from drone.mcp_servers.transports import Transports
from drone.settings import Settings
from drone.worker.loop import AsyncStore
from mcc.configuration.mcp_servers import McpServer
from mcc.contracts.tool_tests import ToolTest, ToolTested
from mcc.store.store import open_store

LOGIN_SECONDS = 600.0
_MOST_BYTES = 16_384
_PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"You can close this page; the terminal says how it went.\n"
)


class StorePins:
    """Implements `drone.mcp_servers.server_state.Pins`. Raises `StoreUnavailable`; ignores unreadable approvals."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    async def seen(self, server: str, digests: Mapping[str, str]) -> Mapping[str, str]:
        return await self._store.once(lambda store: store.mcp_servers.seen(server, digests))

    async def approved(self, server: str) -> Mapping[str, str]:
        return await self._store.once(lambda store: store.mcp_servers.approved(server))


class StoreTokens:
    """Implements `drone.mcp_servers.server_state.OAuthTokenStore`: one drone refreshes a token for all. Raises
    `StoreUnavailable`."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    async def load(self, server: str) -> StoredToken | None:
        kept = await self._store.once(lambda store: store.mcp_servers.token(server))
        return None if kept is None else StoredToken(kept.token, kept.version)

    async def save(self, server: str, token: Mapping[str, Any]) -> None:
        await self._store.once(lambda store: store.mcp_servers.put_token(server, token))

    async def hold(self, server: str, version: int, who: str, seconds: float) -> bool:
        return await self._store.once(lambda store: store.mcp_servers.hold_token(server, version, who, seconds))

    async def let_go(self, server: str, who: str) -> None:
        await self._store.once(lambda store: store.mcp_servers.release_token(server, who))


async def log_in(settings: Settings, server: str, config: McpServer, say: Callable[[str], None]) -> ToolTested:
    """Connect to the server, letting a person log in with a browser if the server demands it. Stores the token for all
    drones of the database, and answers the result of a test of the server."""
    port = config.oauth.port if config.oauth else 0

    async def visit(url: str) -> str:
        return await callback_url(port, lambda: say(f"Open this address in a browser on this machine:\n\n{url}\n"))

    store = open_store(settings.database)
    tokens = StoreTokens(AsyncStore(store))
    patient = config.model_copy(update={"start_seconds": LOGIN_SECONDS})
    rule = addresses_of_servers(settings)
    transports = Transports(
        None, rule, settings.key, settings.egress_proxy, tokens=tokens, visit=visit, learn=settings.learn
    )
    servers = McpServers({server: patient}, transports.opening, lambda: settings.redactor)
    try:
        return await servers.test(ToolTest(server=server))
    finally:
        await servers.close()
        store.close()


async def callback_url(port: int, ready: Callable[[], None]) -> str:
    """Listen on this machine's loopback address until a browser is redirected here, and answer the URL of that request.
    `ready` is called once the port is open."""
    came: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        _, path, *_ = request.partition(b"\r\n")[0].decode("ascii", "replace").split(" ")
        writer.write(_PAGE)
        writer.close()
        # A browser asks for an icon as well.
        if path.startswith("/callback?") and not came.done():
            came.set_result(f"http://127.0.0.1:{port}{path}")

    listening = await asyncio.start_server(answer, "127.0.0.1", port, limit=_MOST_BYTES)
    async with listening:
        ready()
        return await came
