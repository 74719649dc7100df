"""Leftovers in the database, its own health, and how many findings are told."""

from mcc.doctor.finding import Finding, bounded
from mcc.doctor.judgement import judge
from mcc.doctor.leftovers import health_of, leftovers
from mcc.store.examined import Health, IdleTransaction, LateReceipt, StaleLock
from tests.mcc.doctor.ward import chart, drone, node, order, order_id, queued, states


def test_a_stale_lock_is_named_with_its_order_and_can_be_fixed() -> None:
    [finding] = leftovers(chart(locks=[StaleLock("root", order_id(), 2, True)]))
    assert (finding.what, finding.state, finding.order_id, finding.fix) == ("lock", "warning", order_id(), "locks")
    assert "workspace root" in finding.detail and "epoch 2" in finding.detail


def test_open_receipts_are_told_once_for_each_order() -> None:
    late = [LateReceipt(f"control {number}", order_id(number % 2), "steer") for number in range(3)]
    first, second = leftovers(chart(receipts=late))
    assert (first.order_id, second.order_id) == (order_id(0), order_id(1))
    assert "still open: 2" in first.detail and first.fix == "receipts"


def test_a_damaged_file_is_broken() -> None:
    [finding] = health_of(Health(problems=["row 3 missing from index"]))
    assert finding.state == "broken" and "row 3" in finding.detail and "backup" in finding.advice


def test_a_check_that_took_too_long_is_no_damage() -> None:
    [finding] = health_of(Health(checked=False))
    assert finding.state == "warning" and "--seconds" in finding.advice


def test_an_idle_transaction_is_worse_when_others_wait_for_it() -> None:
    idle = [IdleTransaction(7, "psql", 60, 0), IdleTransaction(8, "", 60, 2), IdleTransaction(9, "mcc", 1, 0)]
    alone, waited_for = health_of(Health(idle=idle))
    assert (alone.state, waited_for.state) == ("warning", "broken")
    assert "pg_terminate_backend(8)" in waited_for.advice and "2 others" in waited_for.detail


def test_a_healthy_database_has_nothing_to_tell() -> None:
    assert list(health_of(Health())) == []


def test_many_findings_of_one_kind_end_in_a_number() -> None:
    many = [Finding("ghost", "warning", str(number), "do", fix="sweep") for number in range(9)]
    told = bounded([*many, Finding("ghost", "broken", "worst", "do"), Finding("lock", "warning", "x", "do")], most=3)
    assert [finding.detail for finding in told] == ["0", "1", "2", "7 more of this kind", "x"]
    assert (told[3].state, told[3].fix) == ("broken", "sweep")


def test_a_few_findings_are_all_told() -> None:
    few = [Finding("ghost", "warning", str(number)) for number in range(4)]
    assert bounded(few, most=3) == few


def test_when_all_agrees_it_is_said_in_one_line() -> None:
    [finding] = judge(chart(drones=[drone()], orders=[order(), queued(2, moved=1)], nodes=[node()]))
    assert (finding.what, finding.state) == ("orders", "ok")
    assert "1 running, 1 queued; database, Celery and processes agree" in finding.detail


def test_agreement_is_not_claimed_when_celery_was_not_asked_or_not_all_was_seen() -> None:
    [unasked] = judge(chart(nodes=None))
    assert unasked.detail == "none is unfinished"
    [many] = judge(chart(nodes=[], whole=False))
    assert "there are more" in many.detail


def test_the_worst_news_comes_first() -> None:
    seen = chart(drones=[drone(heard=8)], orders=[order(incarnation="nobody")], nodes=[node()])
    assert states(judge(seen)) == [("orders", "ok"), ("ghost", "broken"), ("silent", "warning")]
