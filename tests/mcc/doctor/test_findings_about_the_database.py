"""Findings about the database: reach, schema, health, drones and leases in it, leftovers, sweeps."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mcc.configuration.budgets import BudgetSettings
from mcc.contracts.budgets import DayBudget
from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.contracts.schedules import Missed, Schedule, ScheduleRun
from mcc.doctor.database import (
    budget_findings,
    check_database,
    health_findings,
    leftovers,
    reply_findings,
    schedule_findings,
    standby_findings,
    trigger_findings,
    unfit_finding,
    unswept,
    way_findings,
)
from mcc.doctor.installation import Installation
from mcc.local.data_dir import upgrade_database
from mcc.settings import ServiceSettings
from mcc.store.database.fit import Standbys, Way
from mcc.store.rows.values import Health, IdleTransaction, LateReceipt, StaleLock
from mcc.store.store import open_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.store import migrated_copy
from tests.mcc.doctor.installations import installed, place, register, settings_in, states_by_check
from tests.mcc.doctor.snapshots import order_id, queued, snapshot, states


def damage(path: Path, table: str) -> None:
    """Overwrite the first page of a table's rows."""
    with closing(sqlite3.connect(path)) as link:
        link.execute("PRAGMA journal_mode=DELETE")
        [root] = link.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        [size] = link.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)


def test_a_database_that_is_not_there_yet_is_a_warning_and_is_not_made(tmp_path: Path) -> None:
    found = list(check_database(installed(tmp_path / "new")))
    assert states_by_check(found) == {"database": "warning"}
    assert "mcc db upgrade" in found[0].advice
    assert not (tmp_path / "new").exists()


def test_a_database_without_schema_is_broken_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "mcc.db").touch()
    found = list(check_database(installed(tmp_path)))
    assert states_by_check(found) == {"database": "broken"}
    assert "mcc db upgrade" in found[0].advice


def test_an_address_of_no_known_database_is_broken(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, MCC_DATABASE_URL="mysql://h/x")
    found = list(check_database(Installation(settings, {}, "", 0.5)))
    assert states_by_check(found) == {"database": "broken"}


def test_tokens_that_stand_in_a_database_are_named_and_who_else_can_read_them(tmp_path: Path) -> None:
    file = tmp_path / "mcc.db"
    upgrade_database(f"sqlite:///{file}")
    assert "tokens" not in states_by_check(list(check_database(installed(tmp_path))))
    with closing(open_store(f"sqlite:///{file}")) as store:
        store.mcp_servers.put_token("wiki", {"access_token": "at-what-only-drones-know"})
    for mode, state in ((0o600, "ok"), (0o644, "warning")):
        file.chmod(mode)
        tmp_path.chmod(0o755)
        [found] = [one for one in check_database(installed(tmp_path)) if one.what == "tokens"]
        assert found.state == state and "wiki" in found.detail and "only-drones-know" not in str(found)


def test_drones_that_are_up_and_silent_are_told_apart_with_their_problems(tmp_path: Path) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    assert states_by_check(list(check_database(installed(tmp_path))))["drones"] == "warning"
    register(tmp_path, lease_seconds=60, name="awake")
    register(tmp_path, lease_seconds=0.000001, name="asleep", pid=2)
    found = list(check_database(installed(tmp_path)))
    tools = [one for one in found if one.what == "tools"]
    assert states_by_check([one for one in found if one not in tools]) == {
        "database": "ok",
        "size": "ok",
        "drones": "ok",
        "leases": "warning",
        "models": "warning",
        "clock": "ok",
    }
    told = {finding.what: finding.detail for finding in found}
    assert "awake" in told["drones"]
    assert "asleep" in told["leases"]
    assert told["models"] == "fast: it needs a key"
    assert [(one.state, one.detail) for one in tools] == [
        ("warning", "git_diff, git_log: no bubblewrap"),
        ("ok", "web_search: off: no search engine is chosen"),
    ]


def test_a_drone_that_lost_its_lease_and_registered_again_is_not_counted_as_silent(tmp_path: Path) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    register(tmp_path, lease_seconds=0.000001)
    assert states_by_check(list(check_database(installed(tmp_path))))["leases"] == "warning"
    register(tmp_path, lease_seconds=60)
    assert states_by_check(list(check_database(installed(tmp_path))))["leases"] == "ok"


