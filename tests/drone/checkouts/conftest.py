"""Fixtures of the checkout tests."""

from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap
from tests.drone.sandbox.machine import found_sandbox
from tests.drone.tools.git_scene import Scene


@pytest.fixture(scope="module")
def sandbox() -> Bubblewrap:
    return found_sandbox(("git", "--version"))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "origin")
    scene.commit("first", {"a.txt": "one\n"})
    scene.git("tag", "v1")
    scene.commit("second", {"a.txt": "two\n"})
    scene.git("branch", "feature", "HEAD~1")
    scene.git("clone", "-q", "--bare", ".", str(tmp_path / "served" / "team" / "shop"))
    return scene
