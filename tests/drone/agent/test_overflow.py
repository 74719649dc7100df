"""A conversation larger than its model's context: tool results are shortened, journaled, and the model asked again."""

from collections.abc import Sequence

from drone.agent.agent import AgentRuntime
from drone.agent.ports.artifacts import LONGEST, TOGETHER
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, ContextOverflow, Listener, Reply
from drone.agent.ports.report import Cause, Report
from drone.agent.state.record import RecordState
from drone.agent.state.tree import Tree
from drone.agent.turns.toolset import Output
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.artifacts import ArtifactTools
from drone.tools.frame.tool import FunctionTools, Joined, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.entry import Entry, Origin
from mcc.contracts.fence import unfenced
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import ToolFinished
from mcc.contracts.usage import Usage
from mcc.transcript.clipping import KEPT
from mcc.transcript.messages import Message, ToolResults, UserMessage
from mcc.transcript.previews import handle_of

ORDER = "order-1"
CHARACTERS = 4
"""Of a token of the model below."""


class Small(ScriptedModel):
    """A model with a context of so many tokens that refuses larger requests; `tells`: it states its size in advance."""

    def __init__(self, script: Sequence[Said], window: int, *, tells: bool = False, says_size: bool = True) -> None:
        super().__init__(script)
        self.window, self.tells, self.says_size = window, tells, says_size
        self.refused = 0

    @property
    def context_tokens(self) -> int | None:
        return self.window if self.tells else None

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        tokens = (len(ask.system) + sum(map(size, ask.messages))) // CHARACTERS
        if tokens > self.window:
            self.refused += 1
            raise ContextOverflow("Too long.", self.window if self.says_size else None, status=400)
        return await super().ask(ask, listener)


def size(message: Message) -> int:
    if isinstance(message, ToolResults):
        return sum(len(one.content) for one in message.results)
    return len(message.text)


class World:
    """An agent that reads pages of a given length, with its journal."""

    def __init__(self, model: Small, left: Sequence[Entry] = (), texts: dict[str, str] | None = None) -> None:
        @tool(idempotent=True)
        async def page(letter: str, length: int) -> str:
            """A page.

            Args:
                letter: what stands on it.
                length: its characters.
            """
            return letter * length

        self.model = model
        self.journal = MemoryJournal(ORDER, entries=left)
        self.journal.texts.update(texts or {})
        definition = AgentDefinition(name="master", prompt="You read.")
        self.agent = AgentRuntime(definition, model=model, tools=Joined(FunctionTools([page]), ArtifactTools()))
        self.tree = Tree.of(left) if left else None

    async def run(self) -> Report:
        turn = self.agent.turn(self.journal, self.tree)
        return await self.agent.run(Task("Go.", root_record_id(ORDER)), turn)

    def compacted(self) -> list[TranscriptCompacted]:
        return [entry.data for entry in self.journal.entries if isinstance(entry.data, TranscriptCompacted)]


def pages(*wanted: tuple[str, int]) -> Line:
    usage = Usage(model_calls=1)
    return Line(calls=tuple(call("page", letter=letter, length=length) for letter, length in wanted), usage=usage)


def told(ask: Ask) -> list[str]:
    return [one.content for message in ask.messages if isinstance(message, ToolResults) for one in message.results]


async def test_the_newest_results_are_shortened_and_the_model_is_asked_again() -> None:
    script: list[Said] = [pages(("a", 20_000)), pages(("b", 30_000), ("c", 60_000)), "Done."]
    world = World(Small(script, window=20_000))
    report = await world.run()
    assert (report.text, world.model.refused) == ("Done.", 1)
    (fact,) = world.compacted()
    assert fact.window_tokens == 20_000 and fact.tokens_before > 20_000 > fact.tokens_after
    (clip,) = fact.clipped
    assert (clip.kept, clip.characters > 60_000) == (KEPT[0], True)
    a, b, c = told(world.model.asks[-1])
    assert len(unfenced(a)) == 20_000 and len(unfenced(b)) == 30_000
    assert len(c) <= KEPT[0] and f"read them with read_artifact, id {handle_of(clip.artifact)}" in c
    assert unfenced(c).startswith("ccc") and unfenced(c).endswith("ccc")
    assert world.journal.texts[clip.artifact] == "c" * 60_000
    kinds = [entry.kind for entry in world.journal.entries]
    assert kinds[-4:] == ["transcript.compacted", "model.started", "model.replied", "agent.finished"]


async def test_what_was_shortened_can_be_read_as_an_artifact() -> None:
    script: list[Said] = [pages(("a", 60_000)), Line(), "Done."]
    world = World(Small(script, window=10_000))
    await world.run()
    handle = handle_of(world.compacted()[0].clipped[0].artifact)
    again: list[Said] = [pages(("a", 60_000)), Line(calls=(call("read_artifact", id=handle, length=100),)), "Done."]
    world = World(Small(again, window=10_000))
    assert (await world.run()).text == "Done."
    assert "a" * 100 in told(world.model.asks[-1])[-1]


