"""What is not shown any more of a session is found and read by the agents of a later turn."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.crew import Crew
from drone.definitions import Definitions
from drone.local_run import order_from
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.order_context import OrderContext
from drone.settings import Settings
from drone.threads import OwnThreads
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.callers import Actor
from mcc.contracts.fence import unfenced
from mcc.contracts.journal import AgentStep, ToolFinished
from mcc.contracts.order import NewFork, WorkOrder
from mcc.redaction import Redactor
from mcc.transcript.messages import Picture, ToolResult, ToolResults
from mcc.transcript.opening import PUT_AWAY, SessionOpening
from mcc.transcript.previews import handle_of
from mcc.transcript.shown import ShownMessage
from tests.drone.worker.bench_of_orders import Bench
from tests.parity.world import OneModel

SECRET = "sk-veryverysecretkey1"


class Windowed(ScriptedModel):
    context_tokens: int | None = None
    """How many tokens it takes in."""


class Talk(Bench):
    """A real crew; its model says what the test wants, a reply after the other, and then "Done."."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script: list[Said] = []
        self.asked: list[Ask] = []
        self.model = Windowed(self._say)
        settings = Settings(workspace_roots=(folder,), keys={"OPENAI_API_KEY": SECRET})
        models: Any = OneModel(self.model)
        super().__init__(crew=Crew(settings, Definitions.load(settings.prompts_dir), models))

    async def __aenter__(self) -> "Talk":
        await super().__aenter__()
        return self

    async def _say(self, ask: Ask) -> Said:
        self.asked.append(ask)
        return self.script.pop(0) if self.script else "Done."

    async def say(self, prompt: str, session_id: str | None = None, script: Sequence[Said] = ()) -> WorkOrder:
        order = self.place(prompt, session_id=session_id, workspace=str(self.folder))
        return await self.work(order, script)

    async def work(self, order: WorkOrder, script: Sequence[Said] = ()) -> WorkOrder:
        self.script = list(script)
        assert await self.runner.work(order.id) is not None
        return self.store.orders.get(order.id)

    async def calls(self, order: WorkOrder, tool: str, **arguments: Any) -> ToolFinished:
        """What a turn after this one is answered by the tool."""
        last = await self.say("Look.", order.session_id, [Line(calls=(call(tool, **arguments),))])
        return self.finished(last)[-1]

    async def indexed(self) -> None:
        """Waits for what is indexed beside the turns."""
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name().startswith("history")))

    def finished(self, order: WorkOrder) -> list[ToolFinished]:
        return [entry.data for entry in self.journal(order.id) if isinstance(entry.data, ToolFinished)]


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "ports.txt").write_text("The harbour database listens on port 6111.\n")
    async with Talk(folder) as opened:
        yield opened


async def test_a_later_turn_finds_a_result_and_reads_it_whole(talk: Talk) -> None:
    first = await talk.say("Read ports", script=[Line("I look.", (call("read_file", path="ports.txt"),)), "Read."])
    found = await talk.calls(first, "history_search", query="harbour databases")
    assert found.untrusted and not found.is_error
    line = unfenced(found.content).splitlines()[0]
    seq = next(entry.seq for entry in talk.journal(first.id) if isinstance(entry.data, ToolFinished))
    assert line.startswith(f"turn 1/{seq} 20")
    assert " master tool read_file: " in line and "The harbour database listens on port 6111." in line
    read = await talk.calls(first, "history_read", entry=f"1/{seq}")
    assert "listens on port 6111" in read.content and "this is the end" in read.content and read.untrusted
    turn = unfenced((await talk.calls(first, "history_read", turn=1)).content)
    told = ["person prompt]\nRead ports", "master text]\nI look.", "master call read_file]", "master tool read_file]"]
    places = [turn.index(words) for words in (*told, "master answer]\nRead.")]
    assert places == sorted(places)


async def test_the_turn_that_asks_is_found_behind_the_others(talk: Talk) -> None:
    first = await talk.say("the pelican rests at the pier")
    asked = [Line(calls=(call("history_search", query="where does the pelican rest"),))]
    last = await talk.say("where does the pelican rest", first.session_id, asked)
    [done] = talk.finished(last)
    assert [line.split()[1] for line in unfenced(done.content).splitlines()] == ["1/1", "2/1"]


async def test_a_search_does_not_find_itself(talk: Talk) -> None:
    first = await talk.say("pelican")
    for _ in range(2):
        found = unfenced((await talk.calls(first, "history_search", query="pelican")).content)
        assert [line.split()[1] for line in found.splitlines()] == ["1/1"]
    nothing = await talk.calls(first, "history_search", query="heron")
    assert nothing.content == "Nothing in this conversation has any of these words." and not nothing.is_error
    other = await talk.calls(first, "history_search", query="pelican", turn=2)
    assert other.content.startswith("Nothing")


