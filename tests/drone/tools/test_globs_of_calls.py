"""The globs of find_files and search_text: brackets in names, and empty answers that say why they are empty."""

from pathlib import Path

import pytest

from drone.agent.turns.toolset import ToolSet
from drone.sandbox.places.paths import Workspace
from drone.tools.files.listing import find_files
from drone.tools.files.search import search_tool
from drone.tools.frame.tool import FunctionTools
from tests.drone.tools.conftest import Use

FILES = (
    "app/[id]/page.tsx",
    "app/i/page.tsx",
    "app/(shop)/[[...slug]]/page.tsx",
    "app/(auth)/login.tsx",
    "docs/a1.md",
    "docs/b2.md",
    "open[/x.md",
    "build/out.js",
)


@pytest.fixture
def tools(tmp_path: Path) -> ToolSet:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("export\n")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    (tmp_path / "a.log").write_text("export\n")
    return FunctionTools([find_files, search_tool(None)], workspace=Workspace(tmp_path))


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("app/[id]/page.tsx", ["app/[id]/page.tsx"]),
        ("app/[id]/*.tsx", ["app/[id]/page.tsx"]),
        ("**/[id]/*", ["app/[id]/page.tsx"]),
        ("app/(shop)/[[...slug]]/*.tsx", ["app/(shop)/[[...slug]]/page.tsx"]),
        ("app/(shop)/[[...slug]]/pag[e].tsx", ["app/(shop)/[[...slug]]/page.tsx"]),
        ("app/(auth)/*", ["app/(auth)/login.tsx"]),
        ("app/\\[id]/*", ["app/[id]/page.tsx"]),
        ("open[/*", ["open[/x.md"]),
        ("docs/[ab][0-9].md", ["docs/a1.md", "docs/b2.md"]),
        ("docs/[!a]*.md", ["docs/b2.md"]),
        ("app/[hi]/*", ["app/i/page.tsx"]),
    ],
)
async def test_brackets_are_characters_of_names_where_such_names_exist_and_else_sets(
    use: Use, tools: ToolSet, glob: str, found: list[str]
) -> None:
    lines = (await use(tools, "find_files", pattern=glob)).content.splitlines()
    assert [line for line in lines[1:] if not line.startswith("[")] == found
    files = (await use(tools, "search_text", pattern="export", glob=glob, output="files")).content.splitlines()
    assert [line for line in files[1:] if not line.startswith("[")] == found


async def test_what_the_other_reading_would_bring_is_said(use: Use, tools: ToolSet) -> None:
    said = (await use(tools, "find_files", pattern="app/[id]/page.tsx")).content
    assert "taken as characters" in said and "1 more file would match" in said
    others = (await use(tools, "search_text", pattern="export", glob="!**/[id]/*", output="files")).content
    assert "app/[id]/page.tsx" not in others and "app/i/page.tsx" in others


async def test_brackets_that_match_nothing_are_explained_and_broken_ones_refused(use: Use, tools: ToolSet) -> None:
    for name, arguments in (("find_files", {"pattern": "x[id]"}), ("search_text", {"pattern": "e", "glob": "x[id]"})):
        assert "one character, a or b" in (await use(tools, name, **arguments)).content
    assert (await use(tools, "find_files", pattern="nothing[")).is_error


@pytest.mark.parametrize("glob", ["build/*.js", "build/**", "**/out.js", "*.log", "out.*"])
async def test_an_empty_answer_names_what_gitignore_leaves_out(use: Use, tools: ToolSet, glob: str) -> None:
    for name, arguments in (("find_files", {"pattern": glob}), ("search_text", {"pattern": "export", "glob": glob})):
        said = (await use(tools, name, **arguments)).content
        assert ".gitignore leaves out what matches: " in said and ("build/out.js" in said or "a.log" in said)
    assert "gitignore" not in (await use(tools, "find_files", pattern="*.rs")).content


async def test_a_glob_for_files_below_another_directory_counts_from_there(use: Use, tools: ToolSet) -> None:
    assert "build/out.js" in (await use(tools, "find_files", pattern="build/*.js", path="./")).content
    (await use(tools, "find_files", pattern="nope/*.js", path="docs"))
    assert "gitignore" not in (await use(tools, "find_files", pattern="build/*.js", path="docs")).content


async def test_a_directory_is_told_as_one_and_the_workspaces_own_path_is_no_obstacle(
    use: Use, tools: ToolSet, tmp_path: Path
) -> None:
    assert "app/[id] is a directory" in (await use(tools, "find_files", pattern="app/[id]")).content
    for root in (str(tmp_path), "/workspace"):
        found = await use(tools, "find_files", pattern=f"{root}/docs/*.md")
        assert found.content.splitlines()[1:] == ["docs/a1.md", "docs/b2.md"], root
