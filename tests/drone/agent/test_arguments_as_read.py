"""The arguments of a call that nearly fit are read first: what is judged, journaled and run is what was read."""

import json
from typing import Any

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import WantedCall
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree as State
from drone.agent.turns.call_ends import READ_DIFFERENTLY
from drone.agent.turns.turn import Turn
from drone.models.scripted import Line, ScriptedModel, by_prompt, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.fence import unfenced
from mcc.contracts.journal import GateChecked, ToolStarted
from mcc.contracts.limits import Limits
from mcc.contracts.record import RecordStatus
from tests.drone.agent.crowds import Tree
from tests.drone.agent.gate_bench import GOOD, ORDER, Bench, read_file
from tests.drone.agent.lone import Lone
from tests.drone.agent.test_permission_of_library_agents import agent, sender

SENT: dict[str, object] = {"arguments": {"filePath": "a.txt", "lines": "[1, 2]"}}


@tool(group="workspace_read")
def look(path: str, lines: list[int] | None = None) -> str:
    """Look."""
    return f"{path} {lines}"


@tool(group="workspace_read")
def now() -> str:
    """Say the time."""
    return "noon"


def asking(name: str, arguments: object) -> Line:
    return Line(calls=(WantedCall(name, arguments),))  # type: ignore[arg-type]


async def test_the_call_runs_as_read_and_the_record_says_what_was_read_differently() -> None:
    one = Lone([asking("look", SENT), "Done."], FunctionTools([look]))
    await one.run()
    assert unfenced(one.results()[0].content) == "a.txt [1, 2]"
    [started] = one.facts(ToolStarted)
    assert started.arguments == {"path": "a.txt", "lines": [1, 2]}
    [told] = one.steps(READ_DIFFERENTLY)
    assert all(word in told for word in ("look", "`arguments`", "`filePath` was read as `path`", "`lines`"))
    record = one.turn.tree.begun(one.record().id)
    assert record is not None and record.receipts[0].paths == ("a.txt",)


async def test_an_error_says_how_the_arguments_were_read_and_a_success_does_not() -> None:
    one = Lone([asking("look", {"input": {"way": 1}}), asking("look", {"file": "b"}), "Done."], FunctionTools([look]))
    await one.run()
    wrong, right = one.results()
    assert wrong.is_error and "the wrapper `input` was taken off" in wrong.content
    assert unfenced(right.content) == "b None"


@pytest.mark.parametrize("nothing", ["null", " null ", "[]", "None"])
async def test_null_is_no_arguments_where_none_is_required(nothing: str) -> None:
    one = Lone([asking("now", nothing), asking("look", nothing), "Done."], FunctionTools([look, now]))
    await one.run()
    taken, refused = one.results()
    assert unfenced(taken.content) == "noon" and not taken.is_error
    assert refused.is_error and "must be one JSON object" in refused.content


@pytest.mark.parametrize("arguments", [{"to": "ann"}, {"arguments": {"to": "ann"}}, {"input": '{"to": "ann"}'}])
@pytest.mark.parametrize("word", ["deny", "allow"])
async def test_a_rule_judges_what_runs(arguments: dict[str, Any], word: str) -> None:
    sent: list[str] = []
    rules = [{"when": 'args.to == "ann"', "then": word}, {"then": "deny" if word == "allow" else "allow"}]
    await agent("clerk", [asking("send", arguments), "done"], [sender(sent)], send=rules).run("go")
    assert sent == (["ann"] if word == "allow" else [])


async def test_a_person_is_shown_what_runs() -> None:
    shown: list[Any] = []
    sent: list[str] = []

    def approver(item: Any) -> bool:
        shown.append(dict(item.arguments))
        return True

    wrapped = asking("send", {"arguments": {"To": "ann"}})
    await agent("clerk", [wrapped, "done"], [sender(sent)]).run("go", approver=approver)
    assert shown == [{"to": "ann"}] and sent == ["ann"]


async def test_delegation_takes_the_camel_case_of_other_systems_hidden_arguments_included() -> None:
    agents = [{"role": "explore", "task": "x", "successCriteria": ["Done."], "allowedToolGroups": ["workspace_read"]}]
    first = Line(calls=(call("subagents_run", agents=json.dumps(agents), maxConcurrency="1", itemSeconds=9),))
    tree = Tree(by_prompt(lambda prompt, replies: first if prompt == "master" and not replies else "found"))
    await tree.run()
    assert [one["status"] for one in tree.told()] == ["completed"]


