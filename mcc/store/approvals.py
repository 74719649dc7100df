"""The inbox: what waits for people, decided under the lock of its order."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.approvals import AnyItem, ItemStatus, NewDecision
from mcc.contracts.control import Control, ControlKind
from mcc.contracts.entry import Draft, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import fresh_id
from mcc.contracts.inbox_facts import ApprovalRequested, Asked, Heard, QuestionAnswered, QuestionAsked, Said, heard
from mcc.contracts.permission import SavedRule
from mcc.contracts.status import OrderStatus
from mcc.store.audit import add_note
from mcc.store.claims import resume
from mcc.store.clock import micros
from mcc.store.control_rows import add_control
from mcc.store.engine import Database, DatabaseTime
from mcc.store.errors import AlreadyDecided, ApprovalOver, BadCursor, CannotRemember, UnknownApproval
from mcc.store.grants import remember
from mcc.store.inbox_rows import DECIDE, PENDING, answer_row, decision_row, item_of, project
from mcc.store.rows import State, lock, write
from mcc.store.tables import APPROVALS, STATE
from mcc.store.texts import parsed
from mcc.store.values import Page

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
    """An item as it is now. `changed` False: it was so already. `control` brings it to the drone that runs the order,
    None where no drone does."""

    item: AnyItem
    changed: bool
    control: Control | None = None


class Approvals:
    """Items are rows that say what the journals of their orders say: they are written together."""

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
        """Newest first. Raises `BadCursor`."""
        found = _ITEM.order_by(APPROVALS.c.requested_at.desc(), APPROVALS.c.id.desc()).limit(limit + 1)
        if status is not None:
            found = found.where(PENDING if status == "pending" else APPROVALS.c.status == status)
        if kinds is not None:
            # One kind has an index. Several are looked for on the way by time: of two ranges all would be put in order.
            kind = APPROVALS.c.kind if len(kinds) == 1 else APPROVALS.c.kind + ""
            found = found.where(kind.in_(sorted(kinds)))
        if order_id is not None:
            found = found.where(APPROVALS.c.order_id == order_id)
        if cursor is not None:
            found = found.where(sa.tuple_(APPROVALS.c.requested_at, APPROVALS.c.id) < sa.tuple_(*_place(cursor)))
        rows = self._database.read(lambda connection: connection.execute(found).mappings().all())
        more = f"{rows[limit - 1]['requested_at']}.{rows[limit - 1]['id']}" if len(rows) > limit else None
        return Page([item_of(row) for row in rows[:limit]], more)

    def get(self, item_id: str) -> AnyItem:
        """Raises `UnknownApproval`."""
        return self._database.read(lambda connection: item_of(_row(connection, item_id)))

    def decide(self, item_id: str, said: NewDecision, *, principal: str) -> Decided:
        """Approve or deny a call or an outline, once: the same decision again changes nothing.

        Raises `UnknownApproval`, `AlreadyDecided`, `ApprovalOver`, `CannotRemember`.
        """
        heard = Said(
            item_id=item_id, decision=said.decision, note=said.note, remember=said.remember, by=principal, expired=False
        )
        return self._database.write(lambda connection: self._decide(connection, heard, APPROVAL_KINDS))

    def answer(self, item_id: str, answer: str, *, principal: str) -> Decided:
        """Answer a question, once: the same answer again changes nothing.

        Raises `UnknownApproval`, `AlreadyDecided`, `ApprovalOver`.
        """
        heard = Said(item_id=item_id, answer=answer, by=principal)
        return self._database.write(lambda connection: self._decide(connection, heard, QUESTION_KINDS))

    def _decide(self, connection: Connection, said: Said, kinds: Collection[str]) -> Decided:
        order_id = _row(connection, said.item_id, kinds)["order_id"]
        state = lock(connection, order_id)
        row = _row(connection, said.item_id, kinds)
        item = item_of(row)
        if row["status"] != "pending":
            _check_same(item, said)
            return Decided(item, changed=False)
        late = row["expires_at"] is not None and row["expires_at"] <= _now(connection, self._database.time)
        if state is None or late:
            raise ApprovalOver("the time to decide this is over")
        at = self._database.clock.now()
        if said.remember is not None:
            asked = _fact(row)
            if said.decision != "approve" or not isinstance(asked, ApprovalRequested):
                raise CannotRemember("only the approval of a tool call can be remembered")
            remember(connection, state, asked, said.remember, said.by or "", at)
        control = tell(connection, state, row, said, at)
        if said.remember is not None:
            self._settle_alike(connection, row, said, at)
        detail = {"item": said.item_id, "decision": said.decision or "answer"}
        add_note(connection, at, DECIDED, principal=said.by or "", order_id=order_id, detail=detail)
        return Decided(item_of(_row(connection, said.item_id)), changed=True, control=control)

    def _settle_alike(self, connection: Connection, row: sa.RowMapping, said: Said, at: datetime) -> None:
        """What the same rule would let through waits no longer, of this order."""
        asked = _fact(row)
        for other in connection.execute(_PENDING_OF, {"of": row["order_id"]}).mappings().all():
            waits, state = _fact(other), lock(connection, row["order_id"])
            if state is not None and _saves(waits) == _saves(asked):
                alike = Said(item_id=other["id"], decision="approve", note=_ALIKE, by=said.by)
                tell(connection, state, other, alike, at)


def _saves(asked: Asked) -> SavedRule | None:
    return asked.would_save if isinstance(asked, ApprovalRequested) else None


_ALIKE = "The approval of a call like it was remembered."


def tell(connection: Connection, state: State, row: sa.RowMapping, said: Said, at: datetime) -> Control | None:
    """Settle a pending item under its order's lock: the journal is told, or the drone that writes it, by a control."""
    fact = heard(_fact(row), said)
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
        connection.execute(DECIDE, _settled(state.order_id, fact, micros(at)))
        return control
    origin = Origin(record_id=row["record_id"], parent_id=row["parent_id"], agent=row["agent"], depth=row["depth"])
    draft = Draft(at=at, origin=origin, data=fact)
    # The epoch is raised, so that nobody who saw the order before goes on from there.
    written = write(connection, state, [draft], epoch=state.epoch + 1)
    project(connection, state.order_id, [(written.last_seq, draft)])
    if written.status is OrderStatus.WAITING:
        resume(connection, written, at, _woken(fact))
    return None


