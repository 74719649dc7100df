"""A repository with submodules is never called clean while one of them has changes; none of their programs runs."""

import shutil
from pathlib import Path

import pytest

from drone.sandbox.places.paths import Workspace
from drone.threads import OwnThreads
from drone.tools.environment import WorkspaceSurvey, first_look
from drone.tools.frame.tool import FunctionTools
from drone.tools.git.program import Git
from drone.tools.git.reading import GitTools
from drone.tools.git.writing import GitWriteTools
from mcc.transcript.environment import Environment
from tests.drone.sandbox.machine import found_git
from tests.drone.tools.conftest import Use
from tests.drone.tools.git_scene import Scene

ALLOWED = ("-c", "protocol.file.allow=always")
CLEAN = "working tree clean"


@pytest.fixture(scope="module")
def git() -> Git:
    return found_git()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the submodule libs/sub, which has the submodule deep."""
    place = tmp_path_factory.mktemp("made")
    deep, sub, scene = (Scene(place / name) for name in ("deep", "sub", "repo"))
    deep.commit("one", {"d.txt": "d\n"})
    sub.commit("one", {"s.txt": "s\n"})
    sub.git(*ALLOWED, "submodule", "--quiet", "add", str(deep.root), "deep")
    sub.git("commit", "-qm", "deep")
    scene.commit("one", {"a.txt": "a\n"})
    scene.git(*ALLOWED, "submodule", "--quiet", "add", str(sub.root), "libs/sub")
    scene.git(*ALLOWED, "submodule", "--quiet", "update", "--init", "--recursive")
    scene.git("commit", "-qm", "sub")
    return scene.root


@pytest.fixture
def scene(made: Path, tmp_path: Path) -> Scene:
    shutil.copytree(made, tmp_path / "repo", symlinks=True)
    return Scene.existing(tmp_path / "repo")


@pytest.fixture
def tools(git: Git, scene: Scene) -> FunctionTools:
    return FunctionTools([*GitTools(git).tools(), *GitWriteTools(git).tools()], workspace=Workspace(scene.root))


async def test_a_clean_one_is_called_clean(use: Use, tools: FunctionTools) -> None:
    assert (await use(tools, "git_status")).content.endswith(f"nothing to commit, {CLEAN}")
    assert (await use(tools, "git_diff")).content.startswith("No difference: ")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"libs/sub/s.txt": "changed\n"}, "libs/sub has modified files"),
        ({"libs/sub/new.txt": "new\n"}, "libs/sub has untracked files"),
        ({"libs/sub/s.txt": "changed\n", "libs/sub/new": ""}, "libs/sub has modified files and untracked files"),
        ({"libs/sub/deep/d.txt": "changed\n"}, "libs/sub/deep has modified files"),
    ],
)
async def test_a_changed_one_is_named_and_nothing_is_called_clean(
    use: Use, git: Git, tools: FunctionTools, scene: Scene, change: dict[str, str], said: str
) -> None:
    scene.write(change)
    status = (await use(tools, "git_status")).content
    assert said in status and CLEAN not in status
    assert said in (await use(tools, "git_diff")).content
    workspace = Workspace(scene.root)
    look = await first_look(WorkspaceSurvey.of(workspace), workspace, git, OwnThreads())
    assert (
        f"changed:  m {said.partition(' has')[0]}" in Environment(look.parts).look
        and "nothing is changed" not in Environment(look.parts).look
    )


async def test_staged_changes_and_new_commits_in_it_count(use: Use, tools: FunctionTools, scene: Scene) -> None:
    sub = Scene.existing(scene.root / "libs/sub")
    sub.write({"s.txt": "changed\n"})
    sub.git("add", "s.txt")
    assert "libs/sub has modified files" in (await use(tools, "git_status")).content
    sub.git("commit", "-qm", "two")
    status = (await use(tools, "git_status")).content
    assert "libs/sub (new commits)" in status and CLEAN not in status


async def test_one_that_is_not_checked_out_has_no_changes(git: Git, use: Use, scene: Scene, tmp_path: Path) -> None:
    scene.git("clone", "-q", ".", str(tmp_path / "clone"))
    cloned = FunctionTools(GitTools(git).tools(), workspace=Workspace(tmp_path / "clone"))
    assert CLEAN in (await use(cloned, "git_status")).content


async def test_one_whose_repository_lies_elsewhere_is_not_vouched_for(
    use: Use, tools: FunctionTools, scene: Scene, tmp_path: Path
) -> None:
    (scene.root / ".git/modules/libs/sub").rename(tmp_path / "elsewhere")
    for pointer in (str(tmp_path / "elsewhere"), "../../../elsewhere", "../../.git/none"):
        (scene.root / "libs/sub/.git").write_text(f"gitdir: {pointer}\n")
        status = (await use(tools, "git_status")).content
        assert "Not looked into, and maybe changed: submodule libs/sub" in status or "fatal" in status
        assert CLEAN not in status


async def test_its_configuration_and_attributes_run_nothing(use: Use, tools: FunctionTools, scene: Scene) -> None:
    sub = Scene.existing(scene.root / "libs/sub")
    touch = f"touch {scene.root}/ran"
    sub.git("config", "core.fsmonitor", touch)
    sub.git("config", "filter.x.clean", touch)
    sub.git("config", "core.worktree", "/etc")
    scene.write({"libs/sub/.gitattributes": "* filter=x\n", "libs/sub/s.txt": "more\n"})
    assert "libs/sub has" in (await use(tools, "git_status")).content
    assert not (scene.root / "ran").exists()


async def test_a_file_in_conflict_is_not_listed_as_staged(use: Use, git: Git, tmp_path: Path) -> None:
    scene = Scene(tmp_path / "merge")
    scene.commit("one", {"a.txt": "a\n", "b.txt": "b\n"})
    scene.git("checkout", "-q", "-b", "other")
    scene.commit("two", {"a.txt": "other\n"})
    scene.git("checkout", "-q", "main")
    scene.commit("three", {"a.txt": "main\n"})
    with pytest.raises(Exception, match="merge"):
        scene.git("merge", "-q", "other")
    tools = FunctionTools(GitWriteTools(git).tools(), workspace=Workspace(scene.root))
    scene.write({"b.txt": "more\n"})
    assert (await use(tools, "git_add", paths=["b.txt"])).content.splitlines() == [
        "Staged, 1 in all:",
        "M b.txt",
        "In conflict, and not staged: a.txt.",
    ]
    scene.write({"a.txt": "both\n"})
    assert "M a.txt" in (await use(tools, "git_add", paths=["a.txt"])).content
