"""The server that the page on MCP servers shows runs under the SDK that is installed, with the table beside it."""

import re
import sys
import tomllib
from pathlib import Path

from mcc.configuration.mcp_servers import McpServer
from tests.drone.mcp_servers.conftest import Serve
from tests.drone.mcp_servers.test_servers import call_text

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "use-mcp-servers.md").read_text("utf-8")


def block(language: str, holds: str) -> str:
    """The only block of the page in this language that holds these words."""
    (code,) = (
        code for code in re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if holds in code
    )
    return str(code)


async def test_the_server_of_the_page_answers_with_the_effects_of_its_table(serve: Serve, tmp_path: Path) -> None:
    program = tmp_path / "stock_server.py"
    program.write_text(block("python", "MCPServer"))
    (name, table), *others = tomllib.loads(block("toml", "[mcp.stock]"))["mcp"].items()
    python, file = table["command"]
    assert not others and python.endswith("/bin/python") and file.endswith("/stock_server.py")
    servers = serve(**{name: McpServer.model_validate({**table, "command": [sys.executable, str(program)]})})
    specs = {spec.name: spec for spec in (await servers.tools()).specs()}
    assert specs.keys() == {"stock__in_stock", "stock__take"}
    assert [specs[tool].may_write for tool in ("stock__in_stock", "stock__take")] == [False, True]
    assert "How many" in specs["stock__in_stock"].description
    assert await call_text(servers, "stock__in_stock", fruit="apple") == "3"
    assert await call_text(servers, "stock__take", fruit="apple") == "2"
    assert await call_text(servers, "stock__in_stock", fruit="apple") == "2"


def test_the_server_of_the_page_is_short() -> None:
    assert len([line for line in block("python", "MCPServer").splitlines() if line.strip()]) <= 20
