"""The tools of all servers, as the agents of one order have them."""

from collections.abc import Mapping, Sequence

from drone.agent.messages import ToolSpec
from drone.agent.toolset import Call, Output
from drone.mcp_servers.results import output_of
from drone.mcp_servers.server import Refused, Server
from drone.tools.tool import unknown_tool
from mcc.configuration.mcp_servers import SEPARATOR
from mcc.contracts.journal import Outcome


class ServerTools:
    """What there was when the order began or went on. A tool that is another one since is refused when it is called."""

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers
        self._specs = tuple(spec for server in servers.values() for spec in server.specs())
        self._names = frozenset(spec.name for spec in self._specs)

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, call: Call) -> Output:
        if call.name not in self._names:
            return unknown_tool(call.name, self._names)
        server = self._servers[call.name.partition(SEPARATOR)[0]]
        try:
            result = await server.call(call.name, call.arguments)
        except Refused as refused:
            # The sentence may quote the server, so it is a stranger's as well.
            return Output(str(refused), is_error=True, outcome=Outcome.ERROR)
        return await output_of(result, call.turn.artifacts if call.turn else None)
