"""The whole examination: every check, repairs before the checks, and the order of the findings."""

from collections.abc import Sequence
from pathlib import Path

from mcc.contracts.drones import DroneCounters
from mcc.doctor.examination import CHECKS, check_celery, check_orders, check_redis, examine, findings_of, judge
from mcc.doctor.installation import Installation
from mcc.findings.finding import Finding, bounded
from mcc.local.data_dir import upgrade_database
from tests.mcc.doctor.installations import installed, place, register, settings_in, states_by_check
from tests.mcc.doctor.snapshots import drone, node, order, queued, snapshot, states


def test_the_round_visits_every_promised_part(tmp_path: Path) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    found = examine(settings_in(tmp_path), {"MCC_DATA_DIR": str(tmp_path)}, 0.5).findings
    assert {finding.what for finding in found} >= {*CHECKS, "drones", "leases", "clock"}
    assert all(finding.advice for finding in found if finding.state != "ok")


def test_a_redis_that_does_not_answer_is_broken_and_celery_with_it(tmp_path: Path) -> None:
    ill = installed(tmp_path, f"unix://{tmp_path}/nobody.sock")
    assert states_by_check(list(check_redis(ill))) == {"redis": "broken"}
    assert states_by_check(list(check_celery(ill))) == {"celery": "broken"}


def test_without_a_running_redis_celery_is_not_asked(tmp_path: Path) -> None:
    assert states_by_check(list(check_celery(installed(tmp_path)))) == {"celery": "warning"}


def test_orders_are_compared_although_neither_redis_nor_celery_is_there(tmp_path: Path) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    place(tmp_path)
    found = check_orders(installed(tmp_path, f"unix://{tmp_path}/nobody.sock"))
    assert states_by_check(list(found)) == {"orders": "ok", "queue": "warning"}


def test_without_a_database_orders_are_not_compared_and_this_is_said(tmp_path: Path) -> None:
    [finding] = check_orders(installed(tmp_path / "new"))
    assert finding.state == "warning" and "not compared" in finding.detail
    assert not (tmp_path / "new").exists()


def test_the_fix_takes_back_what_a_drone_left_and_the_round_sees_the_repaired_state(tmp_path: Path) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    order_id = place(tmp_path)
    register(tmp_path, lease_seconds=60, claims=order_id, leaves=True)
    environment = {"MCC_DATA_DIR": str(tmp_path)}
    found = examine(settings_in(tmp_path), environment, 0.5, fix=True)
    assert [(one.fix, one.order_id, one.done) for one in found.repairs] == [("sweep", order_id, True)]
    assert "ghost" not in states_by_check(found.findings)
    told = found.as_dict()
    assert told["repairs"] == [one.as_dict() for one in found.repairs] and told["unrepaired"] == ""
    assert examine(settings_in(tmp_path), environment, 0.5, fix=True).repairs == []


def test_a_fix_without_a_database_says_that_nothing_was_repaired(tmp_path: Path) -> None:
    found = examine(settings_in(tmp_path / "new"), {"MCC_DATA_DIR": str(tmp_path)}, 0.5, fix=True)
    assert found.unrepaired and not found.ok and not (tmp_path / "new").exists()


def test_a_look_that_fails_is_a_finding(tmp_path: Path) -> None:
    def look(_: Installation) -> Sequence[Finding]:
        raise RuntimeError("no")

    assert states_by_check(findings_of("part", look, installed(tmp_path))) == {"part": "broken"}


def test_when_all_agrees_it_is_said_in_one_line() -> None:
    [finding] = judge(snapshot(drones=[drone()], orders=[order(), queued(2, moved=1)], nodes=[node()]))
    assert (finding.what, finding.state) == ("orders", "ok")
    assert "1 running, 1 queued; database, Celery and processes agree" in finding.detail


def test_agreement_is_not_claimed_when_celery_was_not_asked_or_not_all_was_seen() -> None:
    [unasked] = judge(snapshot(nodes=None))
    assert unasked.detail == "none is unfinished"
    [many] = judge(snapshot(nodes=[], whole=False))
    assert "more of them are not well than are listed here" in many.detail


def test_the_worst_news_comes_first() -> None:
    seen = snapshot(drones=[drone(heard=8)], orders=[order(incarnation="nobody")], nodes=[node()])
    assert states(judge(seen)) == [("orders", "ok"), ("ghost", "broken"), ("silent", "warning")]


def test_refused_messages_are_part_of_the_judgement() -> None:
    seen = snapshot(drones=[drone(counters=DroneCounters(refused_messages=3))], nodes=[node()])
    assert ("messages", "warning") in states(judge(seen))


def test_many_findings_of_one_kind_end_in_a_number() -> None:
    many = [Finding("ghost", "warning", str(number), "do", fix="sweep") for number in range(9)]
    told = bounded([*many, Finding("ghost", "broken", "worst", "do"), Finding("lock", "warning", "x", "do")], most=3)
    assert [finding.detail for finding in told] == ["0", "1", "2", "7 more of this kind", "x"]
    assert (told[3].state, told[3].fix) == ("broken", "sweep")


def test_a_few_findings_are_all_told() -> None:
    few = [Finding("ghost", "warning", str(number)) for number in range(4)]
    assert bounded(few, most=3) == few
