"""What a compaction may not take away: what its model has not read yet, and what people say after it."""

import asyncio

from drone.agent.ports.model import Ask
from drone.models.scripted import Line, Said, call
from mcc.contracts.blocks import ToolCall
from mcc.contracts.compaction import NOTHING_CARRIED, TranscriptCompacted
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.usage import Usage
from mcc.transcript.compaction.built import PersonWords, words_of_people
from mcc.transcript.compaction.cuts import ContextWindow, kept_from
from mcc.transcript.compaction.gathered import Gathered, Part
from mcc.transcript.messages import AssistantMessage, Message, ToolResult, ToolResults, UserMessage
from mcc.transcript.transcript import Transcript
from tests.drone.agent.compaction.long_runs import asks_for_summary, size_of, tokens_of
from tests.drone.agent.compaction.mixed_runs import MixedRun, all_text


def round_of(number: int, length: int = 10) -> list[Message]:
    one = ToolCall(call_id=f"call-{number}", name="page", arguments={})
    result = ToolResult(one.call_id, one.name, "x" * length, False)
    return [AssistantMessage.of(f"Round {number}.", [one]), ToolResults((result,))]


def test_no_cut_is_after_a_reply_whose_results_were_not_read() -> None:
    messages = [UserMessage("Read."), *round_of(1), *round_of(2, 50_000), UserMessage("[now] Stop."), UserMessage("?")]
    assert kept_from(messages, 1, 10_000) == 3
    assert kept_from(messages, 5, 10_000) == 3
    stopped = [*messages, AssistantMessage.of("I stop.")]
    assert kept_from(stopped, 1, 10_000) == 5
    assert kept_from([*stopped, UserMessage("x" * 50_000), UserMessage("Go on.")], 1, 10_000) == 8


def test_what_a_person_says_after_a_summary_is_shown_also_if_no_request_was_made_since_the_last_words() -> None:
    transcript = Transcript()
    for message in (UserMessage("Read."), *round_of(1), *round_of(2)):
        transcript.add(message)
    transcript.add_steer("[1] First.")
    transcript.compact(TranscriptCompacted(stage="summary", message="", summary="All.", kept_messages=1))
    transcript.add_steer("[2] Second.")
    assert [getattr(one, "text", "") for one in transcript.messages] == ["All.", "[1] First.", "[2] Second."]


def test_words_of_hundreds_of_messages_leave_room_in_the_summary_for_others() -> None:
    words = [PersonWords(f"{number} " + "word " * 30, f"{number}/1") for number in range(500)]
    lines = words_of_people(words, 1_800, 9_000)
    assert lines[0] == words[0].text and lines[-1] == words[-1].text and "more are not listed" in lines[1]
    assert sum(map(len, lines)) < 3 * 1_800
    long = PersonWords("x" * 8_000)
    assert words_of_people([*words, long], 1_800, 9_000)[-1] == long.text


def test_a_value_that_a_search_of_the_history_found_does_not_follow_its_correction() -> None:
    corrected = UserMessage("The port of harbour-7 is now 6222.", by_person=True)
    found = ToolResult("call", "history_search", "turn 3/1 person prompt: The port of harbour-7 is 6111.", False)
    read = ToolResult("call", "read_file", "The port of quay-9 is 7333.", False)
    part = Part((corrected, ToolResults((found,)), ToolResults((read,))), ((9, 1), (9, 2), (9, 3)))
    kept = "\n".join(Gathered.of(part, (), NOTHING_CARRIED, ContextWindow(32_000)).kept)
    assert "6222" in kept and "7333" in kept and "6111" not in kept


def test_a_correction_stays_as_long_as_the_words_that_it_corrects_are_quoted() -> None:
    def said(text: str) -> Part:
        return Part((UserMessage(text, by_person=True),), ((1, 1),))

    window = ContextWindow(8_000)
    first = Gathered.of(said("The port of the harbour is 6111."), (), NOTHING_CARRIED, window)
    gathered = Gathered.of(said("The port of the harbour is now 6222."), (), first.parts, window)
    for turn in range(20):
        others = " ".join(
            f"The berth of ship {'abcdefghij'[turn % 10] * (n + turn)} is {4_000 + n}." for n in range(1, 9)
        )
        gathered = Gathered.of(said(others), (), gathered.parts, window)
    shown = gathered.message("", "", "seed")
    assert shown.index("6111") < shown.index("6222"), "who reads the first words reads the correction behind them"


class Crowd(MixedRun):
    """Its master starts twenty subagents, whose reports are long and come once it has answered."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.answered = asyncio.Event()

    async def before(self, ask: Ask) -> None:
        await super().before(ask)
        if ask.cache_key != self.root:
            await self.answered.wait()

    def author(self, ask: Ask) -> Said:
        usage = Usage(input_tokens=tokens_of(ask), output_tokens=20, model_calls=1)
        if ask.cache_key != self.root:
            return Line(f"Report of {ask.cache_key}. " + "z " * 1_900, usage=usage)
        if self._round(self.root) < 4:
            names = [{"role": "scout", "task": f"Look {number}."} for number in range(5)]
            return Line(calls=(call("subagents_run", agents=names, background=True),), usage=usage)
        self.answered.set()
        return Line("All read.", usage=usage)


async def test_reports_of_many_subagents_come_as_the_context_has_room_for_them() -> None:
    run = Crowd(1)
    report = await run.run()
    assert report.completed, report.error
    brought = [one.data.child_id for one in run.journal.entries if isinstance(one.data, AgentDelivered)]
    assert len(brought) == len(set(brought)) == 20
    shown = "\n".join(all_text(ask.messages) for key, ask in run.asked if key == run.root and not asks_for_summary(ask))
    assert [child for child in brought if f"Report of {child}. z z" not in shown] == []
    longest = max(sum(map(size_of, ask.messages)) for _, ask in run.asked) // 4
    assert longest <= run.model.context_tokens
