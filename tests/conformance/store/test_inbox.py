"""The inbox mirrors journals: items are raised, decided once, used once, and void when their orders end."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from mcc.contracts.approvals import AnyItem, ApprovalItem, NewDecision, QuestionItem
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import child_record_id
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, QuestionAnswered, QuestionAsked, ShownPreview
from mcc.contracts.journal import AgentFinished, ToolStarted
from mcc.contracts.permission import SavedRule, Why
from mcc.contracts.questions import NewAnswer
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FINAL, OrderStatus, WaitingReason
from mcc.store.database.errors import (
    AlreadyDecided,
    ApprovalOver,
    BadCursor,
    CannotRemember,
    ControlsPending,
    UnknownApproval,
    UnknownGrant,
)
from mcc.store.people.owners import NOBODY, Thing
from mcc.store.rows.values import Parking, WorkspaceHold
from mcc.store.work.approvals import Decided
from tests.conformance.store.scene import Held, Scene, at_once, replied, started

SAVED = SavedRule(key="git_commit", when='args.message.startsWith("Mend ")')
APPROVE, DENY = NewDecision(decision="approve", note="Yes."), NewDecision(decision="deny")


def asked(number: int = 1, **more: object) -> ApprovalRequested:
    fields: dict[str, Any] = {
        "approval_id": f"approval-{number}",
        "call_id": f"call-{number}",
        "tool": "git_commit",
        "arguments": {"message": "Mend \ud800"},
        "effects": "write",
        "digest": "sha256:0",
        "preview": ShownPreview(kind="diff", text="-a\n+b"),
        "why": Why(layer="operator", key="git_commit"),
        "would_save": SAVED,
    }
    return ApprovalRequested(**{**fields, **more})


def question(**more: Any) -> QuestionAsked:
    return QuestionAsked(question_id="question-1", call_id="call-q", question="Which?", choices=("a", "b"), **more)


def begun(number: int = 1, approval: str | None = None) -> ToolStarted:
    return ToolStarted(
        call_id=f"call-{number}",
        round=1,
        index=0,
        name="git_commit",
        arguments={},
        idempotent=False,
        approval_id=approval or f"approval-{number}",
    )


def asking(scene: Scene, *facts: Fact, **order: Any) -> Held:
    held = scene.running(**order)
    held.write(started(), replied(), *(facts or (asked(),)))
    return held


def park(held: Held, reason: WaitingReason = WaitingReason.APPROVAL, **fields: object) -> int:
    made = Parking(held.order_id, held.epoch, held.last_seq, held.control_seq, reason, "it waits")
    return held.scene.store.claims.park(replace(made, **fields))  # type: ignore[arg-type]


def decide(scene: Scene, said: NewDecision = APPROVE, id: str = "approval-1") -> Decided:
    return scene.store.approvals.decide(id, said, by=Actor("operator"))


def item(scene: Scene, id: str = "approval-1") -> AnyItem:
    return scene.store.approvals.get(id)


def parked(scene: Scene, held: Held) -> None:
    park(held)


def queued(scene: Scene, held: Held) -> None:
    scene.store.claims.hand_back([(held.order_id, held.epoch)], drone="drone-1", message="leaves")


def test_an_item_is_in_the_inbox_from_its_entry_on(scene: Scene) -> None:
    held = asking(scene)
    found = item(scene)
    assert isinstance(found, ApprovalItem)
    assert (found.status, found.order_id, found.record_id) == ("pending", held.order_id, held.origin.record_id)
    assert (found.agent, found.arguments, found.would_save) == ("master", {"message": "Mend \ud800"}, SAVED)
    assert found.preview == ShownPreview(kind="diff", text="-a\n+b")
    assert scene.store.inbox.list("pending").items == [
        found.model_copy(update={"title": "do it", "owner": "someone"}),
    ]


def test_a_zombie_asks_nothing(scene: Scene) -> None:
    held = scene.running()
    queued(scene, held)
    assert held.write(asked()).fenced
    assert scene.store.inbox.list().items == []


@pytest.mark.parametrize("lay_aside", [parked, queued])
@pytest.mark.parametrize(("said", "status"), [(APPROVE, "approved"), (DENY, "denied")])
def test_a_decision_about_an_order_that_no_drone_runs_is_in_its_journal(
    scene: Scene, lay_aside: Callable[[Scene, Held], None], said: NewDecision, status: str
) -> None:
    held = asking(scene)
    lay_aside(scene, held)
    decided = decide(scene, said)
    assert decided.changed and decided.control is None
    assert (decided.item.status, decided.item.by) == (status, "operator")
    assert item(scene) == decided.item
    told = next(one for one in scene.store.journal.read(held.order_id) if one.kind == ApprovalDecided.kind)
    assert isinstance(told.data, ApprovalDecided) and told.record_id == held.origin.record_id
    assert (told.data.decision, told.data.by, told.data.note) == (said.decision, "operator", said.note)
    assert told.data.digest == "sha256:0" and told.data.why == Why(layer="operator", key="git_commit")
    assert scene.status(held.order_id) is OrderStatus.QUEUED
    assert held.write(asked(2)).fenced


def test_a_decision_reaches_the_drone_that_runs_the_order_as_a_control_with_a_receipt(scene: Scene) -> None:
    held = asking(scene)
    decided = decide(scene)
    assert decided.control is not None and decided.control.kind is ControlKind.DECIDE
    assert item(scene).status == "approved"
    [found] = scene.store.controls.pending({held.order_id: 0})
    assert found.said is not None and (found.said.item_id, found.said.decision) == ("approval-1", "approve")
    with pytest.raises(ControlsPending):
        park(held)
    told = ApprovalDecided(approval_id="approval-1", call_id="call-1", decision="approve", control_id=found.id)
    held.write(told)
    [receipt] = scene.store.controls.of_order(held.order_id)
    assert receipt.applied_seq == held.last_seq
    assert item(scene).by == "operator"


def test_a_decision_that_its_drone_did_not_live_to_hear_is_the_next_ones(scene: Scene) -> None:
    held = asking(scene)
    decide(scene)
    scene.lose()
    again = scene.hold(held.order_id, token="other")
    assert again.control_seq == 0
    [found] = scene.store.controls.pending({held.order_id: again.control_seq})
    assert found.said is not None and found.said.decision == "approve"


def test_it_is_decided_once(scene: Scene) -> None:
    held = asking(scene)
    park(held)
    decide(scene)
    seq = scene.store.orders.get(held.order_id).last_seq
    assert not decide(scene, NewDecision(decision="approve")).changed
    with pytest.raises(AlreadyDecided):
        decide(scene, DENY)
    assert scene.store.orders.get(held.order_id).last_seq == seq


def test_of_two_concurrent_decisions_one_counts(scene: Scene) -> None:
    asking(scene)

    def one(said: NewDecision) -> Callable[[], str]:
        def do() -> str:
            try:
                return "did" if decide(scene, said).changed else "same"
            except AlreadyDecided:
                return "late"

        return do

    assert sorted(map(str, at_once(one(APPROVE), one(DENY)))) == ["did", "late"]


def test_an_approval_is_used_by_the_call_that_begins_and_never_again(scene: Scene) -> None:
    held = asking(scene, asked(), asked(2))
    decide(scene)
    held.write(begun())
    used = item(scene)
    assert isinstance(used, ApprovalItem) and (used.status, used.used_seq) == ("used", held.last_seq)
    held.write(begun(3, "approval-1"))
    assert item(scene) == used
    held.write(begun(2))
    assert item(scene, "approval-2").status == "pending"
    with pytest.raises(AlreadyDecided):
        decide(scene, DENY)
    assert not decide(scene).changed


def test_pending_items_are_void_when_their_order_ends_and_used_ones_stay_used(scene: Scene) -> None:
    held = asking(scene, *(asked(number) for number in range(1, 5)), question())
    decide(scene)
    decide(scene, id="approval-2")
    decide(scene, DENY, "approval-3")
    held.write(begun())
    park(held, control_seq=3)
    scene.store.controls.request(held.order_id, ControlKind.CANCEL, NewControl(), by=Actor("someone"))
    statuses = {one.id: one.status for one in scene.store.inbox.list().items}
    assert statuses == {
        "approval-1": "used",
        "approval-2": "void",
        "approval-3": "denied",
        "approval-4": "void",
        "question-1": "void",
    }
    for id in ("approval-2", "approval-4"):
        with pytest.raises(ApprovalOver):
            decide(scene, id=id)


def test_items_of_a_cancelled_agent_are_void_and_those_of_others_are_not(scene: Scene) -> None:
    held = asking(scene)
    child = Origin(record_id=child_record_id("x"), parent_id=held.origin.record_id, agent="general", depth=1)
    held.write(started(), asked(2), origin=child)
    assert item(scene, "approval-2").depth == 1
    held.write(AgentFinished(status=RecordStatus.CANCELLED), origin=child)
    assert [item(scene, id).status for id in ("approval-1", "approval-2")] == ["pending", "void"]


@pytest.mark.parametrize("lay_aside", [parked, queued])
def test_undecided_items_expire(scene: Scene, lay_aside: Callable[[Scene, Held], None]) -> None:
    until = scene.clock.now() + timedelta(seconds=60)
    held = asking(scene, asked(expires_at=until), question(default="a", expires_at=until + timedelta(seconds=60)))
    lay_aside(scene, held)
    scene.store.sweeper.sweep(may_expire=False)
    assert item(scene).status == "pending"
    scene.clock.advance(61)
    with pytest.raises(ApprovalOver):
        decide(scene)
    swept = scene.store.sweeper.sweep(may_expire=False)
    assert swept.resumed == (held.order_id,)
    assert [item(scene, id).status for id in ("approval-1", "question-1")] == ["expired", "pending"]
    told = next(one.data for one in scene.store.journal.read(held.order_id) if one.kind == ApprovalDecided.kind)
    assert isinstance(told, ApprovalDecided) and (told.decision, told.by) == ("expired", None)
    scene.clock.advance(60)
    scene.store.sweeper.sweep(may_expire=False)
    answered = item(scene, "question-1")
    assert isinstance(answered, QuestionItem) and (answered.status, answered.answer) == ("expired", "a")
    last = scene.store.journal.read(held.order_id)[-1].data
    assert isinstance(last, QuestionAnswered) and last.expired
    with pytest.raises(ApprovalOver):
        decide(scene)


def test_the_expiry_of_an_item_reaches_the_drone_that_runs_the_order(scene: Scene) -> None:
    held = asking(scene, question(expires_at=scene.clock.now() + timedelta(seconds=5)))
    scene.clock.advance(6)
    scene.store.sweeper.sweep(may_expire=False)
    [found] = scene.store.controls.pending({held.order_id: 0})
    assert found.said is not None and found.said.expired and found.said.answer is None
    assert item(scene, "question-1").status == "expired"
    scene.store.sweeper.sweep(may_expire=False)
    assert len(scene.store.controls.of_order(held.order_id)) == 1


def test_a_question_is_answered_once(scene: Scene) -> None:
    held = asking(scene, question())
    park(held, WaitingReason.QUESTION)
    with pytest.raises(UnknownApproval):
        decide(scene, id="question-1")
    store = scene.store.approvals
    done = store.answer("question-1", NewAnswer(answer="b"), by=Actor("operator"))
    assert isinstance(done, Decided) and isinstance(done.item, QuestionItem)
    assert (done.item.answer, done.item.status) == ("b", "answered")
    assert scene.status(held.order_id) is OrderStatus.QUEUED
    again = store.answer("question-1", NewAnswer(answers={"1": "b"}), by=Actor("operator"))
    assert isinstance(again, Decided) and not again.changed
    with pytest.raises(AlreadyDecided):
        store.answer("question-1", NewAnswer(answer="a"), by=Actor("operator"))
    assert [one.kind for one in scene.store.inbox.list(kinds={"question"}).items] == ["question"]
    assert scene.store.inbox.list(kinds={"approval", "outline"}).items == []


def test_the_pages_of_the_inbox_go_on_where_they_ended(scene: Scene) -> None:
    held = asking(scene)
    for number in range(2, 8):
        scene.clock.advance(number % 2)
        held.write(asked(number))
    page, seen = scene.store.inbox.list(limit=3), []
    while True:
        seen += [one.id for one in page.items]
        if page.next_cursor is None:
            break
        page = scene.store.inbox.list(limit=3, cursor=page.next_cursor)
    assert len(seen) == len(set(seen)) == 7
    assert seen == [one.id for one in scene.store.inbox.list().items]
    for cursor in ("nonsense", "1", "x.y", "99999999999999999999.a"):
        with pytest.raises(BadCursor):
            scene.store.inbox.list(cursor=cursor)


def test_an_approval_that_stands_holds_for_its_order_its_session_or_its_workspace(scene: Scene) -> None:
    def grants(order_id: str) -> list[SavedRule]:
        return list(scene.store.grants.of_order(order_id))

    def held(session: str | None, key: str, number: int) -> Held:
        order = scene.place(session_id=session, workspace="/somewhere")
        claimed = scene.store.claims.claim(
            order.id,
            incarnation=scene.drone(f"drone-{number}"),
            claim_token=f"t{number}",
            drone=f"drone-{number}",
            workspace=WorkspaceHold(key),
        )
        assert claimed is not None
        made = Held(scene, order.id, claimed.epoch, claimed.attempt, claimed.last_seq, 0)
        made.write(started(), replied(), asked(number))
        return made

    first = held(None, "key-1", 1)
    other = held(None, "key-1", 2)
    strange = held(None, "key-2", 3)
    decide(scene, NewDecision(decision="approve", remember="order"))
    assert (grants(first.order_id), grants(other.order_id)) == ([SAVED], [])
    decide(scene, NewDecision(decision="approve", remember="workspace"), "approval-2")
    assert (grants(other.order_id), grants(strange.order_id)) == ([SAVED], [])
    [newest, oldest] = scene.store.grants.list().items
    owners = scene.store.owners.owners(Thing.GRANT, [newest.id, oldest.id])
    assert owners == {newest.id: NOBODY, oldest.id: "someone"}
    assert scene.store.owners.owners(Thing.ITEM, ["approval-1"]) == {"approval-1": "someone"}
    assert (newest.scope, newest.scope_id, newest.approval_id) == ("workspace", "key-1", "approval-2")
    scene.store.grants.revoke(newest.id, by=Actor("operator"))
    assert (grants(first.order_id), grants(other.order_id)) == ([SAVED], [])
    decide(scene, NewDecision(decision="approve", remember="session"), "approval-3")
    session = scene.store.orders.get(strange.order_id).session_id
    later = scene.place(session_id=session)
    assert grants(later.id) == [SAVED]
    lasting = scene.store.grants.list().items[0]
    assert scene.store.owners.owners(Thing.GRANT, [lasting.id]) == {lasting.id: "someone"}
    with pytest.raises(UnknownGrant):
        scene.store.grants.revoke(newest.id, by=Actor("operator"))


@pytest.mark.parametrize("by_drone", [True, False], ids=["by its drone", "by the service"])
def test_an_approval_that_stands_for_an_order_ends_with_it_and_one_of_its_session_stays(
    scene: Scene, by_drone: bool
) -> None:
    held = asking(scene, asked(), asked(2, would_save=SavedRule(key="run_shell")))
    decide(scene, NewDecision(decision="approve", remember="session"))
    decide(scene, NewDecision(decision="approve", remember="order"), "approval-2")
    assert [one.scope for one in scene.store.grants.list().items] == ["order", "session"]
    made = [note for note in scene.store.audit.of_order(held.order_id) if note.kind == "grant.made"]
    assert [note.detail["scope"] for note in made] == ["session", "order"]
    held.control_seq = 2
    if by_drone:
        held.finish()
    else:
        queued(scene, held)
        scene.store.controls.request(held.order_id, ControlKind.CANCEL, NewControl(), by=Actor("operator"))
    assert scene.store.orders.get(held.order_id).status in FINAL
    assert [one.scope for one in scene.store.grants.list().items] == ["session"]


def test_a_decision_that_cannot_be_remembered_is_refused(scene: Scene) -> None:
    asking(scene, asked(), asked(2, would_save=None))
    for said, id in (
        (NewDecision(decision="deny", remember="order"), "approval-1"),
        (NewDecision(decision="approve", remember="workspace"), "approval-1"),
        (NewDecision(decision="approve", remember="order"), "approval-2"),
    ):
        with pytest.raises(CannotRemember):
            decide(scene, said, id)
        assert item(scene, id).status == "pending"
    assert scene.store.grants.list().items == []


def test_a_list_of_pending_items_reads_only_those(scene: Scene) -> None:
    if scene.kind != "sqlite":
        pytest.skip("the plan of PostgreSQL depends on its statistics")
    asking(scene)
    plans: list[str] = []

    def explained(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        if "FROM approvals" in statement and not statement.startswith("EXPLAIN"):
            plans.extend(row[3] for row in cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters))

    engine = scene.store.database.engine
    sa.event.listen(engine, "before_cursor_execute", explained)
    try:
        scene.store.inbox.list("pending")
        scene.store.inbox.list()
        scene.store.sweeper.sweep(may_expire=False)
    finally:
        sa.event.remove(engine, "before_cursor_execute", explained)
    assert {"SEARCH approvals USING INDEX items_by_status (status=?)", "SCAN approvals USING INDEX items_by_time"} < {
        *plans
    }
    assert all("SCAN" not in plan or plan == "SCAN approvals USING INDEX items_by_time" for plan in plans), plans
