"""The operator's own tools: where they are found, and which are left out with a problem."""

import logging
from pathlib import Path

import pytest

from drone.crew import Crew
from drone.definitions import Definitions
from drone.settings import Settings, ToolModules
from drone.tools.catalog import provision
from drone.tools.frame.own import own_tools

GOOD = """
import drone
from drone.tools.rules_and_skills import rules_list

@drone.tool(group="workspace_read", idempotent=True, effects="read")
def count_lines(text: str) -> int:
    \"\"\"Count the lines of a text.\"\"\"
    return len(text.splitlines())

def not_declared() -> None: ...
"""


def written(directory: Path, name: str, text: str) -> str:
    (directory / f"{name}.py").write_text(text)
    return name


def test_a_file_beside_the_configuration_is_loaded_with_the_functions_that_it_declares(tmp_path: Path) -> None:
    found = own_tools([written(tmp_path, "my_tools", GOOD)], tmp_path)
    assert [(tool.spec.name, origin) for tool, origin in found.tools] == [("count_lines", f"{tmp_path}/my_tools.py")]
    assert "count_lines" in found.groups["workspace_read"] and "read_file" in found.groups["workspace_read"]
    assert found.problems == ()


def test_a_module_that_can_be_imported_is_loaded_by_its_name() -> None:
    found = own_tools(["drone.tools.rules_and_skills"], None)
    assert found.tools == ()
    assert {one.name for one in found.problems} >= {"rules_list"}, "found, and their names are taken"


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("import nothing_of_the_kind", "bad", "cannot be loaded: ModuleNotFoundError"),
        ("raise SystemExit(3)", "bad", "cannot be loaded: SystemExit"),
        ("x = 1", "bad", "holds no tool"),
        (GOOD.replace('group="workspace_read", ', ""), "count_lines", "declares no group"),
        (GOOD.replace("count_lines", "read_file"), "read_file", "name of a tool"),
        (GOOD.replace("text: str", "text: 'Nothing'"), "count_lines", "is no tool: "),
        (GOOD.replace("workspace_read", "workspce_read"), "bad", "did you mean 'workspace_read'"),
    ],
)
def test_what_cannot_be_used_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, name: str, said: str
) -> None:
    with caplog.at_level(logging.WARNING, "drone.tools"):
        found = own_tools(
            [written(tmp_path, "good", GOOD.replace("count_lines", "count_chars")), written(tmp_path, "bad", text)],
            tmp_path,
        )
    assert [tool.spec.name for tool, _ in found.tools] == ["count_chars"]
    [problem] = found.problems
    assert (problem.name, problem.origin) == (name, f"{tmp_path}/bad.py")
    assert said in (problem.problem or "") and said in caplog.text


def test_the_first_of_two_tools_of_one_name_stays(tmp_path: Path) -> None:
    found = own_tools([written(tmp_path, "one", GOOD), written(tmp_path, "two", GOOD)], tmp_path)
    assert [origin for _, origin in found.tools] == [f"{tmp_path}/one.py"]
    assert "one.py" in (found.problems[0].problem or "")


def test_a_file_that_others_can_write_is_not_run(tmp_path: Path) -> None:
    name = written(tmp_path, "open", f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "open.py").chmod(0o666)
    found = own_tools([name], tmp_path)
    assert "can be written by others" in (found.problems[0].problem or "")
    assert not (tmp_path / "ran").exists()


def test_agents_that_have_the_group_have_the_tool_and_files_may_name_it(tmp_path: Path) -> None:
    found = own_tools([written(tmp_path, "my_tools", GOOD)], tmp_path)
    (tmp_path / "subagent" / "counter").mkdir(parents=True)
    file = tmp_path / "subagent" / "counter" / "system.md"
    file.write_text("---\nname: counter\ndescription: Counts.\ntools: [count_lines]\n---\nCount.\n")
    definitions = Definitions.load(tmp_path, found.groups)
    specs = [tool.spec for tool, _ in found.tools]
    for agent in ("counter", "explore"):
        assert provision(specs, definitions.get(agent)).names == ("count_lines",)
    assert "counter" in Definitions.load(tmp_path).problems


def test_a_drone_registers_them_with_where_they_come_from(tmp_path: Path) -> None:
    crew = Crew.from_settings(Settings(data_dir=tmp_path, tools=ToolModules(modules=("no_such_module",))))
    [problem] = [one for one in crew.tools() if one.origin]
    assert (problem.name, problem.origin) == ("no_such_module", "mcc.toml") and problem.problem
