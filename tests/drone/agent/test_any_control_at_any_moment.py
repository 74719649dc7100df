"""Random controls at random moments, over random trees: each has one outcome, and what it promises holds."""

import asyncio
import random
from collections import Counter

import pytest

from drone.agent.agent import Agent
from drone.agent.controls.steering import Steering
from drone.agent.memory import MemoryJournal
from drone.agent.messages import AssistantMessage, UserMessage
from drone.agent.ports import Ask, AskLater
from drone.agent.spending.budget import Budget
from drone.agent.subagents.delegation import Delegation
from drone.agent.subagents.wanted import Wanted
from drone.agent.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.tool import FunctionTools, Joined, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.fold import Fold
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.journal import AgentFinished, ControlApplied, Entry, Fact, Origin, Outcome, ToolFinished, ToolStarted
from mcc.contracts.limits import Limits
from mcc.contracts.record import AgentEnd, RecordStatus

ORDER = "order-1"
KINDS = ["steer", "steer", "redirect", "pause", "pause", "resume", "cancel", "remove", "nobody"]


class LateJournal(MemoryJournal):
    """Commits in the order of asking, some moments later, as a journal in a database does."""

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

    async def close(self, status: AgentEnd, error: str, under: str | None = None) -> None:
        while self._pump is not None and not self._pump.done():
            await asyncio.wait({self._pump})
        await super().close(status, error, under)

    async def _commit(self) -> None:
        while self._queue:
            await moments(self._dice, 4)
            origin, facts, done = self._queue.pop(0)
            last = await super().write(origin, *facts)
            if not done.done():
                done.set_result(last)


async def moments(dice: random.Random, most: int) -> None:
    """Let others go first, up to so often."""
    for _ in range(dice.randrange(most + 1)):
        await asyncio.sleep(0)


class Wood:
    """A random tree: an agent's first message is its name, which says where it stands."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.journal = LateJournal(self.dice) if seed % 2 else MemoryJournal(ORDER)
        limits = Limits(
            concurrency=self.dice.choice([1, 2, 5]), parallel_tool_calls=self.dice.choice([1, 2, 16]), depth=3
        )
        self.turn = Turn.begun(self.journal, Budget(limits))
        self.turn.standstill.parks = True
        self.steering = Steering(self.turn)
        self.model = ScriptedModel(self._author, keep_asks=False)
        dice = self.dice

        @tool(group="workspace_write")
        async def write() -> str:
            """Write."""
            await moments(dice, 10)
            return "written"

        self._write = write

    async def run(self) -> None:
        running = asyncio.create_task(self._agent(Wanted("scout", 0)).run(Task("m", root_record_id(ORDER)), self.turn))
        for _ in range(self.dice.randrange(25)):
            await moments(self.dice, 12)
            if self.dice.random() < 0.3:
                await asyncio.gather(self._ask(), self._ask())
            else:
                await self._ask()
        async with asyncio.timeout(20):
            while not running.done():
                for record_id in (None, *self._records()):
                    await self.steering.resume(record_id=record_id)
                await asyncio.wait({running}, timeout=0.001)
        await running

    def _records(self) -> list[str]:
        return [entry.record_id for entry in self.journal.entries if entry.kind == "agent.started" and entry.record_id]

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
            return "Enough."
        calls = [call("write") for _ in range(self.dice.randrange(3))]
        if len(name) < 4:
            calls += [
                call("subagent", agent_type="scout", prompt=f"{name}{number}")
                for number in range(self.dice.randrange(3))
            ]
        self.dice.shuffle(calls)
        return Line(calls=tuple(calls), text="So far.")

    def _agent(self, wanted: Wanted) -> Agent:
        delegation = Delegation(self.turn, {"scout": "Looks."}, self._agent, depth=wanted.depth)
        return Agent(
            AgentDefinition(name="scout", prompt=""),
            model=self.model,
            tools=Joined(FunctionTools([self._write]), delegation),
            limits=self.turn.budget.limits,
        )


@pytest.mark.parametrize("seed", range(130))
async def test_every_control_has_one_outcome_and_every_tree_its_end(seed: int) -> None:
    wood = Wood(seed)
    await wood.run()
    entries = wood.journal.entries
    assert Fold.of(ORDER, entries).record() == wood.journal.fold.record()
    started = Counter(entry.record_id for entry in entries if entry.kind == "agent.started")
    ended = Counter(entry.record_id for entry in entries if entry.kind == "agent.finished")
    assert started == ended and set(started.values()) == {1}
    calls = Counter(entry.data.call_id for entry in entries if isinstance(entry.data, ToolStarted))
    assert calls == Counter(entry.data.call_id for entry in entries if isinstance(entry.data, ToolFinished))
    applied = {entry.data.control_id: entry.seq for entry in entries if isinstance(entry.data, ControlApplied)}
    assert len(applied) == sum(isinstance(entry.data, ControlApplied) for entry in entries)
    for control in wood.steering.asked:
        assert (control.applied_seq is None) != (control.refused is None), control
        assert applied.get(control.id) == control.applied_seq
    keeps_its_promises(entries)


def keeps_its_promises(entries: list[Entry]) -> None:
    """Nothing starts below what is cancelled or paused; what was taken away is used no more."""
    above = {entry.record_id: entry.parent_id for entry in entries if entry.record_id}
    root = entries[0].record_id
    cancelled: set[str] = set()
    paused: set[str] = set()
    narrowed: set[str] = set()
    denied: set[str] = set()
    for entry in entries:
        whose = entry.record_id or root
        assert whose is not None
        line = set(upwards(whose, above))
        match entry.data:
            case ControlApplied(control="cancel"):
                cancelled.add(whose)
            case ControlApplied(control="pause"):
                paused.add(whose)
            case ControlApplied(control="resume"):
                paused.discard(whose)
            case ControlApplied(tools_removed=removed) if removed:
                narrowed.add(whose)
            case ToolStarted(name="write", call_id=call_id) if line & narrowed:
                denied.add(call_id)
            case ToolFinished(call_id=call_id) if call_id in denied:
                assert entry.data.outcome is not Outcome.OK
            case AgentFinished(status=status) if whose in cancelled:
                assert status is RecordStatus.CANCELLED
        if entry.kind in ("model.started", "tool.started"):
            assert not line & cancelled, f"{entry.kind} at {entry.seq} below a cancelled agent"
            assert not line & paused, f"{entry.kind} at {entry.seq} below a paused agent"


def upwards(record_id: str, above: dict[str, str | None]) -> list[str]:
    found: list[str] = []
    each: str | None = record_id
    while each is not None:
        found.append(each)
        each = above.get(each)
    return found
