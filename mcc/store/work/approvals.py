"""The inbox: approvals, outlines and questions, decided under the lock of their order."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.approvals import AnyItem, ApprovalItem, ItemKind, NewDecision, OutlineItem
from mcc.contracts.callers import Actor
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
    CannotRemember,
    ItemChanged,
    UnknownApproval,
    UnknownSession,
)
from mcc.store.database.tables import APPROVALS
from mcc.store.rows.audit import add_note
from mcc.store.rows.control_rows import add_control
from mcc.store.rows.grants import remember
from mcc.store.rows.inbox_rows import DECIDE, ITEM, answer_row, decision_row, item_of, update_inbox
from mcc.store.rows.order_rows import OrderState, lock, write
from mcc.store.rows.texts import parsed
from mcc.store.work.late_answers import Late, answer_late
from mcc.store.work.resuming import resume

DECIDED = "decision"
APPROVAL_KINDS: frozenset[ItemKind] = frozenset({"approval", "outline"})
QUESTION_KINDS: frozenset[ItemKind] = frozenset({"question"})

_BY_TOKEN = sa.update(APPROVALS).where(APPROVALS.c.id == sa.bindparam("wanted")).values(token_id=sa.bindparam("token"))
_ONE = ITEM.where(APPROVALS.c.id == sa.bindparam("wanted"))

_PENDING_OF = ITEM.where(APPROVALS.c.order_id == sa.bindparam("of"), APPROVALS.c.status == "pending")
_OVERDUE_OF = ITEM.where(
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

    def get(self, item_id: str) -> AnyItem:
        """Raises `UnknownApproval`."""
        return self._database.read(lambda connection: item_of(_row(connection, item_id)))

    def decide(self, item_id: str, decision: NewDecision, *, by: Actor) -> Decided:
        """Approve or deny a call or an outline; repeating the same decision changes nothing.

        Raises `UnknownApproval`, `AlreadyDecided`, `ItemChanged`, `ApprovalOver`, `CannotRemember`.
        """
        said = Said(
            item_id=item_id,
            decision=decision.decision,
            note=decision.note,
            remember=decision.remember,
            by=by.principal,
            door=by.door,
            token_id=by.token_id,
            expired=False,
        )
        return self._database.write(lambda connection: self._decide(connection, said, APPROVAL_KINDS, decision.digest))

    def answer(
        self, item_id: str, answer: NewAnswer, *, by: Actor, late: bool = True, anybodys: bool = True
    ) -> Decided | Late:
        """Answer an item's questions; repeating the same answers changes nothing. Where nobody waits for them any more,
        they are passed on to the session, without `anybodys` to no turn of somebody else; they are over without
        `late`.

        Raises `UnknownApproval`, `AlreadyDecided`, `ApprovalOver`, `TooManyControls`, and `BadAnswer` for answers that
        do not fit the questions.
        """
        row = self._database.read(lambda connection: _row(connection, item_id, QUESTION_KINDS))
        asked = _fact(row)
        assert isinstance(asked, QuestionAsked)
        answers = answers_to(asked.all_questions, answer)
        known = None if answers is None else dict(answers)
        said = Said(
            item_id=item_id,
            answers=known,
            declined=answers is None,
            by=by.principal,
            door=by.door,
            token_id=by.token_id,
        )
        try:
            return self._database.write(lambda connection: self._decide(connection, said, QUESTION_KINDS))
        except ApprovalOver as over:
            if answers is None or not late:
                raise
            return self._late(str(row["session_id"]), asked, answers, by, over, anybodys=anybodys)

    def _late(
        self,
        session_id: str,
        asked: QuestionAsked,
        answers: Mapping[str, str],
        by: Actor,
        over: ApprovalOver,
        *,
        anybodys: bool,
    ) -> Late:
        at = self._database.clock.now()

        def work(connection: Connection) -> Late:
            late = answer_late(connection, session_id, asked, answers, by, at, anybodys=anybodys)
            if late.changed:
                detail = {"item": asked.question_id, "decision": "answer", "became": late.answer.became}
                add_note(connection, at, DECIDED, by=by, order_id=late.answer.order_id, detail=detail)
            return late

        try:
            return self._database.write(work)
        except UnknownSession:
            raise over from None

    def _decide(self, connection: Connection, said: Said, kinds: Collection[str], digest: str | None = None) -> Decided:
        order_id = _row(connection, said.item_id, kinds)["order_id"]
        # The item names its order, whose lock comes first; only then is the item read for good.
        state = lock(connection, order_id)
        row = _row(connection, said.item_id, kinds)
        item = item_of(row)
        if digest is not None and isinstance(item, ApprovalItem | OutlineItem) and item.digest != digest:
            raise ItemChanged("this is not what was shown: look at it again, then decide")
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
            remember(connection, state, asked, said.remember, _actor(said), at)
        control = settle_item(connection, state, row, said, at)
        if said.remember is not None:
            self._approve_alike(connection, row, said, at)
        detail = {"item": said.item_id, "decision": said.decision or "answer"}
        add_note(connection, at, DECIDED, by=_actor(said), order_id=order_id, detail=detail)
        return Decided(item_of(_row(connection, said.item_id)), changed=True, control=control)

    def _approve_alike(self, connection: Connection, row: sa.RowMapping, said: Said, at: datetime) -> None:
        """Approve the other pending calls of this order that the remembered rule allows."""
        rule = _rule_of(_fact(row))
        for other in connection.execute(_PENDING_OF, {"of": row["order_id"]}).mappings().all():
            # Read anew each time: settling an item numbers a control or raises the epoch of this row.
            asked, state = _fact(other), lock(connection, row["order_id"])
            if state is not None and _rule_of(asked) == rule:
                changed = {"item_id": other["id"], "note": _ALIKE, "remember": None}
                alike = said.model_copy(update=changed)
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
    if said.token_id is not None:
        connection.execute(_BY_TOKEN, {"wanted": said.item_id, "token": said.token_id})
    if state.status is OrderStatus.RUNNING:
        control = Control(
            id=fresh_id(),
            order_id=state.order_id,
            number=state.control_seq + 1,
            kind=ControlKind.DECIDE,
            record_id=row["record_id"],
            said=said,
            principal=said.by,
            door=said.door,
            requested_at=at,
        )
        add_control(connection, state, control, _actor(said))
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


def _actor(said: Said) -> Actor:
    return Actor(said.by or "", said.door, said.token_id)


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
