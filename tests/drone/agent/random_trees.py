"""Random trees of agents, and random controls at random moments."""

import asyncio
import random
from collections.abc import Sequence

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, AskLater
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree
from drone.agent.subagents.children import Wanted
from drone.agent.subagents.delegation import Delegation
from drone.agent.turns.turn import Steering, Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, Joined, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Draft, Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.journal import ControlApplied
from mcc.contracts.limits import Limits
from mcc.contracts.record import AgentEnd
from mcc.transcript.messages import AssistantMessage, UserMessage

ORDER = "order-1"
LAST: list[Said] = [
    "Enough.",
    "Enough.",
    Line("Enough, and", finish_reason="length"),
    Line(thinking="Hm."),
    Line("Let me look at it."),
    Line("No.", finish_reason="refusal"),
]
KINDS = ["steer", "steer", "redirect", "pause", "pause", "resume", "cancel", "remove", "nobody"]


class FollowedJournal(MemoryJournal):
    """A journal that also applies each committed entry to a second tree, as another drone would."""

    def __init__(self, order_id: str, entries: Sequence[Entry] = ()) -> None:
        super().__init__(order_id, entries=entries)
        self.live: Tree | None = None
        self.read = Tree.of(entries)
        self.followed = len(entries)
        self.compared = 0

    def defer(self, origin: Origin, *facts: Fact) -> None:
        super().defer(origin, *facts)
        self._follow()

    def _follow(self) -> None:
        for entry in self.entries_after(self.followed):
            self.read.add(entry)
            self.followed = entry.seq

    async def write(self, origin: Origin, *facts: Fact) -> int:
        number = await super().write(origin, *facts)
        # A control is written beside the run, which may have noted something that is committed after it.
        if self.live is not None and not isinstance(facts[-1], ControlApplied):
            assert self.read.records[origin.record_id or ""] == self.live.records[origin.record_id or ""]
            self.compared += 1
        return number

    async def close(
        self, status: AgentEnd, error: str, under: str | None = None, limit: str | None = None
    ) -> Sequence[Draft]:
        drafts = await super().close(status, error, under, limit)
        self._follow()
        return drafts


class Stepping(FollowedJournal):
    """Records after which entries a drone may be lost: each write is one commit."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__(ORDER, entries)
        self.commits: list[int] = []

    async def write(self, origin: Origin, *facts: Fact) -> int:
        number = await super().write(origin, *facts)
        self.commits.append(number)
        return number


class LateJournal(MemoryJournal):
    """A journal that commits writes in order, but some event-loop steps later, like one in a database."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__(ORDER)
        self._dice = dice
        self._queue: list[tuple[Origin, tuple[Fact, ...], asyncio.Future[int]]] = []
        self._pump: asyncio.Task[None] | None = None

    async def write(self, origin: Origin, *facts: Fact) -> int:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.append((origin, facts, done))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._commit())
        return await done

    async def close(
        self, status: AgentEnd, error: str, under: str | None = None, limit: str | None = None
    ) -> Sequence[Draft]:
        while self._pump is not None and not self._pump.done():
            await asyncio.wait({self._pump})
        return await super().close(status, error, under, limit)

    async def _commit(self) -> None:
        while self._queue:
            await moments(self._dice, 4)
            origin, facts, done = self._queue.pop(0)
            last = await super().write(origin, *facts)
            if not done.done():
                done.set_result(last)


async def moments(dice: random.Random, most: int) -> None:
    """Yield to other tasks a random number of times, at most so often."""
    for _ in range(dice.randrange(most + 1)):
        await asyncio.sleep(0)


class Wood:
    """A random tree; an agent's first message is its name, which encodes its position."""

    def __init__(self, seed: int, journal: MemoryJournal | None = None, left: Tree | None = None) -> None:
        self.dice = random.Random(seed)
        self.journal = journal or (LateJournal(self.dice) if seed % 2 else MemoryJournal(ORDER))
        limits = Limits(
            concurrency=self.dice.choice([1, 2, 5]), parallel_tool_calls=self.dice.choice([1, 2, 16]), depth=3
        )
        self.turn = Turn.begun(self.journal, Budget(limits), tree=left)
        self.turn.idle.parks = True
        self.steering = Steering(self.turn)
        self.model = ScriptedModel(self._author, keep_asks=False)
        dice = self.dice

        @tool(group="workspace_write")
        async def write() -> str:
            """Write."""
            await moments(dice, 10)
            return "written"

        self._write = write
        self._started: list[str] = []
        self._seen = 0

    async def run(self) -> None:
        running = asyncio.create_task(self._agent(Wanted("scout", 0)).run(Task("m", root_record_id(ORDER)), self.turn))
        for _ in range(self.dice.randrange(25)):
            await moments(self.dice, 12)
            if self.dice.random() < 0.3:
                await asyncio.gather(self._ask(), self._ask())
            else:
                await self._ask()
        async with asyncio.timeout(60):
            while not running.done():
                for record_id in (None, *self._records()):
                    await self.steering.resume(record_id=record_id)
                await asyncio.wait({running}, timeout=0.01)
        await running

    def _records(self) -> list[str]:
        for entry in self.journal.entries_after(self._seen):
            self._seen = entry.seq
            if entry.kind == "agent.started" and entry.record_id:
                self._started.append(entry.record_id)
        return self._started

    async def _ask(self) -> None:
        records = self._records()
        record_id = self.dice.choice([None, *records, *records]) if self.dice.random() < 0.9 else None
        kind = self.dice.choice(KINDS)
        if kind == "cancel" and record_id in (None, *records[:1]) and self.dice.random() < 0.8:
            kind = "pause"
        match kind:
            case "steer":
                await self.steering.steer("Mind that.", record_id=record_id)
            case "redirect":
                await self.steering.steer("Do this.", record_id=record_id, redirect=True, remove_tools=("write",))
            case "remove":
                await self.steering.remove_tools("workspace_write", record_id=record_id)
            case "nobody":
                assert (await self.steering.cancel(record_id=fresh_id())).refused
            case _:
                await getattr(self.steering, kind)(record_id=record_id)

    async def _author(self, ask: Ask) -> Said:
        await moments(self.dice, 15)
        if self.dice.random() < 0.1:
            return AskLater("Only a resume helps.", 3600)
        name = next(message.text for message in ask.messages if isinstance(message, UserMessage))
        replies = sum(isinstance(message, AssistantMessage) for message in ask.messages)
        if replies >= 3:
            return self.dice.choice(LAST)
        calls = [call("write") for _ in range(self.dice.randrange(3))]
        if len(name) < 4:
            calls += [
                call("subagent", agent_type="scout", prompt=f"{name}{number}")
                for number in range(self.dice.randrange(3))
            ]
        self.dice.shuffle(calls)
        return Line(calls=tuple(calls), text="So far.")

    def _agent(self, wanted: Wanted) -> AgentRuntime:
        delegation = Delegation(self.turn, {"scout": "Looks."}, self._agent, depth=wanted.depth)
        return AgentRuntime(
            AgentDefinition(name="scout", prompt=""),
            model=self.model,
            tools=Joined(FunctionTools([self._write]), delegation),
            limits=self.turn.budget.limits,
        )
