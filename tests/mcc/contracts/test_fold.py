"""The fold of a journal: record, usage and open calls, for any journal that a drone could write."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcc.contracts.blocks import ToolCall, blocks_of
from mcc.contracts.entry import ORDER, Draft, Entry, Origin
from mcc.contracts.fact import Fact, NotedFact
from mcc.contracts.fold import Fold
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import (
    AgentFinished,
    AgentStarted,
    AgentStep,
    ControlApplied,
    Outcome,
    ToolFinished,
    ToolStarted,
)
from mcc.contracts.limits import LimitChoice
from mcc.contracts.model_facts import ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.order_facts import OrderClaimed, OrderFinished, OrderQueued, OrderRequeued
from mcc.contracts.record import ChatRecord, ModelChoice, ModelStep, NoteStep, RecordStatus, ToolStep
from mcc.contracts.shape import to_json
from mcc.contracts.status import OrderStatus
from mcc.contracts.usage import Usage
from tests.mcc.contracts.samples import AT, CHOICE, FACTS, INCARNATION, ORDER_ID, SESSION_ID


@dataclass
class Story:
    """Generates a journal entry by entry, and counts the usage that the fold should arrive at."""

    entries: list[Entry] = field(default_factory=list)
    usage: Usage = Usage()
    attempt: int = 0
    calls: int = 0
    children: dict[str, list[str]] = field(default_factory=dict)
    open_agents: list[Origin] = field(default_factory=list)
    open_calls: set[str] = field(default_factory=set)

    def tell(self, origin: Origin, fact: Fact) -> None:
        number = len(self.entries) + 1
        draft = Draft(at=AT + timedelta(seconds=number), origin=origin, data=fact)
        self.entries.append(draft.numbered(ORDER_ID, number))

    def begin(self) -> None:
        queued = OrderQueued(session_id=SESSION_ID, session_seq=1, agent="master", queue="default", priority=5)
        self.tell(ORDER, queued)

    def claim(self) -> Origin:
        self.attempt += 1
        self.children, self.open_agents, self.open_calls = {}, [], set()
        self.tell(ORDER, OrderClaimed(attempt=self.attempt, epoch=self.attempt, drone="d", incarnation=INCARNATION))
        return self.start(Origin(record_id=f"root-{self.attempt}", agent="master"))

    def start(self, origin: Origin, call_id: str | None = None) -> Origin:
        started = AgentStarted(
            title=f"Title of {origin.record_id}",
            call_id=call_id,
            prompt="Do it.",
            model=CHOICE,
            tools=("read_file",),
            limits=LimitChoice(),
            definition_digest="d",
            setup_digest="s",
        )
        self.tell(origin, started)
        self.children[str(origin.record_id)] = []
        if origin.parent_id is not None:
            self.children[origin.parent_id].append(str(origin.record_id))
        self.open_agents.append(origin)
        return origin

    def spawn(self, parent: Origin) -> Origin:
        call = self.call(parent, "subagent")
        child = f"{parent.record_id}/{len(self.children)}"
        return self.start(
            Origin(record_id=child, parent_id=parent.record_id, agent="explore", depth=parent.depth + 1), call
        )

    def reply(self, origin: Origin, tokens: int = 10, cost: float | None = 0.5) -> None:
        usage = Usage(input_tokens=tokens, output_tokens=1, model_calls=1, cost_usd=cost)
        self.tell(origin, ModelStarted(round=1, attempt=1, model="m"))
        reply = ModelReplied(
            blocks=blocks_of(text=f"{tokens}"), round=1, attempt=1, model="m", finish_reason="stop", usage=usage
        )
        self.tell(origin, reply)
        self.usage = self.usage.plus(usage)

    def call(self, origin: Origin, name: str = "read_file") -> str:
        self.calls += 1
        call_id = f"call-{self.calls}"
        arguments = {"number": self.calls}
        self.tell(
            origin, ToolStarted(call_id=call_id, round=1, index=0, name=name, arguments=arguments, idempotent=True)
        )
        self.open_calls.add(call_id)
        return call_id

    def finish_call(self, origin: Origin, call_id: str) -> None:
        self.tell(origin, ToolFinished(call_id=call_id, name="read_file", content="text", is_error=False, seconds=0.5))
        self.open_calls.discard(call_id)
        self.usage = self.usage.plus(Usage(tool_calls=1))

    def finish(self, origin: Origin, status: RecordStatus = RecordStatus.COMPLETED) -> None:
        self.tell(origin, AgentFinished(status=status, answer=f"Answer of {origin.record_id}"))  # type: ignore[arg-type]
        self.open_agents.remove(origin)

    def lose(self) -> None:
        self.tell(ORDER, OrderRequeued(epoch=self.attempt + 1, lost=INCARNATION, message="Lost."))

    @property
    def fold(self) -> Fold:
        return Fold.of(ORDER_ID, self.entries)


def told(story: Story) -> ChatRecord:
    record = story.fold.record()
    assert record is not None
    return record


def walked(record: ChatRecord) -> list[ChatRecord]:
    return [record, *(below for child in record.subagent_history for below in walked(child))]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Random journals with several attempts, trees of agents, and calls and agents left open anywhere."""
    story = Story()
    story.begin()
    for attempt in range(draw(st.integers(1, 3))):
        if attempt:
            story.lose()
        story.claim()
        for _ in range(draw(st.integers(0, 12))):
            if not story.open_agents:
                break
            _step(draw, story, draw(st.sampled_from(story.open_agents)))
    return story


