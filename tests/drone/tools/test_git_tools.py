"""The git tools report a repository's state in every shape, and say what they cannot report."""

import os
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from drone.agent.turns.toolset import Output, ToolSet
from drone.sandbox.places.paths import Workspace
from drone.tools.frame.tool import FunctionTools
from drone.tools.git.program import SHOWN_BYTES, Git
from drone.tools.git.reading import PATCH_BYTES, GitTools
from mcc.contracts.journal import Outcome
from tests.drone.sandbox.machine import found_git
from tests.drone.tools.git_scene import Scene

Use = Callable[..., Coroutine[Any, Any, Output]]


@pytest.fixture(scope="module")
def git() -> Git:
    return found_git()


def tools(git: Git, root: Path) -> ToolSet:
    of = GitTools(git)
    functions = (of.git_status, of.git_diff, of.git_show, of.git_log, of.git_blame, of.git_branches, of.git_ls_files)
    return FunctionTools(functions, workspace=Workspace(root))


Asked = Callable[..., Coroutine[Any, Any, Output]]


@pytest.fixture
def asked(git: Git, use: Use) -> Asked:
    """`await asked(root, "git_log", limit=3)`."""

    async def asked(root: Path, name: str, /, **arguments: object) -> Output:
        return await use(tools(git, root), name, **arguments)

    return asked


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "repo")
    scene.commit("first", {"a.txt": "one\ntwo\n", "dir/b.txt": "b\n", "bin": b"\0\1"})
    scene.commit("second\n\nwith a body", {"a.txt": "one\n2\n"})
    return scene


async def test_every_tool_is_declared_as_a_read_that_may_be_repeated(git: Git, tmp_path: Path) -> None:
    specs = tools(git, tmp_path).specs()
    assert all(spec.idempotent and spec.seconds and spec.description for spec in specs)
    assert {spec.name: spec.group for spec in specs} == {
        "git_status": "diff_read",
        "git_diff": "diff_read",
        "git_show": "diff_read",
        "git_log": "git_read",
        "git_blame": "git_read",
        "git_branches": "git_read",
        "git_ls_files": "git_read",
    }


async def test_status_names_what_is_staged_changed_and_unknown(asked: Asked, scene: Scene) -> None:
    assert "working tree clean" in (await asked(scene.root, "git_status")).content
    scene.write({"a.txt": "other", "new.txt": "", "dir/b.txt": "staged"})
    scene.git("add", "dir/b.txt")
    text = (await asked(scene.root, "git_status")).content
    assert text.startswith("On branch main\n")
    staged, changed = text.split("Changes not staged")
    assert "dir/b.txt" in staged and "a.txt" in changed and "new.txt" in changed


async def test_diff_compares_files_index_and_commits(asked: Asked, scene: Scene) -> None:
    scene.write({"a.txt": "worked\n", "dir/b.txt": "staged\n"})
    scene.git("add", "dir/b.txt")
    worked = (await asked(scene.root, "git_diff")).content
    assert worked.startswith("The working files against what is staged:") and "+worked" in worked
    assert "+staged" not in worked
    assert "+staged" in (await asked(scene.root, "git_diff", staged=True)).content
    against = (await asked(scene.root, "git_diff", ref="HEAD~1")).content
    assert "+staged" in against and "-two" in against and "+worked" in against
    between = (await asked(scene.root, "git_diff", ref="HEAD~1..HEAD")).content
    assert "-two\n+2" in between and "worked" not in between
    assert (await asked(scene.root, "git_diff", ref="HEAD..HEAD")).content.startswith("No difference: ")
    only = (await asked(scene.root, "git_diff", ref="HEAD", path="dir")).content
    assert "+staged" in only and "+worked" not in only
    both = await asked(scene.root, "git_diff", ref="HEAD~1..HEAD", staged=True)
    assert both.is_error and "one ref" in both.content


