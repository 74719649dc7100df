"""The doctor: each part well and ill, what it says to do, and what it repairs."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from mcc.cli.examination import ROUND, examine
from mcc.cli.findings import Patient, safely
from mcc.cli.services import look_at_celery, look_at_database, look_at_orders, look_at_redis
from mcc.cli.surroundings import (
    database_file,
    look_at_data_dir,
    look_at_disk,
    look_at_git,
    look_at_keys,
    look_at_prices,
)
from mcc.contracts.drones import Capability, Registration
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import now
from mcc.doctor.finding import Finding
from mcc.local.database import upgrade_database
from mcc.settings import Settings, load
from mcc.store.sql import open_store
from mcc.testing import FakeClock

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


def register(
    tmp_path: Path,
    *,
    lease_seconds: float,
    name: str = "tiny",
    slots: int = 2,
    pid: int = 1,
    claims: str | None = None,
    leaves: bool = False,
) -> None:
    """A drone, a while ago when it is one that has left."""
    clock = FakeClock(now() - timedelta(seconds=60)) if leaves else None
    store = open_store(f"sqlite:///{tmp_path / 'mcc.db'}", clock=clock)
    incarnation = fresh_id()
    store.leases.register(
        Registration(
            incarnation=incarnation,
            name=name,
            pid=pid,
            host="here",
            version="0",
            queues=("default",),
            slots=slots,
            models=(Capability(name="fast", problem="it needs a key"),),
        ),
        lease_seconds=lease_seconds,
    )
    if claims is not None:
        assert store.claims.claim(claims, incarnation=incarnation, claim_token="t", drone=name)
    if leaves:
        store.leases.leave(incarnation)
    store.close()


def place(tmp_path: Path) -> str:
    """An order, placed a while ago by the clock of the store."""
    clock = FakeClock(now() - timedelta(seconds=60))
    store = open_store(f"sqlite:///{tmp_path / 'mcc.db'}", clock=clock)
    order = store.orders.place(NewOrder(prompt="do it"), principal="someone").order
    store.close()
    return order.id


def damage(path: Path, table: str) -> None:
    """Overwrite the first page of a table's rows."""
    with closing(sqlite3.connect(path)) as link:
        link.execute("PRAGMA journal_mode=DELETE")
        [root] = link.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        [size] = link.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)


def test_the_round_visits_every_promised_part(tmp_path: Path) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    found = examine(settings_in(tmp_path), {"MCC_DATA_DIR": str(tmp_path)}, 0.5).findings
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
    register(tmp_path, lease_seconds=0.000001, name="asleep", pid=2)
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


def test_orders_are_compared_although_neither_redis_nor_celery_is_there(tmp_path: Path) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    place(tmp_path)
    found = look_at_orders(patient(tmp_path, f"unix://{tmp_path}/nobody.sock"))
    assert states(list(found)) == {"orders": "ok", "queue": "warning"}


def test_without_a_database_orders_are_not_compared_and_this_is_said(tmp_path: Path) -> None:
    [finding] = look_at_orders(patient(tmp_path / "new"))
    assert finding.state == "warning" and "not compared" in finding.detail
    assert not (tmp_path / "new").exists()


def test_a_drone_that_lost_its_lease_and_registered_again_is_not_counted_as_silent(tmp_path: Path) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    register(tmp_path, lease_seconds=0.000001)
    assert states(list(look_at_database(patient(tmp_path))))["leases"] == "warning"
    register(tmp_path, lease_seconds=60)
    assert states(list(look_at_database(patient(tmp_path))))["leases"] == "ok"


def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "mcc.db"
    upgrade_database(f"sqlite:///{path}")
    for _ in range(30):
        place(tmp_path)
    damage(path, "orders")
    found = [one for one in look_at_database(patient(tmp_path)) if one.what == "database" and one.state == "broken"]
    assert any("damaged" in finding.detail for finding in found)


def test_the_fix_takes_back_what_a_drone_left_and_the_round_sees_the_repaired_state(tmp_path: Path) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    order_id = place(tmp_path)
    register(tmp_path, lease_seconds=60, claims=order_id, leaves=True)
    environment = {"MCC_DATA_DIR": str(tmp_path)}
    found = examine(settings_in(tmp_path), environment, 0.5, fix=True)
    assert [(one.fix, one.order_id, one.done) for one in found.repairs] == [("sweep", order_id, True)]
    assert "ghost" not in states(found.findings)
    told = found.told()
    assert told["repairs"] == [one.told() for one in found.repairs] and told["unrepaired"] == ""
    assert examine(settings_in(tmp_path), environment, 0.5, fix=True).repairs == []


def test_a_fix_without_a_database_says_that_nothing_was_repaired(tmp_path: Path) -> None:
    found = examine(settings_in(tmp_path / "new"), {"MCC_DATA_DIR": str(tmp_path)}, 0.5, fix=True)
    assert found.unrepaired and not found.ok and not (tmp_path / "new").exists()


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


def test_the_file_of_a_database_is_found_in_its_address() -> None:
    assert database_file("sqlite:////srv/mcc.db") == Path("/srv/mcc.db")
    assert database_file("sqlite:///var/mcc.db?mode=rw") == Path("var/mcc.db")
    assert database_file("postgresql://me@db/mcc") is None


def test_a_data_dir_and_a_database_on_one_disk_are_one_line(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, MCC_DATABASE_URL=f"sqlite:///{tmp_path}/elsewhere/x.db")
    [finding] = look_at_disk(Patient(settings, {}, "", 0.5))
    assert finding.detail.endswith(str(tmp_path))


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
