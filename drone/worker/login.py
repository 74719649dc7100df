"""Logging in to an MCP server once, for all drones of a database: a browser goes there and comes back here."""

import asyncio
from collections.abc import Callable

from drone.mcp_servers.servers import McpServers
from drone.mcp_servers.transports import Transports
from drone.outside import addresses_of_servers
from drone.settings import Settings
from drone.worker.loop import AsyncStore
from drone.worker.mcp_pins import StoreTokens
from mcc.configuration.mcp_servers import McpServer
from mcc.contracts.tool_tests import ToolTest, ToolTested
from mcc.store.store import open_store

LOGIN_SECONDS = 600.0
_MOST_BYTES = 16_384
_PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"You can close this page; the terminal says how it went.\n"
)


async def log_in(settings: Settings, server: str, config: McpServer, say: Callable[[str], None]) -> ToolTested:
    """Speak with the server, and let a person log in where it wants that; what it says then."""
    port = config.oauth.port if config.oauth else 0

    async def visit(url: str) -> str:
        return await came_back(port, lambda: say(f"Open this address in a browser on this machine:\n\n{url}\n"))

    store = open_store(settings.database_url)
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


async def came_back(port: int, ready: Callable[[], None]) -> str:
    """The address that a browser is sent back to, on this machine only; `ready` is called once it can come."""
    came: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        _, path, *_ = asked.partition(b"\r\n")[0].decode("ascii", "replace").split(" ")
        writer.write(_PAGE)
        writer.close()
        if path.startswith("/callback?") and not came.done():
            came.set_result(f"http://127.0.0.1:{port}{path}")

    listening = await asyncio.start_server(answer, "127.0.0.1", port, limit=_MOST_BYTES)
    async with listening:
        ready()
        return await came