async def test_show_tells_a_commit_or_a_file_as_it_was(asked: Asked, scene: Scene) -> None:
    scene.git("tag", "-a", "v1", "-m", "annotated")
    shown = (await asked(scene.root, "git_show", ref="v1")).content
    assert "author Ann <ann@example.com>" in shown and "    with a body" in shown and "-two\n+2" in shown
    file = (await asked(scene.root, "git_show", ref="HEAD~1", path="./dir/../a.txt")).content
    assert file.endswith(", 8 bytes\none\ntwo")
    assert (await asked(scene.root, "git_show", ref="main", path=".")).content.endswith(":\na.txt\nbin\ndir")
    binary = await asked(scene.root, "git_show", ref="main", path="bin")
    assert binary.is_error and "binary (2 bytes)" in binary.content
    missing = await asked(scene.root, "git_show", ref="main", path="nope")
    assert missing.is_error and "There is no nope" in missing.content


async def test_log_follows_a_file_through_its_names(asked: Asked, scene: Scene) -> None:
    scene.git("mv", "a.txt", "renamed.txt")
    scene.commit("rename", {})
    lines = (await asked(scene.root, "git_log", path="renamed.txt")).content.splitlines()
    assert [line.partition("Ann: ")[2] for line in lines] == ["rename (HEAD -> main)", "second", "first"]
    few = (await asked(scene.root, "git_log", limit=1)).content
    assert few.count("Ann: ") == 1 and "older ones" in few
    assert (await asked(scene.root, "git_log", path="nope")).content == "No commit changed nope."


async def test_branches_and_where_the_workspace_stands(asked: Asked, scene: Scene) -> None:
    scene.git("branch", "feature/x", "HEAD~1")
    scene.git("branch", "-q", "--set-upstream-to=main", "feature/x")
    lines = (await asked(scene.root, "git_branches")).content.splitlines()
    assert lines[0] == "On branch main"
    assert {line[:2] + line[2:].split()[0] for line in lines[1:]} == {"* main", "  feature/x"}
    assert any(line.endswith("[follows main]") for line in lines)
    scene.git("checkout", "-q", "--detach")
    assert (await asked(scene.root, "git_branches")).content.startswith("Detached at ")


async def test_tracked_files_are_listed_by_their_exact_names(asked: Asked, scene: Scene) -> None:
    scene.commit("odd", {"new\nline": "", "-dash": "", "umlaut-ü": "", "*.txt": "", ":(top)x": ""})
    lines = (await asked(scene.root, "git_ls_files")).content.splitlines()
    assert lines == [
        *("8 tracked files in .", "*.txt", "-dash", ":(top)x", "a.txt", "bin", "dir/b.txt"),
        *('"new\\nline"', "umlaut-ü"),
    ]
    assert (await asked(scene.root, "git_ls_files", path="*.txt")).content == "1 tracked file in *.txt\n*.txt"
    assert (await asked(scene.root, "git_ls_files", path="-dash")).content == "1 tracked file in -dash\n-dash"


async def test_an_empty_repository_is_told_as_one(asked: Asked, tmp_path: Path) -> None:
    root = Scene(tmp_path).root
    assert "No commits yet" in (await asked(root, "git_status")).content
    assert (await asked(root, "git_branches")).content == "On branch main, which has no commit yet"
    assert (await asked(root, "git_ls_files")).content == "0 tracked files in ."
    for name, arguments in (("git_log", {}), ("git_show", {"ref": "HEAD"}), ("git_diff", {"ref": "HEAD"})):
        output = await asked(root, name, **arguments)
        assert output.is_error and output.content == "This repository has no commit yet."


async def test_a_bare_repository_has_history_and_no_files(asked: Asked, scene: Scene, tmp_path: Path) -> None:
    scene.git("clone", "-q", "--bare", ".", str(tmp_path / "bare"))
    root = tmp_path / "bare"
    assert "second" in (await asked(root, "git_log")).content
    assert "-two" in (await asked(root, "git_diff", ref="HEAD~1..")).content
    assert (await asked(root, "git_show", ref="main", path="a.txt")).content.endswith("one\n2")
    for name in ("git_status", "git_diff", "git_ls_files"):
        assert "bare repository" in (await asked(root, name)).content


async def test_a_shallow_clone_tells_what_it_has(asked: Asked, scene: Scene, tmp_path: Path) -> None:
    scene.git("clone", "-q", "--depth", "1", f"file://{scene.root}", str(tmp_path / "shallow"))
    log = (await asked(tmp_path / "shallow", "git_log")).content
    assert log.count("Ann: ") == 1 and "grafted" in log
    older = await asked(tmp_path / "shallow", "git_show", ref="HEAD~1")
    assert older.is_error and "no commit 'HEAD~1'" in older.content


