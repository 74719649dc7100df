"""The rows on git of the list of hostile inputs, each against a repository as its author would have made it."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from drone.agent.toolset import Call, Output, ToolSet
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.paths import Workspace
from drone.tools.git import GitTools
from drone.tools.git_program import Git
from drone.tools.tool import FunctionTools
from mcc.contracts.entry import Origin
from mcc.contracts.journal import Outcome
from tests.drone.tools.git_scene import Scene

Ask = Callable[..., Awaitable[Output]]


@pytest.fixture(scope="module")
def git() -> Git:
    found = Git.found(Bubblewrap.found())
    if found.problem and "CI" not in os.environ:
        pytest.skip(found.problem)
    assert found.problem is None
    return found


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "repo")
    scene.commit("first", {"a.txt": "one\n", "b.txt": "b\n"})
    scene.commit("second", {"a.txt": "two\n"})
    return scene


@pytest.fixture
def tools(git: Git, scene: Scene) -> ToolSet:
    return FunctionTools(GitTools(git).tools(), workspace=Workspace(scene.root))


@pytest.fixture
def ask(tools: ToolSet) -> Ask:
    async def ask(name: str, **arguments: object) -> Output:
        return await tools.call(Call("call-1", name, arguments, Origin(record_id="record-1", agent="master")))

    return ask


OPTIONS = (
    "--output=/workspace/x",
    "--output=x",
    "-Ox",
    "--upload-pack=touch x",
    "--upload-p=touch x",
    "--exec=touch x",
    "-c core.pager=touch",
    "--",
    "HEAD --output=x",
    "HEAD\n--output=x",
    "HEAD;touch x",
    "$(touch x)",
    "HEAD\0--output=x",
    ":/first",
    "HEAD^{/first}",
    "HEAD@{1}",
    "HEAD:a.txt",
    "^HEAD",
    "\N{RIGHT-TO-LEFT OVERRIDE}HEAD",
)


@pytest.mark.parametrize(
    ("name", "ref"), [*(("git_diff", ref) for ref in OPTIONS), ("git_show", OPTIONS[0]), ("git_blame", OPTIONS[0])]
)
async def test_rows_27_and_28_a_ref_is_never_an_option(ask: Ask, scene: Scene, name: str, ref: str) -> None:
    before = sorted(os.listdir(scene.root))
    path = {"path": "a.txt"} if name == "git_blame" else {}
    for asked in (ref, *((f"HEAD..{ref}", f"{ref}...HEAD") if name == "git_diff" else ())):
        output = await ask(name, ref=asked, **path)
        assert output.is_error and "ref" in output.content, output.content
    assert sorted(os.listdir(scene.root)) == before


async def test_row_27_a_branch_that_is_called_like_an_option_is_told_and_harms_nobody(ask: Ask, scene: Scene) -> None:
    head = scene.git("rev-parse", "HEAD")
    heads = scene.root / ".git" / "refs" / "heads"
    for name in ("--output=x", "--exec=touch x", "-Ox"):
        (heads / name).write_text(f"{head}\n")
    for name in ("git_branches", "git_status", "git_log", "git_diff", "git_show"):
        output = await ask(name, **({"ref": "main"} if name == "git_show" else {}))
        assert not output.is_error, output.content
    assert (await ask("git_diff", ref="--output=x")).is_error
    assert sorted(os.listdir(scene.root)) == [".git", "a.txt", "b.txt"]


async def test_row_27_a_ref_that_git_knows_in_no_way_is_said_to_be_missing(ask: Ask) -> None:
    output = await ask("git_diff", ref="main-that-never-was")
    assert output.is_error and "no commit" in output.content


@pytest.mark.parametrize("name", ["git_diff", "git_show", "git_log", "git_blame", "git_ls_files"])
@pytest.mark.parametrize("path", ["../../.kube/config", "/etc/passwd", "a/../../x", "/workspace/../etc", ".git/config"])
async def test_row_31_a_path_outside_is_denied(ask: Ask, name: str, path: str) -> None:
    output = await ask(name, path=path, **({"ref": "HEAD"} if name == "git_show" else {}))
    assert (output.is_error, output.outcome) == (True, Outcome.DENIED), output.content


@pytest.mark.parametrize("path", ["; id #", "--output=x", ":(exclude)a.txt", ":!a.txt", "*", "$(id)", "-p"])
async def test_row_31_a_path_is_a_name_and_nothing_else(ask: Ask, scene: Scene, path: str) -> None:
    scene.commit("odd", {path: "odd content\n"})
    assert "odd content" in (await ask("git_show", ref="HEAD", path=path)).content
    assert (await ask("git_ls_files", path=path)).content.splitlines()[1:] == [path]
    shown = await ask("git_log", path=path)
    assert len(shown.content.splitlines()) == 1 and "odd" in shown.content
    assert "odd content" in (await ask("git_blame", path=path, ref="HEAD")).content
