"""A run that is longer than its model's context: an agent that reads pages, and a model that can be asked to sum up."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from drone.agent.agent import AgentRuntime
from drone.agent.compaction.summary import AGENT
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, ContextOverflow, Listener, Reply
from drone.agent.ports.report import Report
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.artifacts import ArtifactTools
from drone.tools.frame.tool import FunctionTools, Joined, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.entry import Entry
from mcc.contracts.ids import root_record_id
from mcc.contracts.limits import Limits
from mcc.contracts.shape import to_json
from mcc.contracts.usage import Usage
from mcc.transcript.messages import AssistantMessage, Message, ToolResults, UserMessage

ORDER = "order-1"
SUMMARY = "## Goal\nRead all.\n## Findings\n- src/app.py:12 is short.\n## Done\n- read\n## Open\n- the rest"
MARK = "This conversation gets too long"


def tokens_of(ask: Ask) -> int:
    return (len(ask.system) + sum(map(size_of, ask.messages))) // 4


def size_of(message: Message) -> int:
    match message:
        case ToolResults():
            return sum(len(result.content) for result in message.as_shown)
        case AssistantMessage():
            return len(message.text) + sum(len(to_json(one.arguments)) for one in message.tool_calls)
        case _:
            return len(message.text)


def asks_for_summary(ask: Ask) -> bool:
    last = ask.messages[-1]
    return isinstance(last, UserMessage) and MARK in last.text


class LongModel(ScriptedModel):
    """Reads page after page (`page(number, replies)`), and answers requests for summaries with what `sums_up` says."""

    def __init__(
        self,
        rounds: int,
        window: int,
        *,
        length: int = 2_000,
        sums_up: Callable[[Ask], Said] = lambda _: SUMMARY,
        tells: bool = True,
    ) -> None:
        super().__init__(self._write)
        self.rounds, self.window, self.length, self.sums_up, self.tells = rounds, window, length, sums_up, tells
        self.said = 0
        self.before_round: dict[int, Callable[[], Awaitable[None]]] = {}
        """What happens before its reply of that number."""

    @property
    def context_tokens(self) -> int | None:
        return self.window if self.tells else None

    @property
    def summaries(self) -> list[Ask]:
        return [ask for ask in self.asks if asks_for_summary(ask)]

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        if tokens_of(ask) > self.window:
            raise ContextOverflow("Too long.", self.window, status=400)
        if (happens := self.before_round.pop(self.said, None)) is not None:
            await happens()
        await asyncio.sleep(0)  # as every real model does, it lets others go on meanwhile
        return await super().ask(ask, listener)

    def _write(self, ask: Ask) -> Said:
        usage = Usage(input_tokens=tokens_of(ask), output_tokens=20, model_calls=1)
        if asks_for_summary(ask):
            said = self.sums_up(ask)
            return Line(said, usage=usage) if isinstance(said, str) else said
        self.said += 1
        if self.said > self.rounds:
            return Line("All read.", usage=usage)
        return Line(
            f"Page {self.said} is next.",
            calls=(call("page", number=self.said, length=self.length),),
            usage=usage,
        )


@dataclass
class LongRun:
    """One run of the agent, with its journal."""

    model: LongModel
    prompt: str = "Read all pages. Never write to vault-17 without Ada Bell."
    left: Sequence[Entry] = ()
    texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        @tool(idempotent=True)
        async def page(number: int, length: int) -> str:
            """A page.

            Args:
                number: which one.
                length: its characters.
            """
            return f"Page {number}. " + "x" * length

        self.journal = MemoryJournal(ORDER, entries=self.left)
        self.journal.texts.update(self.texts)
        definition = AgentDefinition(name="master", prompt="You read.")
        tools = Joined(FunctionTools([page]), ArtifactTools())
        self.agent = AgentRuntime(definition, model=self.model, tools=tools, limits=Limits(rounds=1_000))

    async def run(self) -> Report:
        turn = self.agent.turn(self.journal, Tree.of(self.left) if self.left else None)
        return await self.agent.run(Task(self.prompt, root_record_id(ORDER)), turn)

    def compacted(self, stage: str | None = None) -> list[TranscriptCompacted]:
        facts = [one.data for one in self.journal.entries if isinstance(one.data, TranscriptCompacted)]
        return [fact for fact in facts if stage in (None, fact.stage)]

    def summaries(self) -> list[Entry]:
        """The entries of the records of requests for summaries."""
        return [one for one in self.journal.entries if one.agent == AGENT]


def unanswered(messages: Sequence[Message]) -> list[str]:
    """Calls without a result, and results without a call, in a request."""
    wrong: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResults):
            ids = [result.call_id for result in message.results]
            wrong += [one for one in ids if one not in waiting] + [one for one in waiting if one not in ids]
            waiting = []
        else:
            wrong += waiting
            waiting = [one.call_id for one in message.tool_calls] if isinstance(message, AssistantMessage) else []
    return wrong + waiting
