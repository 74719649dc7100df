"""Answers to questions that wait for nobody any more: they reach the session's unfinished turn, or its next one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.approvals import LateAnswer
from mcc.contracts.control import Control, ControlKind, NewControl
from mcc.contracts.ids import derived_id
from mcc.contracts.inbox_facts import QuestionAsked
from mcc.contracts.questions import SessionWords, late_answer
from mcc.contracts.status import UNFINISHED
from mcc.store.database.errors import AlreadyDecided
from mcc.store.database.tables import ORDERS, SESSION_WORDS, STATE
from mcc.store.rows.control_rows import add_control, check_room, why_not_taken
from mcc.store.rows.order_rows import OrderState, lock
from mcc.store.rows.session_rows import session_row
from mcc.store.rows.session_words import add_words, reads_words, words_in
from mcc.store.rows.texts import parsed
from mcc.store.rows.transitions import new_control
from mcc.store.rows.views import has_status

_KEPT = sa.select(SESSION_WORDS).where(SESSION_WORDS.c.id == sa.bindparam("wanted"))
_UNFINISHED = (
    sa.select(STATE.c.order_id, ORDERS.c.spec_json)
    .join(ORDERS, ORDERS.c.id == STATE.c.order_id)
    .where(STATE.c.session_id == sa.bindparam("of"), has_status(STATE.c.status, UNFINISHED))
    .order_by(STATE.c.session_seq)
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Late:
    """What became of an answer that came too late for its question. `control`: the steer that it became."""

    answer: LateAnswer
    control: Control | None = None


def answer_late(
    connection: Connection,
    session_id: str,
    asked: QuestionAsked,
    answers: Mapping[str, str],
    principal: str,
    at: datetime,
) -> Late:
    """Pass the answers on to the session; repeating the same ones changes nothing.

    Raises `AlreadyDecided`, `TooManyControls`, and `UnknownSession` when the session was deleted.
    """
    # The session before its orders, as everywhere: no turn is placed meanwhile.
    session_row(connection, session_id, locked=True)
    id = derived_id(asked.question_id, "late")
    if (kept := connection.execute(_KEPT, {"wanted": id}).mappings().first()) is not None:
        if [answer.text for answer in words_in(kept["words_json"])] != [*answers.values()]:
            raise AlreadyDecided("this was answered already, with another answer")
        order_id = kept["taken_by"] if kept["became"] == "steer" else None
        return Late(LateAnswer(became=kept["became"], order_id=order_id))
    words = [
        SessionWords(at=at, text=answers[question.id], question=question.question, by=principal)
        for question in asked.all_questions
    ]
    head = _reader(connection, session_id)
    if head is None:
        add_words(connection, id, session_id, words)
        return Late(LateAnswer(became="next_turn"))
    add_words(connection, id, session_id, words, steered=head.order_id)
    control = _steer(connection, head, words, principal, at)
    return Late(LateAnswer(became="steer", order_id=head.order_id), control)


def _reader(connection: Connection, session_id: str) -> OrderState | None:
    """The session's unfinished order, locked, if an agent of it can be told something; else None."""
    row = connection.execute(_UNFINISHED, {"of": session_id}).first()
    if row is None or not reads_words(parsed(row.spec_json).get("kind")):
        return None
    state = lock(connection, row.order_id)
    # Read before the lock, it may have ended by now.
    if state is None or state.status not in UNFINISHED:
        return None
    return state if why_not_taken(connection, state.order_id, ControlKind.STEER) is None else None


def _steer(
    connection: Connection, head: OrderState, words: Sequence[SessionWords], principal: str, at: datetime
) -> Control:
    check_room(connection, head.order_id, ControlKind.STEER)
    message = "\n\n".join(late_answer(answer.question or "", answer.text) for answer in words)
    asked = NewControl.model_construct(message=message)
    control = new_control(head.order_id, head.control_seq + 1, ControlKind.STEER, asked, at)
    add_control(connection, head, control, principal)
    return control
