"""A data directory that others could read or write is closed at the next start, and nothing beside it is touched."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mcc.local.data_dir import make_private, upgrade_database
from mcc.store.store import open_store

OURS = (
    "token",
    "flower.auth",
    "mcc.toml",
    "mcc.db",
    "mcc.db-wal",
    "mcc.db-shm",
    "logs/api.log",
    "run/workspaces/one.json",
    "redis/appendonlydir/appendonly.aof.1.incr.aof",
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """As an older version left it: every file readable, every directory open."""
    directory = tmp_path / "data"
    for name in OURS:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("x")
        (directory / name).chmod(0o644)
    for place in (directory, *(one for one in directory.rglob("*") if one.is_dir())):
        place.chmod(0o755)
    return directory


def test_what_is_ours_becomes_its_owner_s_alone(data_dir: Path) -> None:
    with socket.socket(socket.AF_UNIX) as redis:
        redis.bind(str(data_dir / "run" / "redis.sock"))
        (data_dir / "run" / "redis.sock").chmod(0o777)
        told = make_private(data_dir)
    assert told == [f"{data_dir} was open to others; now it is yours alone."]
    assert {mode(data_dir / name) for name in OURS} == {0o600}
    assert {mode(place) for place in (data_dir, *data_dir.rglob("*")) if place.is_dir()} == {0o700}
    assert mode(data_dir / "run" / "redis.sock") == 0o700
    assert make_private(data_dir) == []


def test_no_symlink_is_followed_and_nothing_of_somebody_s_own_is_touched(data_dir: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "file").write_text("x")
    (data_dir / "flower.auth").unlink()
    (data_dir / "flower.auth").symlink_to(outside / "file")
    (data_dir / "logs" / "gone.log").symlink_to(outside / "file")
    (data_dir / "logs" / "all").symlink_to(outside)
    (data_dir / "notes").mkdir()
    (data_dir / "notes" / "mine.txt").write_text("x")
    for place in (outside / "file", data_dir / "notes" / "mine.txt"):
        place.chmod(0o644)
    told = make_private(data_dir)
    assert mode(outside / "file") == mode(data_dir / "notes" / "mine.txt") == 0o644
    assert mode(outside) == mode(data_dir / "notes") == 0o755
    assert sum("is a symlink" in sentence for sentence in told) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_somebody_else_is_told_and_left_as_it_is(data_dir: Path) -> None:
    os.chown(data_dir / "mcc.db", 12_345, -1)
    told = make_private(data_dir)
    assert any("mcc.db is open to others and belongs to another user (uid 12345)" in sentence for sentence in told)
    assert mode(data_dir / "mcc.db") == 0o644
    os.chown(data_dir, 12_345, -1)
    data_dir.chmod(0o755)
    make_private(data_dir)
    assert mode(data_dir) == 0o755


def test_a_new_database_is_its_owner_s_alone_wherever_it_lies(tmp_path: Path) -> None:
    """Whoever makes it, and also in a directory that is open; SQLite gives the files beside it the same mode."""
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
        store = open_store(f"sqlite:///{tmp_path / 'mcc.db'}")
        assert store.schema_problem() is None
        beside = sorted(tmp_path.glob("mcc.db*"))
        assert {mode(file) for file in beside} == {0o600}
        store.close()
    finally:
        os.umask(before)


def test_a_service_closes_the_directory_that_it_is_started_on(data_dir: Path, tmp_path: Path) -> None:
    """The database there is none, so it ends at once; the directory was closed, and the configuration told, before."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MCC_DATA_DIR": str(data_dir)}
    (data_dir / "mcc.toml").write_text("")
    command = [sys.executable, "-m", "mcc.cli.main", "serve", "--port", "0"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0 and "was open to others" in done.stderr
    assert f"Configuration: {data_dir / 'mcc.toml'}." in done.stderr and done.stdout == ""
    assert mode(data_dir) == 0o700 and mode(data_dir / "mcc.db") == 0o600