def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "mcc.db"
    upgrade_database(f"sqlite:///{path}")
    for _ in range(30):
        place(tmp_path)
    damage(path, "orders")
    found = [one for one in check_database(installed(tmp_path)) if one.what == "database" and one.state == "broken"]
    assert any("damaged" in finding.detail for finding in found)


def test_a_stale_lock_is_named_with_its_order_and_can_be_fixed() -> None:
    [finding] = leftovers(snapshot(locks=[StaleLock("root", order_id(), 2, True)]))
    assert (finding.what, finding.state, finding.order_id, finding.fix) == ("lock", "warning", order_id(), "locks")
    assert "workspace root" in finding.detail and "epoch 2" in finding.detail


def test_open_receipts_are_told_once_for_each_order() -> None:
    late = [LateReceipt(f"control {number}", order_id(number % 2), "steer") for number in range(3)]
    first, second = leftovers(snapshot(receipts=late))
    assert (first.order_id, second.order_id) == (order_id(0), order_id(1))
    assert "still open: 2" in first.detail and first.fix == "receipts"


def test_a_damaged_file_is_broken() -> None:
    [finding] = health_findings(Health(problems=["row 3 missing from index"]))
    assert finding.state == "broken" and "row 3" in finding.detail and "backup" in finding.advice


def test_a_check_that_took_too_long_is_no_damage() -> None:
    [finding] = health_findings(Health(checked=False))
    assert finding.state == "warning" and "--seconds" in finding.advice


def test_an_idle_transaction_is_worse_when_others_wait_for_it() -> None:
    idle = [IdleTransaction(7, "psql", 60, 0), IdleTransaction(8, "", 60, 2), IdleTransaction(9, "mcc", 1, 0)]
    alone, waited_for = health_findings(Health(idle=idle))
    assert (alone.state, waited_for.state) == ("warning", "broken")
    assert "pg_terminate_backend(8)" in waited_for.advice and "2 others" in waited_for.detail


def test_a_healthy_database_has_nothing_to_tell() -> None:
    assert list(health_findings(Health())) == []


def test_nobody_sweeping_is_told_while_there_is_something_to_sweep() -> None:
    assert states(list(unswept(snapshot(orders=[queued()], swept=60)))) == [("sweep", "warning")]
    assert list(unswept(snapshot(swept=60))) == []
    assert list(unswept(snapshot(orders=[queued()], swept=5))) == []
    assert list(unswept(snapshot(orders=[queued()], swept=None))) == []


def test_the_size_of_the_database_is_told_with_what_pruning_would_free(tmp_path: Path) -> None:
    def told(**more: str) -> str:
        found = check_database(Installation(settings_in(tmp_path, **more), {}, "", 0.5))
        return next(finding.detail for finding in found if finding.what == "size")

    store = open_store(f"sqlite:///{migrated_copy(tmp_path / 'mcc.db')}")
    held = HandDrone(store).claim(store.orders.place(NewOrder(prompt="p" * 9_000), by=Actor("t")).order.id)
    held.start()
    held.finish()
    store.close()
    assert "an order's journal usually takes 10 KB" in told()
    assert "could go" not in told()
    assert "older than 1e-09 days could go now" in told(MCC_RETENTION_DAYS="1e-9")
    assert "nothing is ever removed" in told(MCC_RETENTION_DAYS="0")


def test_a_pooler_and_settings_that_are_not_in_force_are_told() -> None:
    assert list(way_findings(None, "auto")) == [] and list(way_findings(Way(False, "none", ()), "auto")) == []
    [pooled] = way_findings(Way(True, "transaction", ()), "auto")
    assert (pooled.what, pooled.state) == ("pooler", "ok")
    assert "transaction mode (found out: auto)" in pooled.detail
    [named, slow] = way_findings(Way(True, "session", ("jit", "plan_cache_mode")), "session")
    assert "found out" not in named.detail
    assert slow.state == "warning" and "jit, plan_cache_mode" in slow.detail


