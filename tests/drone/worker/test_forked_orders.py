"""A fork continues another order's journal, on a real crew: nothing is repeated, nothing is missing."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.model import Ask
from drone.crew import Crew
from drone.definitions import Definitions
from drone.models.scripted import Said, ScriptedModel, call
from drone.settings import Settings
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.entry import Entry
from mcc.contracts.fence import unfenced
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import ToolFinished
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import NewFork, WorkOrder
from mcc.contracts.record import ChatRecord
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.usage import Usage
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.transcript.messages import AssistantMessage, ToolResults, UserMessage
from mcc.transcript.transcript import request_in
from tests.drone.worker.bench_of_orders import Bench
from tests.parity.world import OneModel, calls, piece, report, team

AND_THE_TESTS = "And what about the tests?"


class Theatre(Bench):
    """A store and a drone whose real crew plays a script in a workspace."""

    def __init__(self, store: Store, folder: Path, play: Any) -> None:
        (folder / "README.md").write_text("# A garden\n")
        self.folder = folder
        self.model = ScriptedModel(play)
        settings = Settings(workspace_roots=(folder,))
        models: Any = OneModel(self.model)
        crew = Crew(settings, Definitions.load(settings.prompts_dir), models)
        super().__init__(store, crew=crew)

    async def play(self, prompt: str = "go", **fields: object) -> WorkOrder:
        return await self.work(self.place(prompt, workspace=str(self.folder), **fields))

    def cut(self, source: WorkOrder, after: int, prompt: str | None = None) -> WorkOrder:
        return self.store.orders.fork(source.id, NewFork(after=after, prompt=prompt), by=Actor("test")).order

    async def fork(self, source: WorkOrder, after: int, prompt: str | None = None) -> WorkOrder:
        return await self.work(self.cut(source, after, prompt))

    async def __aenter__(self) -> "Theatre":
        await super().__aenter__()
        return self

    async def work(self, order: WorkOrder) -> WorkOrder:
        assert await self.runner.work(order.id) is not None
        return self.store.orders.get(order.id)

    def record(self, order: WorkOrder) -> ChatRecord:
        record = self.store.orders.record(order.id)
        assert record is not None and record == self.fold(order.id).record()
        return record


@pytest.fixture
def store() -> Iterator[Store]:
    opened = temporary_store()
    yield opened
    opened.close()


@pytest.fixture
async def theatre(store: Store, tmp_path: Path) -> AsyncIterator[Theatre]:
    folder = tmp_path / "workspace"
    folder.mkdir()
    async with Theatre(store, folder, a_turn_with_children) as stage:
        yield stage


def a_turn_with_children(ask: Ask) -> Said:
    task, replies = whose(ask)
    if last_word(ask) == AND_THE_TESTS:
        return "The tests are green."
    if task == "go":
        return master(ask, replies)
    if task == "north":
        lines: list[Said] = [calls(call("read_file", path="README.md")), "North.", "North again."]
        return lines[replies]
    return f"{task}."


def master(ask: Ask, replies: int) -> Said:
    if replies == 1:
        return calls(call("subagent_send", record_id=the_child(ask), message="And now?"))
    first = calls(call("read_file", path="README.md"), call("subagent", agent_type="explore", prompt="north"))
    lines: list[Said] = [first, "", team(piece("east"), piece("west")), "All is done."]
    return lines[replies]


def whose(ask: Ask) -> tuple[str, int]:
    task = next(request_in(message.text) for message in ask.messages if isinstance(message, UserMessage))
    return task, sum(isinstance(message, AssistantMessage) for message in ask.messages)


def last_word(ask: Ask) -> str | None:
    last = ask.messages[-1]
    return request_in(last.text) if isinstance(last, UserMessage) else None


def the_child(ask: Ask) -> str:
    """The record that the first result of a subagent names."""
    results = next(message for message in ask.messages if isinstance(message, ToolResults)).results
    return unfenced(results[1].content).rpartition("record_id: ")[2]


def tree(record: ChatRecord) -> list[ChatRecord]:
    return [record, *(below for child in record.subagent_history for below in tree(child))]


def shape(record: ChatRecord) -> object:
    """The record without ids, numbers and times."""
    steps = [
        (step.kind, getattr(step, "name", ""), getattr(step, "text", ""), getattr(step, "is_error", ""))
        for step in record.steps
    ]
    children = sorted(str(shape(child)) for child in record.subagent_history)
    return (record.agent, record.prompt, record.status, record.answer, record.usage, sorted(map(str, steps)), children)


def finished_calls(entries: list[Entry]) -> list[str]:
    return [entry.data.call_id for entry in entries if isinstance(entry.data, ToolFinished)]


def replies_in(entries: list[Entry]) -> int:
    return sum(isinstance(entry.data, ModelReplied) for entry in entries)


async def test_a_fork_after_any_entry_comes_to_the_same_end_and_does_nothing_again(theatre: Theatre) -> None:
    source = await theatre.play()
    assert (source.status, source.answer) == (OrderStatus.SUCCEEDED, "All is done.")
    whole, asked_once = theatre.record(source), len(theatre.model.asks)
    assert len(tree(whole)) == 5
    cuts: dict[int, WorkOrder] = {}
    for after in range(1, source.last_seq + 1):
        fork = theatre.cut(source, after)
        assert fork.origin is not None and fork.origin.after is not None and fork.origin.after <= after
        cuts.setdefault(fork.origin.after, fork)
    assert len(cuts) >= 6
    for after, cut in cuts.items():
        theatre.model.asks.clear()
        fork = await theatre.work(cut)
        assert (fork.status, fork.answer) == (OrderStatus.SUCCEEDED, "All is done."), after
        entries = theatre.journal(fork.id)
        told = entries[0].data.forked  # type: ignore[attr-defined]
        copied, own = entries[1 : told.until], entries[told.until :]
        assert shape(theatre.record(fork)) == shape(whole), after
        assert replies_in(copied) + len(theatre.model.asks) == asked_once, after
        assert not set(finished_calls(copied)) & set(finished_calls(own)), after
        assert len(finished_calls(entries)) == len(finished_calls(theatre.journal(source.id))), after
        assert not [entry.kind for entry in copied if entry.kind.startswith("order.")]


async def test_records_of_a_fork_have_ids_of_their_own_and_name_what_they_are_copies_of(theatre: Theatre) -> None:
    source = await theatre.play()
    fork = await theatre.fork(source, source.last_seq)
    old, new = tree(theatre.record(source)), tree(theatre.record(fork))
    assert new[0].id == root_record_id(fork.id)
    assert [record.forked_from for record in new] == [record.id for record in old]
    assert not {record.id for record in old} & {record.id for record in new}
    written = "".join(entry.model_dump_json(exclude={"order_id"}) for entry in theatre.journal(fork.id))
    others = {step.call_id for record in old for step in record.steps if step.kind == "tool"}
    assert not [one for one in others if one in written]


async def test_a_fork_spends_only_what_it_does_itself_and_its_record_tells_of_all(theatre: Theatre) -> None:
    source = await theatre.play()
    fork = await theatre.fork(source, source.last_seq - 3)
    assert fork.usage.model_calls < source.usage.model_calls
    record = theatre.record(fork)
    assert record.usage_total == theatre.record(source).usage_total == source.usage
    last = theatre.journal(fork.id)[-1].data
    assert last.usage == fork.usage  # type: ignore[attr-defined]


async def test_a_fork_at_the_end_without_a_prompt_has_nothing_left_to_do(theatre: Theatre) -> None:
    source = await theatre.play()
    theatre.model.asks.clear()
    fork = await theatre.fork(source, source.last_seq)
    assert not theatre.model.asks and fork.answer == "All is done." and fork.usage == Usage()


class Gated(Theatre):
    """The master must submit a whole number: it reads a file, then submits a number; when asked again, another one."""

    async def play(self, prompt: str = "go", **fields: object) -> WorkOrder:
        schema = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "integer"}}}
        return await super().play(prompt, result_schema=schema, **fields)


def a_turn_that_owes_a_number(ask: Ask) -> Said:
    _, replies = whose(ask)
    return report("So many.", answer=replies) if replies else calls(call("read_file", path="README.md"))


async def test_a_fork_at_the_end_of_a_turn_with_a_gate_has_nothing_left_to_do_either(
    store: Store, tmp_path: Path
) -> None:
    async with Gated(store, tmp_path, a_turn_that_owes_a_number) as stage:
        source = await stage.play()
        assert source.result["answer"] == 1
        handed_in = max(entry.seq for entry in stage.journal(source.id) if entry.kind == "tool.finished")
        stage.model.asks.clear()
        for after in range(handed_in, source.last_seq + 1):
            fork = await stage.fork(source, after)
            assert (fork.status, fork.answer, fork.result) == (source.status, source.answer, source.result)
            assert not stage.model.asks and fork.usage == Usage()
            assert shape(stage.record(fork)) == shape(stage.record(source))
        below = await stage.fork(fork, fork.last_seq)
        assert not stage.model.asks and below.result == source.result


async def test_a_fork_at_the_end_of_a_turn_with_a_gate_gets_its_prompt_and_messages_sent_before_it_begins(
    store: Store, tmp_path: Path
) -> None:
    async with Gated(store, tmp_path, a_turn_that_owes_a_number) as stage:
        source = await stage.play()
        stage.model.asks.clear()
        prompted = await stage.fork(source, source.last_seq, AND_THE_TESTS)
        assert prompted.result["answer"] == 2 and last_word(stage.model.asks[0]) == AND_THE_TESTS
        cut = stage.cut(source, source.last_seq)
        stage.store.controls.request(cut.id, ControlKind.STEER, NewControl(message=AND_THE_TESTS), by=Actor("test"))
        steered = await stage.work(cut)
        assert steered.result["answer"] == 2 and str(last_word(stage.model.asks[1])).endswith(f"Z] {AND_THE_TESTS}")


async def test_a_new_prompt_is_what_the_master_hears_next(theatre: Theatre) -> None:
    source = await theatre.play()
    for after in range(4, source.last_seq + 1, 8):
        theatre.model.asks.clear()
        fork = await theatre.fork(source, after, AND_THE_TESTS)
        assert (fork.status, fork.answer) == (OrderStatus.SUCCEEDED, "The tests are green."), after
        (ask,) = theatre.model.asks
        assert whose(ask)[0] == "go" and last_word(ask) == AND_THE_TESTS


async def test_a_prompt_for_a_fork_whose_agent_had_not_begun_takes_the_place_of_the_old_one(theatre: Theatre) -> None:
    source = await theatre.play()
    fork = await theatre.fork(source, 1, AND_THE_TESTS)
    assert (fork.prompt, fork.answer) == (AND_THE_TESTS, "The tests are green.")
    assert theatre.record(fork).forked_from is None


async def test_a_fork_of_a_fork_and_its_retry_go_on_from_where_it_began(theatre: Theatre) -> None:
    source = await theatre.play()
    middle = source.last_seq - 4
    fork = await theatre.fork(source, middle, AND_THE_TESTS)
    again = await theatre.work(theatre.store.orders.retry(fork.id, by=Actor("test")).order)
    assert again.answer == fork.answer == "The tests are green."
    assert again.session_id == fork.session_id and again.session_seq == 2
    assert shape(theatre.record(again)) == shape(theatre.record(fork))
    below = await theatre.fork(fork, fork.last_seq)
    assert below.answer == fork.answer
    assert theatre.record(below).forked_from == theatre.record(fork).id


async def test_limits_that_ended_an_order_begin_anew_in_its_fork(store: Store, tmp_path: Path) -> None:
    def reads(ask: Ask) -> Said:
        _, replies = whose(ask)
        if AND_THE_TESTS in [request_in(message.text) for message in ask.messages if isinstance(message, UserMessage)]:
            return "Enough."
        (tmp_path / "README.md").write_text(f"Version {replies}")
        return calls(call("read_file", path="README.md"))

    async with Theatre(store, tmp_path, reads) as stage:
        limits = {"rounds": 3, "tool_calls": 3}
        source = await stage.play(limits=limits)
        assert (source.status, source.reason) == (OrderStatus.FAILED, FailureReason.LIMIT_REACHED)
        on = await stage.fork(source, source.last_seq)
        assert (on.status, on.reason) == (OrderStatus.FAILED, FailureReason.LIMIT_REACHED)
        assert on.usage.model_calls == on.usage.tool_calls == 4
        told = await stage.fork(source, source.last_seq, AND_THE_TESTS)
        assert (told.status, told.answer) == (OrderStatus.SUCCEEDED, "Enough.")


async def test_an_agent_that_went_in_circles_or_was_refused_too_often_gets_another_chance_in_a_fork(
    store: Store, tmp_path: Path
) -> None:
    def obstinate(ask: Ask) -> Said:
        task, _ = whose(ask)
        said = [request_in(message.text) for message in ask.messages if isinstance(message, UserMessage)]
        if AND_THE_TESTS in said:
            return report("Done.", answer=1) if task == "gate" else "Done."
        return calls(call("submit_result", wrong=1)) if task == "gate" else calls(call("read_file", path="nothing"))

    schema = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "integer"}}}
    async with Theatre(store, tmp_path, obstinate) as stage:
        circling = await stage.play("circle")
        assert circling.status is OrderStatus.FAILED
        assert (await stage.fork(circling, circling.last_seq, AND_THE_TESTS)).answer == "Done."
        refused = await stage.play("gate", result_schema=schema)
        assert (refused.reason, refused.result) == (FailureReason.GATE_FAILED, {"wrong": 1})
        assert refused.accepted is False
        fork = await stage.fork(refused, refused.last_seq, AND_THE_TESTS)
        assert fork.status is OrderStatus.SUCCEEDED and fork.result["answer"] == 1


async def test_a_fork_can_read_the_long_texts_that_its_master_refers_to(store: Store, tmp_path: Path) -> None:
    def long_story(ask: Ask) -> Said:
        task, replies = whose(ask)
        if task != "go":
            return f"{task} " + "word " * 5_000
        if last_word(ask) == AND_THE_TESTS:
            told = json.loads(unfenced(ask.messages[2].results[0].content))  # type: ignore[union-attr]
            return calls(call("read_artifact", id=told["agents"][0]["whole"]["artifact"]))
        return team(piece("east"), piece("west")) if replies == 0 else "Done."

    async with Theatre(store, tmp_path, long_story) as stage:
        source = await stage.play()
        fork = await stage.fork(source, source.last_seq, AND_THE_TESTS)
        assert (fork.status, fork.usage.tool_calls) == (OrderStatus.SUCCEEDED, 1)
        read = stage.record(fork).steps[-2]
        assert read.kind == "tool" and not read.is_error and "east word word" in read.content
