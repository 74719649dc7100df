"""MCP servers for the tests: programs that follow a plan, in the sandbox."""

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from drone.mcp_servers.servers import McpServers
from drone.mcp_servers.transports import Transports, load
from drone.sandbox.bubblewrap import Bubblewrap
from mcc.addresses import AddressRule
from mcc.configuration.mcp_servers import McpServer
from tests.drone.sandbox.conftest import sandbox as sandbox

FAKE = Path(__file__).parent / "fake_server.py"


async def nowhere(host: str) -> tuple[str, ...]:
    return ()


def program(plan: dict[str, Any], **settings: Any) -> McpServer:
    """The table of a server that does what the plan says."""
    command = (sys.executable, str(FAKE), json.dumps(plan))
    return McpServer(command=command, **{"effects": {"*": "read"}, **settings})


Serve = Callable[..., McpServers]


@pytest.fixture
async def serve(sandbox: Bubblewrap) -> AsyncIterator[Serve]:
    """Makes servers from configurations by name; the only variable of the drone that they can get is `SECRET`."""
    await load()
    async with AsyncExitStack() as closing:

        def served(**tables: McpServer) -> McpServers:
            transports = Transports(sandbox, AddressRule(nowhere), {"SECRET": "s3kr3t-value-of-it"}.get)
            servers = McpServers(tables, transports.opening)
            closing.push_async_callback(servers.close)
            return servers

        yield served
