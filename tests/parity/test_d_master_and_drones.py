"""Section D: one turn is one run of the Master Agent; subagents work inside it; the record is a tree."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from drone.agent.ports.model import Ask
from drone.agent.subagents.assignments import UnknownAgentType, assignment_of
from drone.models.scripted import Said, call
from mcc.contracts.callers import Actor
from mcc.contracts.drones import Registration, SandboxState
from mcc.contracts.order import NewOrder
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.contracts.sessions import NewSession
from mcc.contracts.status import OrderStatus
from mcc.testing import temporary_store
from mcc.testing.store import FakeClock
from tests.parity.world import World, calls


def delegating(task: str, replies: int, ask: Ask) -> Said:
    if task != "go":
        return f"{task} is here."
    return "Both are here." if replies else calls(*(call("subagent", agent_type="explore", prompt=p) for p in "ab"))


async def test_a_turn_is_one_run_of_the_master_from_prompt_to_answer(tmp_path: Path) -> None:
    world = World(tmp_path, delegating)
    outcome = await world.run()
    assert (outcome.status, outcome.answer) == (OrderStatus.SUCCEEDED, "Both are here.")
    assert (world.record.agent, world.record.depth, world.record.parent_id) == ("master", 0, None)


async def test_subagents_work_in_the_same_process_thread_and_loop_with_one_prompt_and_one_response(
    tmp_path: Path,
) -> None:
    seen: set[tuple[int, int, int]] = set()

    def play(task: str, replies: int, ask: Ask) -> Said:
        seen.add((os.getpid(), threading.get_ident(), id(asyncio.get_running_loop())))
        return delegating(task, replies, ask)

    world = World(tmp_path, play)
    await world.run()
    assert len(seen) == 1 and len(world.record.subagent_history) == 2
    assert [child.prompt for child in world.record.subagent_history] == ["a", "b"]
    answers = {child.prompt: child.answer for child in world.record.subagent_history}
    assert answers == {"a": "a is here.", "b": "b is here."}


async def test_a_missing_agent_type_is_a_named_error(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        return (
            "Done."
            if replies
            else calls(call("subagent", prompt="look"), call("subagent", agent_type="wizard", prompt="look"))
        )

    world = World(tmp_path, play)
    assert (await world.run()).status is OrderStatus.SUCCEEDED
    missing, unknown = (step.content for step in world.results())
    assert all(step.is_error for step in world.results())
    assert missing.startswith("agent_type is missing. There are explore, general, ") and "None" not in missing
    assert unknown.startswith("agent_type names no agent here: 'wizard'. There are explore, general, ")
    with pytest.raises(UnknownAgentType):
        assignment_of({"prompt": "look"}, ["explore"])
    assert world.record.subagent_history == ()


async def test_prompts_are_files_one_for_each_subagent(tmp_path: Path) -> None:
    own = "---\nname: gardener\ndescription: Knows gardens.\nresult: text\n---\nYou are the gardener of this place."
    master = "---\nname: master\nspawns: [gardener]\nresult: text\n---\nYou are the master."
    systems: dict[str, str] = {}

    def play(task: str, replies: int, ask: Ask) -> Said:
        systems[task] = ask.system
        if task == "go":
            return "Done." if replies else calls(call("subagent", agent_type="gardener", prompt="dig"))
        return "Dug."

    world = World(tmp_path, play, agents={"master": master, "gardener": own})
    assert (await world.run()).status is OrderStatus.SUCCEEDED
    assert systems["go"].startswith("You are the master.")
    assert systems["dig"].startswith("You are the gardener of this place.")


async def test_a_subagents_record_lies_in_the_turns_history_and_hangs_on_its_tool_call(tmp_path: Path) -> None:
    world = World(tmp_path, delegating)
    await world.run()
    by_call = {step.call_id: step for step in world.results()}
    for child in world.record.subagent_history:
        assert child.parent_id == world.record.id
        assert by_call[child.call_id or ""].subagent_ids == (child.id,)
        assert child.order_id == world.record.order_id


async def test_a_record_has_its_steps_with_times_its_status_and_its_figures(tmp_path: Path) -> None:
    world = World(tmp_path, delegating)
    await world.run()
    record: ChatRecord = world.record
    assert [step.kind for step in record.steps if step.kind != "note"] == ["model", "tool", "tool", "model"]
    assert record.status is RecordStatus.COMPLETED
    assert record.finished_at is not None and record.finished_at >= record.started_at
    timed = [step for step in record.steps if step.kind in ("model", "tool")]
    begun = [step.started_at for step in timed]
    assert all(at is not None and record.started_at <= at <= record.finished_at for at in begun)
    assert begun == sorted(begun, key=str) and all(step.seconds >= 0 for step in timed)
    assert (record.usage.tool_calls, record.usage.model_calls, record.usage_total.model_calls) == (2, 2, 4)
    assert ChatRecord.model_validate_json(record.model_dump_json()) == record


async def test_the_total_of_an_agent_between_two_others_has_its_own_childs_in_it(tmp_path: Path) -> None:
    def file(name: str, spawns: str) -> str:
        return f"---\nname: {name}\ndescription: An agent.\nspawns: [{spawns}]\nresult: text\n---\nYou are {name}."

    def play(task: str, replies: int, ask: Ask) -> Said:
        below = {"go": "outer", "outer": "inner"}.get(task)
        return "Done." if replies or not below else calls(call("subagent", agent_type=below, prompt=below))

    agents = {"master": file("master", "outer, inner"), "outer": file("outer", "inner"), "inner": file("inner", "")}
    world = World(tmp_path, play, agents=agents)
    assert (await world.run("go", "depth=2")).status is OrderStatus.SUCCEEDED
    master, outer, inner = world.records()
    assert [one.usage.model_calls for one in (master, outer, inner)] == [2, 2, 1]
    assert [one.usage_total.model_calls for one in (master, outer, inner)] == [5, 3, 1]


def test_drones_are_listed_with_what_they_have_and_when_they_were_last_heard() -> None:
    clock = FakeClock()
    store = temporary_store(clock)
    drone = Registration(
        incarnation="i",
        name="alpha",
        pid=7,
        host="here",
        version="1",
        queues=("default",),
        slots=4,
        sandbox=SandboxState(kind="bwrap"),
    )
    store.leases.register(drone, lease_seconds=12)
    clock.advance(3)
    store.leases.renew("i", lease_seconds=12, active=2, draining=False)
    (listed,) = store.leases.drones()
    assert (listed.name, listed.slots, listed.active, listed.sandbox.kind) == ("alpha", 4, 2, "bwrap")
    assert listed.last_heartbeat_at == clock.now() > listed.started_at


def test_the_first_prompt_names_the_session() -> None:
    store = temporary_store()
    placed = store.orders.place(NewOrder(prompt="Count the gulls\nand the terns"), by=Actor("ann"))
    again = NewOrder(prompt="Again", session_id=placed.order.session_id)
    store.orders.place(again, by=Actor("ann"))
    session = store.sessions.get(placed.order.session_id)
    assert (session.title, session.turns) == ("Count the gulls and the terns", 2)


def test_the_first_prompt_names_a_session_that_was_opened_without_a_name() -> None:
    store = temporary_store()
    for title, shown in (("", "Count the gulls"), ("Birds", "Birds")):
        opened = store.sessions.open(NewSession(title=title), by=Actor("p"))
        placed = store.orders.place(NewOrder(prompt="Count the gulls", session_id=opened.id), by=Actor("p"))
        assert placed.order.session_title == shown
        assert store.sessions.get(opened.id).title == shown
