"""A turn resumed by another drone continues where it was, and sends the requests it would have sent anyway."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.gates.report_gate import gate_for
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.agent.ports.report import Report
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree
from drone.agent.subagents.delegation import Delegation, Wanted
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, by_prompt, call
from drone.tools.frame.tool import FunctionTools, Joined, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Entry
from mcc.contracts.ids import call_id, child_record_id, root_record_id
from mcc.contracts.journal import AgentStarted, ToolFinished, ToolStarted
from mcc.contracts.limits import Limits
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import Rule
from mcc.contracts.record import ChatRecord
from mcc.transcript.messages import AssistantMessage, Message, ToolResults, UserMessage
from tests.drone.agent.random_trees import Stepping

ORDER = "order"
NORTH = child_record_id(call_id(root_record_id(ORDER), 1, 0))
HOUR = timedelta(hours=1)
LIMITS = Limits(concurrency=3, total_tokens=100_000_000, output_tokens=100_000_000)


@dataclass
class Drone:
    """A drone that runs the turn, from the start or from another drone's entries."""

    left: list[Entry] = field(default_factory=list)
    texts: Mapping[str, str] = field(default_factory=dict)
    idempotent: bool = True
    version: str = ""

    def __post_init__(self) -> None:
        self.journal = Stepping(self.left)
        self.journal.texts.update(self.texts)
        self.turn = Turn.begun(self.journal, Budget(LIMITS), tree=Tree.of(self.left))
        self.journal.live = self.turn.tree
        self.model = ScriptedModel(by_prompt(play))
        self.looked: list[str] = []

    async def run(self) -> Report:
        return await self._agent("master", 0).run(Task("go", root_record_id(ORDER), "Go"), self.turn)

    def _agent(self, name: str, depth: int) -> AgentRuntime:
        @tool(idempotent=self.idempotent)
        async def look(at: str) -> str:
            """Look at something."""
            self.looked.append(at)
            return f"{at} is green"

        @tool()
        async def fly() -> str:
            """Fly away."""
            return "gone"

        definition = AgentDefinition(
            name=name,
            prompt=f"You are {name}{self.version}.",
            result="report" if name == "held" else "text",
            rules=(Rule(cel="size(receipts) > 1", message="Look twice."),) if name == "held" else (),
        )
        hiring = Delegation(
            self.turn, {"free": "Free.", "held": "Held."}, lambda wanted: self._hired(wanted), depth=depth
        )
        own = FunctionTools([look, fly] if self.version else [look])
        return AgentRuntime(
            definition,
            model=self.model,
            tools=Joined(own, hiring) if depth < 2 else own,
            limits=LIMITS,
            gate=gate_for(definition, is_subagent=depth > 0),
        )

    def _hired(self, wanted: Wanted) -> AgentRuntime:
        return self._agent(wanted.agent_type, wanted.depth)

    @property
    def record(self) -> ChatRecord:
        record = self.journal.fold.record()
        assert record is not None
        return record

    def asked(self) -> dict[tuple[str, int], tuple[object, ...]]:
        """The request of each agent in each round."""
        return {_whose(ask): _words(ask) for ask in self.model.asks}


def play(task: str, replies: int) -> Said:
    if task == "go":
        return _master(replies)
    if task == "north":
        first: list[Said] = [_look("n1"), _look("n2", "n3"), _delegate(("free", "deep")), "North is done."]
        return [*first, _look("n4"), "North went on.", "North went on again."][replies]
    if task == "south":
        report = Line(calls=(call("submit_result", status="completed", summary="South is done."),))
        return [_look("s1"), report, Line(text="It is done."), _look("s2"), report][replies]
    elsewhere: list[Said] = [_look(f"{task} 1"), Line(text="Hm.", calls=(call("reed", at=task),)), f"{task} is done."]
    return elsewhere[replies]


def _master(replies: int) -> Said:
    crowd = [{"id": name, "role": "free", "task": name} for name in ("east", "west")]
    lines: list[Said] = [
        Line(
            text="Three go out.", calls=(*_delegate(("free", "north"), ("held", "south")).calls, call("look", at="m"))
        ),
        Line(calls=(call("subagents_run", agents=crowd, mode="chain"),)),
        Line(calls=(call("subagent_send", record_id=NORTH, message="Go on."),)),
        Line(calls=(call("subagent_send", record_id=NORTH, message="And on."),)),
        "All is done.",
    ]
    return lines[replies]


