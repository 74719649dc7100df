"""Texts too long for a transcript: shown as a preview with a handle, stored whole, read back in pieces."""

import asyncio
import hashlib
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drone.agent.agent import AgentRuntime
from drone.agent.ports.artifacts import LEAST, LONGEST, TOGETHER, Artifacts
from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, ScriptedModel, call
from drone.tools.artifacts import DEFAULT_LENGTH, MAX_LENGTH, ArtifactTools
from drone.tools.frame.display_text import show_controls
from drone.tools.frame.tool import FunctionTools, Joined, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Origin
from mcc.contracts.fence import unfenced
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import Outcome, ToolFinished
from mcc.contracts.limits import Limits
from mcc.transcript.messages import ToolResults, ToolSpec
from mcc.transcript.previews import handle_of
from tests.drone.agent.lone import Lone

ORDER = "order-1"
ANY_TEXT = st.text(alphabet=st.characters(categories=None), min_size=1, max_size=3_000)
"""Every code point: half pairs, emoji and their joiners, NUL."""


def turn() -> Turn:
    return Turn.begun(MemoryJournal(ORDER), Budget(Limits()))


async def read(turn: Turn | None, **arguments: object) -> Output:
    wanted = StartedCall("call-1", "read_artifact", arguments, Origin(record_id="record-1", agent="master"), turn)
    return await ArtifactTools().call(wanted)


async def read_back(turn: Turn, handle: str, length: int) -> str:
    pieces: list[str] = []
    start = 0
    while True:
        output = await read(turn, id=handle, start=start, length=length)
        assert not output.is_error, unfenced(output.content)
        head, _, piece = unfenced(output.content).partition("\n")
        pieces.append(piece)
        if head.endswith("; this is the end"):
            return "".join(pieces)
        start = int(head.rpartition(" ")[2])


@given(text=ANY_TEXT, length=st.integers(1, 500))
@example(text="👩‍👩‍👧‍👦é\ud83d\ude00\udc00\x00" * 40, length=1)
def test_a_kept_text_read_piece_by_piece_is_the_text(text: str, length: int) -> None:
    async def kept_and_read() -> str:
        here = turn()
        return await read_back(here, handle_of(await here.artifacts.keep(text)), max(length, len(text) // 20 + 1))

    assert _shown(asyncio.run(kept_and_read())) == _shown(text)


def _shown(text: str) -> str:
    """Controls as pictures; a line end that two pieces share stays one."""
    return show_controls(text)[0].replace("␍\n", "\r\n")


@given(text=ANY_TEXT, longest=st.integers(300, 1_000))
def test_what_is_told_of_a_text_is_never_longer_than_agreed_and_nothing_is_lost(text: str, longest: int) -> None:
    async def fitted() -> tuple[str, str | None, MemoryJournal]:
        journal = MemoryJournal(ORDER)
        return *await Artifacts(journal, longest=longest).fitted(text), journal

    told, digest, journal = asyncio.run(fitted())
    assert len(told) <= longest
    if digest is None:
        assert told == text
    else:
        assert journal.texts[digest] == text
        left_out = int(re.search(r"… ([\d,]+) of", told)[1].replace(",", ""))  # type: ignore[index]
        head, tail = told.split(f"\n\n[… {left_out:,} of", 1)[0], told.rsplit(" …]\n\n", 1)[1]
        assert text.startswith(head) and text.endswith(tail)
        assert len(head) + left_out + len(tail) == len(text)


class Bench:
    """An agent with a tool that returns `text`, optionally with `read_artifact`."""

    def __init__(self, text: str, lines: list[Line | str], *, reads: bool = True) -> None:
        @tool
        def shout() -> str:
            """Say a long text."""
            return text

        tools = Joined(FunctionTools([shout]), ArtifactTools()) if reads else FunctionTools([shout])
        self.model = ScriptedModel(lines)
        self.journal = MemoryJournal(ORDER)
        self.turn = Turn.begun(self.journal, Budget(Limits()))
        self.agent = AgentRuntime(AgentDefinition(name="master"), model=self.model, tools=tools)

    async def run(self) -> list[str]:
        """Run it; returns the tool results that the model saw, in order."""
        report = await self.agent.run(Task("Go.", root_record_id(ORDER)), self.turn)
        assert report.completed, report.error
        results = [message for message in self.model.asks[-1].messages if isinstance(message, ToolResults)]
        return [unfenced(result.content) for message in results for result in message.results]

    def finished(self) -> list[ToolFinished]:
        return [entry.data for entry in self.journal.entries if isinstance(entry.data, ToolFinished)]


async def test_an_output_of_five_million_characters_is_told_as_a_preview_and_read_where_it_matters() -> None:
    text = "".join(f"line {number:07}\n" for number in range(400_000))
    assert len(text) > 5_000_000
    digest = hashlib.sha256(text.encode()).hexdigest()
    look = call("read_artifact", id=handle_of(digest), start=text.index("line 0312345"), length=12)
    bench = Bench(text, [Line(calls=(call("shout"),)), Line(calls=(look,)), "Done."])
    preview, piece = await bench.run()
    assert len(preview) < 6_000 and preview.startswith("line 0000000\n") and preview.endswith("line 0399999\n")
    assert f"read them with read_artifact, id {handle_of(digest)}" in preview
    assert piece.partition("\n")[2] == "line 0312345"
    assert bench.finished()[0].artifact == digest
    assert unfenced(bench.finished()[0].content) == preview
    assert bench.journal.texts[digest] == text


async def test_an_agent_that_cannot_read_artifacts_is_told_that_the_record_has_the_rest() -> None:
    bench = Bench("x" * 300_000, [Line(calls=(call("shout"),)), "Done."], reads=False)
    (preview,) = await bench.run()
    assert "the record has them" in preview and "read_artifact" not in preview
    assert preview.count("x") == 20_000


async def test_an_output_as_long_as_agreed_is_told_as_it_is() -> None:
    bench = Bench("x" * 80_000, [Line(calls=(call("shout"),)), "Done."])
    assert await bench.run() == ["x" * 80_000]
    assert bench.finished()[0].artifact is None


async def test_of_a_text_beyond_all_measure_the_beginning_is_kept_and_it_says_so() -> None:
    journal = MemoryJournal(ORDER)
    artifacts = Artifacts(journal, longest=300, most_kept=1_000)
    told, digest = await artifacts.fitted("a" * 1_000 + "b" * 500)
    assert digest is not None and told.endswith("b")
    kept = await artifacts.read(handle_of(digest))
    assert kept == "a" * 1_000 + "\n[… the 500 characters after these were not kept …]"


async def test_the_same_text_has_the_same_handle_in_every_turn() -> None:
    first, second = turn(), turn()
    assert await first.artifacts.keep("text") == await second.artifacts.keep("text")


async def test_a_turn_that_is_taken_over_reads_what_its_journal_names() -> None:
    journal = MemoryJournal(ORDER)
    digest = await Artifacts(journal).keep("text")
    later = Artifacts(journal)
    assert await later.read(handle_of(digest)) is None
    later.register(digest)
    assert await later.read(handle_of(digest)) == "text"


async def test_an_artifact_of_another_turn_cannot_be_read() -> None:
    journal = MemoryJournal(ORDER)
    digest = await Artifacts(journal).keep("theirs")
    mine = Turn.begun(journal, Budget(Limits()))
    assert (await read(mine, id=handle_of(digest))).is_error
    assert (await read(mine, id=digest)).is_error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"id": "feed"}, "There is no artifact 'feed' in this turn"),
        ({"id": "\ud83d\x00" * 999}, "There is no artifact"),
        ({"id": ""}, "There is no artifact ''"),
        ({}, "`id` is missing"),
        ({"id": "HANDLE", "start": 4}, "has 4 characters, counted from 0: start must be below 4"),
        ({"id": "HANDLE", "start": -1}, "`start`"),
        ({"id": "HANDLE", "length": 0}, "`length`"),
        ({"id": "HANDLE", "start": "x"}, "`start`"),
    ],
)
async def test_what_cannot_be_read_is_told_in_words(arguments: dict[str, object], words: str) -> None:
    here = turn()
    handle = handle_of(await here.artifacts.keep("text"))
    given = {name: handle if value == "HANDLE" else value for name, value in arguments.items()}
    output = await read(here, **given)
    assert (output.is_error, output.outcome) == (True, Outcome.ERROR)
    assert words in output.content and len(unfenced(output.content)) < 500


