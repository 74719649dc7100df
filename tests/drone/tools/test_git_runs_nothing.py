"""The git tools run no command that a hostile repository configures."""

import os
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from drone.agent.turns.toolset import Output
from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import Workspace
from drone.threads import OwnThreads
from drone.tools.frame.tool import FunctionTools
from drone.tools.git.program import Git
from drone.tools.git.reading import GitTools
from drone.tools.git.repository import sanitized_config
from tests.drone.sandbox.machine import found_git
from tests.drone.tools.git_scene import Scene
from tests.drone.tools.hostile_repository import hostile_repository

Use = Callable[..., Coroutine[Any, Any, Output]]


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[tuple[Scene, Path]]:
    """The repository, and the directory that would tell."""
    (tmp_path / "ran").mkdir(mode=0o777)
    yield hostile_repository(tmp_path / "repo", tmp_path / "ran"), tmp_path / "ran"


CALLS: tuple[tuple[str, dict[str, object]], ...] = (
    ("git_status", {}),
    ("git_diff", {}),
    ("git_diff", {"staged": True}),
    ("git_diff", {"ref": "HEAD~1"}),
    ("git_diff", {"ref": "HEAD~1..HEAD"}),
    ("git_diff", {"path": "sub"}),
    ("git_show", {"ref": "HEAD"}),
    ("git_show", {"ref": "HEAD", "path": "a.txt"}),
    ("git_show", {"ref": "HEAD", "path": "."}),
    ("git_log", {}),
    ("git_log", {"path": "a.txt"}),
    ("git_branches", {}),
    ("git_ls_files", {}),
)


@pytest.fixture
def git() -> Git:
    return found_git()


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=str)
async def test_no_command_of_the_repository_runs(
    git: Git, use: Use, hostile: tuple[Scene, Path], name: str, arguments: dict[str, object]
) -> None:
    scene, ran = hostile
    of = GitTools(git)
    functions = (of.git_status, of.git_diff, of.git_show, of.git_log, of.git_branches, of.git_ls_files)
    output = await use(FunctionTools(functions, workspace=Workspace(scene.root)), name, **arguments)
    assert not output.is_error, output.content
    assert "CANARY-RAN" not in output.content
    assert os.listdir(ran) == [] and "inside" not in os.listdir(scene.root)


@pytest.mark.parametrize("name", ["status", "diff", "show"])
def test_the_same_repository_does_run_them_for_a_git_that_believes_it(
    git: Git, hostile: tuple[Scene, Path], name: str
) -> None:
    scene, ran = hostile
    command = ["git", "-c", "alias.x=!true", name]
    subprocess.run(command, cwd=scene.root, capture_output=True, timeout=30, check=False)
    assert os.listdir(ran) != []


async def test_in_the_sandbox_git_sees_only_a_configuration_of_ours(git: Git, hostile: tuple[Scene, Path]) -> None:
    scene, _ = hostile
    checkout = await git.opened(Workspace(scene.root), OwnThreads())
    ended = await checkout.run("config", "--list", "--show-origin", "--name-only", bounds=Bounds(20.0))
    lines = ended.stdout.head.decode().splitlines()
    theirs = [line for line in lines if not line.startswith("command line:")]
    assert theirs and all(line.split("\t")[1].startswith("core.") for line in theirs)
    assert {line.split("\t")[1] for line in theirs} <= {"core.repositoryformatversion", "core.filemode"}


@pytest.mark.parametrize(
    ("listed", "kept"),
    [
        ("core.bare\ntrue\0core.worktree\n/etc\0", ""),
        ("core.filemode\0", "[core]\n\tfilemode = true\n"),
        ("core.filemode\nfalse\nfsmonitor = evil\0", ""),
        ("core.autocrlf\ninput\0core.fsmonitor\nx\0", "[core]\n\tautocrlf = input\n"),
        ("branch.a/b.remote\norigin\0", '[branch "a/b"]\n\tremote = origin\n'),
        ("branch.a.remote\next::sh -c id\0", ""),
        ('branch.a"]\n.remote\nx\0', ""),
        ("branch.main.merge\nrefs/heads/main\0", '[branch "main"]\n\tmerge = refs/heads/main\n'),
        ("remote.o.url\nhttps://x\0remote.o.uploadpack\nsh\0", ""),
        (
            "extensions.objectformat\nsha256\0extensions.worktreeconfig\ntrue\0",
            "[extensions]\n\tobjectformat = sha256\n",
        ),
        ("include.path\n/etc/x\0filter.x.clean\ny\0diff.x.textconv\nz\0", ""),
        ("", ""),
    ],
)
def test_of_a_configuration_only_what_says_how_to_read_files_is_kept(listed: str, kept: str) -> None:
    assert sanitized_config(listed.encode()).decode() == kept
