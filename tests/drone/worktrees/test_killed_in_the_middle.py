"""A drone is killed while it makes, saves, merges or deletes worktrees: nothing is lost, and nothing is left over."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from drone.tools.git.program import Git
from mcc.contracts.git_facts import WorktreeState
from mcc.contracts.journal import AgentFinished
from tests.drone.tools.git_scene import Scene
from tests.drone.worktrees.killed import journal
from tests.drone.worktrees.workshop import Workshop

EVERY = "WORKTREE_KILLS"
"""Set to `all`, or to numbers: the process is killed at each of these acts; all of them take some minutes."""

SOME = (97, 139)
ROOT = Path(__file__).parents[3]


def points() -> Sequence[int]:
    wanted = os.environ.get(EVERY, "")
    return range(1, 200) if wanted == "all" else [int(one) for one in wanted.split(",")] if wanted else SOME


def work(directory: Path, at: int = 0) -> int:
    command = (sys.executable, "-m", "tests.drone.worktrees.killed", str(directory), str(at))
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=120, check=False).returncode


@pytest.mark.parametrize("at", points())
def test_nothing_is_lost_and_nothing_is_left(git: Git, tmp_path: Path, at: int) -> None:
    scene = Scene(tmp_path / "repo")
    files = {"a.txt": "one\ntwo\nthree\n", "same.txt": "s\n", "old.txt": "old\n", ".gitignore": "*.log\n"}
    head = scene.commit("first", files)
    scene.write({"a.txt": "one\ntwo\nthree\nmine\n", "mine.txt": "mine\n"})
    code = work(tmp_path, at)
    if code == 0 and EVERY in os.environ:
        pytest.skip("there are no so many acts")
    assert code == -signal.SIGKILL
    assert work(tmp_path) == 0
    shop = Workshop(git, scene, tmp_path / "worktrees", journal(tmp_path / "journal"))
    root = scene.root
    states = sorted(one.state for one in shop.ended)
    assert states == [WorktreeState.CONFLICT, WorktreeState.MERGED]
    (conflict,) = [one for one in shop.ended if one.state is WorktreeState.CONFLICT]
    assert conflict.conflicts == ("same.txt",)
    assert {scene.git("show", f"{conflict.ref}:same.txt"), (root / "same.txt").read_text().strip()} == {"x", "y"}
    assert (root / "a.txt").read_text() == "ONE\ntwo\nthree\nmine\n"
    left = sorted(
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and ".git/" not in str(path)
    )
    assert left == [".gitignore", "a.txt", "deep/er/x.txt", "mine.txt", "same.txt", "y.txt"]
    assert shop.left == [] and shop.home.orders() == []
    assert scene.git("rev-parse", "HEAD") == head and scene.git("diff", "--cached", "--name-only") == ""
    assert not list((root / ".git").rglob("*.lock"))
    scene.git("fsck", "--strict")
    assert sum(isinstance(entry.data, AgentFinished) for entry in shop.journal.entries) == 3
