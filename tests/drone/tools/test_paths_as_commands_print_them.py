"""/workspace, as programs in the sandbox see the workspace, is the workspace for every tool, and no way out of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.parts import Hired
from drone.agent.turns.toolset import ToolSet
from drone.models.scripted import Line, ScriptedModel, call
from drone.sandbox.places.paths import PathDenied, PathError, Workspace
from drone.tools.files.listing import find_files, list_files
from drone.tools.files.outline import outline
from drone.tools.files.reading import read_file
from drone.tools.files.search import search_tool
from drone.tools.frame.tool import FunctionTools
from drone.tools.git.repository import pathspec
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.journal import Outcome
from mcc.rules.reads import Reads
from tests.drone.tools.conftest import Use
from tests.drone.tools.shell_bench import ShellBench
from tests.drone.tools.writing_bench import WritingBench


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "workspace").mkdir(parents=True)
    (root / "a.py").write_text("outer = 1\n")
    (root / "workspace/a.py").write_text("inner = 1\n")
    (tmp_path / "secret").write_text("secret")
    return root


@pytest.fixture
def tools(root: Path) -> ToolSet:
    functions: list[Callable[..., object]] = [read_file, list_files, find_files, search_tool(None), outline]
    return FunctionTools(functions, workspace=Workspace(root))


@pytest.mark.parametrize("path", ["/workspace/a.py", "//workspace/./a.py", "/workspace//a.py"])
async def test_every_tool_that_reads_takes_it(use: Use, tools: ToolSet, path: str) -> None:
    assert "outer = 1" in (await use(tools, "read_file", path=path)).content
    assert "outer = 1" in (await use(tools, "read_file", paths=[path, "workspace/a.py"])).content
    assert "1:outer = 1" in (await use(tools, "search_text", pattern="= 1", path=path)).content
    assert not (await use(tools, "outline", path=path)).is_error
    assert "2 files in /workspace" in (await use(tools, "list_files", path="/workspace")).content
    assert "workspace/a.py" in (await use(tools, "find_files", pattern="*.py", path="/workspace/workspace/")).content


async def test_a_directory_of_the_same_name_stays_what_it_is(use: Use, tools: ToolSet) -> None:
    for path in ("workspace/a.py", "./workspace/a.py", "/workspace/workspace/a.py"):
        assert "inner = 1" in (await use(tools, "read_file", path=path)).content
    assert "There is /workspace/a.py" in (await use(tools, "read_file", path="/workspace/b.py")).content


@pytest.mark.parametrize(
    "path", ["/workspace/../secret", "/workspace/../../etc/passwd", "/workspaces/a.py", "/work/space", "/workspacea.py"]
)
async def test_it_leads_nowhere_else(use: Use, tools: ToolSet, root: Path, path: str) -> None:
    assert (await use(tools, "read_file", path=path)).outcome is Outcome.DENIED
    with pytest.raises(PathDenied):
        pathspec(Workspace(root), path)


def test_the_hosts_own_spelling_comes_first(tmp_path: Path) -> None:
    assert Workspace(tmp_path).relative(f"{tmp_path}/a") == Workspace(tmp_path).relative("/workspace/a") == b"a"
    assert Workspace(tmp_path).own_name("/workspace") == ""
    with pytest.raises(PathError):
        Workspace(tmp_path).open_directory("/workspace/none")


async def test_tools_that_change_files_take_it(tmp_path: Path) -> None:
    bench = WritingBench(tmp_path / "w", tmp_path / "data")
    await bench.use("write_file", path="/workspace/a", content="a\n")
    await bench.use("edit_file", path="/workspace/a", old="a", new="b")
    patch = "--- /workspace/a\n+++ /workspace/a\n@@ -1 +1 @@\n-b\n+c\n"
    assert not (await bench.use("apply_patch", patch=patch)).is_error
    await bench.use("move_file", source="/workspace/a", target="/workspace/x/b")
    assert (tmp_path / "w/x/b").read_text() == "c\n"
    assert (await bench.use("write_file", path="/workspace/../c", content="")).outcome is Outcome.DENIED
    assert (await bench.use("write_file", path="/workspace/.git/config", content="")).outcome is Outcome.DENIED


async def test_a_command_may_begin_where_it_says_it_is(tmp_path: Path) -> None:
    async with ShellBench(tmp_path) as bench:
        (bench.root / "sub").mkdir()
        assert (await bench.run("pwd", cwd="/workspace/sub"))["output"] == "/workspace/sub\n"


def test_git_and_the_evidence_of_a_report_know_it(root: Path) -> None:
    workspace = Workspace(root)
    assert pathspec(workspace, "/workspace/a.py") == ("--", "a.py") and pathspec(workspace, "/workspace") == ()
    assert Reads(roots=workspace.spellings).same("/workspace/a.py", "a.py")


@pytest.mark.parametrize("path", ["a.py", "/workspace/a.py", "/workspace//./a.py", "/w/project/a.py"])
async def test_a_rule_about_a_path_holds_for_all_its_spellings(root: Path, path: str) -> None:
    definition = AgentDefinition.model_validate(
        {"name": "x", "prompt": "x", "permission": {"read_file": [{"when": 'args.path == "a.py"', "then": "deny"}]}}
    )
    model = ScriptedModel([Line(calls=(call("read_file", path=path),)), "done"])
    tools = FunctionTools([read_file], workspace=Workspace(root, also="/w/project"))
    await AgentRuntime(definition, model=model, tools=tools, hired=Hired(roots=("/w/project", "/workspace"))).run("go")
    [result] = model.asks[-1].messages[-1].results  # type: ignore[union-attr]
    assert result.is_error and result.content.startswith("Denied: ")
