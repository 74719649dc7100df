"""Each promise is broken by hand in evidence that is clean otherwise, and the checker names it."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mcc.store.database.migrate import upgrade
from tests.faults.checker import INVARIANTS, evidence_of, main, violations
from tests.faults.figures import figures
from tests.faults.hand_made import Run, make_run
from tests.faults.invariants.evidence import BrokenEvidence, Entry, Evidence, Order
from tests.faults.invariants.journals import fenced

Damage = Callable[[Run], None]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Run:
    base = tmp_path_factory.mktemp("clean")
    url = f"sqlite:///{base / 'mcc.db'}"
    upgrade(url)
    return make_run(base / "run", url)


@pytest.fixture
def run(clean: Run, tmp_path: Path) -> Run:
    """A copy to do damage to."""
    shutil.copytree(clean.directory.parent, tmp_path / "copy")
    url = f"sqlite:///{tmp_path / 'copy' / 'mcc.db'}"
    damaged = Run(tmp_path / "copy" / "run", url, clean.plain, clean.taken, clean.cancelled)
    damaged.say(database_url=url)
    return damaged


def found_in(run: Run) -> set[str]:
    return {one.invariant for one in violations(evidence_of(run.directory))}


def test_a_clean_run_has_no_violation(clean: Run) -> None:
    assert [str(one) for one in violations(evidence_of(clean.directory))] == []


def _second_end(run: Run) -> None:
    run.sql(
        "DROP INDEX one_end_per_order",
        "INSERT INTO journal SELECT order_id, seq + 1, epoch, at, kind, record_id, parent_id, agent, depth, call_id,"
        " data_json, large_json FROM journal WHERE order_id = :order AND kind = 'order.finished'",
        "UPDATE order_state SET last_seq = last_seq + 1 WHERE order_id = :order",
        order=run.plain,
    )


def _unlisted_reason(run: Run) -> None:
    run.sql(
        "UPDATE order_state SET status = 'failed', reason = 'because' WHERE order_id = :order",
        'UPDATE orders SET outcome_json = \'{"status": "failed"}\' WHERE id = :order',
        'UPDATE journal SET data_json = \'{"status": "failed", "reason": "because"}\''
        " WHERE order_id = :order AND kind = 'order.finished'",
        order=run.cancelled,
    )


def _no_end(run: Run) -> None:
    run.sql("DELETE FROM journal WHERE order_id = :order AND kind = 'order.finished'", order=run.plain)


def _accepted_and_gone(run: Run) -> None:
    run.add("orders.jsonl", t=1.0, key="x", status=202, order_id="nowhere", prompt="p", session_id=None, body_digest="")


def _never_done(run: Run) -> None:
    run.sql("UPDATE order_state SET status = 'queued' WHERE order_id = :order", order=run.plain)


def _two_orders_for_a_key(run: Run) -> None:
    line = next(line for line in run.lines("orders.jsonl") if line["order_id"] == run.plain)
    run.add("orders.jsonl", **{**line, "order_id": run.taken})


def _placed_twice(run: Run) -> None:
    """The answer to the first post was lost; under the same key came a second order."""
    prompt = run.lines("orders.jsonl")[0]["prompt"]
    spec = json.loads(run.value("SELECT spec_json FROM orders WHERE id = :order", order=run.cancelled))
    spec["prompt"] = prompt
    run.sql("UPDATE orders SET spec_json = :spec WHERE id = :order", order=run.cancelled, spec=json.dumps(spec))


def _effect_of(run: Run, tool: str) -> list[str]:
    return next(parts for line in run.effects() if (parts := line.split("\t"))[3] == tool)


def _once_twice(run: Run) -> None:
    run.effect(*_effect_of(run, "ledger_once"))


def _again_after_its_result(run: Run) -> None:
    parts = _effect_of(run, "ledger_idem")
    run.effect(*parts[:4], int(parts[4]) + 1, parts[5], float(parts[6]) + 60)


def _result_without_effect(run: Run) -> None:
    path = run.directory / "ledger.log"
    path.write_text("\n".join(run.effects()[1:]) + "\n")


def _effect_without_intent(run: Run) -> None:
    run.effect(run.plain, "master", "an-unknown-call", "ledger_idem", 1, 1, time.time())


def _effect_before_intent(run: Run) -> None:
    call = _effect_of(run, "ledger_once")[2]
    run.sql("UPDATE journal SET at = at + 5000000 WHERE call_id = :call AND kind = 'tool.started'", call=call)


def _gap(run: Run) -> None:
    run.sql("DELETE FROM journal WHERE order_id = :order AND seq = 4", order=run.taken)


def _viewer_missed_one(run: Run) -> None:
    run.rewrite("viewers/viewer-1.jsonl", lambda lines: [line for line in lines if line["seq"] != 3])


def _viewer_got_one_twice(run: Run) -> None:
    run.rewrite("viewers/viewer-1.jsonl", lambda lines: [*lines, lines[2]])


def _viewer_in_another_order(run: Run) -> None:
    run.rewrite("viewers/viewer-1.jsonl", lambda lines: [lines[1], lines[0], *lines[2:]])


def _swapped(run: Run) -> None:
    """The first result of a call changes places with its start."""
    call = _effect_of(run, "ledger_once")[2]
    places = {
        kind: run.value("SELECT seq FROM journal WHERE call_id = :call AND kind = :kind", call=call, kind=kind)
        for kind in ("tool.started", "tool.finished")
    }
    order = run.value("SELECT order_id FROM journal WHERE call_id = :call LIMIT 1", call=call)
    for kind, seq in (("tool.started", 9_999), ("tool.finished", places["tool.started"])):
        run.sql(
            "UPDATE journal SET seq = :seq WHERE order_id = :order AND call_id = :call AND kind = :kind",
            seq=seq,
            order=order,
            call=call,
            kind=kind,
        )
    run.sql("UPDATE journal SET seq = :seq WHERE seq = 9999", seq=places["tool.finished"])


def _told_after_the_end(run: Run) -> None:
    run.sql(
        "DELETE FROM journal WHERE order_id = :order AND kind = 'order.finished'",
        "UPDATE journal SET kind = 'order.finished', record_id = NULL WHERE order_id = :order AND seq = 5",
        order=run.plain,
    )


def _other_words(run: Run) -> None:
    run.sql(
        "UPDATE journal SET data_json = replace(data_json, 'harbour', 'airport')"
        " WHERE order_id = :order AND kind = 'model.replied'",
        order=run.plain,
    )


def _other_result(run: Run) -> None:
    call = _effect_of(run, "ledger_once")[2]
    run.sql(
        "UPDATE journal SET data_json = replace(data_json, 'wrote', 'invented')"
        " WHERE call_id = :call AND kind = 'tool.finished'",
        call=call,
    )


def _error_of_a_tool(run: Run) -> None:
    call = _effect_of(run, "ledger_idem")[2]
    run.sql(
        "UPDATE journal SET data_json = json_set(data_json, '$.outcome', 'error', '$.content', 'it broke')"
        " WHERE call_id = :call AND kind = 'tool.finished'",
        call=call,
    )


def _lost_record(run: Run) -> None:
    run.sql("DELETE FROM chat_records WHERE order_id = :order AND position = 1", order=run.plain)


def _no_such_parent(run: Run) -> None:
    run.sql(
        "UPDATE journal SET parent_id = 'nobody' WHERE order_id = :order AND parent_id IS NOT NULL"
        " AND kind = 'agent.started'",
        order=run.plain,
    )


def _stale_row(run: Run) -> None:
    run.sql(
        "UPDATE journal SET epoch = 1 WHERE order_id = :order AND seq ="
        " (SELECT max(seq) FROM journal WHERE order_id = :order AND kind = 'model.replied')",
        order=run.taken,
    )


def _nobody_was_told_off(run: Run) -> None:
    run.say(provoked_stale=True)


def _two_holders(run: Run) -> None:
    (line,) = run.lines("leases.jsonl")
    run.add("leases.jsonl", **{**line, "t": line["t"] + 0.2, "incarnation": "another"})


def _two_turns_at_once(run: Run) -> None:
    """The second turn of a session is dated a minute before the end of the first."""
    run.sql(
        "UPDATE journal SET at = at + 60000000 WHERE order_id = :order AND kind = 'order.finished'", order=run.plain
    )


def _claimed_while_held(run: Run) -> None:
    run.sql("UPDATE journal SET kind = 'agent.step' WHERE kind = 'order.requeued'")


def _beyond_the_budget(run: Run) -> None:
    for _ in range(3):
        line = run.lines("llm.jsonl")[0]
        run.add("llm.jsonl", **{**line, "input_tokens": 9_000})


def _usage_differs(run: Run) -> None:
    run.sql(
        "UPDATE orders SET outcome_json = json_set(outcome_json, '$.usage.input_tokens', 7) WHERE id = :order",
        order=run.plain,
    )


def _call_after_cancel(run: Run) -> None:
    line = run.lines("llm.jsonl")[0]
    run.add("llm.jsonl", **{**line, "order": run.cancelled, "t": time.time() + 30})


def _cancel_not_obeyed(run: Run) -> None:
    line = run.lines("controls.jsonl")[0]
    run.add("controls.jsonl", **{**line, "order_id": run.plain})


def _open_receipt(run: Run) -> None:
    run.sql("UPDATE controls SET applied_seq = NULL, refused_json = NULL")


def _lost_receipt(run: Run) -> None:
    run.sql("DELETE FROM controls")


def _orphan(run: Run) -> None:
    (run.directory / "processes.json").write_text(json.dumps({"alive": [{"pid": 1}], "directories": []}))


def _stale_lock(run: Run) -> None:
    run.sql("INSERT INTO workspace_locks VALUES ('/harbour', :order, 1, 1)", order=run.plain)


def _mark_of_an_ended_order(run: Run) -> None:
    run.sql("INSERT INTO workspace_locks VALUES ('below /harbour', :order, 1, 0)", order=run.plain)


def _swollen(run: Run) -> None:
    for number in range(20):
        run.add("resources.jsonl", t=100.0 * number, name="drone-1", rss_bytes=100_000 + 10_000 * number, fds=20)


def _secret(run: Run) -> None:
    run.say(canaries={"model key": "sk-canary-1"})
    (run.directory / "logs" / "drone-1.log").write_text("asked with sk-canary-1\n")


def _secret_in_the_database(run: Run) -> None:
    run.say(canaries={"model key": "The harbour is at rest"})


def _slow_takeover(run: Run) -> None:
    run.sql(
        "UPDATE journal SET at = at + 40000000 WHERE order_id = :order AND kind = 'order.claimed' AND epoch = 5",
        order=run.taken,
    )


def _slow_hand_back(run: Run) -> None:
    run.sql(
        "UPDATE journal SET at = at + 4000000 WHERE order_id = :order AND kind = 'order.claimed' AND epoch = 3",
        order=run.taken,
    )


def _taken_for_nothing(run: Run) -> None:
    run.say(false_takeovers=0)
    (run.directory / "faults.jsonl").write_text("")


def _later_turn_first(run: Run) -> None:
    run.sql(
        "UPDATE orders SET session_seq = 9 WHERE id = :one",
        "UPDATE orders SET session_seq = 1 WHERE id = :two",
        "UPDATE orders SET session_seq = 2 WHERE id = :one",
        "UPDATE order_state SET session_seq = 3 - session_seq WHERE order_id IN (:one, :two)",
        "UPDATE journal SET at = at + 60000000 WHERE order_id = :two",
        one=run.plain,
        two=run.taken,
    )


def _lost_turn(run: Run) -> None:
    run.sql("UPDATE orders SET session_seq = 5 WHERE id = :order", order=run.taken)
    run.sql("UPDATE order_state SET session_seq = 5 WHERE order_id = :order", order=run.taken)


def _healthy_waited(run: Run) -> None:
    run.say(baseline_wait_seconds=0.000001)


DAMAGES: list[tuple[str, Damage]] = [
    ("I1", _second_end),
    ("I1", _unlisted_reason),
    ("I1", _no_end),
    ("I2", _accepted_and_gone),
    ("I2", _never_done),
    ("I2", _two_orders_for_a_key),
    ("I2", _placed_twice),
    ("I3", _once_twice),
    ("I3", _again_after_its_result),
    ("I4", _result_without_effect),
    ("I4", _effect_without_intent),
    ("I4", _effect_before_intent),
    ("I5", _gap),
    ("I5", _viewer_missed_one),
    ("I5", _viewer_got_one_twice),
    ("I5", _viewer_in_another_order),
    ("I6", _swapped),
    ("I6", _told_after_the_end),
    ("I7", _other_words),
    ("I7", _other_result),
    ("I7", _error_of_a_tool),
    ("I7", _lost_record),
    ("I7", _no_such_parent),
    ("I8", _stale_row),
    ("I8", _nobody_was_told_off),
    ("I9", _two_holders),
    ("I9", _two_turns_at_once),
    ("I9", _claimed_while_held),
    ("I10", _beyond_the_budget),
    ("I10", _usage_differs),
    ("I11", _call_after_cancel),
    ("I11", _cancel_not_obeyed),
    ("I11", _open_receipt),
    ("I11", _lost_receipt),
    ("I12", _orphan),
    ("I12", _stale_lock),
    ("I12", _mark_of_an_ended_order),
    ("I12", _swollen),
    ("I13", _secret),
    ("I13", _secret_in_the_database),
    ("I14", _slow_takeover),
    ("I14", _slow_hand_back),
    ("I14", _taken_for_nothing),
    ("I15", _later_turn_first),
    ("I15", _lost_turn),
    ("I16", _healthy_waited),
]


@pytest.mark.parametrize(("invariant", "damage"), DAMAGES, ids=lambda one: getattr(one, "__name__", one))
def test_what_is_broken_is_named(run: Run, invariant: str, damage: Damage) -> None:
    damage(run)
    assert invariant in found_in(run)


def test_every_invariant_is_broken_at_least_once() -> None:
    assert {name for name, _ in DAMAGES} == set(INVARIANTS)


def test_a_result_that_is_marked_as_unknown_is_no_difference_from_the_script(run: Run) -> None:
    order, _, call, *_ = _effect_of(run, "ledger_once")
    run.sql(
        "UPDATE journal SET data_json = json_set(data_json, '$.outcome', 'outcome_unknown', '$.content', 'lost')"
        " WHERE order_id = :order AND call_id = :call AND kind = 'tool.finished'",
        order=order,
        call=call,
    )
    assert found_in(run) == set()


def test_a_person_decides_while_no_drone_has_the_order_and_not_in_the_name_of_another() -> None:
    def order(*facts: tuple[int, str]) -> Order:
        entries = [
            Entry("o", seq, epoch, float(seq), kind, None, None, None, None, {"epoch": epoch})
            for seq, (epoch, kind) in enumerate(facts, 1)
        ]
        return Order("o", "s", 1, {}, 0.0, "succeeded", None, 9, len(entries), None, 0, 0, entries)

    parked = order((1, "order.claimed"), (2, "order.waiting"), (3, "approval.decided"), (4, "order.resumed"))
    running = order((1, "order.claimed"), (3, "approval.decided"))
    assert [list(fenced(Evidence(orders={"o": one}))) == [] for one in (parked, running)] == [True, False]


def test_the_clock_of_a_drone_that_took_over_does_not_matter(run: Run) -> None:
    """It ran the call again that had brought no result, an hour behind the drone that had announced it."""
    parts = _effect_of(run, "ledger_idem")
    run.effect(*parts[:4], int(parts[4]) + 1, 1, float(parts[6]) - 3_600.0)
    assert found_in(run) == set()
    run.effect(*parts[:4], int(parts[4]), 1, float(parts[6]) - 3_600.0)
    assert "I4" in found_in(run)


def test_a_tool_that_a_fault_made_fail_may_say_so(run: Run) -> None:
    _error_of_a_tool(run)
    run.add("faults.jsonl", t=1.0, fault="raise", target="drone-1", detail={"place": "F11"})
    assert found_in(run) == set()


def test_a_call_that_may_be_repeated_was_not_when_its_first_try_brought_no_result(run: Run) -> None:
    """An idempotent call that ran under a lost epoch and again under the next one, before its result."""
    parts = _effect_of(run, "ledger_idem")
    run.effect(*parts[:4], int(parts[4]) - 1, 1, float(parts[6]) - 0.0001)
    assert found_in(run) == set()
    assert figures(evidence_of(run.directory))["tool calls repeated"] == 1


def test_the_figures_of_a_run_tell_its_takeovers_and_hand_backs(clean: Run) -> None:
    measured = figures(evidence_of(clean.directory))
    assert (measured["takeovers"], measured["hand-backs"], measured["false takeovers"]) == (1, 1, 0)
    assert measured["orders"] == 3 and measured["orders succeeded"] == 2 and measured["orders cancelled"] == 1
    assert (measured["events lost"], measured["events twice"]) == (0, 0)
    assert measured["worst overshoot in tokens"] is not None and measured["worst overshoot in tokens"] < 0


def test_the_program_prints_each_violation_with_its_order_and_numbers(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    _once_twice(run)
    assert main([str(run.directory)]) == 1
    said = capsys.readouterr().out
    order = _effect_of(run, "ledger_once")[0]
    assert f"I3 {order}: " in said and "2 times" in said and "takeover p50 seconds" in said


def test_the_program_answers_in_json_as_well(clean: Run) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.checker", str(clean.directory), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["violations"] == [] and said["figures"]["orders"] == 3


def test_a_line_that_was_cut_off_in_the_middle_is_left_out_and_a_broken_one_is_told(run: Run) -> None:
    path = run.directory / "llm.jsonl"
    whole = len(evidence_of(run.directory).model_calls)
    path.write_text(path.read_text() + '{"t": 1.0, "ord')
    assert len(evidence_of(run.directory).model_calls) == whole
    path.write_text("not json\n")
    with pytest.raises(BrokenEvidence, match=r"llm\.jsonl, line 1"):
        evidence_of(run.directory)


def test_a_directory_that_is_not_there_is_told_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "nothing")]) == 2
    assert "is not a directory" in capsys.readouterr().err


def test_a_database_that_is_not_there_is_told_in_a_sentence(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(run.directory), "--database", f"sqlite:///{run.directory}/nowhere/mcc.db"]) == 2
    assert "the database of the run cannot be read" in capsys.readouterr().err


def test_evidence_of_nothing_breaks_nothing() -> None:
    assert violations(Evidence()) == []
