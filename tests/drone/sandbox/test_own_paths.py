"""Programs find the workspace by its own absolute path too: its files may contain that path, as those of a virtual
environment do."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap, Profile
from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import Workspace
from drone.sandbox.places.private import Private
from drone.sandbox.places.worktree import Worktree
from drone.sandbox.profile import own_paths


@pytest.fixture
def outside_of_tmp() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


async def test_a_script_that_names_its_interpreter_by_the_workspaces_path_runs(
    sandbox: Bubblewrap, outside_of_tmp: Path
) -> None:
    root = outside_of_tmp / "work"
    (root / "bin").mkdir(parents=True)
    (outside_of_tmp / "beside").write_text("not to be seen")
    (root / "bin" / "own").symlink_to("/bin/sh")
    (root / "bin" / "script").write_text(f"#!{root}/bin/own\ncat {root}/../beside; echo x > {root}/.env; echo ran\n")
    (root / "bin" / "script").chmod(0o755)
    ended = await sandbox.run(("bin/script",), Workspace(root), Bounds(20.0), profile=Profile(write=True))
    assert ended.stdout.head == b"ran\n" and ended.undone == () and not (root / ".env").exists()
    assert b"beside: No such file" in ended.stderr.head and b".env: Permission denied" in ended.stderr.head


MOUNTED = ["/usr/src/work", "/bin/work", "/etc/work", "/proc/work", "/tmp/work", "/workspace", "/workspace/x", "/git/x"]


@pytest.mark.parametrize("path", [*MOUNTED, "/"])
def test_a_path_into_a_mounted_directory_gets_no_link(tmp_path: Path, path: str) -> None:
    assert path not in [*own_paths(Workspace(tmp_path, also=path))]


async def test_a_workspace_named_through_a_link_inside_itself_works_too(
    sandbox: Bubblewrap, outside_of_tmp: Path
) -> None:
    (outside_of_tmp / "itself").symlink_to(".")
    workspace = Workspace(outside_of_tmp, also=outside_of_tmp / "itself")
    ended = await sandbox.run(("readlink", str(outside_of_tmp)), workspace, Bounds(20.0))
    assert ended.stdout.head == b"/workspace\n"


def test_a_worktree_has_the_paths_of_its_original_workspace(tmp_path: Path) -> None:
    for name in ("tree", "git"):
        (tmp_path / name).mkdir()
    common = Workspace(tmp_path)
    worktree = Worktree(tmp_path / "tree", tmp_path / "git", common, above=Path("/home/x/repo"), private=Private())
    assert [*own_paths(worktree)] == ["--symlink", "/workspace", "/home/x/repo"]
