"""A running family: its settings rank after arguments and environment, and it keeps roots that were added to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from drone.settings import Settings as DroneSettings
from mcc.configuration.places import NotPrivate
from mcc.configuration.running import ADDED_ROOTS_FILE, AddedRoots
from mcc.local.presence import Hold, Presence
from mcc.settings import BadSettings, load

SAID = {
    "MCC_DATABASE_URL": "postgresql://u:pw@db/mcc",
    "MCC_REDIS_URL": "unix:///run/redis.sock",
    "MCC_QUEUES": "default,slow",
    "MCC_WORKSPACE_ROOTS": "/work",
    "MCC_PORT": "8431",
}


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data directory on which a family runs, with an mcc.toml that names another Redis."""
    (tmp_path / "mcc.toml").write_text('[mcc]\nredis_url = "redis://of-the-file"\nsweep_seconds = 2\n')
    hold = Hold.take(tmp_path)
    hold.publish(Presence("http://127.0.0.1:8431", 42, None, "", settings=SAID))
    yield tmp_path
    hold.release()


def test_a_drone_beside_a_family_takes_its_redis_database_and_directories(data_dir: Path) -> None:
    environ = {"MCC_DATA_DIR": str(data_dir), "DRONE_QUEUES": "slow"}
    assert DroneSettings.of_running_family(environ, data_dir, {"slots": 50}) == {
        "database_url": SAID["MCC_DATABASE_URL"],
        "redis_url": SAID["MCC_REDIS_URL"],
        "workspace_roots": "/work",
    }
    assert DroneSettings.of_running_family(environ, data_dir, {"redis_url": "redis://x"}).keys() == {
        "database_url",
        "workspace_roots",
    }


def test_commands_that_look_at_an_installation_look_at_the_one_that_runs(data_dir: Path) -> None:
    environ = {"MCC_DATA_DIR": str(data_dir)}
    there = load(environ, directory=data_dir, join_family=True)
    assert (there.redis_url, there.port, there.sweep_seconds) == ("unix:///run/redis.sock", 8431, 2)
    assert load(environ, directory=data_dir).redis_url == "redis://of-the-file"
    named = load(environ | {"MCC_REDIS_URL": "redis://named"}, directory=data_dir, join_family=True)
    assert named.redis_url == "redis://named"


def test_what_looks_at_a_family_reads_the_file_that_it_reads_unless_another_one_is_named(tmp_path: Path) -> None:
    file, other = tmp_path / "other.toml", tmp_path / "named.toml"
    file.write_text("[mcc]\nsweep_seconds = 3\n")
    other.write_text("[mcc]\nsweep_seconds = 4\n")
    data_dir = tmp_path / "data"
    data_dir.mkdir(0o700)
    hold = Hold.take(data_dir)
    hold.publish(Presence("http://127.0.0.1:8431", 42, None, "", settings={"MCC_CONFIG": str(file)}))
    environ = {"MCC_DATA_DIR": str(data_dir), "HOME": str(tmp_path)}
    there = load(environ, directory=tmp_path, join_family=True)
    assert (there.sweep_seconds, there.configuration.own) == (3, file)
    assert load(environ | {"MCC_CONFIG": str(other)}, directory=tmp_path, join_family=True).sweep_seconds == 4
    drone_environ = DroneSettings.with_family_files(environ, tmp_path, {})
    assert DroneSettings(drone_environ).sweep_seconds == 3
    hold.release()


def test_where_no_family_runs_nothing_is_said(tmp_path: Path) -> None:
    assert DroneSettings.of_running_family({"MCC_DATA_DIR": str(tmp_path)}, tmp_path, {}) == {}


def test_what_others_could_have_written_is_not_believed(data_dir: Path) -> None:
    data_dir.chmod(0o777)
    with pytest.raises(BadSettings, match="not trusted"):
        DroneSettings.of_running_family({"MCC_DATA_DIR": str(data_dir)}, data_dir, {})


@pytest.fixture
def empty_data_dir(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path


def test_what_one_process_adds_another_one_reads_until_it_is_cleared(empty_data_dir: Path) -> None:
    reader, writer = AddedRoots(empty_data_dir), AddedRoots(empty_data_dir)
    assert reader() == ()
    writer.add(Path("/srv/a b"))
    assert reader() == (Path("/srv/a b"),)
    writer.add(Path("/srv/\udcff\n"))
    assert reader() == (Path("/srv/a b"), Path("/srv/\udcff\n"))
    writer.clear()
    assert reader() == ()


@pytest.mark.parametrize("whose", ["file", "directory"])
def test_what_others_could_have_written_counts_for_nothing(empty_data_dir: Path, whose: str) -> None:
    roots = AddedRoots(empty_data_dir)
    roots.add(Path("/srv"))
    (empty_data_dir / ADDED_ROOTS_FILE if whose == "file" else empty_data_dir / "run").chmod(0o777)
    assert AddedRoots(empty_data_dir)() == ()


def test_nothing_is_added_where_others_could_write(empty_data_dir: Path) -> None:
    (empty_data_dir / "run").chmod(0o777)
    with pytest.raises(NotPrivate):
        AddedRoots(empty_data_dir).add(Path("/srv"))


def test_a_line_that_is_no_absolute_path_is_passed_over(empty_data_dir: Path) -> None:
    (empty_data_dir / ADDED_ROOTS_FILE).write_text('nonsense\n"relative"\n7\n"/srv/../opt"\n')
    (empty_data_dir / ADDED_ROOTS_FILE).chmod(0o600)
    assert AddedRoots(empty_data_dir)() == (Path("/opt"),)
