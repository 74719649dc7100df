"""A directory has one key for every machine and path that reaches it; a copy of it has another."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drone.sandbox.places.paths import PathError, Workspace
from drone.sandbox.places.workspace_key import FILE, MARKER, Key, keys_above, workspace_key


def key_of(root: Path, *, mark: bool = True) -> Key:
    return workspace_key(Workspace(root), mark=mark)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    (made / "file").write_text("content")
    return made


def test_a_directory_keeps_its_key(root: Path) -> None:
    assert key_of(root) == key_of(root) == key_of(root / ".." / "root")


def test_the_key_survives_a_rename_and_access_through_a_link(root: Path, tmp_path: Path) -> None:
    key = key_of(root)
    (tmp_path / "link").symlink_to(root)
    assert key_of(tmp_path / "link") == key
    root.rename(tmp_path / "renamed")
    assert key_of(tmp_path / "renamed").text == key.text


def test_two_machines_that_share_the_disk_see_the_same_key(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_of(root)
    monkeypatch.setattr("socket.gethostname", lambda: "another-machine")
    assert key_of(root).text == key.text


@pytest.mark.parametrize("command", ["cp -a", "cp -al"])
def test_a_copy_has_another_key_although_the_marker_was_copied(root: Path, tmp_path: Path, command: str) -> None:
    key = key_of(root)
    subprocess.run([*command.split(), str(root), str(tmp_path / "copy")], check=True)
    assert (tmp_path / "copy" / MARKER / FILE).read_text() == (root / MARKER / FILE).read_text()
    assert key_of(tmp_path / "copy") != key
    assert key_of(root) == key


def test_many_processes_that_mark_a_directory_at_once_agree(root: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        assert len(set(threads.map(key_of, [root] * 64))) == 1
    assert sorted(os.listdir(root / MARKER)) == [".gitignore", FILE]


def test_git_does_not_see_the_marker(root: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    key_of(root)
    said = subprocess.run(["git", "-C", str(root), "status", "--porcelain"], check=True, capture_output=True, text=True)
    assert said.stdout == "?? file\n"


def test_an_unwritable_directory_gets_its_key_from_machine_and_path(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / MARKER).write_text("a file is in the way")
    key = key_of(root)
    assert key_of(root / ".." / "root") == key
    other = tmp_path / "other"
    other.mkdir()
    (other / MARKER).write_text("here too")
    assert key_of(other) != key
    monkeypatch.setattr("socket.gethostname", lambda: "another-machine")
    assert key_of(root) != key


@pytest.mark.parametrize("content", ["", "x" * 32, "0" * 32, f"{'0' * 32}\nmore", "0" * 5_000])
def test_a_foreign_marker_is_left_alone(root: Path, content: str) -> None:
    (root / MARKER).mkdir()
    (root / MARKER / FILE).write_text(content)
    assert key_of(root) == key_of(root)
    assert (root / MARKER / FILE).read_text() == content


def test_a_marker_that_leads_elsewhere_is_not_followed(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / MARKER).symlink_to(elsewhere)
    key_of(root)
    assert os.listdir(elsewhere) == []
    (root / MARKER).unlink()
    (root / MARKER).mkdir()
    os.mkfifo(root / MARKER / FILE)
    assert key_of(root) == key_of(root)


def test_without_mark_no_marker_is_written(root: Path) -> None:
    assert not key_of(root, mark=False).lasting
    assert not (root / MARKER).exists()
    assert key_of(root) == key_of(root, mark=False)
    assert key_of(root).lasting


def test_a_file_has_no_key(root: Path) -> None:
    with pytest.raises(PathError):
        key_of(root / "file")


def test_the_keys_above_are_those_that_these_directories_have(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "middle" / "inner"
    inner.mkdir(parents=True)
    marked = workspace_key(Workspace(tmp_path / "outer"))
    plain = workspace_key(Workspace(tmp_path / "outer" / "middle"), mark=False)
    above = keys_above(Workspace(inner))
    assert {marked.text, marked.by_path, plain.text} <= set(above) and above[0] == plain.text
    assert workspace_key(Workspace(inner)).text not in above
