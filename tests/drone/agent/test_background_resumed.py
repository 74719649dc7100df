"""Wherever a drone is lost, the report of each subagent in the background reaches its parent exactly once."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from drone.agent.agent import AgentRuntime
from drone.agent.ports.model import Ask
from drone.agent.ports.report import Report
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree
from drone.agent.subagents.delegation import Delegation, Wanted
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, Joined, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Entry
from mcc.contracts.ids import call_id, child_record_id, root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, ControlApplied, ToolFinished
from mcc.contracts.limits import Limits
from mcc.contracts.record import RecordStatus
from mcc.transcript.messages import AssistantMessage, Message, ToolResults, UserMessage
from tests.drone.agent.random_trees import Stepping, moments

ORDER = "order"
ROOT = root_record_id(ORDER)
LIMITS = Limits(concurrency=2, total_tokens=100_000_000, output_tokens=100_000_000, subagents_per_call=8)
EAST = child_record_id(call_id(ROOT, 1, 0), 0)
LONE = child_record_id(call_id(ROOT, 1, 1))
IDLER = child_record_id(call_id(ROOT, 2, 0))


@dataclass
class Drone:
    """A drone that runs the turn, from the start or from another drone's entries. `seed`: how long calls take."""

    left: Sequence[Entry] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.journal = Stepping(self.left)
        self.turn = Turn.begun(self.journal, Budget(LIMITS), tree=Tree.of(self.left))
        self.journal.live = self.turn.tree
        self.model = ScriptedModel(self._author)

    async def run(self) -> Report:
        return await self._agent(Wanted("master", 0)).run(Task("go", ROOT, "Go"), self.turn)

    def _agent(self, wanted: Wanted) -> AgentRuntime:
        dice = self.dice

        @tool(idempotent=True)
        async def look(at: int) -> str:
            """Look."""
            await moments(dice, 20)
            return f"{at} is green"

        below = Delegation(self.turn, {"scout": "Looks."}, self._agent, depth=wanted.depth)
        definition = AgentDefinition(name=wanted.agent_type, prompt="")
        tools = Joined(FunctionTools([look]), below)
        return AgentRuntime(definition, model=self.model, tools=tools, limits=LIMITS)

    async def _author(self, ask: Ask) -> Said:
        await moments(self.dice, 30)
        prompt = next(message.text for message in ask.messages if isinstance(message, UserMessage))
        replies = sum(isinstance(message, AssistantMessage) for message in ask.messages)
        return play(prompt, replies, self.dice)


def play(prompt: str, replies: int, dice: random.Random) -> Said:
    if prompt == "go":
        crowd = [{"role": "scout", "task": name} for name in ("east", "west", "far")]
        group = call("subagents_run", agents=crowd, background=True, max_concurrency=2)
        lone = call("subagent", agent_type="scout", prompt="lone", background=True)
        idler = call("subagent", agent_type="scout", prompt="idler", background=True, on_end="cancel")
        lines: list[Said] = [
            Line(calls=(group, lone, call("look", at=0))),
            Line(calls=(idler, call("subagent_steer", record_id=LONE, message="Mind the gulls."))),
            Line(calls=(call("subagent_wait", first=True), call("subagent_status"))),
            Line(calls=(call("look", at=3),)),
        ]
        return lines[replies] if replies < len(lines) else "All is done."
    if prompt == "far" and replies == 0:
        return Line(calls=(call("subagent", agent_type="scout", prompt="farther", background=True),))
    lengths = {"idler": 60, "lone": 8}
    return Line(calls=(call("look", at=replies),)) if replies < lengths.get(prompt, 2) else f"{prompt} is done."


def deliveries(entries: Sequence[Entry]) -> Counter[str]:
    brought = Counter[str]()
    for entry in entries:
        if isinstance(fact := entry.data, AgentDelivered):
            brought[fact.child_id] += 1
        elif isinstance(fact, ToolFinished):
            brought.update(fact.delivered)
    return brought


