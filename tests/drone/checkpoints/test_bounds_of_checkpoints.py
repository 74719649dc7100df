"""Of a workspace with more names than are watched, the same are watched each time, and results name the others."""

import shutil
from pathlib import Path
from random import Random
from threading import Event

import pytest

from drone.checkpoints.recording import OrderCheckpoints
from drone.sandbox.places.paths import Workspace

STOP = Event()
MOST = 60


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Twenty directories of nine files: 200 names."""
    for number in range(20):
        directory = tmp_path / "root" / f"d{number:02}"
        directory.mkdir(parents=True)
        for file in range(9):
            (directory / f"f{file}").write_text(f"{number} {file}")
    return tmp_path / "root"


def order(root: Path, order_id: str = "order") -> OrderCheckpoints:
    return OrderCheckpoints(Workspace(root), root.parent / "data", order_id, most_names=MOST)


def test_what_is_watched_does_not_depend_on_the_order_of_a_directory(root: Path) -> None:
    first = order(root, "one").begin("c1", None, STOP).checkpoint.before
    for name in ("d07", "d00", "d13", "d19"):
        shutil.copytree(root / name, root / "copy")
        shutil.rmtree(root / name)
        (root / "copy").rename(root / name)
    assert order(root, "two").begin("c1", None, STOP).checkpoint.before == first


@pytest.mark.parametrize("seed", range(8))
def test_a_file_that_nobody_touched_is_never_among_the_changed_ones(root: Path, seed: int) -> None:
    """Whatever names appear and go before, behind and between those that are watched."""
    random, checkpoints = Random(seed), order(root)
    for number in range(4):
        checkpoints.begin(f"c{number}", None, STOP)
        touched = set()
        for _ in range(random.randrange(1, 30)):
            place = random.choice([path for path in sorted(root.iterdir()) if path.name != ".mcc-workspace"])
            match random.randrange(4):
                case 0:
                    path = root / f"{random.choice('!d~')}{random.randrange(99)}"
                    path.mkdir(exist_ok=True)
                    (path / "new").write_text("x")
                    touched.add(path)
                case 1:
                    shutil.rmtree(place)
                    touched.add(place)
                case 2:
                    (place / f"n{random.randrange(9)}").write_text("x")
                    touched.add(place)
                case _ if (place / "f1").exists():
                    (place / "f1").write_text(f"changed {number}")
                    touched.add(place / "f1")
        found = checkpoints.close(f"c{number}", STOP)
        for path in (root / name for name in found.paths):
            assert any(path == one or one in path.parents for one in touched), path


def test_a_flood_of_new_names_hides_no_change_of_an_old_file(root: Path) -> None:
    checkpoints = order(root)
    checkpoints.begin("c1", None, STOP)
    for number in range(200):
        (root / f"!{number}").write_text("x")
    (root / "d04" / "f3").write_text("changed")
    assert "d04/f3" in checkpoints.close("c1", STOP).paths


def test_the_result_of_a_call_names_the_directories_that_are_not_watched(root: Path) -> None:
    checkpoints = order(root)
    checkpoints.begin("c1", None, STOP)
    (root / "d00" / "f0").write_text("changed")
    (root / "d19" / "f0").write_text("changed")
    closed = checkpoints.close("c1", STOP)
    assert closed.paths == ("d00/f0",)
    assert closed.unwatched.startswith("14 directories are not watched (d06, d07, d08 …)")
    assert "no revert takes it back" in closed.unwatched


def test_a_workspace_within_the_bounds_says_nothing_of_them(root: Path) -> None:
    checkpoints = OrderCheckpoints(Workspace(root), root.parent / "data", "order")
    checkpoints.begin("c1", None, STOP)
    (root / "d19" / "f0").write_text("changed")
    closed = checkpoints.close("c1", STOP)
    assert (closed.paths, closed.unwatched, closed.not_kept) == (("d19/f0",), "", ())


def test_room_that_becomes_free_makes_no_old_directory_look_new(root: Path) -> None:
    checkpoints = order(root)
    checkpoints.begin("c1", None, STOP)
    for number in range(5):
        shutil.rmtree(root / f"d{number:02}")
    closed = checkpoints.close("c1", STOP)
    assert {path[:3] for path in closed.paths} == {f"d{number:02}" for number in range(5)}


def test_a_changed_file_whose_content_was_not_kept_is_told(root: Path) -> None:
    (root / "zzz").write_text("beyond")
    checkpoints = order(root)
    checkpoints.begin("c1", None, STOP)
    (root / "zzz").write_text("changed beyond")
    closed = checkpoints.close("c1", STOP)
    assert closed.paths == closed.not_kept == ("zzz",)
