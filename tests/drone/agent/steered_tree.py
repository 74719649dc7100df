"""A tree of agents whose model calls wait until the test releases them, so that they can be controlled meanwhile."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.agent.ports.report import Report
from drone.agent.spending.budget import Budget
from drone.agent.subagents.children import Wanted
from drone.agent.subagents.delegation import Delegation
from drone.agent.turns.toolset import ToolSet
from drone.agent.turns.turn import Steering, Task, Turn
from drone.models.scripted import Line, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, Joined
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.control import Control
from mcc.contracts.entry import Entry
from mcc.contracts.fold import Fold
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished, ControlApplied
from mcc.contracts.limits import Limits
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.transcript.messages import AssistantMessage, UserMessage
from tests.drone.agent.lone import spoken_in

ORDER = "order-1"
MASTER = "master"


def delegate(*prompts: str) -> Line:
    return Line(calls=tuple(call("subagent", agent_type="scout", prompt=prompt) for prompt in prompts))


class SteeredTree:
    """`script`: the replies of each agent, by its prompt; the last reply repeats.

    A model call waits as long as `gates[prompt]` is closed; `asked[prompt]` is set when the agent asks its model.
    """

    def __init__(
        self,
        script: dict[str, list[Line | str]],
        tools: Callable[[], ToolSet] = lambda: FunctionTools([]),
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._script = script
        self._tools = tools
        self.model = ScriptedModel(self._author)
        self.journal = MemoryJournal(ORDER, watch=self._watch)
        self.turn = Turn.begun(self.journal, Budget(limits or Limits(), clock))
        self.steering = Steering(self.turn)
        self.gates: dict[str, asyncio.Event] = defaultdict(_opened)
        self.asked: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.calls: list[str] = []
        self._moved = asyncio.Event()
        self.running: asyncio.Task[Report] | None = None

    def hold(self, *prompts: str) -> None:
        """Block the models of these agents until `release`."""
        for prompt in prompts:
            self.gates[prompt] = asyncio.Event()

    def release(self, *prompts: str) -> None:
        for prompt in prompts:
            self.gates[prompt].set()

    def begin(self) -> "asyncio.Task[Report]":
        self.running = asyncio.create_task(
            self._agent(Wanted(MASTER, 0)).run(Task(MASTER, root_record_id(ORDER)), self.turn)
        )
        return self.running

    async def until_asked(self, *prompts: str) -> None:
        """Wait until these agents ask their models (again)."""
        for prompt in prompts:
            await self.asked[prompt].wait()
            self.asked[prompt].clear()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until this holds, checked after each journal entry."""
        while not true():
            self._moved.clear()
            await self._moved.wait()

    def record(self) -> ChatRecord:
        record = self.journal.fold.record()
        assert record is not None
        return record

    def child(self, prompt: str) -> ChatRecord:
        found = [child for child in _all(self.record()) if child.prompt == prompt]
        assert len(found) == 1, prompt
        return found[0]

    def ended(self, prompt: str) -> RecordStatus | None:
        """How the agent's run ended; checks that it has exactly one final entry."""
        record_id = self.child(prompt).id
        ends = [one.data for one in self.journal.entries if one.record_id == record_id and one.kind == "agent.finished"]
        assert len(ends) <= 1
        return ends[0].status if ends and isinstance(ends[0], AgentFinished) else None

    def kinds(self, prompt: str) -> list[str]:
        record_id = self.child(prompt).id
        return [entry.kind for entry in self.journal.entries if entry.record_id == record_id]

    def said_to(self, prompt: str) -> list[str]:
        """The texts of people and the runtime in the agent's last request to its model."""
        asks = [ask for ask in self.model.asks if asked_by(ask) == prompt]
        return [said for message in asks[-1].messages for said in spoken_in(message)]

    def offered_to(self, prompt: str) -> list[str]:
        """The tools in the agent's last request to its model."""
        return [spec.name for spec in [ask for ask in self.model.asks if asked_by(ask) == prompt][-1].tools]

    async def _author(self, ask: Ask) -> Line | str:
        prompt = asked_by(ask)
        self.calls.append(prompt)
        self.asked[prompt].set()
        await self.gates[prompt].wait()
        lines = self._script[prompt]
        return lines[min(sum(isinstance(one, AssistantMessage) for one in ask.messages), len(lines) - 1)]

    def _agent(self, wanted: Wanted) -> AgentRuntime:
        delegation = Delegation(self.turn, {"scout": "Looks around."}, self._agent, depth=wanted.depth)
        return AgentRuntime(
            AgentDefinition(name=wanted.agent_type, prompt=""),
            model=self.model,
            tools=Joined(self._tools(), delegation),
            limits=self.turn.budget.limits,
        )

    def _watch(self, _: Entry) -> None:
        self._moved.set()


def _opened() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def asked_by(ask: Ask) -> str:
    """The prompt of the agent that sends this request."""
    return next(message.text for message in ask.messages if isinstance(message, UserMessage))


def _all(record: ChatRecord) -> list[ChatRecord]:
    return [record, *(below for child in record.subagent_history for below in _all(child))]


TWO: dict[str, list[Line | str]] = {
    MASTER: [delegate("north", "south"), "Both looked."],
    "north": ["North is empty."],
    "south": ["South is empty."],
}


def seq_of(tree: SteeredTree, control: Control) -> int:
    (entry,) = [
        entry
        for entry in tree.journal.entries
        if isinstance(entry.data, ControlApplied) and entry.data.control_id == control.id
    ]
    return entry.seq


def outcome(tree: SteeredTree, control: Control) -> Control:
    """The current state of the control."""
    return next(one for one in tree.steering.asked if one.id == control.id)


async def two_at_work(limits: Limits | None = None) -> SteeredTree:
    """A root agent that waits for two children, each within its first model call."""
    tree = SteeredTree(dict(TWO), limits=limits)
    tree.hold("north", "south")
    tree.begin()
    await tree.until_asked("north", "south")
    return tree


async def end_of(tree: SteeredTree) -> str:
    assert tree.running is not None
    async with asyncio.timeout(10):
        report = await tree.running
    assert not any(control.open for control in tree.steering.asked)
    assert Fold.of(tree.journal.order_id, tree.journal.entries).record() == tree.record()
    return report.text
