"""Fixtures of the worktree tests."""

from pathlib import Path

import pytest

from drone.tools.git.program import Git
from tests.drone.sandbox.machine import found_git
from tests.drone.tools.git_scene import Scene
from tests.drone.worktrees.workshop import Workshop


@pytest.fixture(scope="session")
def git() -> Git:
    return found_git()


@pytest.fixture
def shop(git: Git, tmp_path: Path) -> Workshop:
    scene = Scene(tmp_path / "repo")
    scene.commit("first", {"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n", "old.txt": "old\n", ".gitignore": "*.log\n"})
    return Workshop(git, scene, tmp_path / "worktrees")
