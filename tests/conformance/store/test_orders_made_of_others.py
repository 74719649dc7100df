"""Retry, fork and rollback on every store: the start of the new order, and refusals."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from mcc.contracts.blocks import ToolCall, blocks_of
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import ORDER, Entry, Origin
from mcc.contracts.ids import call_id, child_record_id, root_record_id
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested
from mcc.contracts.journal import ControlApplied, ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import NewFork, WorkOrder
from mcc.contracts.order_facts import OrderQueued
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.contracts.usage import Usage
from mcc.store.database.errors import CannotFork, IdempotencyConflict, OrderIsUnfinished, UnknownOrder
from mcc.store.database.tables import STATE
from mcc.store.rows.values import Placed
from tests.conformance.store.scene import Held, Scene, at_once, called, replied, returned, started
from tests.conformance.store.scene import ended as done

NOBODY = "01900000-0000-7000-8000-000000000000"


def retry(scene: Scene, order_id: str, key: str | None = None) -> Placed:
    return scene.store.orders.retry(order_id, by=Actor("someone"), idempotency_key=key)


def fork(scene: Scene, order_id: str, after: int, prompt: str | None = None, key: str | None = None) -> Placed:
    asked = NewFork(after=after, prompt=prompt)
    return scene.store.orders.fork(order_id, asked, by=Actor("someone"), idempotency_key=key)


def journal(scene: Scene, order: WorkOrder) -> list[Entry]:
    return list(scene.store.journal.read(order.id))


def asking(root: str, *names: str, round_number: int = 1) -> ModelReplied:
    calls = [
        ToolCall(call_id=call_id(root, round_number, index), name=name, arguments={"path": "a"})
        for index, name in enumerate(names)
    ]
    return replied(round_number=round_number).model_copy(update={"blocks": blocks_of(tool_calls=calls)})


def begun(round_number: int = 1) -> ModelStarted:
    return ModelStarted(round=round_number, attempt=1, model="openai/fast", reserved_tokens=100)


def told_story(scene: Scene, **fields: object) -> Held:
    """2 claimed, 3 master, 4–5 asked, 6–7 calls, 8 read, 9–11 a child, 12 its result, 13–14 asked again; still held."""
    held = scene.running("the task", **fields)
    root = root_record_id(held.order_id)
    call = call_id(root, 1, 1)
    child = Origin(record_id=child_record_id(call, 1), parent_id=root, agent="explore", depth=1)
    held.write(started("the task"), begun(), asking(root, "read_file", "subagents_run"))
    held.write(called(root), called(root, index=1).model_copy(update={"name": "subagents_run"}), returned(root))
    held.write(started("below", call), begun(), origin=child)
    held.write(replied("found"), done("found"), origin=child)
    assert child.record_id is not None
    result = ToolFinished(
        call_id=call, name="subagents_run", content=f"record_id: {child.record_id}", is_error=False
    ).model_copy(update={"subagent_ids": (child.record_id,)})
    held.write(result, begun(2), replied("the answer", round_number=2))
    return held


def ended(scene: Scene, held: Held, status: OrderStatus = OrderStatus.SUCCEEDED) -> WorkOrder:
    started_it = any(entry.kind == "agent.started" for entry in scene.store.journal.read(held.order_id))
    held.finish(status, *([done()] if started_it else []))
    return scene.store.orders.get(held.order_id)


def test_a_retry_is_the_next_turn_of_its_session_with_the_same_input(scene: Scene) -> None:
    fields = {"labels": ["a"], "priority": 2, "agent": "review", "rules": [{"cel": "true"}], "when_busy": "reject"}
    source = ended(scene, scene.running("again, please", **fields))
    placed = retry(scene, source.id)
    order = placed.order
    assert placed.created and order.id != source.id
    assert (order.session_id, order.session_seq) == (source.session_id, 2)
    assert (order.prompt, order.labels, order.priority, order.agent) == ("again, please", ("a",), 2, "review")
    assert order.rules == source.rules and order.when_busy == "enqueue"
    assert order.origin is not None and (order.origin.kind, order.origin.order_id) == ("retry", source.id)
    assert (order.status, order.attempt, order.last_seq, order.usage) == (OrderStatus.QUEUED, 0, 1, Usage())
    (queued,) = journal(scene, order)
    assert isinstance(queued.data, OrderQueued) and queued.data.retry_of == source.id and queued.data.forked is None
    assert scene.store.orders.get(source.id).origin is None
    assert scene.hold(order.id).last_seq == 2


@pytest.mark.parametrize("status", [OrderStatus.FAILED, OrderStatus.CANCELLED])
def test_however_an_order_ended_it_can_be_tried_again(scene: Scene, status: OrderStatus) -> None:
    held = scene.running()
    if status is OrderStatus.FAILED:
        held.finish(status)
    else:
        scene.store.claims.finish(held.ending(status))
    assert retry(scene, held.order_id).order.status is OrderStatus.QUEUED


def test_an_order_that_has_not_ended_is_not_retried(scene: Scene) -> None:
    queued = scene.place()
    with pytest.raises(OrderIsUnfinished, match="queued"):
        retry(scene, queued.id)
    scene.hold(queued.id)
    with pytest.raises(OrderIsUnfinished, match="running"):
        retry(scene, queued.id)
    assert scene.store.sessions.get(queued.session_id).turns == 1


def test_a_retry_waits_for_the_earlier_orders_of_its_session(scene: Scene) -> None:
    source = ended(scene, scene.running())
    next_one = scene.place("next", session_id=source.session_id)
    again = retry(scene, source.id).order
    assert (again.session_seq, again.blocked_by) == (3, next_one.id)
    assert scene.claim(again.id, scene.drone()) is None


def test_times_of_a_retry_count_from_its_placing(scene: Scene) -> None:
    now = scene.clock.now()
    source = scene.place(not_before=now + timedelta(hours=1), expires_at=now + timedelta(hours=3))
    scene.clock.advance(3 * 3_600 + 1)
    scene.store.sweeper.sweep(may_expire=False)
    assert scene.status(source.id) is OrderStatus.FAILED
    again = retry(scene, source.id).order
    assert again.status is OrderStatus.QUEUED and again.not_before is None
    assert again.expires_at == scene.clock.now() + timedelta(hours=3)


def test_the_same_key_gives_the_same_retry_and_the_same_fork(scene: Scene) -> None:
    source = ended(scene, told_story(scene))
    first, second = retry(scene, source.id, "k"), retry(scene, source.id, "k")
    assert (first.created, second.created) == (True, False) and first.order.id == second.order.id
    one, other = fork(scene, source.id, 12, key="f"), fork(scene, source.id, 12, key="f")
    assert (one.created, other.created) == (True, False) and one.order.id == other.order.id
    assert one.order.origin == other.order.origin
    with pytest.raises(IdempotencyConflict):
        fork(scene, source.id, 13, key="f")
    with pytest.raises(IdempotencyConflict):
        fork(scene, source.id, 12, "x", key="f")
    with pytest.raises(IdempotencyConflict):
        retry(scene, source.id, "f")


def test_of_many_retries_with_one_key_at_once_one_makes_an_order(scene: Scene) -> None:
    source = ended(scene, scene.running())
    placed = at_once(*[lambda: retry(scene, source.id, "k")] * 5)
    assert len({one.order.id for one in placed if isinstance(one, Placed)}) == 1
    assert sum(one.created for one in placed if isinstance(one, Placed)) == 1
    assert scene.store.sessions.get(source.session_id).turns == 2


def test_a_fork_begins_with_the_entries_of_its_source_under_ids_of_its_own(scene: Scene) -> None:
    held = told_story(scene)
    order = fork(scene, held.order_id, 13).order
    entries = journal(scene, order)
    source = list(scene.store.journal.read(held.order_id))
    queued = entries[0].data
    assert isinstance(queued, OrderQueued) and queued.forked is not None
    assert (queued.forked.order_id, queued.forked.after, queued.forked.until) == (held.order_id, 13, 12)
    assert [entry.kind for entry in entries[1:]] == [entry.kind for entry in source[2:13]]
    assert [entry.at for entry in entries[1:]] == [entry.at for entry in source[2:13]]
    root = root_record_id(order.id)
    calls = [call_id(root, 1, index) for index in range(2)]
    child = child_record_id(calls[1], 1)
    assert {entry.record_id for entry in entries[1:]} == {root, child}
    assert [entry.data.call_id for entry in entries if isinstance(entry.data, ToolStarted)] == calls
    reply = next(entry.data for entry in entries if isinstance(entry.data, ModelReplied))
    assert [call.call_id for call in reply.tool_calls] == calls
    last = entries[-1].data
    assert isinstance(last, ToolFinished)
    assert (last.call_id, last.subagent_ids, last.content) == (calls[1], (child,), f"record_id: {child}")
    record = scene.fold(order.id).record()
    assert record is not None and record.forked_from == root_record_id(held.order_id)
    below = record.subagent_history[0]
    assert (below.id, below.parent_id, below.call_id) == (child, root, calls[1])
    assert below.forked_from == child_record_id(call_id(root_record_id(held.order_id), 1, 1), 1)


def test_a_fork_opens_a_session_of_its_own_and_leaves_its_source_alone(scene: Scene) -> None:
    held = told_story(scene)
    before = scene.kinds(held.order_id)
    order = fork(scene, held.order_id, 13).order
    assert order.session_id != scene.store.orders.get(held.order_id).session_id and order.session_seq == 1
    assert scene.store.sessions.get(order.session_id).title == "Fork: the task"
    assert (order.status, order.attempt, order.last_seq) == (OrderStatus.QUEUED, 0, 12)
    assert scene.kinds(held.order_id) == before and scene.status(held.order_id) is OrderStatus.RUNNING
    assert scene.hold(order.id).last_seq == 13


def test_a_fork_knows_subagents_in_the_background_under_ids_of_its_own_also_those_that_had_not_begun(
    scene: Scene,
) -> None:
    held = scene.running("the task")
    root = root_record_id(held.order_id)
    call = call_id(root, 1, 0)
    north, south = (child_record_id(call, index) for index in range(2))
    child = Origin(record_id=north, parent_id=root, agent="explore", depth=1)
    held.write(started("the task"), begun(), asking(root, "subagents_run"), called(root))
    left = ToolFinished(call_id=call, name="subagents_run", content=south, is_error=False, background=(north, south))
    held.write(left)
    held.write(started("below", call), begun(), replied("found"), done("found"), origin=child)
    delivered = AgentDelivered(child_id=north, status=RecordStatus.COMPLETED, content=f"Subagent {north} ended.")
    held.write(delivered, begun(2), replied("the answer", round_number=2))
    source = ended(scene, held)
    order = fork(scene, source.id, len(journal(scene, source)) - 2).order
    its = call_id(root_record_id(order.id), 1, 0)
    facts = [entry.data for entry in journal(scene, order)]
    [copied] = [fact for fact in facts if isinstance(fact, ToolFinished)]
    assert copied.background == (child_record_id(its, 0), child_record_id(its, 1))
    assert copied.content == child_record_id(its, 1)
    [told] = [fact for fact in facts if isinstance(fact, AgentDelivered)]
    assert told.child_id == child_record_id(its, 0) and told.content == f"Subagent {child_record_id(its, 0)} ended."


def test_copied_usage_counts_in_a_forks_record_and_not_in_its_spending(scene: Scene) -> None:
    held = told_story(scene)
    order = fork(scene, held.order_id, 15).order
    assert order.usage == Usage()
    again = scene.hold(order.id)
    again.write(begun(3), replied("more", round_number=3))
    usage = scene.store.orders.get(order.id).usage
    assert (usage.model_calls, usage.input_tokens) == (1, 10)
    again.finish()
    kept, record = scene.store.orders.get(order.id), scene.store.orders.record(order.id)
    assert (kept.usage.model_calls, kept.usage.tool_calls) == (1, 0)
    assert record is not None and (record.usage_total.model_calls, record.usage_total.tool_calls) == (4, 2)


def test_a_fork_that_the_store_ends_reports_only_its_own_spending(scene: Scene) -> None:
    held = told_story(scene)
    order = fork(scene, held.order_id, 15).order
    scene.store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor("someone"))
    kept = scene.store.orders.get(order.id)
    assert kept.status is OrderStatus.CANCELLED and kept.usage == Usage()
    record = scene.store.orders.record(order.id)
    assert record is not None and record.usage_total.model_calls == 3


@pytest.mark.parametrize(
    ("after", "cut", "within"),
    [
        (1, 1, None),
        (2, 2, None),
        (3, 3, None),
        (4, 3, "a model call of master"),
        (5, 3, "the call of read_file"),
        (8, 3, "the call of subagents_run"),
        (12, 3, "the call of subagents_run"),
        (13, 13, None),
        (14, 13, "a model call of master"),
        (15, 15, None),
        (16, 16, None),
        (17, 17, None),
    ],
)
def test_a_fork_is_cut_where_no_call_is_under_way(scene: Scene, after: int, cut: int, within: str | None) -> None:
    source = ended(scene, told_story(scene))
    assert source.last_seq == 17
    origin = fork(scene, source.id, after).order.origin
    assert origin is not None and origin.note is not None and origin.after == cut
    assert f"entries 1 to {cut} of order {source.id}" in origin.note
    assert (f"Entry {after} lies within {within}" in origin.note) == (within is not None)


def test_a_fork_of_an_order_with_a_workspace_says_that_files_are_not_taken_back(scene: Scene) -> None:
    held = told_story(scene, workspace="/srv/work")
    late, early = fork(scene, held.order_id, 13).order.origin, fork(scene, held.order_id, 1).order.origin
    assert late is not None and late.note is not None and "files of the workspace are as they are now" in late.note
    assert early is not None and early.note is not None and "No agent had begun" in early.note


def test_a_new_prompt_is_a_message_to_the_master_after_the_copied_entries(scene: Scene) -> None:
    held = told_story(scene)
    order = fork(scene, held.order_id, 13, "and the tests?").order
    last = journal(scene, order)[-1]
    assert isinstance(last.data, ControlApplied)
    assert (last.data.control, last.data.mode, last.data.message) == ("steer", "inject", "and the tests?")
    assert (last.record_id, last.parent_id, last.agent) == (root_record_id(order.id), None, "master")
    assert (last.seq, order.last_seq) == (13, 13)
    assert order.prompt == "the task"
    assert scene.store.sessions.get(order.session_id).title == "Fork: and the tests?"


def test_a_new_prompt_takes_the_place_of_the_old_one_when_no_agent_had_begun(scene: Scene) -> None:
    held = told_story(scene)
    order = fork(scene, held.order_id, 2, "something else").order
    assert order.prompt == "something else" and scene.kinds(order.id) == ["order.queued"]


def test_a_fork_of_a_paused_order_is_not_paused(scene: Scene) -> None:
    held = told_story(scene)
    held.write(ControlApplied(control_id="c", control="pause"))
    order = fork(scene, held.order_id, 16, "go on").order
    assert [entry.data.control for entry in journal(scene, order) if isinstance(entry.data, ControlApplied)] == [
        "pause",
        "resume",
        "steer",
    ]
    assert not scene.fold(order.id).paused


def test_neither_the_masters_end_nor_its_cancel_nor_approvals_are_copied(scene: Scene) -> None:
    held = told_story(scene)
    call = call_id(root_record_id(held.order_id), 1, 0)
    asked = ApprovalRequested(approval_id="a", call_id=call, tool="t", digest="d")
    held.write(asked, ApprovalDecided(approval_id="a", call_id=call, decision="approve"))
    held.write(ControlApplied(control_id="c", control="cancel"))
    source = ended(scene, held, OrderStatus.CANCELLED)
    order = fork(scene, source.id, source.last_seq).order
    kinds = scene.kinds(order.id)
    assert not {"order.claimed", "approval.requested", "approval.decided", "control.applied"} & set(kinds)
    assert kinds.count("agent.finished") == 1 and kinds[-1] == "model.replied"


def test_the_work_of_several_drones_is_copied_as_one_run(scene: Scene) -> None:
    held = scene.running()
    root = root_record_id(held.order_id)
    held.write(started(), begun())
    scene.lose()
    second = scene.hold(held.order_id, token="again")
    master = Origin(record_id=root, agent="master")
    second.write(begun(), replied("late"), origin=master)
    order = fork(scene, held.order_id, second.last_seq).order
    assert scene.kinds(order.id)[1:] == ["agent.started", "model.started", "model.started", "model.replied"]
    assert scene.fold(order.id).usage.model_calls == 1


def test_texts_of_any_kind_and_size_are_taken_over_exactly(scene: Scene) -> None:
    hostile = "NUL \x00, half a pair \ud83d, " + "x" * 200_000
    held = scene.running()
    root = root_record_id(held.order_id)
    held.write(started(hostile), begun(), asking(root, "read_file"), called(root))
    held.write(returned(root, content=hostile))
    order = fork(scene, held.order_id, 7).order
    last = journal(scene, order)[-1].data
    assert isinstance(last, ToolFinished) and last.content == hostile


@pytest.mark.parametrize(("after", "said"), [(18, "entries 1 to 17:"), (10**15, "entries 1 to 17:")])
def test_a_number_that_is_not_there_is_refused(scene: Scene, after: int, said: str) -> None:
    source = ended(scene, told_story(scene))
    with pytest.raises(CannotFork, match=said):
        fork(scene, source.id, after)


def test_the_committed_entries_of_a_running_order_can_be_forked(scene: Scene) -> None:
    held = told_story(scene)
    with pytest.raises(CannotFork, match="entries 1 to 15 so far"):
        fork(scene, held.order_id, 16)
    assert fork(scene, held.order_id, 15).order.status is OrderStatus.QUEUED


def test_an_order_that_waits_for_its_time_is_forked_to_begin_at_once(scene: Scene) -> None:
    source = scene.place(not_before=scene.clock.now() + timedelta(hours=1))
    assert source.reason is WaitingReason.NOT_BEFORE
    assert fork(scene, source.id, 1).order.status is OrderStatus.QUEUED


def test_a_journal_of_an_unknown_version_is_not_forked(scene: Scene) -> None:
    source = ended(scene, told_story(scene))
    newer = sa.update(STATE).where(STATE.c.order_id == source.id).values(journal_version=99)
    scene.store.database.write(lambda connection: connection.execute(newer))
    with pytest.raises(CannotFork, match="version 99"):
        fork(scene, source.id, 3)
    assert retry(scene, source.id).created


def test_an_order_that_does_not_exist_is_neither_retried_forked_nor_rolled_back(scene: Scene) -> None:
    for wanted in (NOBODY, "nobody", "\0"):
        with pytest.raises(UnknownOrder):
            retry(scene, wanted)
        with pytest.raises(UnknownOrder):
            fork(scene, wanted, 1)
        with pytest.raises(UnknownOrder):
            scene.store.orders.roll_back(wanted, by=Actor("someone"))


def test_the_retry_of_a_fork_begins_where_the_fork_began(scene: Scene) -> None:
    held = told_story(scene)
    first = fork(scene, held.order_id, 13, "and the tests?").order
    source = ended(scene, scene.hold(first.id), OrderStatus.FAILED)
    again = retry(scene, source.id).order
    assert (again.session_id, again.session_seq) == (first.session_id, 2)
    assert again.origin is not None and again.origin.kind == "retry"
    entries, before = journal(scene, again), journal(scene, first)[:13]
    assert [entry.kind for entry in entries] == [entry.kind for entry in before]
    said = entries[-1].data
    assert isinstance(said, ControlApplied) and said.message == "and the tests?"
    assert entries[1].record_id == root_record_id(again.id)
    third = retry(scene, ended(scene, scene.hold(again.id), OrderStatus.FAILED).id).order
    assert scene.kinds(third.id) == scene.kinds(again.id)[:13]


def test_a_turn_that_has_ended_is_left_out_of_its_session_and_that_is_noted_once(scene: Scene) -> None:
    source = ended(scene, scene.running())
    assert not source.left_out
    before = scene.kinds(source.id)
    for _ in range(2):
        assert scene.store.orders.roll_back(source.id, by=Actor("ann")).left_out
    assert scene.store.orders.get(source.id).left_out
    assert scene.store.orders.list(session_id=source.session_id).items[0].left_out
    assert scene.kinds(source.id) == before
    (note,) = scene.store.audit.of_order(source.id)
    assert (note.kind, note.principal, note.order_id) == ("order.rolled_back", "ann", source.id)


def test_a_turn_that_has_not_ended_is_not_rolled_back(scene: Scene) -> None:
    held = scene.running()
    with pytest.raises(OrderIsUnfinished, match="cancel it first"):
        scene.store.orders.roll_back(held.order_id, by=Actor("ann"))
    assert not scene.store.orders.get(held.order_id).left_out
    assert scene.store.audit.of_order(held.order_id) == []


def test_a_turn_that_is_rolled_back_while_it_is_interrupted_is_noted_too(scene: Scene) -> None:
    first = scene.place()
    scene.place("instead", session_id=first.session_id, when_busy="rollback")
    assert scene.store.orders.get(first.id).left_out
    assert [note.kind for note in scene.store.audit.of_order(first.id)] == ["order.rolled_back"]


def test_of_many_rollbacks_at_once_one_is_noted(scene: Scene) -> None:
    source = ended(scene, scene.running())
    at_once(*[lambda: scene.store.orders.roll_back(source.id, by=Actor("ann"))] * 4)
    assert len(scene.store.audit.of_order(source.id)) == 1


def test_tools_taken_from_an_order_before_its_agent_began_are_not_given_back_by_a_fork(scene: Scene) -> None:
    held = scene.running()
    taken = ControlApplied(control_id="c", control="steer", tools_removed=("run_shell",))
    held.write(taken, ControlApplied(control_id="d", control="pause"), origin=ORDER)
    early = fork(scene, held.order_id, 4, "something else").order
    assert early.prompt == "something else"
    assert (scene.fold(early.id).tools_removed, scene.fold(early.id).paused) == (("run_shell",), False)
    held.write(started(), begun(), replied())
    late = fork(scene, held.order_id, 7, "go on").order
    assert (scene.fold(late.id).tools_removed, scene.fold(late.id).paused) == (("run_shell",), False)
    assert scene.kinds(late.id)[-1] == "control.applied" and scene.fold(late.id).record() is not None
    assert retry(scene, ended(scene, scene.hold(late.id)).id).order.last_seq == late.last_seq