async def test_of_a_large_diff_the_files_are_listed_and_each_can_be_seen(asked: Asked, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.commit("many", {f"d{number % 9}/f{number}.txt": "line\n" * 20 for number in range(1_000)})
    scene.write({f"d{number % 9}/f{number}.txt": "changed\n" * 20 for number in range(1_000)})
    output = await asked(scene.root, "git_diff")
    assert "1000 files changed, 20000 insertions(+), 20000 deletions(-)" in output.content
    assert "+changed" not in output.content and len(output.content) < PATCH_BYTES
    assert output.content.endswith("bytes and is not shown; name one of these files as path.]")
    whole = (await asked(scene.root, "git_diff", path="d8/f998.txt")).content
    assert whole.count("+changed") == 20 and "[Cut" not in whole
    part = (await asked(scene.root, "git_diff", path="d8")).content
    assert f"bytes are more than the {SHOWN_BYTES:,} that are shown; name a path.]" in part or "+changed" in part


async def test_commits_are_found_by_their_day(asked: Asked, scene: Scene) -> None:
    assert (await asked(scene.root, "git_log", since="2026-01-02", until="2026-01-02")).content.count("Ann: ") == 2
    for days in ({"since": "2026-01-03"}, {"until": "2026-01-01"}):
        assert (await asked(scene.root, "git_log", **days)).content == "No commit of these days changed .."
    assert (await asked(scene.root, "git_log", since="--output=x")).is_error


async def test_the_commit_of_each_line_is_told(asked: Asked, scene: Scene) -> None:
    first, second = (await asked(scene.root, "git_blame", path="a.txt")).content.splitlines()
    assert "Ann 2026-01-02 1) one" in first and "Ann 2026-01-02 2) 2" in second and first[:8] != second[:8]
    assert "2) 2" in (await asked(scene.root, "git_blame", path="a.txt", start_line=2, end_line=2)).content
    for wrong in ({"path": "nope"}, {"path": "../x"}, {"path": "a.txt", "start_line": 3, "end_line": 2}):
        assert (await asked(scene.root, "git_blame", **wrong)).is_error


async def test_the_commits_of_lines_are_told_as_of_a_ref_also_where_there_are_no_files(
    asked: Asked, scene: Scene, tmp_path: Path
) -> None:
    then = (await asked(scene.root, "git_blame", path="a.txt", ref="HEAD~1")).content
    assert "2) two" in then
    scene.git("clone", "-q", "--bare", str(scene.root), str(tmp_path / "bare"))
    assert (await asked(tmp_path / "bare", "git_blame", path="a.txt", ref="main~1")).content == then
    assert (await asked(tmp_path / "bare", "git_blame", path="a.txt")).is_error


async def test_what_git_prints_has_no_terminal_commands_and_no_hidden_line_ends(asked: Asked, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.git("config", "user.name", "x")
    scene.commit("red \x1b[31malert\x1b]52;c;aGk=\x07 \x9b2J", {"a": "one\r\ntwo \x1b[2J\rthree\n"})
    for name, arguments in (("git_log", {}), ("git_show", {"ref": "HEAD"}), ("git_branches", {})):
        assert not {"\x1b", "\x07", "\x9b", "\r"} & set((await asked(scene.root, name, **arguments)).content)
    assert "+one␍\n+two ␍three" in (await asked(scene.root, "git_show", ref="HEAD")).content


@pytest.mark.parametrize(
    "ref",
    [
        *(
            "--output=/tmp/x",
            "-O",
            "--upload-pack=sh",
            "--exec=id",
            "-c",
            "HEAD --output=x",
            "main\nfoo",
            "a;id",
            "$(id)",
        ),
        *("", " ", "main:a.txt", "@{-1}", "HEAD@{1}", ":/second", "^main", "main^{/x}", "../x", "a..b..c", "x" * 400),
        *("--upload-p", "refs/../../HEAD", "HEAD\0", "ｍain", "\ud800"),
    ],
)
async def test_a_ref_that_is_none_runs_nothing(asked: Asked, scene: Scene, ref: str) -> None:
    before = sorted(os.listdir(scene.root))
    for name, arguments in (
        ("git_show", {"ref": ref}),
        ("git_diff", {"ref": ref}),
        ("git_diff", {"ref": f"main..{ref}"}),
    ):
        if ref.strip() or arguments["ref"] == ref:
            output = await asked(scene.root, name, **arguments)
            assert output.is_error, (name, arguments, output.content)
    assert sorted(os.listdir(scene.root)) == before


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", ".git/config", "dir/../.git/HEAD", "a\0b"])
@pytest.mark.parametrize("name", ["git_diff", "git_log", "git_ls_files", "git_show"])
async def test_a_path_that_leaves_the_workspace_is_denied(asked: Asked, scene: Scene, name: str, path: str) -> None:
    more = {"ref": "HEAD"} if name == "git_show" else {}
    output = await asked(scene.root, name, path=path, **more)
    assert (output.is_error, output.outcome) == (True, Outcome.DENIED)


@pytest.mark.parametrize("path", ["; id #", "--output=x", "--no-index", "-", "~root", "$HOME", "x" * 300])
async def test_a_strange_path_is_only_a_name(asked: Asked, scene: Scene, path: str) -> None:
    assert (await asked(scene.root, "git_diff", ref="HEAD~1", path=path)).content.startswith("No difference: ")
    assert (await asked(scene.root, "git_log", path=path)).content.startswith("No commit changed ")


async def test_a_repository_that_begins_above_the_workspace_is_not_visible(asked: Asked, scene: Scene) -> None:
    output = await asked(scene.root / "dir", "git_status")
    assert output.is_error and "begins above it" in output.content


async def test_no_repository_is_told(asked: Asked, tmp_path: Path) -> None:
    output = await asked(tmp_path, "git_status")
    assert output.is_error and "no git repository" in output.content


async def test_a_worktree_whose_repository_is_elsewhere_is_refused(asked: Asked, scene: Scene, tmp_path: Path) -> None:
    scene.git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    output = await asked(tmp_path / "tree", "git_log")
    assert (output.is_error, output.outcome) == (True, Outcome.DENIED)
    assert "not inside the workspace" in output.content


async def test_a_git_directory_that_is_a_link_or_nonsense_is_refused(
    asked: Asked, scene: Scene, tmp_path: Path
) -> None:
    for name in ("linked", "odd", "pipe"):
        (tmp_path / name).mkdir()
    (tmp_path / "linked" / ".git").symlink_to(scene.root / ".git")
    (tmp_path / "odd" / ".git").write_text("nonsense")
    os.mkfifo(tmp_path / "pipe" / ".git")
    assert "symbolic link" in (await asked(tmp_path / "linked", "git_log")).content
    assert "does not say where" in (await asked(tmp_path / "odd", "git_log")).content
    assert (await asked(tmp_path / "pipe", "git_log")).is_error


async def test_a_git_directory_of_another_name_inside_the_workspace_works(asked: Asked, scene: Scene) -> None:
    shutil.move(scene.root / ".git", scene.root / ".real")
    (scene.root / ".git").write_text("gitdir: ./.real\n")
    assert "second" in (await asked(scene.root, "git_log")).content


async def test_a_broken_configuration_is_told(asked: Asked, scene: Scene) -> None:
    (scene.root / ".git" / "config").write_text("[core\nnonsense")
    output = await asked(scene.root, "git_log")
    assert output.is_error and "configuration of this repository cannot be read" in output.content


async def test_without_a_sandbox_the_tools_say_why_they_are_off(use: Use, scene: Scene) -> None:
    off = Git.found(None)
    output = await use(tools(off, scene.root), "git_log")
    assert (output.is_error, output.outcome) == (True, Outcome.DENIED)
    assert "bubblewrap (bwrap) is not installed" in output.content


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_repository_of_another_user_can_be_read(asked: Asked, scene: Scene) -> None:
    for directory, _, names in os.walk(scene.root):
        for path in (directory, *(os.path.join(directory, name) for name in names)):
            os.chown(path, 4321, 4321)
    assert "working tree clean" in (await asked(scene.root, "git_status")).content
    assert "second" in (await asked(scene.root, "git_log")).content
