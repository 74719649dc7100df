"""Allowed roots match as written and as resolved; one whose file system does not answer delays no other."""

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from drone.sandbox.places.paths import PathDenied, Roots


class Mount:
    """Resolves paths; those under `hung` block until the mount is back."""

    def __init__(self, hung: Path) -> None:
        self.hung = hung
        self.back = Event()

    def resolve(self, path: str) -> str:
        if Path(path).is_relative_to(self.hung):
            self.back.wait()
        return os.path.realpath(path)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    for name in ("there/place", "well/place"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "hung").symlink_to("there")
    made = Mount(tmp_path / "hung")
    yield made
    made.back.set()


def test_a_root_that_does_not_answer_delays_neither_the_drone_nor_other_roots(mount: Mount) -> None:
    well = mount.hung.with_name("well")
    roots = Roots([mount.hung, well], resolve=mount.resolve, answer_seconds=0.2)
    assert roots.opened(str(well / "place")).root == well / "place"


def test_a_root_that_did_not_answer_is_resolved_when_an_order_names_it(mount: Mount) -> None:
    roots = Roots([mount.hung], resolve=mount.resolve, answer_seconds=0.0)
    mount.back.set()
    assert roots.opened(str(mount.hung / "place")).root == mount.hung.with_name("there") / "place"


def test_a_resolved_root_is_not_resolved_again(tmp_path: Path) -> None:
    (tmp_path / "root" / "place").mkdir(parents=True)
    (tmp_path / "outside" / "place").mkdir(parents=True)
    roots = Roots([tmp_path / "root"])
    (tmp_path / "root").rename(tmp_path / "away")
    (tmp_path / "root").symlink_to("outside")
    with pytest.raises(PathDenied, match="outside this drone's allowed roots"):
        roots.opened(str(tmp_path / "root" / "place"))


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("/srv/a", "/srv"),
        ("/srv", "/srv"),
        ("/srv/nfs/a", "/srv/nfs"),
        ("/srv/nfs/../a", "/srv"),
        ("/srv/nfs-2/a", "/srv"),
        ("/elsewhere", ""),
        ("/srv/\0", "/srv"),
    ],
)
def test_the_innermost_root_above_a_path_is_named(asked: str, named: str) -> None:
    assert Roots(["/srv", "/srv/nfs"]).named_by(asked) == named


def test_a_root_that_is_added_later_counts_from_then_on_and_links_in_it_are_not_followed(tmp_path: Path) -> None:
    added: list[Path] = []
    roots = Roots([tmp_path / "root"], added=lambda: added)
    (tmp_path / "later" / "work").mkdir(parents=True)
    with pytest.raises(PathDenied):
        roots.opened(str(tmp_path / "later" / "work"))
    added.append(tmp_path / "later")
    assert roots.opened(str(tmp_path / "later" / "work")).root == tmp_path / "later" / "work"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "later" / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PathDenied):
        roots.opened(str(tmp_path / "later" / "link"))