async def test_older_results_follow_when_the_newest_are_not_enough() -> None:
    script: list[Said] = [pages(*[(letter, 9_000) for letter in "abcdefgh"]), pages(("z", 3_000)), "Done."]
    world = World(Small(script, window=4_500, says_size=False))
    assert (await world.run()).text == "Done."
    assert all(len(content) <= KEPT[0] + 1_100 for content in told(world.model.asks[-1]))
    assert {clip.kept for fact in world.compacted() for clip in fact.clipped} <= set(KEPT)


async def test_when_all_results_are_short_the_oldest_messages_become_lines() -> None:
    script: list[Said] = [*(pages(*[(letter, 500 + number) for letter in "abcdefgh"]) for number in range(12)), "Done."]
    world = World(Small(script, window=6_000, tells=True))
    report = await world.run()
    assert report.text == "Done." and world.model.refused == 0, report
    assert {fact.stage for fact in world.compacted()} == {"handles"}
    first, *others = world.model.asks[-1].messages
    assert isinstance(first, UserMessage) and "(called page)" in first.text and "> Go." in first.text
    assert "aa" in told(world.model.asks[-1])[-8] and 2 <= len(others) < 24


async def test_a_known_context_is_not_overrun() -> None:
    world = World(Small([*(pages((letter, 12_000)) for letter in "abcdefghijkl"), "Done."], window=11_000, tells=True))
    assert (await world.run()).text == "Done."
    assert world.model.refused == 0 and world.compacted()


async def test_pictures_that_do_not_fit_go_and_are_counted_no_more() -> None:
    @tool(idempotent=True)
    async def look(number: int) -> Output:
        """A picture.

        Args:
            number: which one.
        """
        size = 2_000 + number
        return Output(
            f"seen {number}", images=(ImageBlock(artifact="f" * 64, media_type="image/png", width=size, height=size),)
        )

    model = Small(
        [*(Line(calls=(call("look", number=number),), usage=Usage(model_calls=1)) for number in range(4)), "Done."],
        window=5_000,
        tells=True,
    )
    agent = AgentRuntime(AgentDefinition(name="master", prompt="You look."), model=model, tools=FunctionTools([look]))
    journal = MemoryJournal(ORDER)
    journal.texts["f" * 64] = "aGk="
    report = await agent.run(Task("Go.", root_record_id(ORDER)), agent.turn(journal))
    assert report.text == "Done.", report
    [*facts] = [entry.data for entry in journal.entries if isinstance(entry.data, TranscriptCompacted)]
    assert facts and all(clip.kept <= clip.characters for fact in facts for clip in fact.clipped)
    results = [one for said in model.asks[-1].messages if isinstance(said, ToolResults) for one in said.results]
    assert 0 < sum(bool(one.pictures) for one in results) < 4
    assert all(one.pictures or "did not fit" in one.content for one in results)


async def test_an_order_ends_only_where_not_even_its_beginning_fits() -> None:
    world = World(Small(["Done."], window=3))
    report = await world.run()
    assert report.cause is Cause.MODEL and "takes in (3 tokens)" in (report.error or "")
    assert "no tool result is left to shorten" in (report.error or "")


async def test_another_drone_asks_the_same_after_any_entry() -> None:
    script: list[Said] = [pages(("a", 30_000)), pages(("b", 30_000), ("c", 40_000)), pages(("d", 30_000)), "Done."]
    first = World(Small(script, window=12_000, says_size=False))
    await first.run()
    assert len(first.compacted()) >= 2
    expected = [told(ask) for ask in first.model.asks]
    for cut in range(1, len(first.journal.entries)):
        left = first.journal.entries[:cut]
        replies = sum(entry.kind == "model.replied" for entry in left)
        second = World(Small(script[replies:], window=12_000, says_size=False), left, first.journal.texts)
        assert (await second.run()).text == "Done."
        assert [told(ask) for ask in second.model.asks] == expected[replies:], cut


async def test_results_of_one_reply_are_capped_together_and_each_from_twenty_thousand_tokens_on() -> None:
    world = World(Small([pages(*[(letter, LONGEST) for letter in "abcdef"], ("g", LONGEST + 1)), "Done."], 10**9))
    await world.run()
    ends = [entry.data for entry in world.journal.entries if isinstance(entry.data, ToolFinished)]
    whole = [end for end in ends if end.artifact is None]
    assert [len(unfenced(end.content)) for end in whole] == [LONGEST] * (TOGETHER // LONGEST)
    assert sum(len(end.content) for end in ends) < TOGETHER + 7 * 2_100
    assert all(len(end.content) < 6_000 and "read_artifact" in end.content for end in ends if end.artifact)


async def test_in_a_small_context_less_is_told_at_once() -> None:
    world = World(Small([pages(("a", 60_000)), "Done."], window=16_000, tells=True))
    await world.run()
    assert world.model.refused == 0 and not world.compacted()
    assert len(told(world.model.asks[-1])[0]) < 6_000


def test_a_window_that_was_learnt_is_kept_when_a_later_shortening_knows_none() -> None:
    state = RecordState(Origin(record_id=root_record_id(ORDER)))
    for told, known in ((None, None), (20_000, 20_000), (None, 20_000), (9_000, 9_000)):
        state.apply(TranscriptCompacted(message="Shortened.", window_tokens=told))
        assert state.asking.window == known