def check(drone: Drone, report: Report, where: object) -> None:
    """What has to hold of the journal of an order that is over."""
    entries = drone.journal.entries
    assert report.completed and report.text == "All is done.", where
    started = {entry.record_id: entry.parent_id for entry in entries if isinstance(entry.data, AgentStarted)}
    ends = Counter(entry.record_id for entry in entries if isinstance(entry.data, AgentFinished))
    # The master's end joins the transaction that ends the order; here it is the last entry.
    assert ends == Counter(list(started)) and entries[-1].record_id == ROOT, where
    brought = deliveries(entries)
    hired = {child for entry in entries if isinstance(entry.data, ToolFinished) for child in entry.data.background}
    assert len(hired) == 6 and brought.keys() | {IDLER} == hired, where
    assert set(brought.values()) == {1}, where
    assert {entry.data.status for entry in entries if isinstance(entry.data, AgentDelivered)} <= {
        RecordStatus.COMPLETED
    }, where
    for seq, child in delivered_at(entries):
        assert any(one.record_id == child and isinstance(one.data, AgentFinished) for one in entries[:seq]), where
    heard = [entry for entry in entries if isinstance(entry.data, ControlApplied)]
    assert len(heard) <= 1 and all(entry.record_id == LONE for entry in heard), where
    last = [ask for ask in drone.model.asks if _is_masters(ask)]
    if last:
        texts = "\n".join(text for message in last[-1].messages for text in _texts(message))
        told = {entry.data.child_id for entry in entries if isinstance(entry.data, AgentDelivered)}
        mine = {child for child in told if started.get(child) == ROOT}
        assert all(texts.count(f"<notice>Subagent {child} ") == 1 for child in mine), where


def delivered_at(entries: Sequence[Entry]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for entry in entries:
        if isinstance(fact := entry.data, AgentDelivered):
            found.append((entry.seq, fact.child_id))
        elif isinstance(fact, ToolFinished):
            found += [(entry.seq, child) for child in fact.delivered]
    return found


def _is_masters(ask: Ask) -> bool:
    return next(message.text for message in ask.messages if isinstance(message, UserMessage)) == "go"


def _texts(message: Message) -> list[str]:
    match message:
        case ToolResults():
            return [result.content for result in message.as_shown]
        case _:
            return [message.text]


async def test_after_every_commit_another_drone_delivers_each_report_once() -> None:
    for seed in range(2):
        first = Drone(seed=seed)
        check(first, await first.run(), seed)
        for commit in first.journal.commits[:-1]:
            second = Drone(first.journal.entries[:commit], seed + commit)
            check(second, await second.run(), (seed, commit))
            before = deliveries(first.journal.entries[:commit])
            assert before <= deliveries(second.journal.entries), (seed, commit)


async def test_at_every_entry_too() -> None:
    """A store that commits entries one by one may lose any tail of a write."""
    first = Drone(seed=5)
    await first.run()
    for seq in range(1, len(first.journal.entries), 2):
        second = Drone(first.journal.entries[:seq], seq)
        check(second, await second.run(), seq)


async def test_a_drone_lost_again_and_again_delivers_each_report_once() -> None:
    for seed in range(10):
        dice, left = random.Random(seed), list[Entry]()
        for attempt in range(1_000):
            drone = Drone(left, seed * 1_000 + attempt)
            report = await drone.run()
            later = [commit for commit in drone.journal.commits if commit > len(left)]
            steps = dice.randint(1, 12)
            if len(later) <= steps:
                break
            left = drone.journal.entries[: later[steps - 1]]
        check(drone, report, seed)


class Pair(Drone):
    """Its master starts one subagent and waits for it, in one reply."""

    async def _author(self, ask: Ask) -> Said:
        if not _is_masters(ask):
            return "lone is done."
        if any(isinstance(message, AssistantMessage) for message in ask.messages):
            return "All is done."
        hire = call("subagent", agent_type="scout", prompt="lone", background=True)
        return Line(calls=(hire, call("subagent_wait")))


async def test_a_call_that_runs_again_names_an_agent_whose_report_a_call_beside_it_has_brought() -> None:
    first = Pair()
    assert (await first.run()).completed
    entries = first.journal.entries
    brought = next(
        number for number, one in enumerate(entries) if isinstance(one.data, ToolFinished) and one.data.delivered
    )
    left = [one for one in entries[: brought + 1] if not (isinstance(one.data, ToolFinished) and one.data.background)]
    assert len(left) == brought, "its drone was lost before the call that started the agent had ended"
    again = Pair([one.model_copy(update={"seq": seq}) for seq, one in enumerate(left, 1)])
    assert (await again.run()).completed
    hired = [one.data for one in again.journal.entries if isinstance(one.data, ToolFinished) and one.data.background]
    child = child_record_id(call_id(ROOT, 1, 0))
    assert [fact.background for fact in hired] == [(child,)] and not hired[0].is_error
    assert deliveries(again.journal.entries) == {child: 1}
