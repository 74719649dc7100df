"""One server: its tools, whether they are approved, and calls of them."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from drone.mcp_servers.connection import ServerConnection, ServerUnavailable
from drone.mcp_servers.definitions import GROUP, Definition, ToolListing, listing, name_of
from drone.mcp_servers.results import output_of, reason_of
from drone.mcp_servers.server_state import Pins
from drone.tools.frame.capabilities import capability, tokens
from mcc.configuration.mcp_servers import SEPARATOR, McpServer
from mcc.contracts.drones import Capability, ToolState
from mcc.contracts.tool_tests import ToolTest, ToolTested
from mcc.transcript.messages import ToolSpec

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from drone.mcp_servers.elicitation import Elicitor
    from drone.mcp_servers.session import Progress, ServerSession

LISTED_SECONDS = 300.0
"""After so long, the next use of a server lists its tools again."""

log = logging.getLogger("drone.mcp")

Redact = Callable[[Any], Any]
"""Returns JSON without known secrets."""


class McpCallRefused(Exception):
    """The call was not made or failed; the message is a sentence for the model."""


class Lost(McpCallRefused):
    """The call was sent, and no answer came that can be read: its effect is unknown."""


class ConnectedServer:
    """One configured server. Use on one event loop."""

    def __init__(
        self,
        name: str,
        config: McpServer,
        connection: ServerConnection,
        pins: Pins,
        redact: Redact,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.config = config
        self._connection = connection
        self._pins = pins
        self._redact = redact
        self._clock = clock
        self._listing = ToolListing()
        self._approved: Mapping[str, str] = {}
        self._listed_with: ServerSession | None = None
        self._listed_at = float("-inf")
        self._lock = asyncio.Lock()
        self._looking = asyncio.Lock()
        self.revision: str | None = None
        """The protocol version that was negotiated last."""
        self.problem: str | None = None
        """Why the server cannot be used, None if it can."""

    def changed(self) -> None:
        """The server has changed its tools: list them again before the next call."""
        self._listed_at = float("-inf")

    async def look(self, *, again: bool = False) -> None:
        """List the server's tools unless they are known, and read which are approved.

        A failure is put into `problem`; after that the server is tried again only with `again`.
        """
        async with self._looking:
            if self.problem is not None and not again:
                return
            if self.problem is None and self._listed_at > float("-inf"):
                await self._read_approved()
                return
            await self._try_listing()

    async def _read_approved(self) -> None:
        """Read what people have approved since; if that fails, the approvals read before stay valid."""
        try:
            self._approved = await self._pins.approved(self.name) or self._approved
        except Exception as error:
            log.debug("the approved tools of the MCP server %s cannot be read now: %s", self.name, error)

    async def _try_listing(self) -> None:
        try:
            async with self._connection.used() as session:
                await self._list(session)
        except Exception as error:
            self._listed_at = float("-inf")
            why = self._connection.problem if isinstance(error, ServerUnavailable) else await self._reason(error)
            problem = f"The MCP server {self.name} cannot be used: {why or error}."
            if problem != self.problem:
                log.warning("%s", problem)
            self.problem = problem

    def specs(self) -> Iterator[ToolSpec]:
        """The tools that agents may use now."""
        usable = [tool for tool in self._offered() if self._why_unusable(tool) is None]
        deferred = self.config.defers(len(usable))
        yield from (replace(tool.spec, deferred=deferred) for tool in usable)

    def capabilities(self) -> Iterator[Capability]:
        """Each tool that the operator offers to agents, with its state; one entry for a server that lists no tools."""
        if self.problem is not None and not self._listing.tools:
            yield self._broken(f"{self.name}{SEPARATOR}*", self.problem)
            return
        deferred = {spec.name for spec in self.specs() if spec.deferred}
        for tool in self._offered():
            why = self._why_unusable(tool)
            state: ToolState = "deferred" if tool.spec.name in deferred else "usable"
            if why is not None:
                state = "broken" if self.problem else "changed"
            entry = capability(tool.spec, why, server=self.name, state=state)
            # The pinned digest, which covers the server's whole definition.
            yield entry.model_copy(update={"digest": tool.digest})
        for name, problem in self._listing.problems.items():
            yield self._broken(name, f"{problem[0].upper()}{problem[1:]}.")

    def _broken(self, name: str, problem: str) -> Capability:
        return Capability(name=name, server=self.name, group=GROUP, problem=problem, state="broken")

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        people: "Elicitor | None" = None,
        progress: "Progress | None" = None,
    ) -> "CallToolResult":
        """Call a tool. Whatever the server does, this returns a result or raises `McpCallRefused`."""
        from mcp.shared.exceptions import MCPError

        from drone.mcp_servers.elicitation import NotAnswered
        from drone.mcp_servers.session import is_closed, is_unanswered
        from drone.mcp_servers.tasks import TaskFailed

        sent = False
        try:
            async with self._connection.used() as session:
                if session is not self._listed_with or self._clock() - self._listed_at >= LISTED_SECONDS:
                    await self._list(session)
                definition = self._approved_definition(name)
                # From here on the call may have had its effect, whatever happens.
                sent = True
                return await session.call(definition.own_name, arguments, people, progress)
        except ServerUnavailable as unavailable:
            raise McpCallRefused(f"{unavailable} Go another way, or say that it is missing.") from unavailable
        except (NotAnswered, TaskFailed) as error:
            raise McpCallRefused(f"{name} gave no result: {error}.") from error
        except MCPError as error:
            reason = await self._reason(error)
            if is_closed(error):
                self._connection.lost()
            raise (Lost if sent and is_unanswered(error) else McpCallRefused)(
                f"{name} gave no result: {reason}."
            ) from error
        except (ValueError, RuntimeError, OSError, ExceptionGroup) as error:
            kind = Lost if sent else McpCallRefused
            raise kind(f"{name} gave no result: {await self._reason(error)}.") from error

    async def test(self, test: ToolTest) -> ToolTested:
        """List the server's tools now, and make the call that the test names, if any."""
        began = self._clock()
        self.changed()
        await self.look(again=True)
        tested = ToolTested(server=self.name, problem=self.problem)
        if self.problem is None:
            specs = tuple(self.specs())
            facts = {"tools": len(specs), "tokens": sum(map(tokens, specs)), "revision": self.revision}
            tested = tested.model_copy(update=facts)
            if test.tool is not None:
                tested = tested.model_copy(update=await self._test_call(test.tool, test.arguments))
        return tested.model_copy(update={"seconds": round(self._clock() - began, 3)})

    async def _test_call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        name = tool if tool in self._listing.tools else name_of(self.name, tool)
        try:
            output = await output_of(await self.call(name, arguments), None)
        except McpCallRefused as refused:
            return {"problem": str(refused)}
        return {"content": output.content, "is_error": output.is_error}

    async def close(self) -> None:
        await self._connection.close()

    async def _list(self, session: "ServerSession") -> None:
        """List the tools and pin their digests. Raises whatever the session or the pins raise."""
        async with self._lock:
            raw = [self._redact(tool) for tool in await session.tools()]
            listed = listing(self.name, self.config, raw)
            digests = {tool.own_name: tool.digest for tool in listed.tools.values()}
            self._approved = await self._pins.seen(self.name, digests)
            # After pinning: a listing whose digests nobody knows would be offered without approval.
            self._listing, self._listed_with, self._listed_at = listed, session, self._clock()
            self.problem, self.revision = None, session.session.protocol_version

    def _offered(self) -> Iterator[Definition]:
        return (tool for tool in self._listing.tools.values() if self.config.offers(tool.own_name))

    def _why_unusable(self, tool: Definition) -> str | None:
        if self.problem is not None:
            return self.problem
        known = self._approved.get(tool.own_name)
        if known == tool.digest:
            return None
        what = (
            "came after the others of its server were seen"
            if known is None
            else "is not what it was when it was approved"
        )
        return f"Its definition {what}: look at it, then mcc tools approve {self.name} {tool.own_name}."

    def _approved_definition(self, name: str) -> Definition:
        """The definition of a tool that may be called. Raises `McpCallRefused`."""
        found = self._listing.tools.get(name)
        if found is None or not self.config.offers(found.own_name):
            raise McpCallRefused(f"The MCP server {self.name} has no tool {name} any more. Go another way.")
        if (why := self._why_unusable(found)) is not None:
            raise McpCallRefused(f"{name} is off: a person must approve it first. {why}")
        return found

    async def _reason(self, error: BaseException) -> str:
        """The error's message, and why the connection broke, if it did."""
        reason = reason_of(error).rstrip(".")
        gone = await self._connection.why()
        return f"{reason} ({gone})" if gone and gone not in reason else reason
