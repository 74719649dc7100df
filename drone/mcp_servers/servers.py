"""All MCP servers of a drone: listed when it starts, watched while it runs, closed at its end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from drone.mcp_servers.connection import Open, ServerConnection
from drone.mcp_servers.server import ConnectedServer
from drone.mcp_servers.server_state import MemoryPins, Pins
from drone.mcp_servers.toolset import ServerTools
from drone.mcp_servers.transports import load
from mcc.configuration.mcp_servers import McpServer
from mcc.contracts.drones import Capability
from mcc.contracts.tool_tests import ToolTest, ToolTested
from mcc.redaction import Redactor

WATCH_SECONDS = 5.0

Opening = Callable[[str, McpServer, Callable[[], None]], Open]
"""Returns how a server is opened, from its name and configuration; the callback reports that its tools changed."""

log = logging.getLogger("drone.mcp")


class McpServers:
    """The configured servers. Use on one event loop only. Starts no server and loads no SDK before the first use."""

    def __init__(
        self,
        configs: Mapping[str, McpServer],
        opening: Opening,
        redactor: Callable[[], Redactor] = Redactor,
        pins: Pins | None = None,
    ) -> None:
        self._configs = configs
        self._opening = opening
        self._redactor = redactor
        self._servers: dict[str, ConnectedServer] = {}
        self._watching: asyncio.Task[None] | None = None
        self._reported: Sequence[Capability] = ()
        self.pin_by(pins or MemoryPins())

    def pin_by(self, pins: Pins) -> None:
        """Set where digests are pinned; call this before the first use of a server."""
        self._servers = {name: self._server(name, config, pins) for name, config in self._configs.items()}

    def __bool__(self) -> bool:
        return bool(self._configs)

    def watch(self, changed: Callable[[], Awaitable[None]]) -> None:
        """List all servers' tools every few seconds from now on; `changed` is called when the capabilities changed."""
        if self and self._watching is None:
            self._watching = asyncio.create_task(self._watch(changed), name="mcp servers")

    async def look(self, *, again: bool = False) -> None:
        """List each server's tools unless they are known; `again`: also retry servers that could not be reached."""
        if not self:
            return
        await load()
        async with asyncio.TaskGroup() as group:
            for server in self._servers.values():
                group.create_task(server.look(again=again))

    async def tools(self) -> ServerTools:
        """The tools for one order, as they are now."""
        await self.look()
        return ServerTools(self._servers)

    def capabilities(self) -> tuple[Capability, ...]:
        return tuple(tool for server in self._servers.values() for tool in server.capabilities())

    def server(self, name: str) -> ConnectedServer | None:
        return self._servers.get(name)

    async def test(self, test: ToolTest) -> ToolTested:
        """Test a server now, with the call that the test names. Problems of the server are reported, not raised."""
        server = self._servers.get(test.server)
        if server is None:
            known = ", ".join(self._servers) or "none"
            return ToolTested(server=test.server, problem=f"This drone has no MCP server of this name; it has {known}.")
        await load()
        return self._redactor().model(await server.test(test))

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        async with asyncio.TaskGroup() as group:
            for server in self._servers.values():
                group.create_task(server.close())

    def _server(self, name: str, config: McpServer, pins: Pins) -> ConnectedServer:
        # A lambda, because the server that it notifies is only made with the connection.
        connection = ServerConnection(
            name, self._opening(name, config, lambda: server.changed()), start_seconds=config.start_seconds
        )
        server = ConnectedServer(name, config, connection, pins, lambda tool: self._redactor().value(tool))
        return server

    async def _watch(self, changed: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await self.look(again=True)
                capabilities = self.capabilities()
                if capabilities != self._reported:
                    await changed()
                    # Only now: a report that failed is repeated.
                    self._reported = capabilities
            except Exception:
                log.exception("the MCP servers could not be looked at")
            await asyncio.sleep(WATCH_SECONDS)
