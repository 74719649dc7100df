"""Groups expand to tool names; an unknown name is an error that names the most similar one."""

import pytest

from drone.tools.catalog import Toolbox, UnknownToolName, chosen, expand, provision
from mcc.contracts.agents import AgentDefinition
from mcc.definitions.rights import TOOL_GROUPS
from mcc.transcript.messages import ToolSpec


def test_groups_and_tool_names_become_tool_names_each_once() -> None:
    assert expand(["environment_read", "read_file", "workspace_read"]) == (
        "environment_detect",
        "read_file",
        "list_files",
        "find_files",
        "search_text",
        "outline",
        "read_artifact",
    )
    assert expand(["shell_read", "shell_write"]) == ("run_shell", "shell_jobs")
    assert expand([]) == ()


@pytest.mark.parametrize(("name", "nearest"), [("workspace_reed", "workspace_read"), ("read_fil", "read_file")])
def test_an_unknown_name_is_an_error_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownToolName, match=f"Did you mean '{nearest}'"):
        expand(["read_file", name])


def test_a_name_like_no_other_is_an_error_that_lists_the_groups() -> None:
    with pytest.raises(UnknownToolName, match="The groups are environment_read, workspace_read"):
        expand(["%%%"])


def test_further_tools_may_be_named() -> None:
    assert expand(["mine"], also=["mine"]) == ("mine",)


def test_a_tool_of_ones_own_comes_with_the_group_it_declares() -> None:
    specs = [
        ToolSpec("count_lines", "", {}, group="workspace_read"),
        ToolSpec("read_file", "", {}),
        ToolSpec("x", "", {}),
    ]
    assert chosen(specs, ["workspace_read"]) == ("count_lines", "read_file")
    assert chosen(specs, ["x"]) == ("x",)


def test_every_tool_of_the_catalog_is_in_the_group_that_names_it() -> None:
    there = {capability.name for capability in Toolbox.found().capabilities()}
    assert there >= {name for group in ("environment_read", "workspace_read") for name in TOOL_GROUPS[group]}
    assert there <= {name for names in TOOL_GROUPS.values() for name in names}


SERVED = [ToolSpec(name, "", {}, group="mcp") for name in ("tracker__list", "tracker__close", "mail__send")]


@pytest.mark.parametrize(
    ("named", "brought"),
    [
        (["mcp"], ("tracker__list", "tracker__close", "mail__send")),
        (["tracker__*"], ("tracker__list", "tracker__close")),
        (["tracker__cl??e", "mail__send"], ("tracker__close", "mail__send")),
        (["gone__*", "tracker__list"], ("tracker__list",)),
    ],
)
def test_tools_of_servers_come_by_their_group_by_name_or_by_glob(named: list[str], brought: tuple[str, ...]) -> None:
    assert chosen(SERVED, named) == brought


def test_a_server_that_is_not_there_is_missed_and_the_group_of_all_of_them_is_not() -> None:
    definition = AgentDefinition(name="a", description="d", prompt="p", tools=("mcp", "gone__*", "read_file"))
    given = provision([ToolSpec("read_file", "", {})], definition)
    assert (given.names, given.missing) == (("read_file",), ("gone__*",))
