"""Whether a private place may lie in a workspace is determined at each opening, although answers are cached."""

import os
from pathlib import Path

import pytest

from drone.sandbox.places.mounts import real_path
from drone.sandbox.places.private import Private


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def perhaps(private: Private, directory: Path) -> bool:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return private.may_be_below(fd)
    finally:
        os.close(fd)


def test_a_place_that_moves_into_a_directory_is_found_there(tmp_path: Path, work: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    private = Private([data])
    assert not perhaps(private, work)
    data.rename(work / "data")
    assert perhaps(private, work)
    (work / "data").rename(data)
    assert not perhaps(private, work)


def test_a_place_linked_into_a_directory_later_is_found_there(tmp_path: Path, work: Path) -> None:
    place = tmp_path / "here" / "secret"
    private = Private([place])
    assert not perhaps(private, work)
    (tmp_path / "here").symlink_to(work)
    assert perhaps(private, work), "it is not there, and would be in the directory"


def test_a_directory_that_replaces_another_one_gets_an_answer_of_its_own(tmp_path: Path, work: Path) -> None:
    private = Private([tmp_path / "above" / "data"])
    assert not perhaps(private, work)
    work.rename(tmp_path / "above")
    work.mkdir()
    assert perhaps(private, tmp_path / "above") and not perhaps(private, work)


def test_each_hard_link_of_a_file_is_a_place_of_its_own(tmp_path: Path, work: Path) -> None:
    (tmp_path / "first").write_text("", "utf-8")
    os.link(tmp_path / "first", work / "second")
    assert perhaps(Private([tmp_path / "first", work / "second"]), work)


@pytest.mark.parametrize(
    "path",
    ["a", "a/b", "a/b/file", "a/b/file/x", "to-b", "to-b/file", "to-b/../x", "gone", "gone/deep", "to-nothing",
     "to-nothing/x", "round", "a//b/./", "a/b/\n (deleted)", "shut/x", "to-b/gone/x"],
)  # fmt: skip
def test_real_path_agrees_with_python(tmp_path: Path, path: str) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("", "utf-8")
    (tmp_path / "a" / "b" / "\n (deleted)").write_text("", "utf-8")
    (tmp_path / "to-b").symlink_to("a/b")
    (tmp_path / "to-nothing").symlink_to("a/nothing/at/all")
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "shut").mkdir(mode=0)
    assert real_path(f"{tmp_path}/{path}") == os.path.realpath(f"{tmp_path}/{path}")


@pytest.mark.parametrize("path", ["", ".", "somewhere", "/", "/proc/self/fd/0", "/nothing/there"])
def test_real_path_agrees_with_python_for_odd_paths(path: str) -> None:
    assert real_path(path) == os.path.realpath(path)