SCHEMA = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"type": "string"}}, "count": {"type": "integer"}},
    "required": ["items"],
    "additionalProperties": False,
}
RESULT = {"items": ["a"], "count": 3}


@pytest.mark.parametrize(
    "sent",
    [
        {"items": '["a"]', "count": "3"},
        {"result": RESULT},
        {"result": json.dumps(RESULT)},
        {"arguments": {"items": ["a"], "Count": 3}},
        {"items": ["a"], "count": 3, "check_only": None},
    ],
)
async def test_a_result_is_read_like_the_arguments_of_any_tool(sent: dict[str, Any]) -> None:
    bench = Bench([asking("submit_result", sent)], ReportGate(SCHEMA))
    report = await bench.run()
    assert (report.status, report.result) == (RecordStatus.COMPLETED, RESULT)


async def test_a_refusal_names_the_envelope_that_was_taken_off() -> None:
    bench = Bench(
        [asking("submit_result", {"result": {"count": 1}}), asking("submit_result", RESULT)], ReportGate(SCHEMA)
    )
    assert (await bench.run()).result == RESULT
    assert "items: is required" in bench.told()[0] and "the wrapper `result` was taken off" in bench.told()[0]


@pytest.mark.parametrize(
    ("schema", "text", "result"),
    [
        (SCHEMA, json.dumps(RESULT), RESULT),
        (SCHEMA, f"```json\n{json.dumps(RESULT)}\n```", RESULT),
        (SCHEMA, json.dumps({"result": RESULT}), RESULT),
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"type": "array"}, '{"result": [1, 2]}', [1, 2]),
        ({"type": "integer"}, "42", 42),
    ],
)
async def test_a_reply_that_is_the_result_as_text_is_taken_as_the_result(
    schema: dict[str, Any], text: str, result: object
) -> None:
    bench = Bench([text], ReportGate(schema))
    report = await bench.run()
    assert (report.status, report.result, len(bench.model.asks)) == (RecordStatus.COMPLETED, result, 1)
    [checked] = bench.checks()
    assert (checked.tool, checked.ok, checked.attempt) == ("reply", True, 1) and "was no call" in checked.warnings[0]
    assert bench.journal.fold.record() is not None


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (SCHEMA, "The result is ready."),
        (SCHEMA, f"Here it is: {json.dumps(RESULT)}"),
        (SCHEMA, '{"count": 3}'),
        ({"type": ["string", "integer"]}, "42"),
        ({"type": "string"}, '{"a": 1}'),
    ],
)
async def test_any_other_reply_without_a_call_is_sent_back(schema: dict[str, Any], text: str) -> None:
    bench = Bench([text, asking("submit_result", {"items": ["a"], "result": "42"})], ReportGate(schema))
    assert (await bench.run()).completed
    assert [(one.tool, one.ok) for one in bench.checks()] == [("reply", False), ("submit_result", True)]


async def test_the_last_reply_that_a_limit_leaves_may_be_the_result_as_text() -> None:
    bench = Bench([Line(calls=(call("read_file", path="a"),)), json.dumps(GOOD)], limits=Limits(rounds=2))
    report = await bench.run()
    assert (report.status, report.result) == (RecordStatus.COMPLETED, GOOD)


async def test_a_result_taken_from_text_is_judged_again_by_the_drone_that_takes_over() -> None:
    first = Bench([json.dumps(GOOD)])
    await first.run()
    left = [entry for entry in first.journal.entries if entry.kind != "agent.finished"]
    assert isinstance(left[-1].data, GateChecked)
    journal, model = MemoryJournal(ORDER, entries=left), ScriptedModel([])
    journal.texts.update(first.journal.texts)
    turn = Turn.begun(journal, Budget(Limits()), tree=State.of(left))
    heir = AgentRuntime(first.agent.definition, model=model, tools=FunctionTools([read_file]), gate=ReportGate())
    report = await heir.run(first.task, turn)
    assert (report.status, report.result, model.asks) == (RecordStatus.COMPLETED, GOOD, [])
