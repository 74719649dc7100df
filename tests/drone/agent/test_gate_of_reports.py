"""The gate of a report in the loop: a result is accepted, sent back with reasons, or finally refused."""

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.gates.gate import ATTEMPTS, Evidence
from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.model import WantedCall
from drone.agent.ports.report import Cause
from drone.agent.turns.turn import Steering
from drone.models.scripted import Line, Said, ScriptedModel, call
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.fence import EXPLAINED
from mcc.contracts.journal import ToolFinished
from mcc.contracts.limits import Limits
from mcc.contracts.order import Rule
from mcc.contracts.record import RecordStatus
from mcc.transcript.messages import ToolResults, UserMessage
from tests.drone.agent.gate_bench import GOOD, Bench, check, read, submit


async def test_an_accepted_result_ends_the_run_and_is_its_result() -> None:
    bench = Bench([submit()])
    report = await bench.run()
    assert (report.status, report.cause, report.result, report.text) == (
        RecordStatus.COMPLETED,
        None,
        GOOD,
        "All is well.",
    )
    assert len(bench.model.asks) == 1
    assert bench.kinds()[-4:] == ["tool.started", "gate.checked", "tool.finished", "agent.finished"]


async def test_the_acceptance_and_the_end_of_the_agent_are_one_commit() -> None:
    bench = Bench([submit()])
    await bench.run()
    assert bench.journal.groups[-1] == ["gate.checked", "tool.finished", "agent.finished"]


async def test_a_refused_result_is_sent_back_with_reasons_and_the_conversation_goes_on() -> None:
    bench = Bench([submit({"status": "completed"}), submit()])
    report = await bench.run()
    assert report.completed and report.result == GOOD
    first, second = bench.checks()
    assert (first.ok, first.attempt, second.ok, second.attempt) == (False, 1, True, 2)
    results = bench.model.asks[1].messages[2]
    assert isinstance(results, ToolResults) and results.results[0].is_error
    assert "summary" in results.results[0].content and "(4 attempts left.)" in results.results[0].content


async def test_the_fifth_refusal_fails_the_run_and_names_the_reason() -> None:
    bench = Bench([submit({"status": "completed"})] * 9)
    report = await bench.run()
    assert (report.status, report.cause) == (RecordStatus.FAILED, Cause.GATE)
    assert report.error is not None and "refused 5 times" in report.error and "summary" in report.error
    assert [check.attempt for check in bench.checks()] == [1, 2, 3, 4, 5]
    assert len(bench.model.asks) == ATTEMPTS


async def test_an_agent_without_a_tool_call_left_is_told_by_which_tools_it_can_still_finish() -> None:
    bench = Bench([read("a.py"), read("b.py"), submit()], limits=Limits(tool_calls=1))
    assert (await bench.run()).completed
    results = bench.model.asks[2].messages[-1]
    assert bench.model.asks[2].tools == bench.model.asks[0].tools and bench.model.asks[2].tool_choice == "auto"
    assert isinstance(results, ToolResults)
    assert "hand in your result with submit_result" in results.as_shown[-1].content
    assert results.results[0].content == (
        "The limit tool_calls (1) is reached: no tool but submit_result runs any more. Finish with what you have."
    )


async def test_a_plain_reply_ends_nothing_and_is_sent_back() -> None:
    bench = Bench(["All is well, I think.", submit()])
    report = await bench.run()
    assert report.completed and report.result == GOOD
    last = bench.model.asks[1].messages[2]
    assert isinstance(last, UserMessage) and "hand the result in with the tool submit_result" in last.text
    (refused, _) = bench.checks()
    assert (refused.tool, refused.ok, refused.errors) == ("reply", False, (last.text,))


async def test_an_agent_that_only_ever_replies_fails_with_what_it_said_last() -> None:
    report = await Bench([f"Answer {number}." for number in range(9)]).run()
    assert (report.cause, report.text) == (Cause.GATE, "Answer 4.")
    assert report.error == (
        "no result was accepted in 5 attempts; at the last, the agent replied without handing a result in with "
        "submit_result"
    )


async def test_a_result_may_be_checked_at_any_time_without_using_an_attempt() -> None:
    bench = Bench([check({"status": "completed"})] * 2 + [check(), submit()])
    report = await bench.run()
    assert report.completed
    assert [check.tool for check in bench.checks()] == ["submit_result"] * 4
    assert [check.check_only for check in bench.checks()] == [True] * 3 + [False]
    assert [check.attempt for check in bench.checks()] == [0] * 3 + [1]
    assert "would be accepted" in bench.told()[2]