def _look(*places: str) -> Line:
    return Line(calls=tuple(call("look", at=place) for place in places))


def _delegate(*wanted: tuple[str, str]) -> Line:
    return Line(calls=tuple(call("subagent", agent_type=kind, prompt=prompt) for kind, prompt in wanted))


def _whose(ask: Ask) -> tuple[str, int]:
    prompt = next(message.text for message in ask.messages if isinstance(message, UserMessage))
    return prompt, sum(isinstance(message, AssistantMessage) for message in ask.messages)


def _words(ask: Ask) -> tuple[object, ...]:
    tools = [(spec.name, spec.description, spec.parameters) for spec in ask.tools]
    return ask.system, [_said(message) for message in ask.messages], tools, ask.max_output_tokens, ask.thinking


def _set_up(words: tuple[object, ...]) -> tuple[object, object]:
    system, _, tools, *_ = words
    return system, tools


def _said(message: Message) -> object:
    match message:
        case AssistantMessage():
            return (
                message.text,
                message.thinking,
                [(one.call_id, one.name, one.arguments) for one in message.tool_calls],
            )
        case ToolResults():
            return [(one.call_id, one.content, one.is_error) for one in message.results]
        case _:
            return message.text


def _shape(record: ChatRecord) -> object:
    """The record without numbers and times."""
    steps = [
        (step.kind, getattr(step, "name", ""), getattr(step, "text", ""), getattr(step, "content", ""))
        for step in record.steps
    ]
    children = sorted(str(_shape(child)) for child in record.subagent_history)
    return record.prompt, record.status, record.answer, record.result, record.usage, sorted(map(str, steps)), children


async def undisturbed() -> Drone:
    drone = Drone()
    report = await drone.run()
    assert report.completed and report.text == "All is done."
    return drone


async def test_after_every_commit_another_drone_asks_what_is_still_to_be_asked_and_brings_the_same_record() -> None:
    """No committed reply is requested again, and no finished call runs again."""
    first = await undisturbed()
    expected, whole = first.asked(), _shape(first.record)
    for commit in first.journal.commits[:-1]:
        left = first.journal.entries[:commit]
        second = Drone(left, first.journal.texts)
        report = await second.run()
        assert report.completed and report.text == "All is done.", commit
        for whose, words in second.asked().items():
            assert words == expected[whose], (commit, whose)
        assert _shape(second.record) == whole, commit
        replied = sum(isinstance(entry.data, ModelReplied) for entry in left)
        assert replied + len(second.model.asks) == len(first.model.asks), commit
        done = {entry.data.call_id for entry in left if isinstance(entry.data, ToolFinished)}
        again = [one.data for one in second.journal.entries[commit:] if isinstance(one.data, ToolFinished)]
        assert not done & {fact.call_id for fact in again}, commit


async def test_a_call_that_another_drone_had_begun_counts_from_its_first_start_whatever_tool_it_is_of() -> None:
    first = await undisturbed()
    taken_over: set[str] = set()
    for commit in first.journal.commits[:-1]:
        left = [entry.model_copy(update={"at": entry.at - HOUR}) for entry in first.journal.entries[:commit]]
        begun = {entry.data.call_id for entry in left if isinstance(entry.data, ToolStarted)}
        second = Drone(left, first.journal.texts)
        await second.run()
        for entry in second.journal.entries[commit:]:
            if isinstance(end := entry.data, ToolFinished):
                assert (end.seconds >= HOUR.total_seconds()) is (end.call_id in begun), (commit, end.name)
                taken_over.update([end.name] if end.call_id in begun else [])
    assert taken_over >= {"look", "subagent", "subagents_run", "subagent_send", "submit_result"}


async def test_a_call_takes_no_less_than_no_time_where_the_drone_before_had_a_clock_that_was_ahead() -> None:
    first = await undisturbed()
    begun = next(entry for entry in first.journal.entries if isinstance(entry.data, ToolStarted))
    left = [entry.model_copy(update={"at": entry.at + HOUR}) for entry in first.journal.entries[: begun.seq]]
    second = Drone(left, first.journal.texts)
    await second.run()
    ends = [entry.data for entry in second.journal.entries if isinstance(entry.data, ToolFinished)]
    assert all(0 <= end.seconds < HOUR.total_seconds() for end in ends)