def settle_overdue(connection: Connection, state: State, at: datetime, now: int) -> State | None:
    """What nobody decided in time is settled so; the order's row as it is then, None where there was nothing."""
    changed: State | None = None
    for row in connection.execute(_OVERDUE_OF, {"of": state.order_id, "now": now}).mappings().all():
        asked = _fact(row)
        default = asked.default if isinstance(asked, QuestionAsked) else None
        held = changed or state
        tell(connection, held, row, Said(item_id=row["id"], answer=default, expired=True), at)
        changed = lock(connection, state.order_id)
    return changed


def _settled(order_id: str, fact: Heard, at: int) -> dict[str, Any]:
    make = answer_row if isinstance(fact, QuestionAnswered) else decision_row
    return make(order_id, fact, at)  # type: ignore[arg-type]


def _woken(fact: Heard) -> str:
    if isinstance(fact, QuestionAnswered):
        return "nobody answered its question in time" if fact.expired else "its question was answered"
    what = "the outline" if not fact.call_id else "a tool call of it"
    done = {"approve": "was approved", "deny": "was denied", "expired": "was not decided in time"}[fact.decision]
    return f"{what} {done}"


def _fact(row: sa.RowMapping) -> Asked:
    kind: type[Fact] = QuestionAsked if row["kind"] == "question" else ApprovalRequested
    fact = kind.model_validate(parsed(row["asked_json"]))
    assert isinstance(fact, ApprovalRequested | QuestionAsked)
    return fact


def _row(connection: Connection, item_id: str, kinds: Collection[str] | None = None) -> sa.RowMapping:
    row = connection.execute(_ONE, {"wanted": item_id}).mappings().first() if "\0" not in item_id else None
    if row is None or (kinds is not None and row["kind"] not in kinds):
        raise UnknownApproval(f"nothing of the id {item_id[:80]!r} waits for this")
    return row


def _check_same(item: AnyItem, said: Said) -> None:
    """Raises unless this was said before. A call that has begun was approved, whatever became of it."""
    if item.status in ("expired", "void"):
        over = "nobody decided it in time" if item.status == "expired" else "its order, or its agent, has ended"
        raise ApprovalOver(f"this waits for nobody any more: {over}")
    if item.kind == "question":
        if item.answer != said.answer:
            raise AlreadyDecided("this was answered already, and otherwise")
    elif item.decision != said.decision:
        raise AlreadyDecided(f"this was {item.status} already")


def _now(connection: Connection, time: DatabaseTime) -> int:
    return int(connection.scalar(sa.select(time.now)) or 0)


def _place(cursor: str) -> tuple[int, str]:
    at, _, item_id = cursor.partition(".")
    if not (at.isascii() and at.isdigit() and len(at) < 19 and item_id and "\0" not in item_id):
        raise BadCursor("this cursor is not one that a page of the inbox gave; begin without one")
    return int(at), item_id
