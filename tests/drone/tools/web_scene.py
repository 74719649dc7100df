"""A small web on loopback: names resolve to a public address, connections go to the test's own server."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from drone.agent.turns.toolset import Output, StartedCall
from drone.tools.frame.tool import FunctionTools
from drone.tools.web.reading import WebTools
from mcc.addresses import AddressRule, Endpoint
from mcc.configuration.network import Web
from mcc.contracts.entry import Origin
from tests.drone.egress.servers import Answer, Host, Resolve, host, public

ORIGIN = Origin(record_id="00000000-0000-7000-8000-000000000001", agent="master", depth=0)


def page(body: bytes, kind: str = "text/html", *headers: str, status: str = "200 OK") -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


@dataclass
class Scene:
    host: Host
    tools: FunctionTools

    async def call(self, name: str, **arguments: object) -> Output:
        return await self.tools.call(StartedCall("c1", name, arguments, ORIGIN))

    async def fetch(self, url: str) -> Output:
        return await self.call("web_fetch", url=url)


@asynccontextmanager
async def scene(
    answer: Answer,
    *,
    web: Web | None = None,
    key: str | None = None,
    resolve: Resolve = public,
    is_secret: Callable[[bytes], bool] = lambda data: False,
    own: Sequence[Endpoint] = (),
) -> AsyncIterator[Scene]:
    async with host(answer) as server:
        rule = AddressRule(resolve, own=own, dial=lambda _: Endpoint("127.0.0.1", server.port))
        tools = WebTools.of(web or Web(hosts=("a.test", "*.b.test")), rule, key, is_secret)
        yield Scene(server, FunctionTools([tools.web_fetch, tools.web_search]))
