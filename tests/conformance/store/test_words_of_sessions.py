"""What people say too late: unread messages and late answers reach the session's unfinished turn, or its next one."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from mcc.contracts.approvals import LateAnswer, QuestionItem
from mcc.contracts.callers import Actor
from mcc.contracts.control import Control, ControlKind, ControlOfBatch, NewControl
from mcc.contracts.fact import Fact
from mcc.contracts.ids import root_record_id
from mcc.contracts.inbox_facts import QuestionAsked
from mcc.contracts.journal import ControlApplied
from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.order import NewFork, NewOrder, WhenBusy
from mcc.contracts.order_facts import OrderQueued
from mcc.contracts.questions import BadAnswer, NewAnswer, OneQuestion
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.database.errors import AlreadyDecided, ApprovalOver, TooManyControls
from mcc.store.database.tables import AUDIT, SESSION_WORDS
from mcc.store.rows.control_rows import MOST_OPEN
from mcc.store.rows.session_words import MOST_CHARACTERS
from mcc.store.work.approvals import DECIDED, Decided
from mcc.store.work.late_answers import FOR_NEXT_TURN, Late
from tests.conformance.store.scene import Held, Scene, at_once, ended, replied, started
from tests.conformance.store.test_inbox import park, question

QUESTIONS = (
    OneQuestion(id="db", question="Which database?", choices=("SQLite", "PostgreSQL"), free=False),
    OneQuestion(id="port", question="Which port?", default="8420"),
)


def steer(scene: Scene, order_id: str, message: str = "m", **fields: object) -> Control:
    body = NewControl.model_validate({"message": message, **fields})
    return scene.store.controls.request(order_id, ControlKind.STEER, body, by=Actor("someone"))


def steered(control: Control) -> ControlApplied:
    return ControlApplied(control_id=control.id, control="steer", message=control.message, at=control.requested_at)


def asking(scene: Scene, *asked: QuestionAsked, **order: Any) -> Held:
    held = scene.running(**order)
    held.write(started(), replied(), *(asked or (question(),)))
    return held


def answered(scene: Scene, answer: NewAnswer | str, id: str = "question-1") -> Decided | Late:
    given = NewAnswer(answer=answer) if isinstance(answer, str) else answer
    return scene.store.approvals.answer(id, given, by=Actor("operator"))


def end(held: Held, status: OrderStatus = OrderStatus.SUCCEEDED, *before: Fact) -> None:
    """End the order, whose drone has taken all controls and left the messages unread."""
    controls = held.scene.store.controls.of_order(held.order_id)
    ending = replace(held.ending(status, *before), control_seq=max((one.number for one in controls), default=0))
    held.scene.store.claims.finish(ending)


def words_of(scene: Scene, order_id: str) -> list[tuple[str | None, str]]:
    """What the order shows above its prompt, which its journal says alike."""
    order = scene.store.orders.get(order_id)
    (first, *_) = scene.store.journal.read(order_id, limit=1)
    assert isinstance(first.data, OrderQueued) and first.data.words == order.words
    return [(one.question, one.text) for one in order.words]


def test_what_the_master_did_not_read_is_the_next_turns_once(scene: Scene) -> None:
    held = scene.running()
    held.write(started())
    read, unread, second = (steer(scene, held.order_id, text) for text in ("read", "unread \x00", "second"))
    third = steer(scene, held.order_id, "third", record_id=root_record_id(held.order_id))
    for_child = steer(scene, held.order_id, "for a child", record_id="01890000-0000-7000-8000-000000000000")
    held.write(steered(read))
    scene.store.controls.pending({held.order_id: 0})
    end(held, OrderStatus.SUCCEEDED, ended())
    session = scene.store.orders.get(held.order_id).session_id
    receipts = {one.id: one for one in scene.store.controls.of_order(held.order_id)}
    assert {receipts[one.id].refused for one in (unread, second, third)} == {FOR_NEXT_TURN}
    assert receipts[read.id].applied_seq and receipts[for_child.id].refused not in (None, FOR_NEXT_TURN)
    following = scene.place(session_id=session)
    assert words_of(scene, following.id) == [(None, "unread \x00"), (None, "second"), (None, "third")]
    assert scene.store.orders.get(following.id).words[0].at == unread.requested_at
    assert words_of(scene, scene.place(session_id=session).id) == []


def test_what_the_master_did_not_read_steers_the_turn_that_waits_already(scene: Scene) -> None:
    held = scene.running()
    held.write(started())
    session = scene.store.orders.get(held.order_id).session_id
    waiting, after = scene.place(session_id=session), scene.place(session_id=session)
    unread = [steer(scene, held.order_id, text) for text in ("unread", "second")]
    scene.clock.advance(60)
    end(held)
    controls = scene.store.controls.of_order(waiting.id)
    assert [(one.message, one.requested_at, one.record_id) for one in controls] == [
        (one.message, one.requested_at, None) for one in unread
    ]
    assert {one.refused for one in scene.store.controls.of_order(held.order_id)} == {FOR_NEXT_TURN}
    claimed = scene.hold(waiting.id)
    assert [one.message for one in scene.store.controls.pending({waiting.id: 0})] == ["unread", "second"]
    claimed.write(started(), *map(steered, controls))
    end(claimed)
    assert not scene.store.controls.of_order(after.id), "once"
    assert words_of(scene, scene.place(session_id=session).id) == []


def test_what_the_master_did_not_read_is_passed_on_to_no_turn_that_somebody_else_placed(scene: Scene) -> None:
    held = scene.running()
    held.write(started())
    session = scene.store.orders.get(held.order_id).session_id
    theirs = scene.store.orders.place(NewOrder(prompt="x", session_id=session), by=Actor("another")).order
    steer(scene, held.order_id, "unread")
    end(held)
    assert scene.store.controls.of_order(theirs.id) == []
    assert words_of(scene, scene.place(session_id=session).id) == [(None, "unread")]


def test_what_was_said_to_a_turn_that_was_cancelled_in_line_reaches_the_one_that_runs(scene: Scene) -> None:
    held = scene.running()
    session = scene.store.orders.get(held.order_id).session_id
    waiting = scene.place(session_id=session)
    steer(scene, waiting.id, "and the tulips")
    scene.store.controls.request(waiting.id, ControlKind.CANCEL, NewControl(), by=Actor("p"))
    assert [one.message for one in scene.store.controls.of_order(held.order_id)] == ["and the tulips"]


def test_unread_messages_wait_for_the_next_placing_where_the_waiting_turn_takes_none(scene: Scene) -> None:
    held = scene.running()
    held.write(started())
    session = scene.store.orders.get(held.order_id).session_id
    scene.place(session_id=session, controls=(ControlKind.PAUSE, ControlKind.RESUME))
    full = steer(scene, held.order_id, "unread")
    end(held)
    assert words_of(scene, scene.place(session_id=session).id) == [(None, full.message)]


def test_many_orders_end_beside_turns_that_wait_and_nothing_is_lost(scene: Scene) -> None:
    held = [scene.running() for _ in range(4)]
    sessions = [scene.store.orders.get(one.order_id).session_id for one in held]
    waiting = [scene.place(session_id=one) for one in sessions]
    for one in held:
        steer(scene, one.order_id, one.order_id)
    endings = [replace(one.ending(), control_seq=1) for one in held]
    done = at_once(
        lambda: scene.store.claims.finish_together(endings[:2]),
        lambda: scene.store.claims.finish_together(endings[2:]),
        *(partial(steer, scene, one.id, "meanwhile") for one in waiting),
    )
    assert not [one for one in done if isinstance(one, BaseException)]
    for one, order, session in zip(held, waiting, sessions, strict=True):
        told = {control.message for control in scene.store.controls.of_order(order.id)}
        told |= {text for _, text in words_of(scene, scene.place(session_id=session).id)}
        assert told == {"meanwhile", one.order_id}


def test_a_retry_and_a_fork_show_the_words_of_their_source(scene: Scene) -> None:
    held = scene.running()
    held.write(started())
    steer(scene, held.order_id, "unread")
    end(held)
    following = scene.place(session_id=scene.store.orders.get(held.order_id).session_id)
    again = scene.hold(following.id)
    again.write(started())
    again.finish()
    retry = scene.store.orders.retry(following.id, by=Actor("p"))
    fork = scene.store.orders.fork(following.id, NewFork(after=1), by=Actor("p"))
    assert words_of(scene, retry.order.id) == words_of(scene, fork.order.id) == [(None, "unread")]


def test_words_beyond_what_a_turn_shows_wait_for_the_turn_after_it(scene: Scene) -> None:
    held = scene.running()
    held.write(started())
    for letter in "abcd":
        steer(scene, held.order_id, letter * 20_000)
    end(held)
    session = scene.store.orders.get(held.order_id).session_id
    shown = [words_of(scene, scene.place(session_id=session).id) for _ in range(3)]
    assert [[text[0] for _, text in words] for words in shown] == [["a", "b"], ["c", "d"], []]
    assert sum(len(text) for _, text in shown[0]) <= MOST_CHARACTERS


@pytest.mark.parametrize("packed", [False, True])
def test_a_message_counts_as_delivered_once_a_request_of_its_agent_carried_it(scene: Scene, packed: bool) -> None:
    held = scene.running()
    held.write(started())
    first, second, third = (steer(scene, held.order_id, text) for text in ("a", "b", "c"))

    def carried() -> list[int | None]:
        return [one.carried_seq for one in scene.store.controls.of_order(held.order_id)]

    held.write(steered(first))
    assert carried() == [None, None, None]
    request = ModelStarted(round=1, attempt=1, model="m")
    held.write(request)
    seq = held.last_seq
    assert carried() == [seq, None, None]
    held.write(steered(second), request, request)
    assert carried() == [seq, seq + 2, None]
    held.write(steered(third))
    end(held, OrderStatus.SUCCEEDED, ended())
    if packed:
        assert list(scene.store.packing.pack(scene.clock.now())) == [held.order_id]
    assert carried() == [seq, seq + 2, None]


def test_more_open_messages_than_agents_can_read_are_not_taken_and_a_cancel_is(scene: Scene) -> None:
    held = scene.running()
    batch = [ControlOfBatch(kind=ControlKind.STEER, message="m")] * 20
    for _ in range(MOST_OPEN // 20):
        scene.store.controls.request_all(held.order_id, batch, by=Actor("p"))
    with pytest.raises(TooManyControls, match="1,000 requests of the kind steer"):
        steer(scene, held.order_id)
    with pytest.raises(TooManyControls):
        session = scene.store.orders.get(held.order_id).session_id
        scene.place(session_id=session, when_busy=WhenBusy.STEER)
    for kind in (ControlKind.PAUSE, ControlKind.RESUME, ControlKind.CANCEL, ControlKind.CANCEL):
        scene.store.controls.request(held.order_id, kind, NewControl(), by=Actor("p"))
    held.write(steered(scene.store.controls.of_order(held.order_id)[0]))
    steer(scene, held.order_id)


def test_several_questions_are_answered_together(scene: Scene) -> None:
    held = asking(scene, question(questions=QUESTIONS))
    park(held, WaitingReason.QUESTION)
    wrong: Mapping[str, NewAnswer] = {
        "there are 2 questions": NewAnswer(answer="SQLite"),
        "missing: port": NewAnswer(answers={"db": "SQLite"}),
        "no question 'x'": NewAnswer(answers={"db": "SQLite", "port": "1", "x": "1"}),
        "one of: SQLite": NewAnswer(answers={"db": "MySQL", "port": "1"}),
        "one of answer, answers": NewAnswer(answers={"db": "SQLite", "port": "1"}, decline=True),
    }
    for problem, answer in wrong.items():
        with pytest.raises(BadAnswer, match=problem):
            answered(scene, answer)
    done = answered(scene, NewAnswer(answers={"db": "SQLite", "port": "80"}))
    assert isinstance(done, Decided) and isinstance(done.item, QuestionItem) and done.changed
    assert [(one.id, one.status, one.answer, one.by) for one in done.item.answers] == [
        ("db", "answered", "SQLite", "operator"),
        ("port", "answered", "80", "operator"),
    ]
    again = answered(scene, NewAnswer(answers={"port": "80", "db": "SQLite"}))
    assert isinstance(again, Decided) and not again.changed
    with pytest.raises(AlreadyDecided):
        answered(scene, NewAnswer(answers={"db": "SQLite", "port": "81"}))
    with pytest.raises(AlreadyDecided):
        answered(scene, NewAnswer(decline=True))
    assert scene.status(held.order_id) is OrderStatus.QUEUED


def test_a_declined_question_is_told_as_that(scene: Scene) -> None:
    held = asking(scene)
    park(held, WaitingReason.QUESTION)
    done = answered(scene, NewAnswer(decline=True))
    assert isinstance(done, Decided) and done.item.status == "declined"
    again = answered(scene, NewAnswer(decline=True))
    assert isinstance(again, Decided) and not again.changed
    with pytest.raises(AlreadyDecided):
        answered(scene, "a")
    assert [one.kind for one in scene.store.inbox.list("declined").items] == ["question"]


def test_without_a_deadline_questions_end_when_the_order_stops_waiting_and_it_goes_on(scene: Scene) -> None:
    until = scene.clock.now() + timedelta(days=30)
    held = asking(scene, question(questions=QUESTIONS, waits_until=until))
    park(held, WaitingReason.QUESTION, until=until)
    item = scene.store.approvals.get("question-1")
    assert item.expires_at is None
    scene.clock.advance(29 * 86_400)
    scene.store.sweeper.sweep(may_expire=False)
    assert scene.status(held.order_id) is OrderStatus.WAITING
    scene.clock.advance(86_401)
    scene.store.sweeper.sweep(may_expire=False)
    assert scene.status(held.order_id) is OrderStatus.QUEUED
    item = scene.store.approvals.get("question-1")
    assert isinstance(item, QuestionItem) and item.status == "expired"
    assert [(one.status, one.answer) for one in item.answers] == [("expired", None), ("expired", "8420")]


def test_an_order_with_an_expiry_of_its_own_waits_until_then(scene: Scene) -> None:
    held = asking(scene, expires_at=scene.clock.now() + timedelta(days=3))
    park(held, WaitingReason.QUESTION)
    scene.clock.advance(2 * 86_400)
    scene.store.sweeper.sweep(may_expire=False)
    assert scene.status(held.order_id) is OrderStatus.WAITING
    scene.clock.advance(86_401)
    scene.store.sweeper.sweep(may_expire=False)
    assert scene.status(held.order_id) is OrderStatus.FAILED
    assert scene.store.approvals.get("question-1").status == "void"


def notes_of_decisions(scene: Scene) -> int:
    count = sa.select(sa.func.count()).where(AUDIT.c.kind == DECIDED)
    return int(scene.store.database.read(lambda one: one.scalar(count)) or 0)


def test_the_answer_to_a_question_of_an_order_that_is_over_is_shown_by_the_next_turn(scene: Scene) -> None:
    held = asking(scene, question(questions=QUESTIONS))
    held.finish(OrderStatus.CANCELLED)
    answer = NewAnswer(answers={"db": "SQLite", "port": "80"})
    late = answered(scene, answer)
    assert isinstance(late, Late) and late.control is None
    assert late.answer == LateAnswer(became="next_turn")
    noted = notes_of_decisions(scene)
    again = answered(scene, answer)
    assert isinstance(again, Late) and (again.answer, again.changed) == (late.answer, False)
    with pytest.raises(AlreadyDecided):
        answered(scene, NewAnswer(answers={"db": "PostgreSQL", "port": "80"}))
    with pytest.raises(ApprovalOver):
        answered(scene, NewAnswer(decline=True))
    order = scene.place(session_id=scene.store.orders.get(held.order_id).session_id)
    assert words_of(scene, order.id) == [("Which database?", "SQLite"), ("Which port?", "80")]
    again = answered(scene, answer)
    assert isinstance(again, Late) and again.answer == LateAnswer(became="next_turn", order_id=order.id), "it was taken"
    assert notes_of_decisions(scene) == noted == 1, "what is repeated is not decided again"
    assert words_of(scene, scene.place(session_id=order.session_id).id) == []


def test_a_late_answer_steers_the_unfinished_turn_of_its_session(scene: Scene) -> None:
    held = asking(scene)
    held.finish(OrderStatus.CANCELLED)
    order = scene.place(session_id=scene.store.orders.get(held.order_id).session_id)
    late = answered(scene, "b")
    assert isinstance(late, Late) and late.answer == LateAnswer(became="steer", order_id=order.id)
    again = answered(scene, "b")
    assert isinstance(again, Late) and again.answer == late.answer and again.control is None
    [control] = scene.store.controls.of_order(order.id)
    assert control == late.control and control.kind is ControlKind.STEER
    assert control.message == "The answer to the earlier question “Which?”: b"
    assert words_of(scene, scene.place(session_id=order.session_id).id) == []


def test_a_late_answer_steers_nobody_who_takes_no_steers(scene: Scene) -> None:
    held = asking(scene)
    held.finish(OrderStatus.CANCELLED)
    session = scene.store.orders.get(held.order_id).session_id
    scene.place(session_id=session, controls=(ControlKind.PAUSE, ControlKind.RESUME))
    late = answered(scene, "b")
    assert isinstance(late, Late) and late.answer == LateAnswer(became="next_turn")


def test_the_answer_to_a_question_whose_time_is_over_reaches_the_order_that_went_on(scene: Scene) -> None:
    held = asking(scene, question(expires_at=scene.clock.now() + timedelta(seconds=5)))
    scene.clock.advance(6)
    scene.store.sweeper.sweep(may_expire=False)
    late = answered(scene, "b")
    assert isinstance(late, Late) and late.answer == LateAnswer(became="steer", order_id=held.order_id)


def test_of_two_answers_at_once_one_counts_and_the_other_is_told_so(scene: Scene) -> None:
    for number in range(5):
        asked = QuestionAsked(question_id=f"q{number}", call_id=f"c{number}", question="Which?")
        held = asking(scene, asked)
        if number % 2:
            park(held, WaitingReason.QUESTION)
        first, second = at_once(
            partial(answered, scene, "a", f"q{number}"), partial(answered, scene, "b", f"q{number}")
        )
        won, lost = (first, second) if isinstance(first, Decided) else (second, first)
        assert isinstance(won, Decided) and won.changed and isinstance(lost, AlreadyDecided), (first, second)
        same = at_once(*[partial(answered, scene, won.item.answer or "", f"q{number}")] * 3)  # type: ignore[union-attr]
        assert [isinstance(one, Decided) and one.changed for one in same] == [False] * 3


def test_of_two_late_answers_at_once_one_reaches_the_session_once(scene: Scene) -> None:
    for number in range(5):
        asked = QuestionAsked(question_id=f"q{number}", call_id=f"c{number}", question="Which?")
        held = asking(scene, asked)
        held.finish(OrderStatus.CANCELLED)
        session = scene.store.orders.get(held.order_id).session_id
        first, second, placed = at_once(
            partial(answered, scene, "a", f"q{number}"),
            partial(answered, scene, "b", f"q{number}"),
            partial(scene.place, session_id=session),
        )
        assert {type(first), type(second)} == {Late, AlreadyDecided}, (first, second)
        told = [one.message for one in scene.store.controls.of_order(placed.id)]  # type: ignore[union-attr]
        told += [text for _, text in words_of(scene, placed.id)]  # type: ignore[union-attr]
        told += [text for _, text in words_of(scene, scene.place(session_id=session).id)]
        assert len(told) == 1, told


def test_two_interrupts_at_once_leave_two_turns_and_one_cancel(scene: Scene) -> None:
    held = scene.running()
    session = scene.store.orders.get(held.order_id).session_id
    interrupt = partial(scene.place, session_id=session, when_busy=WhenBusy.INTERRUPT)
    first, second = at_once(interrupt, interrupt)
    assert first.session_seq != second.session_seq  # type: ignore[union-attr]
    cancels = [one for one in scene.store.controls.of_order(held.order_id) if one.kind is ControlKind.CANCEL]
    assert len(cancels) == 1


def test_a_deleted_session_takes_its_words_with_it(scene: Scene) -> None:
    held = asking(scene)
    steer(scene, held.order_id, "unread")
    end(held, OrderStatus.CANCELLED)
    answered(scene, "b")
    session = scene.store.orders.get(held.order_id).session_id

    def kept() -> int:
        count = sa.select(sa.func.count()).where(SESSION_WORDS.c.session_id == session)
        return int(scene.store.database.read(lambda one: one.scalar(count)) or 0)

    assert kept() == 2
    scene.store.removal.begin(session, by=Actor("p"))
    with pytest.raises((ApprovalOver, AlreadyDecided)):
        answered(scene, "a")
    scene.clock.advance(3 * 86_400)
    for _ in range(3):
        assert scene.store.removal.advance() == {}
    assert kept() == 0
