"""The inbox: approvals, outlines and questions, decided under the lock of their order."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.approvals import AnyItem, ItemStatus, NewDecision
from mcc.contracts.control import Control, ControlKind
from mcc.contracts.entry import Draft, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import fresh_id
from mcc.contracts.inbox_facts import (
    ApprovalRequested,
    InboxReply,
    InboxRequest,
    QuestionAnswered,
    QuestionAsked,
    Said,
    reply_fact,
)
from mcc.contracts.permission import SavedRule
from mcc.contracts.questions import NewAnswer, answers_to
from mcc.contracts.status import OrderStatus
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.errors import (
    AlreadyDecided,
    ApprovalOver,
    BadCursor,
    CannotRemember,
    UnknownApproval,
    UnknownSession,
)
from mcc.store.database.tables import APPROVALS, STATE
from mcc.store.rows.audit import add_note
from mcc.store.rows.control_rows import add_control
from mcc.store.rows.grants import remember
from mcc.store.rows.inbox_rows import DECIDE, PENDING, answer_row, decision_row, item_of, update_inbox
from mcc.store.rows.note_items import note_items
from mcc.store.rows.order_rows import OrderState, lock, write
from mcc.store.rows.texts import parsed
from mcc.store.rows.values import Page
from mcc.store.work.claims import resume
from mcc.store.work.late_answers import Late, answer_late

DECIDED = "approval decided"
APPROVAL_KINDS = frozenset({"approval", "outline"})
QUESTION_KINDS = frozenset({"question"})

_ITEM = sa.select(APPROVALS, STATE.c.session_id).join(STATE, STATE.c.order_id == APPROVALS.c.order_id)
_ONE = _ITEM.where(APPROVALS.c.id == sa.bindparam("wanted"))

_PENDING_OF = _ITEM.where(APPROVALS.c.order_id == sa.bindparam("of"), APPROVALS.c.status == "pending")
_OVERDUE_OF = _ITEM.where(
    APPROVALS.c.order_id == sa.bindparam("of"),
    APPROVALS.c.status == "pending",
    APPROVALS.c.expires_at <= sa.bindparam("now", type_=sa.BigInteger),
)


@dataclass(frozen=True, slots=True)
class Decided:
    """The result of a decision: the item afterwards. `changed` False: it had been decided like this before. `control`:
    passes the decision to the drone that runs the order; None when no drone does."""

    item: AnyItem
    changed: bool
    control: Control | None = None


class ApprovalStore:
    """Items mirror facts in the journals of their orders; both are written in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self,
        status: ItemStatus | None = None,
        *,
        kinds: Collection[str] | None = None,
        order_id: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[AnyItem]:
        """Newest first; of all `kinds`, also memories. Raises `BadCursor`."""
        query = _ITEM.order_by(APPROVALS.c.requested_at.desc(), APPROVALS.c.id.desc()).limit(limit + 1)
        if status is not None:
            query = query.where(PENDING if status == "pending" else APPROVALS.c.status == status)
        if kinds is not None:
            # A single kind uses the index that begins with it. For several kinds, the + "" rules that index out and the
            # index by time is scanned: two ranges of the former would have to be sorted.
            kind = APPROVALS.c.kind if len(kinds) == 1 else APPROVALS.c.kind + ""
            query = query.where(kind.in_(sorted(kinds)))
        if order_id is not None:
            query = query.where(APPROVALS.c.order_id == order_id)
        place = None if cursor is None else _place(cursor)
        if place is not None:
            query = query.where(sa.tuple_(APPROVALS.c.requested_at, APPROVALS.c.id) < sa.tuple_(*place))

        def items(connection: Connection) -> Sequence[AnyItem]:
            asked = [item_of(row) for row in connection.execute(query).mappings()]
            notes = note_items(connection, status, order_id, place, limit + 1) if kinds is None else ()
            return sorted([*asked, *notes], key=lambda item: (item.requested_at, item.id), reverse=True)

        newest = self._database.read(items)
        if len(newest) <= limit:
            return Page(newest)
        last = newest[limit - 1]
        return Page(newest[:limit], f"{micros(last.requested_at)}.{last.id}")

    def get(self, item_id: str) -> AnyItem:
        """Raises `UnknownApproval`."""
        return self._database.read(lambda connection: item_of(_row(connection, item_id)))

    def decide(self, item_id: str, decision: NewDecision, *, principal: str) -> Decided:
        """Approve or deny a call or an outline; repeating the same decision changes nothing.

        Raises `UnknownApproval`, `AlreadyDecided`, `ApprovalOver`, `CannotRemember`.
        """
        said = Said(
            item_id=item_id,
            decision=decision.decision,
            note=decision.note,
            remember=decision.remember,
            by=principal,
            expired=False,
        )
        return self._database.write(lambda connection: self._decide(connection, said, APPROVAL_KINDS))

    def answer(self, item_id: str, answer: NewAnswer, *, principal: str) -> Decided | Late:
        """Answer an item's questions; repeating the same answers changes nothing. Where nobody waits for them any more,
        they are passed on to the session.

        Raises `UnknownApproval`, `AlreadyDecided`, `ApprovalOver`, `TooManyControls`, and `BadAnswer` for answers that
        do not fit the questions.
        """
        row = self._database.read(lambda connection: _row(connection, item_id, QUESTION_KINDS))
        asked = _fact(row)
        assert isinstance(asked, QuestionAsked)
        answers = answers_to(asked.all_questions, answer)
        known = None if answers is None else dict(answers)
        said = Said(item_id=item_id, answers=known, declined=answers is None, by=principal)
        try:
            return self._database.write(lambda connection: self._decide(connection, said, QUESTION_KINDS))
        except ApprovalOver as over:
            if answers is None:
                raise
            return self._late(str(row["session_id"]), asked, answers, principal, over)

    def _late(
        self, session_id: str, asked: QuestionAsked, answers: Mapping[str, str], principal: str, over: ApprovalOver
    ) -> Late:
        at = self._database.clock.now()

        def work(connection: Connection) -> Late:
            late = answer_late(connection, session_id, asked, answers, principal, at)
            detail = {"item": asked.question_id, "decision": "answer", "became": late.answer.became}
            add_note(connection, at, DECIDED, principal=principal, order_id=late.answer.order_id, detail=detail)
            return late

        try:
            return self._database.write(work)
        except UnknownSession:
            raise over from None

    def _decide(self, connection: Connection, said: Said, kinds: Collection[str]) -> Decided:
        order_id = _row(connection, said.item_id, kinds)["order_id"]
        # The item names its order, whose lock comes first; only then is the item read for good.
        state = lock(connection, order_id)
        row = _row(connection, said.item_id, kinds)
        item = item_of(row)
        if row["status"] != "pending":
            _check_same(item, said)
            return Decided(item, changed=False)
        now = int(connection.scalar(sa.select(self._database.time.now)) or 0)
        late = row["expires_at"] is not None and row["expires_at"] <= now
        if state is None or late:
            raise ApprovalOver("the time to decide this is over")
        at = self._database.clock.now()
        if said.remember is not None:
            asked = _fact(row)
            if said.decision != "approve" or not isinstance(asked, ApprovalRequested):
                raise CannotRemember("only the approval of a tool call can be remembered")
            remember(connection, state, asked, said.remember, said.by or "", at)
        control = settle_item(connection, state, row, said, at)
        if said.remember is not None:
            self._approve_alike(connection, row, said, at)
        detail = {"item": said.item_id, "decision": said.decision or "answer"}
        add_note(connection, at, DECIDED, principal=said.by or "", order_id=order_id, detail=detail)
        return Decided(item_of(_row(connection, said.item_id)), changed=True, control=control)

    def _approve_alike(self, connection: Connection, row: sa.RowMapping, said: Said, at: datetime) -> None:
        """Approve the other pending calls of this order that the remembered rule allows."""
        rule = _rule_of(_fact(row))
        for other in connection.execute(_PENDING_OF, {"of": row["order_id"]}).mappings().all():
            # Read anew each time: settling an item numbers a control or raises the epoch of this row.
            asked, state = _fact(other), lock(connection, row["order_id"])
            if state is not None and _rule_of(asked) == rule:
                alike = Said(item_id=other["id"], decision="approve", note=_ALIKE, by=said.by)
                settle_item(connection, state, other, alike, at)


