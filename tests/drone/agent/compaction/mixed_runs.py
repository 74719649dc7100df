"""Long runs in which everything happens at once: pages, files with long texts, subagents in the background, people who
speak meanwhile, and summaries of it all. What an agent does depends on its record and its round alone, so another drone
goes on with the same."""

import asyncio
import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from drone.agent.agent import AgentRuntime
from drone.agent.compaction.summary import AGENT
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, Listener, Reply
from drone.agent.ports.report import Report
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree
from drone.agent.subagents.delegation import Delegation, Wanted
from drone.agent.turns.turn import Steering, Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.artifacts import ArtifactTools
from drone.tools.frame.tool import FunctionTools, Joined, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Entry
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentStarted, ControlApplied
from mcc.contracts.limits import Limits
from mcc.contracts.usage import Usage
from mcc.transcript.messages import AssistantMessage, Message, ToolResults, UserMessage
from tests.drone.agent.compaction.long_runs import SUMMARY, asks_for_summary, tokens_of

ORDER = "order-1"
WINDOW = 9_000
ROUNDS = 50
LIMITS = Limits(
    rounds=1_000,
    subagent_rounds=1_000,
    tool_calls=100_000,
    spawns=1_000,
    output_tokens=100_000_000,
    subagent_output_tokens=100_000_000,
    warn_share=1.0,
)


class MixedModel(ScriptedModel):
    context_tokens = WINDOW

    def __init__(self, world: "MixedRun") -> None:
        super().__init__(world.author)
        self._world = world

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        await self._world.before(ask)
        return await super().ask(ask, listener)


@dataclass
class MixedRun:
    """One drone that runs the order, from its beginning or from another drone's entries."""

    seed: int
    left: Sequence[Entry] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    order_id: str = ORDER

    def __post_init__(self) -> None:
        self.root = root_record_id(self.order_id)
        self.journal = MemoryJournal(self.order_id, entries=self.left)
        self.journal.texts.update(self.texts)
        self.turn = Turn.begun(self.journal, Budget(LIMITS), tree=Tree.of(self.left))
        self.steering = Steering(self.turn)
        self.model = MixedModel(self)
        self.asked: list[tuple[str, Ask]] = []

    async def run(self) -> Report:
        task = Task("Never write to vault-17 without Ada Bell.", self.root, "All")
        async with asyncio.timeout(60):
            return await self._agent(Wanted("master", 0)).run(task, self.turn)

    def _agent(self, wanted: Wanted) -> AgentRuntime:
        @tool(idempotent=True)
        async def page(number: int, length: int) -> str:
            """A page.

            Args:
                number: which one.
                length: its characters.
            """
            await asyncio.sleep(0)
            return f"Page {number}. " + "x" * length

        @tool(idempotent=True, effects="write")
        async def save(text: str) -> str:
            """Save a text.

            Args:
                text: what.
            """
            return "saved"

        below = Delegation(self.turn, {"scout": "Looks."}, self._agent, depth=wanted.depth)
        tools = Joined(FunctionTools([page, save]), ArtifactTools(), below)
        definition = AgentDefinition(name=wanted.agent_type, prompt="You read.")
        return AgentRuntime(definition, model=self.model, tools=tools, limits=LIMITS)

    def _dice(self, *what: object) -> random.Random:
        return random.Random(hashlib.sha256(repr((self.seed, *what)).encode()).digest())

    async def before(self, ask: Ask) -> None:
        """What people do before a request is answered."""
        record_id = ask.cache_key or ""
        self.asked.append((record_id, ask))
        dice = self._dice("people", record_id, self._round(record_id))
        if record_id == self.root and not asks_for_summary(ask):
            for number in range(dice.choice((0, 0, 0, 0, 0, 1, 2))):
                await self.steering.steer(f"Keep door-{self._round(record_id)}{number} shut.")
        for _ in range(dice.randrange(3)):
            await asyncio.sleep(0)

    def _round(self, record_id: str) -> int:
        record = self.turn.tree.begun(record_id)
        return 0 if record is None else record.rounds

    def author(self, ask: Ask) -> Said:
        usage = Usage(input_tokens=tokens_of(ask), output_tokens=20, model_calls=1)
        record_id, number = ask.cache_key or "", self._round(ask.cache_key or "")
        dice = self._dice(record_id, number)
        if asks_for_summary(ask):
            return Line(dice.choice((SUMMARY, SUMMARY, SUMMARY, "I did all.")), usage=usage)
        of_master = record_id == self.root
        if number >= (ROUNDS if of_master else dice.choice((2, 2, 25)) if number in (2, 25) else 25):
            return Line(f"{'All' if of_master else 'Mine'} read in {record_id[-6:]}.", usage=usage)
        calls = [call("page", number=number, length=dice.choice((10, 400, 700, 700, 1_500, 6_000)))]
        if dice.random() < 0.2:
            calls.append(call("save", text="y" * dice.choice((10, 3_000))))
        if of_master and dice.random() < 0.25:
            calls.append(call("subagent", agent_type="scout", prompt=f"Look at {number}.", background=True))
        if of_master and dice.random() < 0.1:
            calls.append(call("subagent_wait", first=True, seconds=1))
        thought = Line(f"Round {number}. " + "I look on. " * dice.choice((5, 40)), tuple(calls), usage=usage)
        return thought

    def steers(self) -> list[str]:
        facts = (one.data for one in self.journal.entries if one.record_id == self.root)
        return [fact.message or "" for fact in facts if isinstance(fact, ControlApplied) and fact.control == "steer"]

    def started(self) -> set[str]:
        entries = self.journal.entries
        return {one.record_id or "" for one in entries if isinstance(one.data, AgentStarted) and one.agent == "scout"}

    def of_summaries(self) -> set[str]:
        return {one.record_id or "" for one in self.journal.entries if one.agent == AGENT}


def all_text(messages: Sequence[Message]) -> str:
    """Everything that a model reads in these messages, arguments left out."""
    words: list[str] = []
    for message in messages:
        match message:
            case ToolResults():
                words += [result.content for result in message.as_shown]
            case UserMessage() | AssistantMessage():
                words.append(message.text)
    return "\n".join(words)