async def test_a_drone_of_another_version_asks_with_the_prompts_and_tools_that_the_agents_began_with() -> None:
    first = await undisturbed()
    expected = first.asked()
    for commit in first.journal.commits[:-1:3]:
        left = first.journal.entries[:commit]
        begun = {entry.data.prompt for entry in left if isinstance(entry.data, AgentStarted)}
        second = Drone(left, first.journal.texts, version=" of tomorrow")
        await second.run()
        for whose, words in second.asked().items():
            if whose[0] == "north" and whose[1] >= 4:
                continue  # continued in a record of its own, which may begin with the new version
            same = _set_up(words) == _set_up(expected[whose])
            assert same is (whose[0] in begun), (commit, whose)


async def test_an_agent_whose_accepted_result_is_its_last_entry_is_not_asked_again() -> None:
    first = await undisturbed()
    entries = first.journal.entries
    ends = [(entry.seq, entry.data) for entry in entries if isinstance(entry.data, ToolFinished)]
    (accepted,) = [seq for seq, end in ends if end.name == "submit_result" and not end.is_error]
    left = entries[:accepted]
    second = Drone(left, first.journal.texts)
    await second.run()
    replied = sum(isinstance(entry.data, ModelReplied) for entry in left)
    assert replied + len(second.model.asks) == len(first.model.asks)
    assert _shape(second.record) == _shape(first.record)


async def test_a_call_that_may_have_had_its_effect_is_not_run_again_and_the_model_is_told() -> None:
    first = Drone(idempotent=False)
    await first.run()
    for commit in first.journal.commits[:-1]:
        left = first.journal.entries[:commit]
        finished = {entry.data.call_id for entry in left if isinstance(entry.data, ToolFinished)}
        begun = [one.data for one in left if isinstance(one.data, ToolStarted) and one.data.name == "look"]
        lost = {str(fact.arguments) for fact in begun if fact.call_id not in finished}
        second = Drone(left, first.journal.texts, idempotent=False)
        await second.run()
        assert not lost & set(second.looked), commit
        ends = [one.data for one in second.journal.entries[commit:] if isinstance(one.data, ToolFinished)]
        unknown = [fact for fact in ends if fact.outcome == "outcome_unknown"]
        assert len(unknown) == len(lost), commit


@pytest.mark.parametrize("steps", [2, 5])
async def test_a_drone_lost_again_and_again_loses_nothing(steps: int) -> None:
    first = await undisturbed()
    left, texts = list(first.journal.entries[:2]), first.journal.texts
    for _ in range(200):
        drone = Drone(left, texts)
        report = await drone.run()
        later = [commit for commit in drone.journal.commits if commit > len(left)]
        if len(later) <= steps:
            break
        left = drone.journal.entries[: later[steps - 1]]
    assert report.completed and _shape(drone.record) == _shape(first.record)


async def test_what_was_lost_with_a_drone_is_charged_as_it_was_reserved() -> None:
    first = await undisturbed()
    entries = first.journal.entries
    opened, began = next((entry.seq, entry.data) for entry in entries if isinstance(entry.data, ModelStarted))
    assert isinstance(began, ModelStarted)
    spent = Tree.of(entries[:opened]).spent
    assert spent.total_tokens == began.reserved_tokens > 0


async def test_a_program_goes_on_with_the_entries_that_it_kept() -> None:
    lines: list[Said] = [_look("n1"), "It is green."]
    first = _alone(lines)
    journal = MemoryJournal(ORDER)
    await first.run("What is there?", first.turn(journal))
    kept = [Entry.model_validate_json(entry.model_dump_json()) for entry in journal.entries[:5]]
    assert kept[-1].kind == "tool.finished"
    second = _alone(lines[1:])
    again = MemoryJournal(ORDER, entries=kept)
    report = await second.run("What is there?", second.turn(again, Tree.of(kept)))
    assert report.text == "It is green." and report.record_id == kept[0].record_id
    assert [entry.kind for entry in again.entries] == [entry.kind for entry in journal.entries]


def _alone(lines: list[Said]) -> AgentRuntime:
    @tool(idempotent=True)
    async def look(at: str) -> str:
        """Look at something."""
        return f"{at} is green"

    definition = AgentDefinition(name="lone", prompt="Look.")
    return AgentRuntime(definition, model=ScriptedModel(lines), tools=FunctionTools([look]))