def _rule_of(asked: InboxRequest) -> SavedRule | None:
    return asked.would_save if isinstance(asked, ApprovalRequested) else None


_ALIKE = "The approval of a call like it was remembered."


def settle_item(
    connection: Connection, state: OrderState, row: sa.RowMapping, said: Said, at: datetime
) -> Control | None:
    """Settle a pending item under its order's lock.

    While a drone runs the order, only the drone writes its journal: the decision is passed to it by a control, which is
    answered. Otherwise the decision is written to the journal here, and a waiting order is queued again.
    """
    fact = reply_fact(_fact(row), said)
    if state.status is OrderStatus.RUNNING:
        control = Control(
            id=fresh_id(),
            order_id=state.order_id,
            number=state.control_seq + 1,
            kind=ControlKind.DECIDE,
            record_id=row["record_id"],
            said=said,
            requested_at=at,
        )
        add_control(connection, state, control, said.by or "")
        columns = answer_row if isinstance(fact, QuestionAnswered) else decision_row
        connection.execute(DECIDE, columns(state.order_id, fact, micros(at)))  # type: ignore[arg-type]
        return control
    origin = Origin(record_id=row["record_id"], parent_id=row["parent_id"], agent=row["agent"], depth=row["depth"])
    draft = Draft(at=at, origin=origin, data=fact)
    # The epoch is raised, so that a drone which read the order's journal before is fenced.
    written = write(connection, state, [draft], epoch=state.epoch + 1)
    update_inbox(connection, state.order_id, [(written.last_seq, draft)])
    if written.status is OrderStatus.WAITING:
        resume(connection, written, at, _resumed_because(fact))
    return None