def _step(draw: st.DrawFn, story: Story, origin: Origin) -> None:
    steps: list[Callable[[], object]] = [
        lambda: story.reply(origin, draw(st.integers(0, 99)), draw(st.sampled_from([0.0, 0.25, None]))),
        lambda: story.call(origin),
        lambda: story.finish_call(origin, story.call(origin)),
        lambda: story.tell(origin, AgentStep(name="provisioned", message="x")),
        lambda: story.spawn(origin),
        lambda: story.finish(origin),
    ]
    draw(st.sampled_from(steps))()


@given(stories())
def test_the_roots_total_is_the_sum_of_the_journal_over_all_attempts(story: Story) -> None:
    spent = Usage()
    for entry in story.entries:
        if isinstance(entry.data, ModelReplied):
            spent = spent.plus(entry.data.usage)
        elif isinstance(entry.data, ToolFinished):
            spent = spent.plus(Usage(tool_calls=1))
    assert story.fold.usage == told(story).usage_total == spent == story.usage


@given(stories())
def test_a_nodes_total_is_its_own_usage_and_its_childrens_totals(story: Story) -> None:
    for node in walked(told(story))[1:]:
        total = node.usage
        for child in node.subagent_history:
            total = total.plus(child.usage_total)
        assert node.usage_total == total


@given(stories())
def test_the_tree_is_that_of_the_last_attempt(story: Story) -> None:
    record = told(story)
    assert {node.id: [child.id for child in node.subagent_history] for node in walked(record)} == story.children
    assert record.id == f"root-{story.attempt}"
    assert (record.order_id, record.session_id) == (ORDER_ID, SESSION_ID)


@given(stories())
def test_a_record_is_running_until_its_agent_finished(story: Story) -> None:
    unfinished = {origin.record_id for origin in story.open_agents}
    for node in walked(told(story)):
        assert (node.status is RecordStatus.RUNNING) == (node.id in unfinished)
        assert (node.finished_at is None) == (node.id in unfinished)
        assert node.answer == (None if node.id in unfinished else f"Answer of {node.id}")


@given(stories())
def test_folding_a_journal_that_was_written_and_read_gives_the_same(story: Story) -> None:
    read = [Entry.model_validate(json.loads(to_json(entry))) for entry in story.entries]
    assert read == story.entries
    assert Fold.of(ORDER_ID, read).record() == told(story)


@given(stories(), st.data())
def test_folding_in_two_parts_is_folding_at_once(story: Story, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(story.entries)))
    fold = Fold.of(ORDER_ID, story.entries[:cut])
    fold.record()
    for entry in story.entries[cut:]:
        fold.add(entry)
    assert fold.record() == told(story)


@given(stories())
def test_closing_closes_everything_that_is_open_and_nothing_twice(story: Story) -> None:
    fold = story.fold
    open_calls, open_agents = set(story.open_calls), {origin.record_id for origin in story.open_agents}
    drafts = fold.closing(AT, RecordStatus.CANCELLED, "Somebody stopped it.")
    for draft in drafts:
        fold.add(draft.numbered(ORDER_ID, fold.last_seq + 1))
    assert fold.closing(AT, RecordStatus.CANCELLED, "again") == []
    ended = [draft.origin.record_id for draft in drafts if isinstance(draft.data, AgentFinished)]
    assert len(ended) == len(open_agents) and set(ended) == open_agents
    calls = {draft.data.call_id for draft in drafts if isinstance(draft.data, ToolFinished)}
    assert calls <= open_calls
    record = fold.record()
    assert record is not None
    assert all(node.status is not RecordStatus.RUNNING for node in walked(record))
    assert fold.usage == record.usage_total


