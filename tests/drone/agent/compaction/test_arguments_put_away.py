"""Long arguments of old calls that wrote something are put away, and with them what their provider had signed."""

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, WantedCall
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, Said, ScriptedModel
from drone.tools.artifacts import ArtifactTools
from drone.tools.frame.tool import FunctionTools, Joined, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.blocks import OpaqueBlock, RedactedBlock, TextBlock, ThinkingBlock
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.ids import root_record_id
from mcc.contracts.limits import Limits
from mcc.contracts.shape import to_json
from mcc.contracts.usage import Usage
from mcc.transcript.messages import AssistantMessage
from tests.drone.agent.compaction.long_runs import ORDER, tokens_of, unanswered

LONG = 12_000
ROUNDS = 12
SIGNED = (
    ThinkingBlock(text="Signed.", signature="s"),
    ThinkingBlock(text="Sealed.", extra={"sealed": "s"}),
    ThinkingBlock(text="Plain."),
    RedactedBlock(data="r"),
    OpaqueBlock(data={"item": "o"}),
    TextBlock(text="I write.", extra={"mark": "t"}),
)


class Writer(ScriptedModel):
    context_tokens = 40_000

    def __init__(self, begun: int = 0) -> None:
        super().__init__(self._write)
        self.number = begun

    def _write(self, ask: Ask) -> Said:
        usage = Usage(input_tokens=tokens_of(ask), output_tokens=20, model_calls=1)
        self.number += 1
        if self.number > ROUNDS:
            return Line("Written.", usage=usage)
        save = WantedCall(
            "save", {"path": "notes.md", "text": f"{self.number:04}" + "y" * (LONG - 4)}, extra={"mark": "c"}
        )
        look = WantedCall("look", {"text": f"at {self.number}"}, extra={"mark": "d"})
        return Line(blocks=(*SIGNED, save, look), calls=(save, look), usage=usage)


def agent(model: Writer) -> AgentRuntime:
    @tool(idempotent=True, effects="write")
    async def save(path: str, text: str) -> str:
        """Save a text.

        Args:
            path: where.
            text: what.
        """
        return "saved"

    @tool(idempotent=True)
    async def look(text: str) -> str:
        """Look.

        Args:
            text: at what.
        """
        return "seen"

    tools = Joined(FunctionTools([save, look]), ArtifactTools())
    definition = AgentDefinition(name="master", prompt="You write.")
    return AgentRuntime(definition, model=model, tools=tools, limits=Limits(rounds=1_000))


async def test_arguments_put_away_take_what_was_signed_with_them_and_another_drone_shows_the_same() -> None:
    model, journal = Writer(), MemoryJournal(ORDER)
    writer = agent(model)
    report = await writer.run(Task("Write.", root_record_id(ORDER)), writer.turn(journal))
    assert report.text == "Written."
    entries = journal.entries
    places = [number for number, one in enumerate(entries, 1) if isinstance(one.data, TranscriptCompacted)]
    facts = [fact for one in entries if isinstance(fact := one.data, TranscriptCompacted)]
    put_away = [fact for fact in facts if fact.stage == "arguments"]
    assert put_away and {fact.stage for fact in facts} == {"arguments"}
    gone = {call_id for fact in put_away for call_id in fact.cut_call_ids}
    last = model.asks[-1]
    assert not unanswered(last.messages)
    for message in last.messages:
        if not isinstance(message, AssistantMessage):
            continue
        if not gone.intersection(call.call_id for call in message.tool_calls):
            assert [block for block in message.blocks if block.type == "opaque"]
            continue
        written = to_json([block.model_dump(exclude_none=True) for block in message.blocks]).decode()
        assert [block.type for block in message.blocks] == ["thinking", "text", "tool_call", "tool_call"]
        assert "y" * 100 not in written and '"extra"' not in written and '"signature"' not in written
        assert "put away: 12,000 characters of save.text" in written and '"path":"notes.md"' in written
    assert journal.texts[put_away[0].clipped[0].artifact].endswith("y" * 100 + '"}')
    for place in places:
        said = sum(one.kind == "model.replied" for one in entries[:place])
        again = Writer(said)
        second = agent(again)
        left = MemoryJournal(ORDER, entries=entries[:place])
        left.texts.update(journal.texts)
        await second.run(Task("Write.", root_record_id(ORDER)), second.turn(left, Tree.of(entries[:place])))
        assert again.asks[0].messages == model.asks[said].messages
