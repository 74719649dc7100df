"""A drone is killed while it fetches or checks out: the order finishes, and never uses an incomplete checkout."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.drone.checkouts.git_server import HOST, Served, git_server
from tests.drone.sandbox.machine import found_sandbox
from tests.drone.tools.git_scene import Scene

EVERY = "CHECKOUT_KILLS"
"""Set to `all`: the process is killed at each of its acts, and at each request to the server."""

ROOT = Path(__file__).parents[3]


def points() -> Sequence[tuple[str, int]]:
    if os.environ.get(EVERY) == "all":
        return [*(("act", number) for number in range(1, 40)), *(("request", number) for number in range(1, 6))]
    return [("act", 14), ("request", 4)]


def work(directory: Path, served: Served, kind: str = "act", at: int = 0) -> int:
    acts = at if kind == "act" else 0
    command = (
        sys.executable,
        "-m",
        "tests.drone.checkouts.killed_checkout",
        str(directory),
        str(served.port),
        str(acts),
    )
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        first = len(served.asked)

        def hear(number: int) -> None:
            if kind == "request" and number - first == at:
                process.kill()

        served.hear = hear
        process.communicate(timeout=120)
    return process.returncode


def checked(data: Path, scene: Scene) -> bool:
    """Whether there is a usable checkout; asserts that such a checkout is complete."""
    pages = list((data / "sessions").glob("*/checkout.json"))
    for page in pages:
        there = Scene.existing(page.parent / "shop")
        assert there.git("status", "--porcelain") == "" and there.git("rev-parse", "HEAD") == scene.git(
            "rev-parse", "main"
        )
        assert there.git("symbolic-ref", "HEAD") == "refs/heads/mcc/00000001"
        assert there.git("config", "remote.origin.url").endswith("/team/shop")
        there.git("fsck", "--strict")
    return bool(pages)


@pytest.mark.parametrize(("kind", "at"), points())
def test_a_killed_checkout_is_made_anew_and_nothing_half_made_is_used(tmp_path: Path, kind: str, at: int) -> None:
    authority = pytest.importorskip("drone.egress.authority").Authority([HOST])
    found_sandbox(("git", "--version"))
    scene = Scene(tmp_path / "origin")
    scene.commit("first", {"a.txt": "one\n", "deep/b.txt": "two\n"})
    scene.git("clone", "-q", "--bare", ".", str(tmp_path / "served" / "team" / "shop"))
    (tmp_path / "certificate").write_bytes(authority.certificate)
    with git_server(tmp_path / "served", authority.context(HOST)) as served:
        code = work(tmp_path, served, kind, at)
        if code == 0 and EVERY in os.environ:
            pytest.skip("there are no so many acts")
        assert code == -signal.SIGKILL
        checked(tmp_path / "data", scene)
        assert work(tmp_path, served) == 0
    assert checked(tmp_path / "data", scene)
    assert not list((tmp_path / "data" / "mirrors").glob("*/**/*.lock"))