@given(stories())
def test_children_are_closed_before_their_parents_and_calls_before_their_agent(story: Story) -> None:
    done: set[str | None] = set()
    for draft in story.fold.closing(AT, RecordStatus.FAILED, "x"):
        assert draft.origin.record_id not in done
        assert draft.origin.parent_id not in done
        if isinstance(draft.data, AgentFinished):
            done.add(draft.origin.record_id)
        else:
            assert isinstance(draft.data, ToolFinished)
            assert draft.data.outcome is Outcome.OUTCOME_UNKNOWN and draft.data.is_error


@given(stories(), st.integers(-3, 3).filter(bool))
def test_an_entry_out_of_its_order_is_refused_and_changes_nothing(story: Story, off: int) -> None:
    fold = story.fold
    before = fold.record()
    stray = Draft(at=AT, origin=ORDER, data=OrderRequeued(epoch=9, lost="x", message="y"))
    with pytest.raises(ValueError, match=f"expected entry {fold.last_seq + 1}, got {fold.last_seq + 1 + off}"):
        fold.add(stray.numbered(ORDER_ID, fold.last_seq + 1 + off))
    assert fold.last_seq == len(story.entries)
    assert fold.record() == before


def test_before_the_first_agent_there_is_no_record() -> None:
    story = Story()
    story.begin()
    assert story.fold.record() is None
    assert story.fold.closing(AT, RecordStatus.FAILED, "x") == []


def test_a_whole_turn_reads_as_it_was_told() -> None:
    story = Story()
    story.begin()
    root = story.claim()
    story.reply(root, 100)
    child = story.spawn(root)
    story.finish_call(child, story.call(child))
    story.finish(child)
    story.finish_call(root, "call-1")
    story.tell(ORDER, ControlApplied(control_id="c", control="steer", message="Hurry."))
    story.finish(root)
    story.tell(ORDER, OrderFinished(status=OrderStatus.SUCCEEDED, usage=story.usage))
    record, fold = told(story), story.fold
    assert fold.finished is not None and fold.finished.status is OrderStatus.SUCCEEDED
    assert [step.kind for step in record.steps] == ["model", "tool", "steer"]
    (below,) = record.subagent_history
    assert (below.call_id, below.depth, below.parent_id, below.agent) == ("call-1", 1, record.id, "explore")
    (step,) = below.steps
    assert step.kind == "tool" and step.arguments == {"number": 2} and step.content == "text"
    assert record.answer == "Answer of root-1"
    assert record.started_at < below.started_at < (below.finished_at or AT) < (record.finished_at or AT)


def asked(control: str, **fields: object) -> ControlApplied:
    return ControlApplied.model_validate({"control_id": "c", "control": control, **fields})


def test_a_paused_agent_waits_with_all_below_it_as_long_as_they_have_not_finished() -> None:
    story = Story()
    story.begin()
    root = story.claim()
    child, sibling = story.spawn(root), story.spawn(root)
    below, done = story.spawn(child), story.spawn(child)
    story.finish(done)
    story.tell(child, asked("pause"))
    first, second = told(story).subagent_history
    assert (first.status, second.status, told(story).status) == ("waiting", "running", "running")
    assert [one.status for one in first.subagent_history] == ["waiting", "completed"]
    story.tell(child, asked("resume"))
    assert {one.status for one in told(story).subagent_history} == {"running"}
    story.tell(child, asked("pause"))
    for each in (below, child, sibling):
        story.finish(each)
    assert {one.status for one in told(story).subagent_history} == {"completed"}


def test_what_was_asked_of_the_order_as_a_whole_is_kept_apart_from_what_was_asked_of_one_agent() -> None:
    story = Story()
    story.begin()
    story.tell(ORDER, asked("pause", reason="before the first agent"))
    root = story.claim()
    assert [step.reason for step in told(story).steps if step.kind == "steer"] == ["before the first agent"]
    child = story.spawn(root)
    story.tell(child, asked("steer", message="for the child", tools_removed=("git_add",)))
    story.tell(child, asked("pause"))
    story.tell(root, asked("steer", message="for the master", mode="redirect"))
    story.tell(ORDER, asked("steer", tools_removed=("run_shell",)))
    assert told(story).status == "waiting"
    assert (story.fold.paused, story.fold.tools_removed) == (True, ("run_shell",))
    assert told(story).status == "waiting"
    story.tell(ORDER, asked("resume"))
    assert told(story).status == "running" and not story.fold.paused