@pytest.mark.parametrize("sent", ["{not json", "", "[1, 2]", "x" * 10_000])
async def test_arguments_that_are_no_object_are_refused_in_few_words(sent: str) -> None:
    bench = Bench([Line(calls=(WantedCall("submit_result", sent),)), submit()])
    assert (await bench.run()).completed
    assert "must be one JSON object" in bench.told()[0] and len(bench.told()[0]) < 400


async def test_blocked_without_a_try_is_sent_back_each_time_as_long_as_there_are_attempts() -> None:
    bench = Bench([submit(status="blocked", summary=f"I cannot see {number}.") for number in range(9)])
    report = await bench.run()
    assert [check.ok for check in bench.checks()] == [False] * ATTEMPTS
    assert all("Try your tools first" in told for told in bench.told())
    assert (report.cause, report.text) == (Cause.GATE, "I cannot see 4.")


async def test_blocked_is_accepted_once_something_was_tried_however_often_it_was_sent_back() -> None:
    blocked = submit(status="blocked", summary="I cannot see anything.")
    bench = Bench([blocked, blocked, read("nowhere"), blocked])
    report = await bench.run()
    assert (report.status, report.cause) == (RecordStatus.BLOCKED, None)
    assert [check.ok for check in bench.checks()] == [False, False, True]


async def test_blocked_after_a_try_that_failed_is_accepted() -> None:
    bench = Bench([read("nowhere"), submit(status="blocked", summary="There is no such file.")])
    report = await bench.run()
    assert (report.status, report.text) == (RecordStatus.BLOCKED, "There is no such file.")


async def test_a_try_in_the_same_reply_counts() -> None:
    both = Line(calls=(*submit(status="blocked", summary="Nothing there.").calls, call("read_file", path="nowhere")))
    assert (await Bench([both]).run()).status is RecordStatus.BLOCKED


async def test_an_agent_that_has_nothing_to_try_may_be_blocked_at_once() -> None:
    bench = Bench([submit(status="blocked", summary="I have no tools.")])
    bench.agent = AgentRuntime(AgentDefinition(name="alone"), model=bench.model, gate=ReportGate())
    assert (await bench.run()).status is RecordStatus.BLOCKED


async def test_a_failed_report_is_accepted_as_it_is() -> None:
    report = await Bench([submit(status="failed", summary="The tests do not build.")]).run()
    assert (report.status, report.cause, report.error) == (RecordStatus.FAILED, None, None)


async def test_other_calls_of_the_reply_that_hands_in_run_first_and_are_seen_by_the_rules() -> None:
    rule = Rule(cel='receipts.exists(r, r.tool == "read_file" && r.path == "a")', message="Read a.")
    both = Line(calls=(*submit().calls, call("read_file", path="a"), call("read_file", path="b")))
    bench = Bench([both], ReportGate(rules=[rule]))
    assert (await bench.run()).completed
    assert [entry.data.name for entry in bench.journal.entries if isinstance(entry.data, ToolFinished)] == [
        "read_file",
        "read_file",
        "submit_result",
    ]
    assert bench.journal.groups[-1] == ["gate.checked", "tool.finished", "agent.finished"]


async def test_what_other_calls_brought_is_committed_before_the_result_is_judged() -> None:
    committed: list[int] = []

    def look(result: object, evidence: Evidence) -> None:
        committed.append(bench.kinds().count("tool.finished"))

    both = Line(calls=(call("read_file", path="a"), *submit().calls))
    bench = Bench([both], ReportGate(functions={"look": look}))
    assert (await bench.run()).completed
    assert committed == [1]


async def test_once_accepted_a_second_result_of_the_same_reply_changes_nothing() -> None:
    both = Line(calls=(*submit().calls, *submit(summary="Something else.").calls, *check().calls))
    bench = Bench([both])
    report = await bench.run()
    assert report.result == GOOD
    assert len(bench.checks()) == 1
    assert bench.told()[1:] == ["The result is accepted already; nothing more is needed."] * 2


async def test_attempts_beyond_the_last_in_the_same_reply_are_not_looked_at() -> None:
    bad = submit({"status": "completed"}).calls[0]
    bench = Bench([Line(calls=(*[bad] * ATTEMPTS, *submit().calls))])
    report = await bench.run()
    assert report.cause is Cause.GATE
    assert len(bench.checks()) == ATTEMPTS


async def test_the_reason_of_the_failure_is_that_of_the_result_and_not_of_a_check_after_it() -> None:
    both = Line(calls=(*submit({"status": "completed"}).calls, *check({"summary": "x"}).calls))
    report = await Bench([both] * 5).run()
    assert report.error is not None and "summary" in report.error and "status" not in report.error