async def test_a_piece_of_a_turn_says_where_to_go_on(talk: Talk) -> None:
    first = await talk.say("x" * 1_000)
    piece = unfenced((await talk.calls(first, "history_read", turn=1, start=500, length=100)).content)
    assert piece.startswith("characters 500 to 600; go on with start 600\n") and piece.endswith("x" * 100)
    beyond = await talk.calls(first, "history_read", turn=1, start=10_000)
    assert beyond.is_error and "start must be below" in beyond.content


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "Name exactly one"),
        ({"turn": 1, "entry": "1/1"}, "Name exactly one"),
        ({"turn": 9}, "There is no turn '9' in this history; those of this session are 1 to 2"),
        ({"entry": "1/99"}, "Turn 1 has entries 1/1 to 1/"),
        ({"entry": "1/x"}, "Turn 1 has entries"),
        ({"entry": "1/" + "9" * 1_000}, "Turn 1 has entries"),
        ({"entry": "1/2"}, "has no words of its own"),
        ({"entry": "^1/1"}, "There is no turn '^1'"),
        ({"entry": "' OR 1=1 --"}, "There is no turn"),
        ({"entry": "\x00" * 100_000}, "There is no turn"),
        ({"artifact": "../../etc"}, "There is no artifact"),
        ({"artifact": "%"}, "There is no artifact"),
    ],
)
async def test_what_is_not_there_is_told(talk: Talk, arguments: dict[str, Any], told: str) -> None:
    read = await talk.calls(await talk.say("pelican"), "history_read", **arguments)
    assert read.is_error and told in read.content and len(read.content) < 1_000


async def test_texts_of_earlier_turns_are_read_by_their_handles_with_both_tools(talk: Talk) -> None:
    first = await talk.say("pelican")
    digest = talk.store.texts.keep("gull " * 1_000, owner=first.id)
    for tool, name in (("read_artifact", "id"), ("history_read", "artifact")):
        read = await talk.calls(first, tool, **{name: handle_of(digest), "length": 50})
        assert not read.is_error and "characters 0 to 50 of 5000" in read.content
    stranger = await talk.calls(await talk.say("another session"), "read_artifact", id=handle_of(digest))
    assert stranger.is_error and "There is no artifact" in stranger.content


async def test_handles_that_shown_turns_name_are_known_without_a_history(tmp_path: Path) -> None:
    journal = MemoryJournal("order")
    digest = await journal.keep("gull " * 1_000)
    picture = ImageBlock(artifact="f" * 64, media_type="image/png", bytes=1, name="shot.png")
    results = ToolResults((ToolResult("c", "read_file", "gull …", False, (Picture(picture),)),), ())
    shown = ShownMessage.of(results, "order", 1, 5, {"c": digest})
    order = order_from("next", tmp_path)
    turn = OrderContext(journal, session=SessionOpening((shown,))).turn(order, OwnThreads(), Redactor())
    assert await turn.artifacts.read(handle_of(digest)) == "gull " * 1_000
    assert turn.artifacts.picture("f" * 16) == picture
    assert await turn.artifacts.read("0" * 16) is None


async def test_turns_that_leave_the_context_are_indexed_then_and_not_at_the_first_search(talk: Talk) -> None:
    talk.model.context_tokens = 20_000
    order = await talk.say("pelican " + "word " * 2_000)
    for _ in range(8):
        order = await talk.say("word " * 2_000, order.session_id)
    steps = [entry.data for entry in talk.journal(order.id) if isinstance(entry.data, AgentStep)]
    while not any(step.name == PUT_AWAY for step in steps):
        order = await talk.say("word " * 2_000, order.session_id)
        steps = [entry.data for entry in talk.journal(order.id) if isinstance(entry.data, AgentStep)]
    await talk.indexed()
    turns = talk.store.history.before(order)
    assert all(turn.indexed == turn.last_seq for turn in turns[1:])
    found = talk.store.history.search(turns, "pelican", str, seconds=0)
    assert [match.item.turn for match in found.matches] == [1]


async def test_a_turn_that_was_rolled_back_is_found_by_no_agent(talk: Talk) -> None:
    first = await talk.say("heron")
    second = await talk.say("pelican", first.session_id)
    talk.store.orders.roll_back(second.id, by=Actor("p"))
    assert (await talk.calls(first, "history_search", query="pelican")).content.startswith("Nothing")
    read = await talk.calls(first, "history_read", turn=2)
    assert read.is_error and "There is no turn" in read.content


async def test_a_fork_names_the_turns_of_its_source_apart(talk: Talk) -> None:
    first = await talk.say("pelican one")
    second = await talk.say("pelican two", first.session_id)
    fork = talk.store.orders.fork(second.id, NewFork(after=1, prompt="pelican fork"), by=Actor("p")).order
    done = await talk.work(fork)
    found = unfenced((await talk.calls(done, "history_search", query="pelican")).content)
    assert [line.split()[1] for line in found.splitlines()] == ["1/1", "^1/1"]
    assert "pelican one" in (await talk.calls(done, "history_read", entry="^1/1")).content
    assert "pelican fork" in (await talk.calls(done, "history_read", turn=1)).content
    assert "pelican one" in (await talk.calls(done, "history_read", entry="^1")).content


async def test_secrets_are_not_read_from_the_history(talk: Talk) -> None:
    first = await talk.say(f"The pelican has {SECRET}")
    for tool, arguments in (("history_search", {"query": "pelican"}), ("history_read", {"turn": 1})):
        read = await talk.calls(first, tool, **arguments)
        assert "pelican" in read.content and SECRET not in read.content


async def test_a_subagent_has_the_tools_where_its_file_names_them(talk: Talk) -> None:
    await talk.say("hello")
    offered = {spec.name for spec in talk.asked[-1].tools}
    assert {"history_search", "history_read"} <= offered
    assert not any(isinstance(message, ToolResults) for message in talk.asked[-1].messages)
