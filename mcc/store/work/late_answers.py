"""What people say too late, answers and unread messages: it reaches the session's unfinished turn, or its next one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.approvals import LateAnswer
from mcc.contracts.callers import Actor
from mcc.contracts.control import Control, ControlKind, NewControl
from mcc.contracts.ids import derived_id, root_record_id
from mcc.contracts.inbox_facts import QuestionAsked
from mcc.contracts.questions import SessionWords, late_answer
from mcc.contracts.status import UNFINISHED
from mcc.store.database.errors import AlreadyDecided, TooManyControls
from mcc.store.database.tables import CONTROLS, ORDERS, SESSION_WORDS, STATE
from mcc.store.rows.actors import actor_of
from mcc.store.rows.control_rows import (
    CONTROL,
    IS_OPEN,
    add_control,
    check_room,
    control_of,
    is_own,
    owner_of,
    refuse_control,
    why_not_taken,
)
from mcc.store.rows.order_rows import OrderState, lock
from mcc.store.rows.session_rows import session_row
from mcc.store.rows.session_words import add_words, reads_words, words_in
from mcc.store.rows.texts import parsed
from mcc.store.rows.transitions import new_control
from mcc.store.rows.views import has_status

FOR_NEXT_TURN = "The turn ended before its agent was shown this: its session's next turn is shown it."

_KEPT = sa.select(SESSION_WORDS).where(SESSION_WORDS.c.id == sa.bindparam("wanted"))
_UNREAD = CONTROL.where(
    CONTROLS.c.order_id == sa.bindparam("of"),
    IS_OPEN,
    CONTROLS.c.kind == ControlKind.STEER.value,
    sa.or_(CONTROLS.c.record_id.is_(None), CONTROLS.c.record_id == sa.bindparam("root")),
    CONTROLS.c.message_json.is_not(None),
).order_by(CONTROLS.c.number)
_SPEC = sa.select(ORDERS.c.spec_json).where(ORDERS.c.id == sa.bindparam("wanted"))
_UNFINISHED = (
    sa.select(STATE.c.order_id, ORDERS.c.spec_json)
    .join(ORDERS, ORDERS.c.id == STATE.c.order_id)
    .where(STATE.c.session_id == sa.bindparam("of"), has_status(STATE.c.status, UNFINISHED))
    .order_by(STATE.c.session_seq)
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Late:
    """What became of an answer that came too late for its question. `control`: the steer that it became. `changed`
    False: the same had been said before."""

    answer: LateAnswer
    control: Control | None = None
    changed: bool = True


def answer_late(
    connection: Connection,
    session_id: str,
    asked: QuestionAsked,
    answers: Mapping[str, str],
    by: Actor,
    at: datetime,
    *,
    anybodys: bool,
) -> Late:
    """Pass the answers on to the session; repeating the same ones changes nothing. A turn that somebody else placed is
    not steered by them unless `anybodys`: the next one is shown them.

    Raises `AlreadyDecided`, `TooManyControls`, and `UnknownSession` when the session was deleted.
    """
    # The session before its orders, as everywhere: no turn is placed meanwhile.
    session_row(connection, session_id, locked=True)
    id = derived_id(asked.question_id, "late")
    if (kept := connection.execute(_KEPT, {"wanted": id}).mappings().first()) is not None:
        if [answer.text for answer in words_in(kept["words_json"])] != [*answers.values()]:
            raise AlreadyDecided("this was answered already, with another answer")
        return Late(LateAnswer(became=kept["became"], order_id=kept["taken_by"]), changed=False)
    words = [
        SessionWords(at=at, text=answers[question.id], question=question.question, by=by.principal)
        for question in asked.all_questions
    ]
    reader = _reader_of(connection, session_id)
    if reader is None or not (anybodys or is_own(connection, reader.order_id, by)):
        add_words(connection, id, session_id, words)
        return Late(LateAnswer(became="next_turn"))
    add_words(connection, id, session_id, words, steered=reader.order_id)
    message = "\n\n".join(late_answer(answer.question or "", answer.text) for answer in words)
    control = _steer(connection, reader, message, by, at)
    return Late(LateAnswer(became="steer", order_id=reader.order_id), control)


def _reader_of(connection: Connection, session_id: str, *, skip: bool = False) -> OrderState | None:
    """The session's first unfinished order, locked, if an agent of it can be told something; else None. `skip`: None
    also where somebody else has locked it."""
    row = connection.execute(_UNFINISHED, {"of": session_id}).first()
    if row is None or not reads_words(parsed(row.spec_json).get("kind")):
        return None
    state = lock(connection, row.order_id, skip=skip)
    # Read before the lock, it may have ended by now.
    if state is None or state.status not in UNFINISHED:
        return None
    return state if why_not_taken(connection, state.order_id, ControlKind.STEER) is None else None


def _steer(connection: Connection, reader: OrderState, message: str, by: Actor, at: datetime) -> Control:
    """Add a message to the order, which is locked. Raises `TooManyControls`."""
    check_room(connection, reader.order_id, ControlKind.STEER)
    asked = NewControl.model_construct(message=message)
    control = new_control(reader.order_id, reader.control_seq + 1, ControlKind.STEER, asked, by, at)
    add_control(connection, reader, control, by)
    return control


def keep_unread(connection: Connection, state: OrderState) -> None:
    """Pass the messages to the agent of an order that ends unread on to its session, and say so in their receipts: to
    the turn that waits already, else to the next one that is placed. Generated documents and reverts have no next turn
    that reads. A turn that somebody else placed is told nothing by this, as whoever sent the message may not have the
    right to."""
    rows = connection.execute(_UNREAD, {"of": state.order_id, "root": root_record_id(state.order_id)}).mappings().all()
    if not rows or not reads_words(parsed(str(connection.scalar(_SPEC, {"wanted": state.order_id}))).get("kind")):
        return
    # Whoever ends orders holds locks of several sessions: waiting for one more could be a deadlock.
    reader = _reader_of(connection, state.session_id, skip=True)
    if reader is not None and owner_of(connection, reader.order_id) != owner_of(connection, state.order_id):
        reader = None
    for row in rows:
        control = control_of(row)
        reader = _passed_on(connection, reader, control, actor_of(row))
        if reader is None:
            words = SessionWords(at=control.requested_at, text=control.message or "")
            add_words(connection, control.id, state.session_id, [words])
        refuse_control(connection, control.id, FOR_NEXT_TURN)


def _passed_on(connection: Connection, reader: OrderState | None, control: Control, by: Actor) -> OrderState | None:
    """The order that reads on, after this message was added to it; None where it takes no more."""
    if reader is None:
        return None
    try:
        added = _steer(connection, reader, control.message or "", by, control.requested_at)
    except TooManyControls:
        return None
    return replace(reader, control_seq=added.number)