async def test_mail_that_came_during_the_last_reply_is_read_before_the_result_counts() -> None:
    async def author(ask: object) -> Said:
        if len(bench.model.asks) == 1:
            await Steering(bench.turn).steer("Look at the tests as well.")
        return submit()

    bench = Bench([])
    bench.model = ScriptedModel(author)
    bench.agent.model = bench.model
    report = await bench.run()
    assert report.completed and len(bench.model.asks) == 2
    assert "somebody wrote to you" in bench.told()[0]
    assert len(bench.checks()) == 1
    assert any(isinstance(m, UserMessage) and "Look at the tests" in m.text for m in bench.model.asks[1].messages)


async def test_the_finish_tools_cannot_be_taken_away() -> None:
    bench = Bench([read("a.py"), submit()])
    bench.turn.tree.restraints.tools_removed = frozenset({"finish", "submit_result", "read_file"})
    assert (await bench.run()).completed
    assert "took the tool read_file away" in bench.told()[0]


async def test_an_agent_whose_reading_tools_were_taken_away_may_be_blocked_at_once() -> None:
    bench = Bench([submit(status="blocked", summary="I may not read.")])
    bench.turn.tree.restraints.tools_removed = frozenset({"workspace_read"})
    assert (await bench.run()).status is RecordStatus.BLOCKED


async def test_a_schema_of_ones_own_is_shown_and_held_against_the_result() -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
        "required": ["answer", "count"],
    }
    bench = Bench([submit({"answer": "none", "count": 0}), submit({"answer": "two", "count": 2})], ReportGate(schema))
    report = await bench.run()
    assert (report.result, report.text) == ({"answer": "two", "count": 2}, "two")
    assert "count" in bench.told()[0]
    submitted = next(spec for spec in bench.model.asks[0].tools if spec.name == "submit_result")
    assert submitted.parameters["required"] == ["answer", "count"]


async def test_a_result_that_is_no_object_is_handed_in_under_a_name() -> None:
    bench = Bench([submit({"result": ["a", "b"]})], ReportGate({"type": "array", "items": {"type": "string"}}))
    report = await bench.run()
    assert (report.result, report.text) == (["a", "b"], '["a","b"]')


async def test_the_system_prompt_says_how_to_finish_and_what_the_rules_demand_in_their_order() -> None:
    rules = [Rule(cel="size(result.summary) < 500", message="Be brief."), Rule(cel='result.status != "failed"')]
    bench = Bench([submit()], ReportGate(rules=rules))
    await bench.run()
    system = bench.model.asks[0].system
    assert system.startswith(f"You look.\n\n{EXPLAINED}\n\nHow to finish: call `submit_result`")
    assert system.endswith('Your result must hold to these rules:\n- Be brief.\n- `result.status != "failed"`')


async def test_many_errors_are_told_in_part() -> None:
    gate = ReportGate(functions={f"rule_{number}": lambda result, evidence: False for number in range(30)})
    bench = Bench([submit()] * 5, gate)
    assert (await bench.run()).cause is Cause.GATE
    assert len(bench.checks()[0].errors) == 21 and bench.checks()[0].errors[-1] == "And 10 more."


async def test_a_property_too_many_is_left_out_with_a_warning_and_the_result_is_taken() -> None:
    finding = {"title": "A bug", "paths": ["src/a.py"], "mood": "grim"}
    bench = Bench([submit(GOOD, findings=[finding])])
    report = await bench.run()
    assert report.completed and report.result == {**GOOD, "findings": [{"title": "A bug", "path": "src/a.py"}]}
    warnings = (
        "findings[0].paths is not a property here and was taken for path",
        "findings[0].mood is not a property here and was left out",
    )
    assert [check.warnings for check in bench.checks()] == [warnings]
    record = bench.journal.fold.record()
    assert record is not None
    assert [step.warnings for step in record.steps if step.kind == "gate"] == [warnings]


async def test_a_property_called_check_only_of_ones_own_schema_is_a_property_like_others() -> None:
    schema = {"type": "object", "properties": {"check_only": {"type": "boolean"}}, "required": ["check_only"]}
    bench = Bench([submit({"check_only": True})], ReportGate(schema))
    assert (await bench.run()).result == {"check_only": True}
    assert [check.check_only for check in bench.checks()] == [False]


async def test_the_last_reply_of_all_hands_in_also_what_it_only_wanted_to_have_checked() -> None:
    bench = Bench([read("a.py"), check()], limits=Limits(rounds=1))
    report = await bench.run()
    assert report.result == GOOD
