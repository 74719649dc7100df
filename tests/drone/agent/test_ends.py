"""Replies without tool calls: which count as answers, are continued, are sent back, or fail the run."""

from collections.abc import Sequence

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import WantedCall
from drone.agent.ports.report import Cause, Report, outcome_of
from drone.agent.state.progress import ASKED_AGAIN, CONTINUED
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.blocks import RefusalBlock
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentStep, GateChecked
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FailureReason
from mcc.transcript.transcript import ANNOUNCED as ANNOUNCED_STEP
from tests.drone.agent.lone import ORDER, Lone


@tool(idempotent=True)
async def read_file(path: str) -> str:
    """Read a file."""
    return f"{path} is green"


READ = Line(calls=(call("read_file", path="a"),))
TOOLS = FunctionTools([read_file])


def lone(*lines: Said, gate: ReportGate | None = None) -> Lone:
    return Lone(lines, TOOLS, gate=gate)


async def test_a_reply_cut_at_the_output_cap_is_gone_on_with_and_its_parts_are_one_answer() -> None:
    one = lone(Line("One, two, ", finish_reason="length"), Line("three, ", finish_reason="length"), "four.")
    report = await one.run()
    assert (report.status, report.text) == (RecordStatus.COMPLETED, "One, two, three, four.")
    assert len(one.heard()) == 2 and all("cut off" in said for said in one.heard())
    assert len(one.steps("cut_short")) == 2


async def test_a_reply_that_never_ends_is_given_up_with_what_it_said() -> None:
    one = lone(*[Line("more ", finish_reason="length")] * (CONTINUED + 5))
    report = await one.run()
    assert (report.status, report.cause) == (RecordStatus.FAILED, Cause.MODEL)
    assert report.text == "more " * (CONTINUED + 1) and "did not come to an end" in (report.error or "")


async def test_a_long_reply_is_no_attempt_at_a_gate() -> None:
    good = Line(calls=(call("submit_result", status="completed", summary="All is well."),))
    one = lone(READ, Line("I found that", finish_reason="length"), good, gate=ReportGate())
    assert (await one.run()).text == "All is well."
    assert [check.attempt for check in one.facts(GateChecked)] == [1]
    assert "submit_result" in one.heard()[0]


@pytest.mark.parametrize("gate", [None, ReportGate()], ids=["free", "gated"])
async def test_a_refusal_fails_the_run_with_its_words(gate: ReportGate | None) -> None:
    words = (RefusalBlock(text="I can't help with that."),)
    one = lone(Line(blocks=words, finish_reason="refusal"), gate=gate)
    report = await one.run()
    assert (report.status, report.error) == (RecordStatus.FAILED, "the model refused: I can't help with that")
    outcome = outcome_of(report)
    assert (outcome.reason, outcome.detail) == (FailureReason.REFUSED, report.error)
    assert len(one.facts(ModelReplied)) == 1 and not one.facts(GateChecked)


async def test_a_filtered_reply_fails_the_run_and_its_beginning_is_kept() -> None:
    one = lone(Line("To begin with", finish_reason="content_filter"))
    report = await one.run()
    assert (report.cause, report.text) == (Cause.REFUSED, "To begin with")
    assert report.error == "the provider's content filter ended the reply after: To begin with"
    assert (await lone(Line(finish_reason="content_filter")).run()).cause is Cause.REFUSED


LEAKED = (
    '<tool_call>\n{"name": "read_file", "arguments": {"path": "a"}}\n</tool_call>',
    "I will read it.\n  <function=read_file>\n<parameter=path>a</parameter></function>",
    '{"name": "read_file", "arguments": {"path": "a"}}',
    '[TOOL_CALLS][{"name": "read_file"}]',
)


@pytest.mark.parametrize("text", LEAKED)
async def test_a_call_written_as_text_is_sent_back_once(text: str) -> None:
    one = lone(text, READ, "It is green.")
    assert (await one.run()).text == "It is green."
    (told,) = one.heard()
    assert "written out as text" in told and one.results()[0].content


@pytest.mark.parametrize("text", LEAKED)
async def test_a_call_written_as_text_again_fails_and_names_the_missing_parser(text: str) -> None:
    one = lone(text, READ, text)
    report = await one.run()
    assert (report.status, report.cause) == (RecordStatus.FAILED, Cause.MODEL)
    assert "lacks the tool parser" in (report.error or "") and report.text != text
    assert outcome_of(report).reason is FailureReason.MODEL_ERROR


THOUGHT = "<think>\nIt may be green.\n</think>\nIt is green."


async def test_thinking_in_the_text_is_sent_back_once() -> None:
    one = lone(THOUGHT, "It is green.")
    assert (await one.run()).text == "It is green." and "think" in one.heard()[0]


async def test_thinking_in_the_text_again_fails_and_names_the_missing_parser() -> None:
    report = await lone(THOUGHT, THOUGHT).run()
    assert (report.cause, outcome_of(report).reason) == (Cause.MODEL, FailureReason.MODEL_ERROR)
    assert "lacks the reasoning parser" in (report.error or "")


ANNOUNCED = (
    "Let me read the files now.",
    "I see. I'll look at the tests first:",
    "OK, now I\u2019ll check the configuration…",
    "Next, I'm going to search for its callers.",
)
NO_CALLS = Line("I have the list.", finish_reason="tool_calls")


