"""The rows on git of the list of hostile inputs, each against a repository as its author would have made it."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from drone.agent.turns.toolset import Output, StartedCall, ToolSet
from drone.sandbox.places.paths import Workspace
from drone.tools.frame.tool import FunctionTools
from drone.tools.git.program import Git
from drone.tools.git.reading import GitTools
from drone.tools.git.writing import GitWriteTools
from mcc.contracts.entry import Origin
from mcc.contracts.git_facts import WorktreeState
from mcc.contracts.journal import Outcome
from tests.drone.sandbox.machine import found_git
from tests.drone.tools.git_scene import Scene
from tests.drone.tools.hostile_repository import hostile_repository
from tests.drone.worktrees.said_by_models import hire, script, write
from tests.drone.worktrees.workshop import Workshop

Ask = Callable[..., Awaitable[Output]]


@pytest.fixture(scope="module")
def git() -> Git:
    return found_git()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "repo")
    scene.commit("first", {"a.txt": "one\n", "b.txt": "b\n"})
    scene.commit("second", {"a.txt": "two\n"})
    return scene


@pytest.fixture
def tools(git: Git, scene: Scene) -> ToolSet:
    return FunctionTools((*GitTools(git).tools(), *GitWriteTools(git).tools()), workspace=Workspace(scene.root))


@pytest.fixture
def ask(tools: ToolSet) -> Ask:
    async def ask(name: str, **arguments: object) -> Output:
        return await tools.call(StartedCall("call-1", name, arguments, Origin(record_id="record-1", agent="master")))

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


@pytest.mark.parametrize(
    "path", ["../../.kube/config", "/etc/passwd", ".git/config", ".git/hooks/pre-commit", "a/../.."]
)
async def test_row_31_nothing_outside_is_staged(ask: Ask, path: str) -> None:
    assert (await ask("git_add", paths=["a.txt", path])).outcome is Outcome.DENIED


@pytest.mark.parametrize("path", ["; id #", "--force", ":(top)x", ":!a.txt", "*", "-A", "--pathspec-from-file=x"])
async def test_row_31_what_is_staged_is_that_name_and_no_option(ask: Ask, scene: Scene, path: str) -> None:
    scene.write({path: "odd\n", "other.txt": "not meant\n"})
    assert not (await ask("git_add", paths=[path])).is_error
    assert scene.git("diff", "--cached", "--name-only", "-z") == f"{path}\0"


async def test_row_25_staging_and_committing_run_nothing_of_the_repository(git: Git, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    ran.mkdir(mode=0o777)
    scene = hostile_repository(tmp_path / "repo", ran)
    hooks = scene.root / ".git" / "hooks"
    for hook in ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-rewrite", "pre-auto-gc"):
        (hooks / hook).write_bytes((scene.root / "evil.sh").read_bytes())
        (hooks / hook).chmod(0o755)
    guarded = {path: path.read_bytes() for path in (scene.root / ".git" / "config", *hooks.iterdir())}
    tools = FunctionTools(GitWriteTools(git).tools(), workspace=Workspace(scene.root))

    async def ask(name: str, **arguments: object) -> Output:
        return await tools.call(StartedCall("call-1", name, arguments, Origin(record_id="record-1", agent="master")))

    refused = await ask("git_add", paths=["."])
    assert refused.outcome is Outcome.DENIED and "filter" in refused.content
    (scene.root / ".gitattributes").write_text("* diff=evil merge=evil\n")
    (scene.root / ".git" / "info" / "attributes").unlink()
    assert not (staged := await ask("git_add", paths=["."])).is_error, staged.content
    assert not (done := await ask("git_commit", message="$(touch x) `touch x`; touch x")).is_error, done.content
    assert "CANARY-RAN" not in staged.content + done.content
    assert os.listdir(ran) == [] and "inside" not in os.listdir(scene.root)
    assert {path: path.read_bytes() for path in guarded} == guarded


async def test_row_32_who_the_repository_says_that_its_user_is_is_nobody_here(ask: Ask, scene: Scene) -> None:
    scene.git("config", "user.name", "$(touch x)")
    scene.git("config", "user.email", '"$(touch x)"@example.com')
    scene.write({"a.txt": "three\n"})
    await ask("git_add", paths=["a.txt"])
    before = scene.git("rev-parse", "HEAD")
    refused = await ask("git_commit", message="\x1b]0;owned\x07Red \x1b[31malert\x9b2J\r\nSigned: \x00you")
    assert refused.is_error and "U+001B" in refused.content and "\x1b" not in refused.content
    assert scene.git("rev-parse", "HEAD") == before
    assert not (await ask("git_commit", message="Red alert\u202e\nSigned: you")).is_error
    raw = scene.git("cat-file", "commit", "HEAD")
    assert "touch" not in raw and "mcc <mcc@localhost>" in raw and raw.endswith("Red alert\u202e\nSigned: you")
    assert sorted(os.listdir(scene.root)) == [".git", "a.txt", "b.txt"]


async def test_row_7_a_repository_whose_files_lead_to_its_configuration_changes_nothing_of_it(
    ask: Ask, scene: Scene
) -> None:
    directory = scene.root / ".git"
    config = (directory / "config").read_bytes()
    (directory / "index").rename(directory / "index.real")
    (directory / "index").symlink_to("config")
    scene.write({"a.txt": "three\n"})
    await ask("git_add", paths=["a.txt"])
    (directory / "index").unlink()
    (directory / "index.real").rename(directory / "index")
    (directory / "refs" / "heads" / "main").unlink()
    (directory / "refs" / "heads" / "main").symlink_to("../../config")
    await ask("git_add", paths=["a.txt"])
    await ask("git_commit", message="Through a link")
    assert (directory / "config").read_bytes() == config


async def test_row_25_worktrees_of_subagents_run_nothing_of_the_repository(git: Git, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    ran.mkdir(mode=0o777)
    shop = Workshop(git, hostile_repository(tmp_path / "repo", ran), tmp_path / "worktrees")
    config = (shop.scene.root / ".git" / "config").read_bytes()
    await shop.run(script([hire("x"), "done"], x=[write("new.txt", "new\n"), write("a.txt", "four\n"), "done"]))
    assert [one.state for one in shop.ended] == [WorktreeState.MERGED], shop.ended
    assert (shop.scene.root / "new.txt").read_text() == "new\n" and (shop.scene.root / "a.txt").read_text() == "four\n"
    assert os.listdir(ran) == [] and "inside" not in os.listdir(shop.scene.root) and shop.left == []
    assert (shop.scene.root / ".git" / "config").read_bytes() == config
    assert (shop.scene.root / "sub" / "c.txt").read_text() == "changed\n"
