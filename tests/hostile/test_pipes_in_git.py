"""Pipes, sockets and links to them where git expects files: told truthfully, and waited for by nobody."""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from drone.agent.turns.toolset import Output, StartedCall
from drone.sandbox.places.paths import Workspace
from drone.tools.environment import detection_tool
from drone.tools.frame.tool import FunctionTools
from drone.tools.git.program import Git
from drone.tools.git.reading import GitTools
from mcc.contracts.entry import Origin
from mcc.contracts.journal import Outcome
from tests.drone.sandbox.machine import found_git
from tests.drone.tools.git_scene import Scene

PATIENCE_SECONDS = 25
"""A git that waits for a pipe is left alone for 50 s or 100 s."""


@pytest.fixture(scope="module")
def git() -> Git:
    return found_git()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "repo")
    scene.commit("first", {"a.txt": "one\n", "deep/er/b.txt": "b\n"})
    return scene


def pipe(place: Path) -> None:
    os.mkfifo(place)


def bound(place: Path) -> None:
    here = os.getcwd()
    os.chdir(place.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(place.name)
    finally:
        os.chdir(here)


def link_to_a_pipe(place: Path) -> None:
    root = next(above for above in place.parents if (above / ".git").is_dir())
    os.mkfifo(root / "pipe")
    place.symlink_to(os.path.relpath(root / "pipe", place.parent))


async def asked(git: Git, root: Path, name: str) -> Output:
    of = GitTools(git)
    functions = (of.git_status, of.git_diff, of.git_log, of.git_branches, of.git_ls_files, detection_tool(None))
    call = StartedCall("call-1", name, {}, Origin(record_id="record-1", agent="master"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await FunctionTools(functions, workspace=Workspace(root)).call(call)


@pytest.mark.parametrize("make", [pipe, bound, link_to_a_pipe])
@pytest.mark.parametrize("place", ["index", "HEAD", "config", "refs/heads/main", "packed-refs", "info/exclude"])
async def test_what_is_no_file_in_git_is_told_and_git_not_asked(
    git: Git, scene: Scene, place: str, make: Callable[[Path], None]
) -> None:
    (scene.root / ".git" / place).unlink(missing_ok=True)
    make(scene.root / ".git" / place)
    for name in ("git_status", "git_log"):
        output = await asked(git, scene.root, name)
        assert output.is_error and output.outcome is Outcome.DENIED
        assert f".git/{place} is a " in output.content and "not a regular file" in output.content
        assert "no commit yet" not in output.content and "symbolic link" not in output.content


@pytest.mark.parametrize("make", [pipe, link_to_a_pipe])
@pytest.mark.parametrize("place", [".gitignore", "deep/er/.gitignore", ".gitattributes"])
async def test_git_that_waits_for_a_pipe_among_the_working_files_is_ended_soon(
    git: Git, scene: Scene, place: str, make: Callable[[Path], None]
) -> None:
    make(scene.root / place)
    (scene.root / "deep" / "er" / "b.txt").write_text("changed\n")
    (scene.root / "deep" / "er" / "new").write_text("")
    output = await asked(git, scene.root, "git_status")
    assert not output.is_error or (f"{place} is a named pipe, not a regular file" in output.content)


async def test_a_head_that_is_a_pipe_is_told_by_the_first_look(git: Git, scene: Scene) -> None:
    (scene.root / ".git" / "HEAD").unlink()
    os.mkfifo(scene.root / ".git" / "HEAD")
    output = await asked(git, scene.root, "environment_detect")
    assert not output.is_error and "Branch and commit are not told: .git/HEAD is a named pipe" in output.content


async def test_links_of_hooks_and_to_elsewhere_disturb_nobody(git: Git, scene: Scene, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "outside")
    (scene.root / ".git" / "hooks" / "pre-push").symlink_to(tmp_path / "outside")
    (scene.root / ".git" / "hooks" / "pre-commit").symlink_to("../../a.txt")
    assert not (await asked(git, scene.root, "git_log")).is_error
