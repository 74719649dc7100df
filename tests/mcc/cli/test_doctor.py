"""The doctor: each part well and ill, and what it says to do."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mcc.cli.examination import ROUND, examine
from mcc.cli.findings import Finding, Patient, safely
from mcc.cli.services import look_at_celery, look_at_database, look_at_redis
from mcc.cli.surroundings import look_at_data_dir, look_at_disk, look_at_git, look_at_keys, look_at_prices
from mcc.contracts.drones import Capability, Registration
from mcc.contracts.ids import fresh_id
from mcc.local.database import upgrade_database
from mcc.settings import Settings, load
from mcc.store.sql import open_store

CONFIG = """
[models.fast]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"
api_key_env = "MY_KEY"

[models.priced]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"

[models.priced.price]
input = 1
output = 2

[models.own]
provider = "offline"
"""


def settings_in(tmp_path: Path, **more: str) -> Settings:
    return load({"MCC_DATA_DIR": str(tmp_path), **more}, directory=tmp_path)


def patient(tmp_path: Path, redis_url: str = "", **environment: str) -> Patient:
    return Patient(settings_in(tmp_path), {"MCC_DATA_DIR": str(tmp_path), **environment}, redis_url, 0.5)


def states(findings: Sequence[Finding]) -> dict[str, str]:
    return {finding.what: finding.state for finding in findings}


def register(tmp_path: Path, *, lease_seconds: float, name: str = "tiny", slots: int = 2) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'mcc.db'}")
    store.leases.register(
        Registration(
            incarnation=fresh_id(),
            name=name,
            pid=1,
            host="here",
            version="0",
            queues=("default",),
            slots=slots,
            models=(Capability(name="fast", problem="it needs a key"),),
        ),
        lease_seconds=lease_seconds,
    )
    store.close()


def test_the_round_visits_every_promised_part(tmp_path: Path) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    found = examine(settings_in(tmp_path), {"MCC_DATA_DIR": str(tmp_path)}, 0.5)
    assert {finding.what for finding in found} >= {*ROUND, "drones", "leases", "clock"}
    assert all(finding.advice for finding in found if finding.state != "ok")


def test_a_database_that_is_not_there_yet_is_a_warning_and_is_not_made(tmp_path: Path) -> None:
    found = list(look_at_database(patient(tmp_path / "new")))
    assert states(found) == {"database": "warning"}
    assert "mcc db upgrade" in found[0].advice
    assert not (tmp_path / "new").exists()


def test_a_database_without_schema_is_broken_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "mcc.db").touch()
    found = list(look_at_database(patient(tmp_path)))
    assert states(found) == {"database": "broken"}
    assert "mcc db upgrade" in found[0].advice


def test_an_address_of_no_known_database_is_broken(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, MCC_DATABASE_URL="mysql://h/x")
    found = list(look_at_database(Patient(settings, {}, "", 0.5)))
    assert states(found) == {"database": "broken"}


def test_drones_that_are_up_and_silent_are_told_apart_with_their_problems(tmp_path: Path) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    assert states(list(look_at_database(patient(tmp_path))))["drones"] == "warning"
    register(tmp_path, lease_seconds=60, name="awake")
    register(tmp_path, lease_seconds=0.000001, name="asleep")
    found = list(look_at_database(patient(tmp_path)))
    assert states(found) == {"database": "ok", "drones": "ok", "leases": "warning", "models": "warning", "clock": "ok"}
    told = {finding.what: finding.detail for finding in found}
    assert "awake" in told["drones"]
    assert "asleep" in told["leases"]
    assert told["models"] == "fast: it needs a key"


def test_a_redis_that_does_not_answer_is_broken_and_celery_with_it(tmp_path: Path) -> None:
    ill = patient(tmp_path, f"unix://{tmp_path}/nobody.sock")
    assert states(list(look_at_redis(ill))) == {"redis": "broken"}
    assert states(list(look_at_celery(ill))) == {"celery": "broken"}


def test_without_a_running_redis_celery_is_not_asked(tmp_path: Path) -> None:
    assert states(list(look_at_celery(patient(tmp_path)))) == {"celery": "warning"}


def test_keys_are_told_by_name_and_never_by_value(tmp_path: Path) -> None:
    (tmp_path / "mcc.toml").write_text(CONFIG)
    missing = list(look_at_keys(patient(tmp_path)))
    assert [finding.state for finding in missing] == ["warning"]
    assert "MY_KEY" in missing[0].detail
    there = list(look_at_keys(patient(tmp_path, MY_KEY="sk-very-secret", OPENAI_API_KEY="sk-other")))
    assert [finding.state for finding in there] == ["ok"]
    assert there[0].detail == "set here: OPENAI_API_KEY, MY_KEY"


def test_git_is_looked_for_where_drones_find_it(tmp_path: Path) -> None:
    missing = list(look_at_git(patient(tmp_path), path=str(tmp_path)))
    assert states(missing) == {"git": "warning"} and "git tools are off" in missing[0].detail
    (tmp_path / "git").touch(0o755)
    assert states(list(look_at_git(patient(tmp_path), path=str(tmp_path)))) == {"git": "ok"}


def test_models_without_a_price_are_named(tmp_path: Path) -> None:
    (tmp_path / "mcc.toml").write_text(CONFIG)
    found = list(look_at_prices(patient(tmp_path)))
    assert [finding.state for finding in found] == ["warning"]
    assert "fast" in found[0].detail
    assert "[models.fast.price]" in found[0].advice


def test_a_token_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x")
    tmp_path.chmod(0o755)
    (tmp_path / "token").chmod(0o644)
    assert states(list(look_at_data_dir(patient(tmp_path)))) == {"data dir": "warning"}
    (tmp_path / "token").chmod(0o600)
    assert states(list(look_at_data_dir(patient(tmp_path)))) == {"data dir": "ok"}


def test_a_data_directory_that_is_a_file_is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert states(list(look_at_data_dir(patient(tmp_path / "file")))) == {"data dir": "broken"}


def test_the_disk_is_looked_at_where_the_directory_will_be(tmp_path: Path) -> None:
    assert "free under" in next(iter(look_at_disk(patient(tmp_path / "not" / "yet")))).detail


def test_a_look_that_fails_is_a_finding(tmp_path: Path) -> None:
    def look(_: Patient) -> Sequence[Finding]:
        raise RuntimeError("no")

    assert states(safely("part", look, patient(tmp_path))) == {"part": "broken"}


@pytest.mark.parametrize(("broken", "code"), [(False, 0), (True, 1)])
def test_the_exit_code_says_whether_anything_is_broken(tmp_path: Path, broken: bool, code: int) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MCC_", "DRONE_"))}
    own["MCC_DATA_DIR"] = str(tmp_path)
    if broken:
        own["MCC_REDIS_URL"] = f"unix://{tmp_path}/nobody.sock"
    command = [sys.executable, "-m", "mcc.cli.main", "doctor", "--json", "--seconds", "0.5"]
    told = subprocess.run(command, capture_output=True, text=True, env=own, cwd=tmp_path, check=False)
    assert told.returncode == code
    assert json.loads(told.stdout)["ok"] is not broken
