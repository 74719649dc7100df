"""Fixtures of the delivery tests: a repository that is served, and a forge of each kind that knows it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap
from tests.drone.delivery.forge import FakeForge, fake_forge
from tests.drone.sandbox.machine import found_sandbox
from tests.drone.tools.git_scene import Scene


@pytest.fixture(scope="module")
def sandbox() -> Bubblewrap:
    return found_sandbox(("git", "--version"))


@pytest.fixture
def served(tmp_path: Path) -> Scene:
    """The bare repository team/shop, which takes pushes."""
    origin = Scene(tmp_path / "origin")
    origin.commit("first", {"a.txt": "one\n"})
    origin.git("branch", "mcc/taken")
    origin.git("clone", "-q", "--bare", ".", str(tmp_path / "served" / "team" / "shop"))
    bare = Scene.existing(tmp_path / "served" / "team" / "shop")
    bare.git("config", "http.receivepack", "true")
    return bare


@pytest.fixture(params=["github", "gitlab", "gitea"])
def forge(request: pytest.FixtureRequest, served: Scene) -> Iterator[FakeForge]:
    with fake_forge(request.param, served.root.parent.parent) as running:
        yield running


@pytest.fixture
def github(served: Scene) -> Iterator[FakeForge]:
    with fake_forge("github", served.root.parent.parent) as running:
        yield running