def test_every_kind_of_fact_can_be_folded() -> None:
    story = Story()
    story.begin()
    root = story.claim()
    for fact in FACTS:
        if not isinstance(fact, AgentStarted | OrderQueued | OrderClaimed):
            story.tell(ORDER if fact.kind.startswith("order.") else root, fact)
    kinds = [step.kind for step in told(story).steps]
    assert {"model", "tool", "gate", "verify", "steer", "note"} == set(kinds)
    assert told(story).result == {"status": "completed"}


def test_a_tool_call_keeps_arguments_that_are_no_object() -> None:
    story = Story()
    story.begin()
    root = story.claim()
    raw = ToolStarted(call_id="c", round=1, index=0, name="x", arguments='{"cut off', idempotent=False)
    story.tell(root, raw)
    story.tell(root, ToolFinished(call_id="c", name="x", content="no", is_error=True, outcome=Outcome.ERROR))
    (step,) = told(story).steps
    assert step.kind == "tool" and step.arguments == '{"cut off'
    assert ToolCall(call_id="c", name="x", arguments='{"cut off').arguments == '{"cut off'


@pytest.mark.parametrize("fact", [fact for fact in FACTS if isinstance(fact, NotedFact)], ids=lambda fact: fact.kind)
def test_a_note_is_a_step_with_the_words_of_its_fact(fact: NotedFact) -> None:
    story = Story()
    story.begin()
    story.tell(story.claim(), fact)
    (step,) = told(story).steps
    assert isinstance(step, NoteStep)
    assert (step.name, step.message) == (fact.name if isinstance(fact, AgentStep) else fact.kind, fact.in_words)


def test_steps_say_when_they_began_who_answered_and_how_long_a_retry_waited() -> None:
    """A timeline can be drawn from the record alone, without the journal."""
    origin = Origin(record_id=root_record_id(ORDER_ID), agent="master")
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    retried = ModelRetried(round=1, attempt=1, model="openai/a", error="It is busy.", wait_seconds=2.5)
    facts: list[Fact] = [
        AgentStarted(
            title="t",
            prompt="p",
            model=ModelChoice(requested="a", effective="openai/a"),
            tools=(),
            definition_digest="",
            setup_digest="",
        ),
        ModelStarted(round=1, attempt=1, model="openai/a"),
        retried,
        ModelStarted(round=1, attempt=2, model="openai/a"),
        ModelReplied(
            round=1,
            attempt=2,
            model="openai/a",
            finish_reason="tool_calls",
            usage=Usage(),
            request_id="req_1",
            context_tokens=400_000,
        ),
        ToolStarted(call_id="c", round=1, index=0, name="read", arguments={}, idempotent=True),
        ToolFinished(call_id="c", name="read", content="", is_error=False),
    ]
    fold = Fold(ORDER_ID)
    for seq, fact in enumerate(facts, start=1):
        fold.add(Draft(at=begin + timedelta(seconds=seq), origin=origin, data=fact).numbered(ORDER_ID, seq))
    record = fold.record()
    assert record is not None
    waited, model, tool = record.steps
    assert isinstance(waited, NoteStep) and (waited.at, waited.wait_seconds) == (begin + timedelta(seconds=3), 2.5)
    assert isinstance(model, ModelStep) and isinstance(tool, ToolStep)
    assert (model.started_at, model.round, model.attempt) == (begin + timedelta(seconds=4), 1, 2)
    assert model.model == "openai/a"
    assert (model.request_id, model.context_tokens) == ("req_1", 400_000)
    assert tool.started_at == begin + timedelta(seconds=6)


def test_a_record_is_printed_without_its_steps_and_without_those_below() -> None:
    story = Story()
    story.begin()
    story.claim()
    (root,) = story.open_agents
    for _ in range(20):
        story.reply(root)
        story.reply(story.spawn(root))
    record = told(story)
    assert len(record.subagent_history) == 20 and len(record.steps) == 20
    assert "steps=" not in repr(record) and "subagent_history=" not in repr(record)
