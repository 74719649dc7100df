"""Merged changes are held to what tools may change: in git directories, and in the attributes that name programs."""

from pathlib import Path

import pytest

from drone.sandbox.places.paths import Workspace
from drone.sandbox.protection.protected import Protected
from drone.worktrees.file_changes import FileChange, apply_changes

LFS = "*.bin filter=lfs diff=lfs merge=lfs\n"


def merged(tmp_path: Path, files: dict[str, str], here: dict[str, str]) -> list[str]:
    """The paths that were left."""
    for place, content in (("here", here), ("staged", files)):
        for path, text in content.items():
            (tmp_path / place / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / place / path).write_text(text)
        (tmp_path / place).mkdir(exist_ok=True)
    changes = [FileChange(path, "M" if path in here else "A", "100644", "100644") for path in files]
    return apply_changes(Workspace(tmp_path / "here"), Workspace(tmp_path / "staged"), changes, Protected())


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        (LFS, f"{LFS}*.txt text\n", False),
        (LFS, "*.txt text\n", False),
        (LFS, f"{LFS}*.c filter=run\n", True),
        ("", "*.c merge=run\n", True),
        ("", "*.c text\n", False),
        ("", "*.c text\n".ljust(1_000_001), True),
    ],
    ids=["kept", "dropped", "added", "new", "ordinary", "too long"],
)
def test_a_merge_brings_no_new_drivers(tmp_path: Path, before: str, after: str, left: bool) -> None:
    here = {"sub/.gitattributes": before} if before else {}
    assert merged(tmp_path, {"sub/.gitattributes": after}, here) == (["sub/.gitattributes"] if left else [])
    if left and before:
        assert (tmp_path / "here/sub/.gitattributes").read_text() == before


def test_a_merge_makes_no_git_directory_but_brings_the_other_files(tmp_path: Path) -> None:
    files = {"bare/HEAD": "x", "bare/objects/a": "x", "bare/refs/a": "x", "bare/note": "x", "src/a": "x"}
    assert merged(tmp_path, files, {}) == ["bare/HEAD", "bare/objects/a", "bare/refs/a"]
    assert (tmp_path / "here/bare/note").exists() and (tmp_path / "here/src/a").exists()
