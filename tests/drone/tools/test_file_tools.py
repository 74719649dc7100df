"""list_files and find_files as a model calls them, and the refusals that all file tools share."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from drone.agent.turns.toolset import Output, ToolSet
from drone.sandbox.places.paths import PathError, Workspace
from drone.tools.catalog import Toolbox
from drone.tools.files.listing import DEFAULT_LIMIT, find_files, list_files
from drone.tools.files.reading import read_file
from drone.tools.frame.tool import FunctionTools
from drone.tools.frame.wrappers import Timed
from mcc.contracts.journal import Outcome

Use = Callable[..., Coroutine[Any, Any, Output]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src" / "pkg").mkdir(parents=True)
    (root / "src" / "main.py").write_text("one\ntwo\nthree\n")
    (root / "src" / "pkg" / "deep.py").write_text("")
    (root / "README.md").write_text("# Project")
    (root / ".gitignore").write_text("*.log\n")
    (root / "run.log").write_text("")
    return root


@pytest.fixture(params=[False, True], ids=["openat2", "by components"])
def tools(request: pytest.FixtureRequest, root: Path) -> ToolSet:
    workspace = Workspace(root, by_components=request.param)
    return FunctionTools([list_files, find_files, read_file], workspace=workspace)


async def test_a_directory_is_listed_down_to_a_depth(use: Use, tools: ToolSet) -> None:
    assert (await use(tools, "list_files")).content.splitlines() == [
        "2 directories, 3 files in . (depth 2)",
        ".gitignore",
        "README.md",
        "src/",
        "src/main.py",
        "src/pkg/",
    ]
    assert (await use(tools, "list_files", path="src", depth=1)).content.splitlines() == [
        "1 directory, 1 file in src (depth 1)",
        "src/main.py",
        "src/pkg/",
    ]


async def test_links_and_odd_names_are_listed_as_what_they_are(use: Use, tools: ToolSet, root: Path) -> None:
    (root / "link").symlink_to("/etc")
    os.mkfifo(root / "pipe")
    (root / "two\nlines").mkdir()
    lines = (await use(tools, "list_files", depth=1)).content.splitlines()
    assert "link (symbolic link)" in lines
    assert "pipe (not a regular file)" in lines
    assert '"two\\nlines/"' in lines


async def test_a_long_listing_is_folded_breadth_first(use: Use, tools: ToolSet, root: Path) -> None:
    for module in range(30):
        (root / "src" / f"mod{module:02}" / "deep").mkdir(parents=True)
        for number in range(50):
            (root / "src" / f"mod{module:02}" / "deep" / f"{number:02}.c").touch()
    lines = (await use(tools, "list_files", depth=9)).content.splitlines()
    assert lines[0] == "62 directories, 1,504 files in . (depth 9)"
    assert lines[1:7] == [".gitignore", "README.md", "src/", "src/main.py", "src/mod00/", "src/mod00/deep/"]
    assert lines[7] == "src/mod00/deep/00.c" and "src/pkg/deep.py" in lines, "the first that fits is opened"
    assert "src/mod29/deep/ (50 files)" in lines and len(lines) <= DEFAULT_LIMIT + 2
    assert lines[-1].startswith("[1,400 files in folded directories: not shown.")
    found = (await use(tools, "find_files", pattern="*.c", limit=100)).content.splitlines()
    assert found[0] == "1,500 files of 1,504 in . match *.c"
    assert found[1] == "src/mod00/deep/00.c" and found[51] == "src/mod01/deep/ (50 files)"


async def test_a_directory_with_too_many_files_is_cut_and_says_so(use: Use, tools: ToolSet, root: Path) -> None:
    (root / "many").mkdir()
    for number in range(DEFAULT_LIMIT + 5):
        (root / "many" / f"{number:05}").touch()
    lines = (await use(tools, "list_files", path="many")).content.splitlines()
    assert lines[0] == f"0 directories, {DEFAULT_LIMIT + 5:,} files in many (depth 2)"
    assert len(lines) == DEFAULT_LIMIT + 2 and lines[-1].startswith("[5 more are not shown.")
    whole = (await use(tools, "list_files", path="many", limit=2_000)).content.splitlines()
    assert len(whole) == DEFAULT_LIMIT + 6
    assert (await use(tools, "list_files", depth=2)).content.splitlines()[3] == f"many/ ({DEFAULT_LIMIT + 5} files)"
    assert (await use(tools, "find_files", pattern="0*")).content.splitlines()[1:2] == ["many/00000"]


async def test_files_are_found_by_name_wherever_they_are(use: Use, tools: ToolSet) -> None:
    assert (await use(tools, "find_files", pattern="*.py")).content.splitlines() == [
        "2 files of 4 in . match *.py",
        "src/main.py",
        "src/pkg/deep.py",
    ]
    for pattern in ("pkg/*.py", "src/pkg/*.py", "**/deep.*"):
        found = await use(tools, "find_files", pattern=pattern, path="src")
        assert found.content.splitlines()[1:] == ["src/pkg/deep.py"]
    assert (await use(tools, "find_files", pattern="*.rs")).content == "0 files of 4 in . match *.rs"
    assert (await use(tools, "find_files", pattern="[")).is_error


async def test_pipes_devices_and_ways_out_are_denied(use: Use, tools: ToolSet, root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "zero").symlink_to("/dev/zero")
    for path in ("pipe", "zero", "/etc/passwd", "../x", "src/main.py\0"):
        output = await use(tools, "read_file", path=path)
        assert (output.is_error, output.outcome) == (True, Outcome.DENIED), output
    for name in ("list_files", "find_files"):
        arguments = {"pattern": "*"} if name == "find_files" else {}
        assert (await use(tools, name, path="..", **arguments)).outcome is Outcome.DENIED


async def test_a_missing_file_is_told_with_its_neighbours(use: Use, tools: ToolSet) -> None:
    for path, said in (("src/mian.py", "There is src/main.py"), ("REDME.md", "There is README.md")):
        output = await use(tools, "read_file", path=path)
        assert output.is_error and output.outcome is Outcome.ERROR and said in output.content
    assert "directory does not exist either" in (await use(tools, "read_file", path="nope/nope")).content
    assert "There is src" in (await use(tools, "list_files", path="scr")).content
    assert "list_files" in (await use(tools, "read_file", path="src")).content


async def test_without_a_workspace_there_are_only_skills_and_a_bad_one_is_told(use: Use, tmp_path: Path) -> None:
    assert [spec.name for spec in Toolbox.found().tools(None).specs()] == ["skills_list", "skills_read", "ask_user"]
    with pytest.raises(PathError, match="not a directory"):
        Toolbox.found().tools(tmp_path / "nope")
    output = await use(FunctionTools([read_file]), "read_file", path="x")
    assert output.is_error and "no workspace" in output.content


async def test_the_tools_of_a_workspace_work_together_and_are_idempotent(use: Use, root: Path) -> None:
    tools = Timed(Toolbox.found().tools(root), 60)
    assert [spec.name for spec in tools.specs() if not spec.name.startswith("git_")] == [
        "environment_detect",
        "list_files",
        "find_files",
        "search_text",
        "read_file",
        "outline",
        "run_shell",
        "shell_jobs",
        "skills_list",
        "skills_read",
        "rules_list",
        "rules_read",
        "ask_user",
    ]
    assert all(spec.description and spec.seconds for spec in tools.specs())
    assert {spec.name for spec in tools.specs() if not spec.idempotent} <= {"git_commit", "run_shell"}
    schemas: list[tuple[str, Any]] = [(spec.name, spec.parameters["properties"]) for spec in tools.specs()]
    of_all = [(tool, *one) for tool, properties in schemas for one in properties.items()]
    unsaid = {(tool, name) for tool, name, argument in of_all if "description" not in argument}
    assert unsaid == {("run_shell", "command"), ("shell_jobs", "job")}, "their names say it all"
    outputs = await asyncio.gather(
        use(tools, "list_files"), use(tools, "search_text", pattern="two"), use(tools, "read_file", path="src/main.py")
    )
    assert not any(output.is_error for output in outputs)
