"""What a family that runs says of itself counts for what is started beside it, after arguments and environment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from drone.settings import Settings as DroneSettings
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
    """One on which a family runs, with a configuration that names another Redis."""
    (tmp_path / "mcc.toml").write_text('[mcc]\nredis_url = "redis://of-the-file"\nsweep_seconds = 2\n')
    hold = Hold.take(tmp_path)
    hold.publish(Presence("http://127.0.0.1:8431", 42, None, "", settings=SAID))
    yield tmp_path
    hold.release()


def test_a_drone_beside_a_family_takes_its_redis_database_and_directories(data_dir: Path) -> None:
    environ = {"MCC_DATA_DIR": str(data_dir), "DRONE_QUEUES": "slow"}
    assert DroneSettings.beside(environ, data_dir, {"slots": 50}) == {
        "database_url": SAID["MCC_DATABASE_URL"],
        "redis_url": SAID["MCC_REDIS_URL"],
        "workspace_roots": "/work",
    }
    assert DroneSettings.beside(environ, data_dir, {"redis_url": "redis://x"}).keys() == {
        "database_url",
        "workspace_roots",
    }


def test_commands_that_look_at_an_installation_look_at_the_one_that_runs(data_dir: Path) -> None:
    environ = {"MCC_DATA_DIR": str(data_dir)}
    there = load(environ, directory=data_dir, beside=True)
    assert (there.redis_url, there.port, there.sweep_seconds) == ("unix:///run/redis.sock", 8431, 2)
    assert load(environ, directory=data_dir).redis_url == "redis://of-the-file"
    named = load(environ | {"MCC_REDIS_URL": "redis://named"}, directory=data_dir, beside=True)
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
    there = load(environ, directory=tmp_path, beside=True)
    assert (there.sweep_seconds, there.configuration.own) == (3, file)
    assert load(environ | {"MCC_CONFIG": str(other)}, directory=tmp_path, beside=True).sweep_seconds == 4
    drone_environ = DroneSettings.with_files_beside(environ, tmp_path, {})
    assert DroneSettings(drone_environ).sweep_seconds == 3
    hold.release()


def test_where_no_family_runs_nothing_is_said(tmp_path: Path) -> None:
    assert DroneSettings.beside({"MCC_DATA_DIR": str(tmp_path)}, tmp_path, {}) == {}


def test_what_others_could_have_written_is_not_believed(data_dir: Path) -> None:
    data_dir.chmod(0o777)
    with pytest.raises(BadSettings, match="not believed"):
        DroneSettings.beside({"MCC_DATA_DIR": str(data_dir)}, data_dir, {})
