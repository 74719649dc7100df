"""What the tests of checkouts share."""

import os
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap
from tests.drone.tools.git_scene import Scene


@pytest.fixture(scope="module")
def sandbox() -> Bubblewrap:
    found = Bubblewrap.found()
    problem = "bubblewrap is not installed" if found is None else found.problem(("git", "--version"))
    if problem and "CI" not in os.environ:
        pytest.skip(problem)
    assert found is not None and problem is None
    return found


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "origin")
    scene.commit("first", {"a.txt": "one\n"})
    scene.git("tag", "v1")
    scene.commit("second", {"a.txt": "two\n"})
    scene.git("branch", "feature", "HEAD~1")
    scene.git("clone", "-q", "--bare", ".", str(tmp_path / "served" / "team" / "shop"))
    return scene
