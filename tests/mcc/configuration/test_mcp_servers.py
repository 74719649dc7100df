"""The tables [mcp.NAME]: errors name their place, and the effects of tools are determined."""

from pathlib import Path

import pytest

from drone.settings import Settings
from mcc.configuration.mcp_servers import McpServer
from mcc.configuration.settings import BadSettings


def load(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "mcc.toml"
    file.write_text(text)
    return Settings({"MCC_CONFIG": str(file), "MCC_DATA_DIR": str(tmp_path)})


def test_a_server_is_a_program_or_an_address(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
        [mcp.tracker]
        command = ["tracker-mcp", "--stdio"]
        env = {TRACKER_TOKEN = "TRACKER_TOKEN"}
        egress = ["tracker.example.org:443"]
        tools = ["search_*", "create_issue"]
        effects = {"search_*" = "read", create_issue = "irreversible"}
        deferred = true
        [mcp.far]
        url = "https://mcp.example.org/mcp"
        token_env = "FAR"
        """,
    )
    tracker, far = settings.mcp["tracker"], settings.mcp["far"]
    assert tracker.command == ("tracker-mcp", "--stdio") and tracker.variables == ("TRACKER_TOKEN",)
    assert [tracker.offers(name) for name in ("search_all", "create_issue", "delete")] == [True, True, False]
    assert far.variables == ("FAR",) and far.offers("anything")


@pytest.mark.parametrize(
    ("table", "line", "said"),
    [
        ('[mcp.t]\ncommand = "tracker --stdio"', 2, 'is a list of words, such as ["tracker", "--stdio"]'),
        ('[mcp.t]\ncommand = ["a"]\nurl = "https://x.org"', 1, "one of them"),
        ("[mcp.t]\n", 1, "one of them"),
        ('[mcp.t]\nurl = "ftp://x.org"', 1, "Only http:// and https://"),
        ('[mcp.t]\nurl = "https://me:pw@x.org"', 1, "no user and no password"),
        ('[mcp.t]\ncomand = ["a"]', 2, 'did you mean "command"'),
        ('[mcp.t]\ncommand = ["./a"]', 2, "whole path"),
        ('[mcp.t]\ncommand = ["a"]\nenv = {A = "sk-12 34"}', 3, "never a value"),
        ('[mcp.t]\ncommand = ["a"]\negress = ["x y"]', 3, "is not a host name"),
        ('[mcp.t]\ncommand = ["a"]\ntoken_env = "A"', 1, "gets its token by env"),
        ('[mcp.t]\nurl = "https://x.org"\nenv = {A = "A"}', 1, "env is for a server that is started"),
        ('[mcp.t]\ncommand = ["a"]\neffects = {a = "reed"}', 3, "irreversible"),
        ('[mcp.a__b]\ncommand = ["a"]', 1, "SERVER__TOOL"),
        ('[mcp]\ncommand = ["a"]', 2, "write [mcp.NAME]"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, table: str, line: int, said: str) -> None:
    with pytest.raises(BadSettings) as caught:
        load(tmp_path, table)
    assert f"mcc.toml, line {line}: " in str(caught.value) and said in str(caught.value)


def test_what_nobody_said_of_a_tool_is_irreversible() -> None:
    server = McpServer(command=("a",), effects={"*_list": "read", "user_*": "write", "user_list": "none"})
    known = {name: server.effects_of(name) for name in ("x_list", "user_add", "user_list", "delete")}
    assert known == {"x_list": "read", "user_add": "write", "user_list": "none", "delete": "irreversible"}
    assert McpServer(command=("a",), effects={"a*": "read", "ab*": "write"}).effects_of("abc") == "write"


def test_many_tools_are_deferred_unless_the_table_says_otherwise() -> None:
    assert [McpServer(command=("a",)).defers(count) for count in (20, 21)] == [False, True]
    assert [McpServer(command=("a",), deferred=said).defers(21) for said in (True, False)] == [True, False]


def test_a_workspaces_file_registers_no_server(tmp_path: Path) -> None:
    from mcc.configuration.file import laid_over

    whole, told = laid_over({}, {"mcp": {"evil": {"command": ["sh"]}}})
    assert "mcp" not in whole and any("mcp" in one for one in told)
