"""One server: what it offers, which of it may be used, and calls of that."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from drone.agent.messages import ToolSpec
from drone.mcp_servers.connection import Connection, Down
from drone.mcp_servers.definitions import GROUP, Definition, Listing, listing, name_of
from drone.mcp_servers.pins import Pins
from drone.mcp_servers.results import output_of, reason_of
from drone.tools.offered import capability, tokens
from mcc.configuration.mcp_servers import SEPARATOR, McpServer
from mcc.contracts.drones import Capability, ToolState
from mcc.contracts.tool_tests import ToolTest, ToolTested

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from drone.mcp_servers.asking import Asks
    from drone.mcp_servers.session import Progress, Spoken

LISTED_SECONDS = 300.0
"""For so long a listing is believed; then the server is asked again, when somebody uses it."""

log = logging.getLogger("drone.mcp")

Cleaned = Callable[[Any], Any]
"""JSON without what nobody may say."""


class Refused(Exception):
    """The call is not made, or brought nothing; a sentence for the model."""


class Lost(Refused):
    """The server was gone before it answered: what the call did is not known."""


class Server:
    def __init__(
        self,
        name: str,
        config: McpServer,
        connection: Connection,
        pins: Pins,
        clean: Cleaned,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.config = config
        self._connection = connection
        self._pins = pins
        self._clean = clean
        self._clock = clock
        self._listing = Listing()
        self._approved: Mapping[str, str] = {}
        self._listed_with: Spoken | None = None
        self._listed_at = float("-inf")
        self._lock = asyncio.Lock()
        self._looking = asyncio.Lock()
        self.revision: str | None = None
        """Of the protocol, as it was agreed upon the last time."""
        self.problem: str | None = None
        """Why nothing of it can be used."""

    def changed(self) -> None:
        """The server says that its tools are others now: it is asked before the next call."""
        self._listed_at = float("-inf")

    async def look(self, *, again: bool = False) -> None:
        """Ask what it offers, unless that is known; what is wrong stands in `problem`, and is tried anew with `again`.

        What people approved meanwhile counts from now on.
        """
        async with self._looking:
            if self.problem is not None and not again:
                return
            if self.problem is None and self._listed_at > float("-inf"):
                await self._read_pins()
                return
            await self._ask()

    async def _read_pins(self) -> None:
        """What counts may have been approved meanwhile; where that cannot be known now, it is what counted before."""
        try:
            self._approved = await self._pins.approved(self.name) or self._approved
        except Exception as error:
            log.debug("what was approved of the MCP server %s cannot be known now: %s", self.name, error)

    async def _ask(self) -> None:
        try:
            async with self._connection.used() as spoken:
                await self._list(spoken)
        except Exception as error:
            self._listed_at = float("-inf")
            why = self._connection.problem if isinstance(error, Down) else await self._said(error)
            problem = f"The MCP server {self.name} cannot be used: {why or error}."
            if problem != self.problem:
                log.warning("%s", problem)
            self.problem = problem

    def specs(self) -> Iterator[ToolSpec]:
        """The tools that agents may have now."""
        usable = [one for one in self._offered() if self._why_not(one) is None]
        deferred = self.config.defers(len(usable))
        yield from (replace(one.spec, deferred=deferred) for one in usable)

    def capabilities(self) -> Iterator[Capability]:
        """Each tool that the operator lets agents have, and how it stands; the server itself where it tells nothing."""
        if self.problem is not None and not self._listing.tools:
            yield self._broken(f"{self.name}{SEPARATOR}*", self.problem)
            return
        deferred = {spec.name for spec in self.specs() if spec.deferred}
        for one in self._offered():
            why = self._why_not(one)
            state: ToolState = "deferred" if one.spec.name in deferred else "usable"
            if why is not None:
                state = "broken" if self.problem else "changed"
            found = capability(one.spec, why, server=self.name, state=state)
            # The digest is the one that is pinned: over all that the server says.
            yield found.model_copy(update={"digest": one.digest})
        for name, problem in self._listing.problems.items():
            yield self._broken(name, f"{problem[0].upper()}{problem[1:]}.")

    def _broken(self, name: str, problem: str) -> Capability:
        return Capability(name=name, server=self.name, group=GROUP, problem=problem, state="broken")

    async def call(
        self, name: str, arguments: Mapping[str, Any], asks: "Asks | None" = None, progress: "Progress | None" = None
    ) -> "CallToolResult":
        """Raises `Refused`; whatever the server does, it is that or a result."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED

        from drone.mcp_servers.asking import NotAnswered
        from drone.mcp_servers.tasks import TaskFailed

        begun = False
        try:
            async with self._connection.used() as spoken:
                if spoken is not self._listed_with or self._clock() - self._listed_at >= LISTED_SECONDS:
                    await self._list(spoken)
                definition = self._definition(name)
                begun = True
                return await spoken.call(definition.own_name, arguments, asks, progress)
        except Down as down:
            raise Refused(f"{down} Go another way, or say that it is missing.") from down
        except (NotAnswered, TaskFailed) as error:
            raise Refused(f"{name} brought nothing: {error}.") from error
        except MCPError as error:
            said = await self._said(error)
            if error.code == CONNECTION_CLOSED:
                self._connection.lost()
            gone = begun and error.code == CONNECTION_CLOSED
            raise (Lost if gone else Refused)(f"{name} brought nothing: {said}.") from error
        except (ValueError, RuntimeError, OSError, ExceptionGroup) as error:
            raise Refused(f"{name} brought nothing: {await self._said(error)}.") from error

    async def test(self, test: ToolTest) -> ToolTested:
        """Speak with the server now, and make the call that is wanted, if one is."""
        began = self._clock()
        self.changed()
        await self.look(again=True)
        found = ToolTested(server=self.name, problem=self.problem)
        if self.problem is None:
            specs = tuple(self.specs())
            facts = {"tools": len(specs), "tokens": sum(map(tokens, specs)), "revision": self.revision}
            found = found.model_copy(update=facts)
            if test.tool is not None:
                found = found.model_copy(update=await self._tried(test.tool, test.arguments))
        return found.model_copy(update={"seconds": round(self._clock() - began, 3)})

    async def _tried(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        name = tool if tool in self._listing.tools else name_of(self.name, tool)
        try:
            output = await output_of(await self.call(name, arguments), None)
        except Refused as refused:
            return {"problem": str(refused)}
        return {"content": output.content, "is_error": output.is_error}

    async def close(self) -> None:
        await self._connection.close()

    async def _list(self, spoken: "Spoken") -> None:
        """Raises what the server makes of it."""
        async with self._lock:
            raw = [self._clean(tool) for tool in await spoken.tools()]
            found = listing(self.name, self.config, raw)
            digests = {one.own_name: one.digest for one in found.tools.values()}
            self._approved = await self._pins.seen(self.name, digests)
            self._listing, self._listed_with, self._listed_at = found, spoken, self._clock()
            self.problem, self.revision = None, spoken.session.protocol_version

    def _offered(self) -> Iterator[Definition]:
        return (one for one in self._listing.tools.values() if self.config.offers(one.own_name))

    def _why_not(self, one: Definition) -> str | None:
        if self.problem is not None:
            return self.problem
        known = self._approved.get(one.own_name)
        if known == one.digest:
            return None
        what = (
            "came after the others of its server were seen"
            if known is None
            else "is not what it was when it was approved"
        )
        return f"Its definition {what}: look at it, then mcc tools approve {self.name} {one.own_name}."

    def _definition(self, name: str) -> Definition:
        """Raises `Refused`."""
        found = self._listing.tools.get(name)
        if found is None or not self.config.offers(found.own_name):
            raise Refused(f"The MCP server {self.name} has no tool {name} any more. Go another way.")
        if (why := self._why_not(found)) is not None:
            raise Refused(f"{name} is off: a person must approve it first. {why}")
        return found

    async def _said(self, error: BaseException) -> str:
        """What went wrong; of a connection that broke, why."""
        said = reason_of(error).rstrip(".")
        gone = await self._connection.why()
        return f"{said} ({gone})" if gone and gone not in said else said