def settle_overdue(connection: Connection, state: OrderState, at: datetime, now: int) -> OrderState | None:
    """Settle the items that nobody decided in time, questions with their default answer; answers the order's row
    afterwards, None if there was no such item."""
    changed: OrderState | None = None
    for row in connection.execute(_OVERDUE_OF, {"of": state.order_id, "now": now}).mappings().all():
        settle_item(connection, changed or state, row, Said(item_id=row["id"], expired=True), at)
        changed = lock(connection, state.order_id)
    return changed


def _resumed_because(fact: InboxReply) -> str:
    """The message of the entry `order.resumed`."""
    if isinstance(fact, QuestionAnswered):
        if fact.declined:
            return "the answer to its question was declined"
        return "nobody answered its question in time" if fact.expired else "its question was answered"
    what = "the outline" if not fact.call_id else "a tool call of it"
    done = {"approve": "was approved", "deny": "was denied", "expired": "was not decided in time"}[fact.decision]
    return f"{what} {done}"


def _fact(row: sa.RowMapping) -> InboxRequest:
    """The fact that raised the item."""
    kind: type[Fact] = QuestionAsked if row["kind"] == "question" else ApprovalRequested
    fact = kind.model_validate(parsed(row["asked_json"]))
    assert isinstance(fact, ApprovalRequested | QuestionAsked)
    return fact


def _row(connection: Connection, item_id: str, kinds: Collection[str] | None = None) -> sa.RowMapping:
    row = connection.execute(_ONE, {"wanted": item_id}).mappings().first() if "\0" not in item_id else None
    if row is None or (kinds is not None and row["kind"] not in kinds):
        raise UnknownApproval(f"nothing with the id {item_id[:80]!r} waits for this")
    return row


def _check_same(item: AnyItem, said: Said) -> None:
    """Raises `ApprovalOver` or `AlreadyDecided` unless the same was decided before. A call that has begun counts as
    approved, whatever its outcome."""
    if item.status in ("expired", "void"):
        over = "nobody decided it in time" if item.status == "expired" else "its order, or its agent, has ended"
        raise ApprovalOver(f"this waits for nobody any more: {over}")
    if item.kind == "question":
        before = None if item.status == "declined" else {answer.id: answer.answer for answer in item.answers}
        if before != said.answers:
            raise AlreadyDecided("this was answered already, with another answer")
    elif item.kind != "note" and item.decision != said.decision:
        raise AlreadyDecided(f"this was {item.status} already")


def _place(cursor: str) -> tuple[int, str]:
    at, _, item_id = cursor.partition(".")
    if not (at.isascii() and at.isdigit() and len(at) < 19 and item_id and "\0" not in item_id):
        raise BadCursor("this cursor is not one that a page of the inbox gave; begin without one")
    return int(at), item_id
