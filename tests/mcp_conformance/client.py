"""The client that the conformance tests of MCP try: ours, as a drone speaks with a server at an address."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from drone.mcp_servers.elicitation import Elicitor, Question
from drone.mcp_servers.server import ConnectedServer, McpCallRefused
from drone.mcp_servers.servers import McpServers
from drone.mcp_servers.transports import Transports
from mcc.addresses import AddressRule, Endpoint
from mcc.configuration.mcp_servers import McpServer, OAuth

ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}
SECRET = "CLIENT_SECRET"


class Loopback(AddressRule):
    """The servers of the tests are on this machine, at ports that nobody knows before."""

    async def resolve(self, endpoint: Endpoint) -> tuple[Endpoint, ...]:
        assert endpoint.host in ("localhost", "127.0.0.1", "::1"), endpoint
        return (Endpoint("::1" if await _answers("::1", endpoint.port) else "127.0.0.1", endpoint.port),)


async def _answers(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


async def nobody(host: str) -> Sequence[str]:
    return ()


async def visit(url: str) -> str:
    """A person who says yes to everything."""
    async with httpx2.AsyncClient() as browser:
        answer = await browser.get(url)
        return str(answer.headers["location"])


async def ask(question: Question) -> str | None:
    return question.default if question.default is not None else next(iter(question.choices), "yes")


@dataclass(frozen=True)
class Scenario:
    """What the tests say of one: the server's address, the revision, and particulars."""

    name: str
    url: str
    revision: str = ""
    context: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, told: dict[str, str]) -> "Scenario":
        return cls(told["SCENARIO"], told["url"], told["PROTOCOL_VERSION"], json.loads(told["CONTEXT"] or "{}"))

    @property
    def table(self) -> McpServer:
        oauth: dict[str, Any] = {"client_metadata_url": "https://conformance-test.local/client-metadata.json"}
        if client_id := self.context.get("client_id"):
            secret = {"client_secret_env": SECRET} if self.context.get("client_secret") else {}
            oauth = {"client_id": client_id, **secret}
        return McpServer(url=self.url, oauth=OAuth.model_validate(oauth), effects={"*": "read"}, start_seconds=25)

    async def run(self) -> list[str]:
        """Speak with the server and call what it wants to be called; what came of that."""
        key = {SECRET: self.context.get("client_secret")}.get
        transports = Transports(None, Loopback(nobody), key, visit=visit, handshake=self.revision < "2026")
        servers = McpServers({"one": self.table}, transports.opening)
        server = servers.server("one")
        assert server is not None
        try:
            await servers.look()
            return [str(server.problem), *[said async for said in self._calls(server)]]
        finally:
            await servers.close()

    async def _calls(self, server: ConnectedServer) -> AsyncIterator[str]:
        named = [{"name": spec.name.partition("__")[2]} for spec in server.specs()]
        for one in self.context.get("toolCalls", named):
            arguments = one.get("arguments", ARGUMENTS.get(one["name"], {}))
            try:
                result = await server.call(f"one__{one['name']}", arguments, Elicitor("one", ask))
                yield f"{one['name']}: {result.model_dump_json()[:200]}"
            except McpCallRefused as refused:
                yield f"{one['name']}: {refused}"
