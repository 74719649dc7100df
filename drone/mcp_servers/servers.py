"""All servers of a drone: looked at when it starts, watched while something is wrong, closed with it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from drone.mcp_servers.connection import Connection, Open
from drone.mcp_servers.pins import MemoryPins, Pins
from drone.mcp_servers.server import Server
from drone.mcp_servers.toolset import ServerTools
from drone.mcp_servers.ways import load
from mcc.configuration.mcp_servers import McpServer
from mcc.contracts.drones import Capability
from mcc.contracts.tool_tests import ToolTest, ToolTested
from mcc.redaction import Redactor

WATCH_SECONDS = 5.0

Opening = Callable[[str, McpServer, Callable[[], None]], Open]
"""How a server is opened; the last is called when the server says that its tools are others now."""

log = logging.getLogger("drone.mcp")


class McpServers:
    """Use on one event loop only. Nothing is started, and no SDK loaded, before something is asked of a server."""

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
        self._servers: dict[str, Server] = {}
        self._watching: asyncio.Task[None] | None = None
        self._told: Sequence[Capability] = ()
        self.pin_by(pins or MemoryPins())

    def pin_by(self, pins: Pins) -> None:
        """Where digests are pinned; before anything is asked of a server."""
        self._servers = {name: self._server(name, config, pins) for name, config in self._configs.items()}

    def __bool__(self) -> bool:
        return bool(self._configs)

    def watch(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Look at all servers from now on; `changed` is called when something else is to be told of their tools."""
        if self and self._watching is None:
            self._watching = asyncio.create_task(self._watch(changed), name="mcp servers")

    async def look(self, *, again: bool = False) -> None:
        """Ask each server what it offers, unless that is known; `again`: also those that could not be spoken with."""
        if not self:
            return
        await load()
        async with asyncio.TaskGroup() as group:
            for server in self._servers.values():
                group.create_task(server.look(again=again))

    async def tools(self) -> ServerTools:
        """The tools for an order."""
        await self.look()
        return ServerTools(self._servers)

    def capabilities(self) -> tuple[Capability, ...]:
        return tuple(one for server in self._servers.values() for one in server.capabilities())

    def server(self, name: str) -> Server | None:
        return self._servers.get(name)

    async def test(self, test: ToolTest) -> ToolTested:
        """Speak with a server now, and make the call that is wanted. Never raises for what is wrong with it."""
        server = self._servers.get(test.server)
        if server is None:
            there = ", ".join(self._servers) or "none"
            return ToolTested(server=test.server, problem=f"This drone has no MCP server of this name; it has {there}.")
        await load()
        return self._redactor().model(await server.test(test))

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        async with asyncio.TaskGroup() as group:
            for server in self._servers.values():
                group.create_task(server.close())

    def _server(self, name: str, config: McpServer, pins: Pins) -> Server:
        # Late: the connection tells the server that its listing is old, and is made before it.
        connection = Connection(
            name, self._opening(name, config, lambda: server.changed()), start_seconds=config.start_seconds
        )
        server = Server(name, config, connection, pins, self._cleaned)
        return server

    def _cleaned(self, tool: object) -> object:
        return self._redactor().value(tool)

    async def _watch(self, changed: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await self.look(again=True)
                found = self.capabilities()
                if found != self._told:
                    await changed()
                    self._told = found
            except Exception:
                log.exception("the MCP servers could not be looked at")
            await asyncio.sleep(WATCH_SECONDS)