@pytest.mark.parametrize("said", [*ANNOUNCED, NO_CALLS], ids=str)
async def test_what_only_announces_the_next_step_is_sent_back_once(said: Said) -> None:
    one = lone(said, READ, "It is green.")
    assert (await one.run()).text == "It is green."
    assert "calls no tool" in one.heard()[0]


@pytest.mark.parametrize("said", ANNOUNCED, ids=str)
async def test_what_only_its_words_announce_is_the_answer_the_second_time_and_a_step_says_so(said: str) -> None:
    one = lone(said, said)
    report = await one.run()
    assert (report.completed, report.text) == (True, said)
    (step,) = [fact for fact in one.facts(AgentStep) if fact.name == ANNOUNCED_STEP]
    assert "may only announce" in step.message
    assert outcome_of(report).detail == step.message


async def test_a_later_answer_has_no_remark() -> None:
    one = lone(ANNOUNCED[0], Line(ANNOUNCED[0], calls=(call("read_file", path="a"),)), "It is green.")
    assert outcome_of(await one.run()).detail is None


async def test_calls_that_a_server_reports_and_never_sends_fail_the_run() -> None:
    report = await lone(NO_CALLS, NO_CALLS).run()
    assert (report.cause, outcome_of(report).reason) == (Cause.MODEL, FailureReason.MODEL_ERROR)
    assert "tool parser" in (report.error or "")


ANSWERS = (
    "It is green. Let me know if you want to look further.",
    "Use `<tool_call>` as the mark.",
    "The template is:\n```\n<tool_call>\n<think>\n```\nIt is used in `a.py`.",
    '{"name": "green", "value": 1}',
    "The reader should run the tests. Let us say so in the README?",
    "It says <think> somewhere.",
    "It was found in two places. " * 20 + "Let me read them.",
)


@pytest.mark.parametrize("text", ANSWERS)
async def test_an_answer_is_not_sent_back(text: str) -> None:
    one = lone(text)
    assert (await one.run()).text == text and one.heard() == []


async def test_an_agent_without_tools_is_not_told_to_call_one() -> None:
    assert (await Lone(["Let me read the files now."]).run()).text == "Let me read the files now."


@pytest.mark.parametrize("empty", [Line(), Line(thinking="Hm.")], ids=["nothing", "thinking"])
async def test_a_model_that_gives_no_answer_is_asked_for_it_and_then_fails_saying_so(empty: Line) -> None:
    one = Lone([Line("I wrote.", calls=(call("read_file", path="a"),)), *[empty] * 9], TOOLS)
    report = await one.run()
    assert (report.status, report.cause, report.text) == (RecordStatus.FAILED, Cause.MODEL, "I wrote.")
    assert "the model gave no answer: 3 replies in a row" in (report.error or "")
    assert len(one.heard()) == ASKED_AGAIN
    assert outcome_of(report).reason is FailureReason.MODEL_ERROR


async def test_work_between_empty_replies_makes_them_first_ones() -> None:
    other = Line(calls=(call("read_file", path="b"),))
    one = lone(Line(), Line(), READ, Line(), Line(), other, Line(), "Done.")
    assert (await one.run()).text == "Done." and len(one.heard()) == 5


ENDS: dict[str, list[Said]] = {
    "cut": [Line("One, ", finish_reason="length"), Line("two, ", finish_reason="length"), "three."],
    "empty": [Line(thinking="Hm."), READ, Line(), "Done."],
    "sent back": [LEAKED[0], THOUGHT, "Let me read the files now.", "Done."],
    "refused": [READ, Line("No.", finish_reason="refusal")],
    "silent": [Line()] * 4,
}


@pytest.mark.parametrize("name", ENDS)
async def test_another_drone_goes_on_from_any_entry_to_the_same_end(name: str) -> None:
    whole, first, asked = await _run(ENDS[name], MemoryJournal(ORDER))
    for cut in range(1, len(first.entries)):
        left = first.entries[:cut]
        replies = sum(entry.kind == "model.replied" for entry in left)
        journal = MemoryJournal(ORDER, entries=left)
        journal.texts.update(first.texts)
        again, _, asks = await _run(ENDS[name][replies:], journal, Tree.of(left))
        assert (again.status, again.text, again.error) == (whole.status, whole.text, whole.error), cut
        assert asks == asked[len(asked) - len(asks) :], cut


async def _run(
    lines: Sequence[Said], journal: MemoryJournal, tree: Tree | None = None
) -> tuple[Report, MemoryJournal, list[list[str]]]:
    model = ScriptedModel(lines)
    agent = AgentRuntime(AgentDefinition(name="master", prompt="You work."), model=model, tools=TOOLS)
    report = await agent.run(Task("Go.", root_record_id(ORDER)), agent.turn(journal, tree))
    return report, journal, [[getattr(said, "text", "") for said in ask.messages] for ask in model.asks]


@pytest.mark.parametrize("sent", ["null", " null ", '""', "None"])
async def test_null_is_no_arguments_for_a_tool_that_requires_none_and_wrong_for_another(sent: str) -> None:
    @tool(idempotent=True)
    async def now() -> str:
        """The time."""
        return "it is noon"

    lines = (Line(calls=(WantedCall("now", sent), WantedCall("read_file", sent))), "Done.")
    one = Lone(lines, FunctionTools([now, read_file]))
    assert (await one.run()).text == "Done."
    told = [result.content for result in one.results()]
    assert "it is noon" in told[0] and "must be one JSON object" in told[1]
