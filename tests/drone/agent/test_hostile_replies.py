"""Hostile replies and tools: the turn still ends properly, and the journal says what happened."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.model import WantedCall
from drone.agent.ports.report import Cause, Report
from drone.agent.turns.toolset import Output, StartedCall
from drone.models.json_text import arguments as read_arguments
from drone.models.scripted import Line, Said, call
from drone.tools.frame.tool import FunctionTools, tool
from drone.tools.frame.wrappers import Timed
from mcc.contracts.fence import unfenced
from mcc.contracts.journal import AgentStep, GateChecked, ToolFinished, ToolStarted
from mcc.contracts.limits import Limits
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import to_json
from mcc.transcript.messages import ToolSpec
from tests.drone.agent.lone import Lone
from tests.hostile.growth import grows_faster_than_its_input

MEGABYTE = 1 << 20
WORDY = Limits(output_tokens=MEGABYTE)


class Busy:
    """One tool that counts its concurrent calls."""

    def __init__(self) -> None:
        self.running = self.most = self.calls = 0

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec("step", "One of many.", {"type": "object"}),)

    async def call(self, call: StartedCall) -> Output:
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        return Output(f"step {call.arguments.get('number')}")


class Fixed:
    """One tool, `read_file`, that always returns this."""

    def __init__(self, output: object) -> None:
        self._output = output

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec("read_file", "Reads.", {"type": "object"}),)

    async def call(self, call: StartedCall) -> Output:
        if isinstance(self._output, BaseException):
            raise self._output
        return self._output  # type: ignore[return-value]


@tool()
async def write_note(text: str) -> str:
    """Write a note.

    Args:
        text: what to write.
    """
    return f"{len(text)} characters"


@tool(seconds=0.01)
async def never() -> str:
    """Never ends."""
    await asyncio.Event().wait()
    return ""


def hundred() -> Line:
    return Line(calls=tuple(call("step", number=number) for number in range(100)))


async def test_of_a_hundred_calls_in_one_reply_sixteen_run_at_a_time_and_all_are_answered() -> None:
    busy = Busy()
    lone = Lone([hundred(), "Done."], busy)
    assert (await lone.run()).completed
    assert (busy.calls, busy.most) == (100, 16)
    assert [unfenced(one.content) for one in lone.results()] == [f"step {number}" for number in range(100)]
    assert [one.index for one in lone.facts(ToolStarted)] == list(range(100))


class Prompt:
    """One tool that waits for nothing."""

    def specs(self) -> Sequence[ToolSpec]:
        return (ToolSpec("step", "One of many.", {"type": "object"}),)

    async def call(self, call: StartedCall) -> Output:
        return Output("done")


def many(count: int) -> Line:
    return Line(calls=tuple(call("step", number=number) for number in range(count)))


async def test_a_reply_with_very_many_calls_leaves_turns_to_others() -> None:
    """No more of its calls than may run at once run between two turns of a neighbour."""
    lone, turns = Lone([many(800), "Done."], Prompt(), Limits(tool_calls=1_000)), 0
    running = asyncio.ensure_future(lone.run())
    while not running.done():
        turns += 1
        await asyncio.sleep(0)
    assert (await running).completed and turns >= 800 // 16


def test_the_time_of_a_reply_grows_with_its_calls_and_not_with_their_square() -> None:
    def answered(count: int) -> None:
        assert asyncio.run(Lone([many(count), "Done."], Prompt(), Limits(tool_calls=1_000)).run()).completed

    assert not grows_faster_than_its_input(answered, 150)


async def test_of_a_hundred_calls_those_beyond_the_limit_are_refused_in_words() -> None:
    busy = Busy()
    lone = Lone([hundred(), "Done."], busy, Limits(tool_calls=30))
    report = await lone.run()
    assert (report.text, report.usage.tool_calls) == ("Done.", 30)
    refused = [one for one in lone.facts(ToolFinished) if one.outcome == "denied"]
    assert (busy.calls, len(refused)) == (30, 70)
    assert all("tool_calls (30)" in one.content for one in refused)


async def test_a_model_that_goes_on_calling_when_no_call_is_left_is_halted() -> None:
    lone = Lone([hundred()] * 10, Busy(), Limits(tool_calls=30))
    report = await lone.run()
    assert (report.status, report.limit) == (RecordStatus.LIMIT_REACHED, "tool_calls")
    assert len(lone.facts(ModelReplied)) == 2 and lone.scripted.asks[-1].tool_choice == "none"


@pytest.mark.parametrize("provider_id", ["same", "", "x" * 10_000, "\x00\ud800"], ids=["same", "none", "long", "odd"])
async def test_calls_are_told_apart_whatever_ids_the_provider_gives(provider_id: str) -> None:
    wanted = tuple(WantedCall("step", {"number": number}, provider_id) for number in range(20))
    lone = Lone([Line(calls=wanted), Line(calls=wanted), "Done."], Busy())
    assert (await lone.run()).completed
    assert len({one.call_id for one in lone.facts(ToolStarted)}) == 40
    assert {one.provider_id for one in lone.facts(ToolStarted)} == {provider_id}
    assert [unfenced(one.content) for one in lone.results()[:20]] == [f"step {number}" for number in range(20)]


@pytest.mark.parametrize(
    "sent",
    ["not json", '{"text": ', "[1]", '"text"', "null", "42", '{"a":' * 5_000 + "1" + "}" * 5_000, "[" * MEGABYTE],
    ids=["prose", "half", "list", "string", "null", "number", "deep", "a megabyte of brackets"],
)
async def test_arguments_that_are_no_object_are_told_in_few_words_and_the_turn_goes_on(sent: str) -> None:
    lone = Lone([Line(calls=(WantedCall("write_note", read_arguments(sent)),)), "Done."], _notes(), WORDY)
    assert (await lone.run()).completed
    (told,) = lone.results()
    assert told.is_error and "must be one JSON object" in told.content and len(unfenced(told.content)) < 400


async def test_a_megabyte_of_arguments_reaches_the_tool_whole() -> None:
    lone = Lone([Line(calls=(call("write_note", text="x" * MEGABYTE),)), "Done."], _notes(), WORDY)
    assert (await lone.run()).completed
    assert unfenced(lone.results()[0].content) == f"{MEGABYTE} characters"


async def test_arguments_nested_as_deep_as_a_reply_may_have_them_are_a_mistake_like_others() -> None:
    deep = read_arguments('{"a":' * 100 + "1" + "}" * 100)
    assert not isinstance(deep, str)
    lone = Lone([Line(calls=(WantedCall("write_note", deep),)), "Done."], FunctionTools([write_note]))
    assert (await lone.run()).completed
    assert lone.results()[0].is_error
    assert json.loads(to_json(lone.facts(ToolStarted)[0]))["arguments"]["a"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("write_notes", "Did you mean write_note?"), ("", "You have: write_note."), ("rm -rf /" * 1_000, "You have:")],
)
async def test_a_tool_that_does_not_exist_is_answered_with_the_nearest_one(name: str, hint: str) -> None:
    lone = Lone([Line(calls=(call(name, text="x"),)), "Done."], FunctionTools([write_note]))
    assert (await lone.run()).completed
    (told,) = lone.results()
    assert told.is_error and hint in told.content and len(unfenced(told.content)) < 400


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (RuntimeError("out of order"), "out of order"),
        (SystemExit(3), "SystemExit"),
        (None, "read_file broke"),
        (Output(content=None), "read_file broke"),  # type: ignore[arg-type]
        (b"bytes", "read_file broke"),
    ],
    ids=["raises", "exits", "nothing", "no text", "bytes"],
)
async def test_a_tool_that_breaks_is_told_of_and_the_turn_goes_on(output: object, said: str) -> None:
    lone = Lone([Line(calls=(call("read_file", path="a"),)), "Done."], Fixed(output))
    assert (await lone.run()).completed
    (told,) = lone.results()
    assert told.is_error and said in told.content


async def test_five_megabytes_of_output_are_kept_whole_and_told_as_a_preview() -> None:
    text = "0123456789abcdef" * (5 * MEGABYTE // 16)
    lone = Lone([Line(calls=(call("read_file", path="a"),)), "Done."], Fixed(Output(text)))
    assert (await lone.run()).completed
    (finished,) = lone.facts(ToolFinished)
    assert finished.artifact is not None and lone.journal.texts[finished.artifact] == text
    assert len(unfenced(finished.content)) < 21_000 and unfenced(finished.content).startswith(text[:1_000])
    assert unfenced(lone.results()[0].content) == unfenced(finished.content)


async def test_a_tool_that_never_ends_is_given_up_in_its_time() -> None:
    lone = Lone([Line(calls=(call("never"),) * 3), "Done."], Timed(FunctionTools([never]), 60))
    assert (await lone.run()).completed
    assert [one.outcome for one in lone.facts(ToolFinished)] == ["timeout"] * 3


@pytest.mark.parametrize("text", ["", " \n\t"], ids=["nothing", "white space"])
async def test_an_empty_reply_is_no_answer_it_is_asked_for_once_more(text: str) -> None:
    lone = Lone([Line(text), "Here it is."])
    report = await lone.run()
    assert (report.completed, report.text) == (True, "Here it is.")
    assert lone.heard() == lone.steps("nudge") and "empty" in lone.heard()[0]
    assert lone.kinds()[2:5] == ["model.replied", "agent.step", "model.started"]


async def test_calls_that_were_cut_in_half_do_not_run_and_are_asked_for_in_smaller_pieces() -> None:
    whole, half = call("write_note", text="a"), WantedCall("write_note", '{"text": "half of a long no')
    lone = Lone([Line(calls=(whole, half), finish_reason="length"), "Done."], _notes())
    assert (await lone.run()).completed
    assert [one.is_error for one in lone.results()] == [False, True]
    assert "smaller pieces" in lone.heard()[0]
    assert lone.steps("cut_short") == ["The model's last reply ended early: length."]


def _notes() -> FunctionTools:
    return FunctionTools([write_note])


async def _halted(lines: Sequence[Said], tools: object = None) -> tuple[Report, Lone]:
    lone = Lone(lines, tools or _notes())  # type: ignore[arg-type]
    report = await lone.run()
    assert (report.status, report.cause) == (RecordStatus.BLOCKED, Cause.NO_PROGRESS)
    return report, lone


async def test_an_agent_that_repeats_a_failing_call_is_told_and_then_halted_with_what_it_has() -> None:
    report, lone = await _halted([Line("Looking.", calls=(call("write_note", wrong="x"),))] * 9)
    assert (report.text, report.error) == ("Looking.", "the same call of write_note failed 3 times in a row")
    assert len(lone.facts(ModelReplied)) == 3
    (nudge,) = [step for step in lone.facts(AgentStep) if step.name == "nudge"]
    assert lone.heard() == [nudge.message]
    assert lone.record().error == report.error


async def test_an_agent_that_repeats_a_good_call_is_told_and_then_halted() -> None:
    report, lone = await _halted([Line(calls=(call("write_note", text="x"),))] * 9)
    assert report.error == "the same call of write_note gave the same output 4 times in a row"
    assert len(lone.facts(ModelReplied)) == 4 and len(lone.heard()) == 1


async def test_an_agent_whose_every_call_fails_is_told_and_then_halted() -> None:
    report, lone = await _halted([Line(calls=(call(f"tool_{number}"),)) for number in range(9)])
    assert report.error == "every tool call of 6 replies in a row failed"
    assert len(lone.facts(ModelReplied)) == 6 and len(lone.heard()) == 1


async def test_a_nudge_that_is_heeded_is_not_repeated() -> None:
    wrong = Line(calls=(call("write_note", wrong="x"),))
    lone = Lone([wrong, wrong, Line(calls=(call("write_note", text="x"),)), wrong, "Done."], _notes())
    assert (await lone.run()).completed
    assert len(lone.heard()) == 1


async def test_what_a_gate_refuses_is_counted_by_the_gate() -> None:
    bad = Line(calls=(WantedCall("submit_result", {"status": "completed"}),))
    lone = Lone([bad] * 9, _notes(), gate=ReportGate())
    report = await lone.run()
    assert (report.cause, len(lone.facts(GateChecked))) == (Cause.GATE, 5)


async def test_a_result_that_was_cut_off_is_asked_for_in_smaller_pieces() -> None:
    half = Line(calls=(WantedCall("submit_result", '{"status": "comp'),), finish_reason="length")
    good = Line(calls=(WantedCall("submit_result", {"status": "completed", "summary": "All is well."}),))
    lone = Lone([half, good], _notes(), gate=ReportGate())
    assert (await lone.run()).text == "All is well."
    assert "smaller pieces" in lone.heard()[0]


async def test_a_model_that_hands_in_where_nobody_asked_for_it_is_told_how_its_work_ends() -> None:
    lone = Lone([Line(calls=(call("submit_result", status="completed"),)), "Done."], _notes())
    assert (await lone.run()).text == "Done."
    (told,) = lone.results()
    assert told.is_error and "your reply without a tool call is your result" in told.content