async def test_one_read_brings_a_bounded_piece() -> None:
    here = turn()
    handle = handle_of(await here.artifacts.keep("x" * 300_000))
    assert len((await read(here, id=handle)).content.partition("\n")[2]) == DEFAULT_LENGTH
    much = await read(here, id=handle, length=1_000_000)
    assert len(unfenced(much.content).partition("\n")[2]) == MAX_LENGTH
    assert unfenced(much.content).startswith("characters 0 to 60000 of 300000; go on with start 60000\n")


async def test_outside_of_a_turn_there_is_no_artifact() -> None:
    assert "There is no artifact" in (await read(None, id="feed")).content


class Talking:
    """Tools of which each call brings so many characters, as a report of another agent where `reports`."""

    def __init__(self, characters: int, *, reports: bool = False, most: int | None = None) -> None:
        self._output = Output("x" * characters, subagent_ids=("child",) if reports else ())
        self._most = most

    def specs(self) -> tuple[ToolSpec, ...]:
        return (ToolSpec("talk", "", {"type": "object"}, idempotent=True, max_result=self._most),)

    async def call(self, call: StartedCall) -> Output:
        return self._output


async def shown(tools: Talking, times: int) -> list[int]:
    """How many characters of each of these calls of one reply the model is shown."""
    lone = Lone([Line(calls=tuple(call("talk", number=number) for number in range(times))), "Done."], tools)
    assert (await lone.run()).completed
    return [len(unfenced(result.content)) for result in lone.results()]


@pytest.mark.parametrize("reports", [False, True])
async def test_what_one_reply_brings_together_is_bounded_and_each_call_keeps_a_little(reports: bool) -> None:
    most = TOGETHER // 15_000
    lengths = await shown(Talking(15_000, reports=reports), most + 3)
    assert lengths[:most] == [15_000] * most
    assert all(length <= max(LEAST, TOGETHER - most * 15_000) for length in lengths[most:])


@pytest.mark.parametrize(("most", "length"), [(1_000, 1_000), (1_000_000, LONGEST)])
async def test_a_tool_may_narrow_the_room_of_its_results_and_not_widen_it(most: int, length: int) -> None:
    assert 0 < (await shown(Talking(300_000, most=most), 1))[0] <= length
    crowded = await shown(Talking(15_000, most=15_000), TOGETHER // 15_000 + 2)
    assert crowded[-1] <= LEAST
