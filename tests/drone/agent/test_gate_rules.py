"""Rules for a result: on what the tools really did, and functions in Python."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from drone.agent.gates.gate import Evidence
from drone.agent.gates.report_gate import LONGEST, ReportGate
from drone.agent.ports.report import Cause
from mcc.contracts.order import Rule
from mcc.rules.errors import ExpressionError
from mcc.rules.rule import check_declared
from tests.drone.agent.gate_bench import GOOD, Bench, check, read, submit

READ_ALL = Rule(
    cel=(
        "result.findings.all(f, f.path == null || "
        'receipts.exists(r, r.tool == "read_file" && r.ok && r.path == f.path))'
    ),
    message="Every path in findings must have been read.",
)


async def test_every_path_in_findings_must_have_been_read() -> None:
    finding = {"title": "A bug", "path": "src/a.py", "evidence": "line 3"}
    result = {**GOOD, "findings": [finding]}
    lines = [submit(result), read("./src/a.py"), submit(result)]
    bench = Bench(lines, ReportGate(rules=[READ_ALL]))
    assert (await bench.run()).completed
    assert [check.ok for check in bench.checks()] == [False, True]
    assert "Every path in findings must have been read." in bench.told()[0]


async def test_an_accepted_rule_is_held_against_results_also_if_it_would_be_refused_today() -> None:
    rule = Rule(cel="!has(result.finding) || result.finding > 1 && receipts[0].tool == 'read_files'")
    wrong = Rule(cel="result.finding == null")
    with pytest.raises(ExpressionError):
        check_declared(wrong, "report", ())
    bench = Bench([submit(), submit()], ReportGate(rules=[rule, wrong]))
    await bench.run()
    assert "there is no key 'finding'; did you mean 'findings'?" in bench.told()[0]


async def test_a_path_whose_reading_failed_was_not_read() -> None:
    result = {**GOOD, "findings": [{"title": "A bug", "path": "nowhere.py"}]}
    bench = Bench([read("nowhere.py"), submit(result), submit()], ReportGate(rules=[READ_ALL]))
    assert (await bench.run()).completed
    assert [check.ok for check in bench.checks()] == [False, True]


async def test_rules_see_the_task_the_usage_and_what_is_unset_as_null() -> None:
    rules = [
        Rule(cel='task == "Count."'),
        Rule(cel="usage.model_calls == 2 && usage.tool_calls == 1"),
        Rule(cel="result.findings == null"),
        Rule(cel="size(children) == 0"),
    ]
    bench = Bench([read("a"), submit()], ReportGate(rules=rules), task="Count.")
    report = await bench.run()
    assert report.completed, bench.told()


async def test_rules_see_long_arguments_only_in_part() -> None:
    rule = Rule(cel=f"receipts.all(r, size(r.arguments.path) <= {LONGEST})")
    bench = Bench([read("a" * 100_000), submit()], ReportGate(rules=[rule]))
    assert (await bench.run()).completed, bench.told()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (False, "The rule honest is not met."),
        ("Say the number.", "Say the number."),
        ("", "The rule honest is not met."),
        (1, "The rule honest is not met."),
        ([], "The rule honest is not met."),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_refuses_with_its_words_and_only_true_and_none_pass(
    answer: object, words: str, is_async: bool
) -> None:
    answers: list[object] = [answer, None, True]
    on_loop = threading.get_ident()
    seen: list[tuple[object, bool]] = []

    def honest(result: object, evidence: Evidence) -> object:
        seen.append((result, threading.get_ident() == on_loop))
        return answers.pop(0)

    async def honest_later(result: object, evidence: Evidence) -> object:
        return honest(result, evidence)

    function: Callable[..., object] = honest_later if is_async else honest
    bench = Bench([submit(), check(), submit()], ReportGate(functions={"honest": function}))
    assert (await bench.run()).completed
    assert words in bench.told()[0]
    assert [check.ok for check in bench.checks()] == [False, True, True]
    assert all(loop is is_async for _, loop in seen)


async def test_a_function_that_breaks_refuses_and_the_run_goes_on() -> None:
    calls = iter([1, 0])

    def check(result: object, evidence: Evidence) -> bool:
        return bool(1 / (1 - next(calls)))

    bench = Bench([submit(), submit()], ReportGate(functions={"check": check}))
    assert (await bench.run()).completed
    assert "The rule check could not be checked: ZeroDivisionError" in bench.told()[0]


BREAKS = Rule(cel="result.findings[0].line > 3", message="The first finding is far down.")


async def test_a_rule_that_breaks_twice_in_the_same_way_ends_the_run_and_the_result_is_kept() -> None:
    later = {**GOOD, "summary": "Said better."}
    bench = Bench([submit(), check(), submit(later), submit()], ReportGate(rules=[BREAKS]))
    report = await bench.run()
    assert report.cause is Cause.GATE
    assert report.error is not None and report.error.startswith("a rule broke twice in the same way: The first finding")
    assert (report.result, report.text) == (later, "Said better.")
    assert "(4 attempts left.)" in bench.told()[0]
    assert bench.told()[2].endswith("your work ends here.)")
    assert len(bench.told()) == 3


async def test_a_rule_that_breaks_in_another_way_leaves_the_other_attempts() -> None:
    without_line = {**GOOD, "findings": [{"title": "a"}]}
    far_down = {**GOOD, "findings": [{"title": "a", "line": 4}]}
    bench = Bench([submit(), submit(without_line), submit(far_down)], ReportGate(rules=[BREAKS]))
    assert (await bench.run()).completed


async def test_a_rule_that_is_false_may_be_so_again_and_again() -> None:
    bench = Bench([submit(), submit(), submit(summary="ok")], ReportGate(rules=[Rule(cel='result.summary == "ok"')]))
    assert (await bench.run()).completed


async def test_of_five_refused_results_the_one_with_the_fewest_errors_is_kept_and_the_latest_of_those() -> None:
    rules = [
        Rule(cel="size(result.findings) > 0"),
        Rule(cel="size(result.summary) < 3"),
        Rule(cel="result.steps != null"),
    ]
    short = [submit(summary=summary) for summary in ("a", "b")]
    bench = Bench([submit(), *short, submit(), submit({"status": "odd"}, steps=1)], ReportGate(rules=rules))
    report = await bench.run()
    assert (report.cause, report.text) == (Cause.GATE, "b")
    assert report.result == {**GOOD, "summary": "b"}


async def test_an_agent_that_handed_nothing_in_has_no_result_to_keep() -> None:
    bench = Bench(["I am done."] * 5, ReportGate())
    report = await bench.run()
    assert (report.cause, report.result, report.text) == (Cause.GATE, None, "I am done.")


async def test_a_cancelled_run_ends_in_the_midst_of_a_check() -> None:
    checking = asyncio.Event()

    async def check(result: object, evidence: Evidence) -> bool:
        checking.set()
        await asyncio.Event().wait()
        return True

    bench = Bench([submit()], ReportGate(functions={"check": check}))
    running = asyncio.create_task(bench.run())
    await checking.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
