"""One agent with its journal, ready to run; each run checks that everything in the journal has ended."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from drone.agent.agent import AgentRuntime
from drone.agent.gates.gate import Gate
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Model
from drone.agent.ports.report import Report
from drone.agent.ports.write_access import SharedWriting
from drone.agent.spending.budget import Budget
from drone.agent.turns.toolset import ToolSet
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Author, Said, ScriptedModel
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, ToolFinished, ToolStarted
from mcc.contracts.limits import AgentLimits, Limits
from mcc.contracts.record import ChatRecord
from mcc.transcript.messages import Message, ToolResult, ToolResults, UserMessage

ORDER = "order-1"

F = TypeVar("F", bound=Fact)


class Lone:
    """An agent without children. `script`: lines, a function that writes the replies, or a model."""

    def __init__(
        self,
        script: Iterable[Said] | Author | Model,
        tools: ToolSet | None = None,
        limits: Limits | None = None,
        *,
        own: AgentLimits | None = None,
        gate: Gate | None = None,
        writing: SharedWriting | None = None,
    ) -> None:
        self.scripted = ScriptedModel(()) if hasattr(script, "ask") else ScriptedModel(script)
        model: Model = script if hasattr(script, "ask") else self.scripted  # type: ignore[assignment]
        self.journal = MemoryJournal(ORDER)
        self.turn = Turn.begun(self.journal, Budget(limits or Limits()), writing=writing)
        definition = AgentDefinition(name="master", prompt="You work.", limits=own or AgentLimits())
        self.agent = AgentRuntime(definition, model=model, tools=tools, limits=limits, gate=gate)

    async def run(self, prompt: str = "Go.") -> Report:
        """Run the agent; checks that everything begun has ended, and that a refold gives the same record."""
        report = await self.agent.run(Task(prompt, root_record_id(ORDER)), self.turn)
        assert len(self.facts(AgentStarted)) == len(self.facts(AgentFinished)) == 1
        assert self.journal.entries[-1].kind == "agent.finished"
        begun, ended = self.facts(ToolStarted), self.facts(ToolFinished)
        assert sorted(one.call_id for one in begun) == sorted(one.call_id for one in ended)
        assert (self.record().status, self.record().answer) == (report.status, report.text)
        return report

    def record(self) -> ChatRecord:
        record = Fold.of(ORDER, self.journal.entries).record()
        assert record is not None and record == self.journal.fold.record()
        return record

    def facts(self, kind: type[F]) -> list[F]:
        return [entry.data for entry in self.journal.entries if isinstance(entry.data, kind)]

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.journal.entries]

    def steps(self, name: str) -> list[str]:
        """The steps of this name in the record."""
        return [step.message for step in self.record().steps if step.kind == "note" and step.name == name]

    def heard(self) -> list[str]:
        """The runtime's messages to the model, without the task."""
        messages = self.scripted.asks[-1].messages
        return [said for message in messages for said in spoken_in(message)][1:]

    def results(self) -> Sequence[ToolResult]:
        """The results of all tool calls, as the model saw them."""
        messages = self.scripted.asks[-1].messages
        return [one for message in messages if isinstance(message, ToolResults) for one in message.results]


def spoken_in(message: Message) -> list[str]:
    """The texts of people and the runtime in a message."""
    if isinstance(message, ToolResults):
        return [notice.removeprefix("<notice>\n").removesuffix("\n</notice>") for notice in message.notices]
    return [message.text] if isinstance(message, UserMessage) else []
