"""Files that arrive with setuid, setgid or capabilities while a command runs lose them, and its result says so."""

import errno
import os
import stat
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap, Profile
from drone.sandbox.child import Bounds, EndedProgram
from drone.sandbox.places.paths import Workspace
from drone.sandbox.probe import CAPABILITY as CONTENT
from drone.sandbox.protection.setid import CAPABILITY, now_ns, strip_setid
from tests.drone.sandbox.test_walls import weaker

SOON = Bounds(20.0)
WRITES = Profile(write=True)


def made(path: Path, mode: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    path.chmod(mode)
    return path


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def stripped(root: Path, since_ns: int) -> list[str]:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return sorted(strip_setid(fd, since_ns))
    finally:
        os.close(fd)


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6711, 0o4000, 0o2644])
def test_a_file_keeps_its_other_permissions(tmp_path: Path, mode: int) -> None:
    file = made(tmp_path / "deep" / "er" / ".git" / "objects" / "a\n\x1b", mode)
    assert stripped(tmp_path, 0) == ["deep/er/.git/objects/a\n\x1b"]
    assert mode_of(file) == mode & 0o777 and stripped(tmp_path, 0) == []


def test_what_did_not_change_since_keeps_all_and_a_link_is_not_followed(tmp_path: Path) -> None:
    file = made(tmp_path / "outside", 0o4755)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(file)
    assert stripped(tmp_path / "root", 0) == []
    assert stripped(tmp_path, now_ns() + 1_000_000_000) == [] and mode_of(file) == 0o4755


def test_setgid_of_a_directory_stays_as_it_only_hands_the_group_down(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o2775)
    (tmp_path / "shared" / "inner").mkdir()
    assert stripped(tmp_path, 0) == [] and mode_of(tmp_path / "shared" / "inner") & stat.S_ISGID


def test_capabilities_of_a_file_are_taken_away(tmp_path: Path) -> None:
    file = made(tmp_path / "tool", 0o755)
    try:
        os.setxattr(file, CAPABILITY, CONTENT)
    except OSError as error:
        assert error.errno in (errno.EPERM, errno.EOPNOTSUPP)
        pytest.skip("this user or file system gives files no capabilities")
    assert stripped(tmp_path, 0) == ["tool"] and CAPABILITY not in os.listxattr(file)


async def shell(sandbox: Bubblewrap, root: Path, script: str) -> EndedProgram:
    return await sandbox.run(("sh", "-c", script), Workspace(root), SOON, profile=WRITES)


async def test_a_command_cannot_set_them(sandbox: Bubblewrap, tmp_path: Path) -> None:
    script = (
        "cp /bin/true a; chmod 6755 a; echo $?; mkdir -m 2755 d; cp a b; chmod u+s b; install -m 4755 a c; chmod 755 a"
    )
    ended = await shell(sandbox, tmp_path, script)
    assert ended.stdout.head == b"1\n" and ended.undone == ()
    assert not [name for name in os.listdir(tmp_path) if mode_of(tmp_path / name) & 0o6000]


async def test_what_arrives_all_the_same_is_taken_away_and_told(sandbox: Bubblewrap, tmp_path: Path) -> None:
    """In a sandbox without the filter of system calls."""
    root = tmp_path / "workspace"
    kept = made(root / "kept", 0o4755)
    while now_ns() <= kept.stat().st_ctime_ns:
        pass  # a file that changed in the same tick of the clock could be the command's
    without = weaker(sandbox, tmp_path, "--seccomp")
    ended = await shell(without, root, "cp /bin/true a; chmod 6755 a; stat -c %a a")
    assert ended.stdout.head == b"6755\n"
    assert ended.undone == ("a had setuid, setgid or capabilities: they were taken away.",)
    assert mode_of(root / "a") == 0o755 and mode_of(kept) == 0o4755


async def test_git_itself_still_works_where_a_group_shares_the_repository(sandbox: Bubblewrap, tmp_path: Path) -> None:
    ours = Profile(write=True, ours=True)
    script = "mkdir d; chmod 2775 d; stat -c %a d; : > f; chmod 4755 f"
    ended = await sandbox.run(("sh", "-c", script), Workspace(tmp_path), SOON, profile=ours)
    assert ended.stdout.head == b"2775\n" and len(ended.undone) == 1 and mode_of(tmp_path / "f") == 0o755


async def test_many_of_them_are_counted(sandbox: Bubblewrap, tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    without = weaker(sandbox, tmp_path, "--seccomp")
    ended = await shell(without, root, "for n in $(seq 30); do : > f$n; done; chmod 4755 f*")
    assert len(ended.undone) == 21 and ended.undone[-1] == "And 10 more such files."
