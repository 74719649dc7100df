"""What the tests of worktrees share."""

import os
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap
from drone.tools.git_program import Git
from tests.drone.tools.git_scene import Scene
from tests.drone.worktrees.workshop import Workshop


@pytest.fixture(scope="session")
def git() -> Git:
    found = Git.found(Bubblewrap.found())
    if found.problem and "CI" not in os.environ:
        pytest.skip(found.problem)
    assert found.problem is None
    return found


@pytest.fixture
def shop(git: Git, tmp_path: Path) -> Workshop:
    scene = Scene(tmp_path / "repo")
    scene.commit("first", {"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n", "old.txt": "old\n", ".gitignore": "*.log\n"})
    return Workshop(git, scene, tmp_path / "worktrees")