@pytest.mark.parametrize(
    ("standbys", "states", "words"),
    [
        (Standbys(0, False, True), [], ""),
        (Standbys(2, True, True), ["ok"], "synchronous (2 connected): a fail-over loses nothing"),
        (Standbys(0, True, True), ["ok"], "none connected now"),
        (Standbys(1, False, True), ["ok"], "asynchronous (1 connected): a fail-over loses what"),
        (Standbys(1, False, False), ["warning", "ok"], "synchronous_commit is off: a crash of the server loses orders"),
    ],
)
def test_what_a_fail_over_loses_is_told(standbys: Standbys, states: list[str], words: str) -> None:
    found = list(standby_findings(standbys))
    assert [one.state for one in found] == states
    assert words in " ".join(one.detail for one in found)


def test_a_server_that_is_not_fit_is_broken_with_what_to_do() -> None:
    found = unfit_finding(
        "the database x has the encoding LATIN1, and MCC needs UTF8: make another one (CREATE DATABASE y)"
    )
    assert (found.state, found.advice) == ("broken", "make another one (CREATE DATABASE y)")


def test_schedules_that_missed_runs_were_refused_or_are_fired_by_nobody_are_told() -> None:
    now = datetime(2027, 1, 1, 12, tzinfo=UTC)
    run = ScheduleRun(instant=now, outcome="refused", why="there is no model 'fast'.")
    made: dict[str, Any] = {"principal": "operator", "version": 1, "created_at": now}
    well, ill, late = (
        Schedule.model_validate({"id": order_id(), "name": name, "cron": "0 * * * *", "order": {}, **made, **more})
        for name, more in (
            ("well", {"next": [now - timedelta(seconds=90)]}),
            ("ill", {"last": run, "paused": True}),
            ("late", {"next": [now - timedelta(minutes=5)]}),
        )
    )
    assert list(schedule_findings([], [], now)) == []
    assert [each.detail for each in schedule_findings([well], [], now)] == ["1 of them"]
    missed = Missed(count=12, since=now - timedelta(hours=12), until=now)
    findings = list(schedule_findings([well, ill, late], [("well", missed)], now))
    assert [each.state for each in findings] == ["warning", "warning", "broken", "ok"]
    assert [each.detail for each in findings] == [
        "well has missed 12 of its runs, from 2027-01-01 00:00 UTC on",
        "the last run of ill was refused: there is no model 'fast'.",
        "late has been due for 5 min",
        "3 of them, 1 paused",
    ]
    assert "mcc schedules show well" in findings[0].advice and "mcc up" in findings[2].advice


def test_budgets_that_nobody_reserves_by_yet_are_told() -> None:
    configured = BudgetSettings(usd=5, timezone="Europe/Berlin")
    (written,) = budget_findings(configured, DayBudget(usd=5), "Europe/Berlin")
    assert written.state == "ok"
    for usual, timezone in ((DayBudget(usd=6), "Europe/Berlin"), (DayBudget(usd=5), "UTC")):
        (other,) = budget_findings(configured, usual, timezone)
        assert other.state == "warning" and "restart the service" in other.advice
    assert list(budget_findings(BudgetSettings(), DayBudget(), "UTC")) == []


def test_triggers_of_which_deliveries_were_refused_are_named() -> None:
    warned, fine = trigger_findings({"issues": {"refused": 3, "placed": 1}, "others": {"placed": 1}})
    assert (warned.state, warned.detail) == ("warning", "3 deliveries to issues were refused within a day")
    assert "mcc triggers deliveries issues" in warned.advice
    assert [(each.state, each.detail) for each in trigger_findings({"issues": {"own": 2}})] == [
        (fine.state, "1 of them")
    ]


def test_answers_that_wait_for_a_token_are_told(tmp_path: Path) -> None:
    reply = {"forge": "hub", "project": "a/b", "number": 7}
    trigger = {"path": "a", "scheme": "github", "secret_env": ["A"], "order": {"prompt": "x"}, "reply": reply}
    settings = ServiceSettings.model_validate(
        {
            "data_dir": tmp_path,
            "forges": {"hub": {"kind": "github", "token_env": "HUB_TOKEN"}},
            "triggers": {"issues": trigger, "quiet": {**trigger, "path": "b", "reply": None}},
        }
    )
    (waits,) = reply_findings(settings, {})
    assert waits.state == "warning" and "answers of issues wait: HUB_TOKEN" in waits.detail
    assert list(reply_findings(settings, {"HUB_TOKEN": "t"})) == []
