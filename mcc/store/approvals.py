"""What waits for a person's yes or no: found in the journals of orders that wait, decided under the order's lock."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.approvals import Decision, ItemStatus, OutlineItem
from mcc.contracts.entry import Draft, Entry
from mcc.contracts.journal import ApprovalDecided, ApprovalRequested
from mcc.contracts.status import FINAL, UNFINISHED, OrderStatus, WaitingReason
from mcc.store.audit import add_note
from mcc.store.claims import resume
from mcc.store.engine import Database
from mcc.store.errors import AlreadyDecided, ApprovalOver, StoreUnavailable, UnknownApproval
from mcc.store.rows import State, entries_after, lock, seen, write
from mcc.store.tables import JOURNAL, STATE
from mcc.store.views import has_status

DECIDED = "approval decided"
OUTLINE = "outline"
"""What stands for a tool where the structure of a document is asked about."""

LOOKED_BACK = 500
"""Of the orders that have ended so many of the newest are looked at."""

_OUTCOMES: dict[str, ItemStatus] = {"approve": "approved", "deny": "denied"}
_KINDS = (ApprovalRequested.kind, ApprovalDecided.kind)
_ASKING = (
    sa.select(JOURNAL.c.order_id)
    .join(STATE, STATE.c.order_id == JOURNAL.c.order_id)
    .where(JOURNAL.c.kind == ApprovalRequested.kind)
    .order_by(JOURNAL.c.order_id.desc())
    .distinct()
)
_WAITING = _ASKING.where(
    has_status(STATE.c.status, frozenset({OrderStatus.WAITING})), STATE.c.reason == WaitingReason.APPROVAL.value
)
_UNFINISHED = _ASKING.where(has_status(STATE.c.status, UNFINISHED))
_OVER = _ASKING.where(
    STATE.c.order_id.in_(
        sa.select(STATE.c.order_id)
        .where(has_status(STATE.c.status, FINAL))
        .order_by(STATE.c.order_id.desc())
        .limit(LOOKED_BACK)
    )
)
_OF_ORDER = (
    sa.select(JOURNAL.c.seq)
    .where(JOURNAL.c.order_id == sa.bindparam("of"), JOURNAL.c.kind.in_(_KINDS))
    .order_by(JOURNAL.c.seq)
)


class Approvals:
    """Items are entries of journals; those of orders that have ended are there until their journals are packed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, status: ItemStatus | None = None) -> Sequence[OutlineItem]:
        """Newest orders first."""
        asked = {None: (_UNFINISHED, _OVER), "pending": (_WAITING,), "void": (_OVER,)}
        statements = asked.get(status, (_UNFINISHED, _OVER))

        def items(connection: Connection) -> list[OutlineItem]:
            orders = (one for statement in statements for one in connection.execute(statement).scalars().all())
            return [item for order_id in orders for item in _items(connection, order_id)]

        found = self._database.snapshot(items)
        return [item for item in found if status is None or item.status == status]

    def decide(
        self, approval_id: str, decision: Decision, *, principal: str, note: str | None = None
    ) -> tuple[OutlineItem, bool]:
        """The item as it is then, and whether this decided it: the same decision again changes nothing.

        Its order, which waits, goes on. Raises `UnknownApproval`, `AlreadyDecided`, `ApprovalOver`.
        """
        order_id = self._order_of(approval_id)
        return self._database.write(lambda one: self._decide(one, order_id, approval_id, decision, principal, note))

    def _order_of(self, approval_id: str) -> str:
        for item in (*self.list("pending"), *self.list()):
            if item.id == approval_id:
                return item.order_id
        raise UnknownApproval(f"nothing of the id {approval_id[:80]!r} waits for a decision")

    def _decide(
        self,
        connection: Connection,
        order_id: str,
        approval_id: str,
        decision: Decision,
        principal: str,
        note: str | None,
    ) -> tuple[OutlineItem, bool]:
        state = lock(connection, order_id)
        item = next((one for one in _items(connection, order_id) if one.id == approval_id), None)
        if state is None or item is None:
            raise UnknownApproval(f"nothing of the id {approval_id[:80]!r} waits for a decision")
        if item.decision == decision:
            return item, False
        if item.decision is not None:
            raise AlreadyDecided(f"this was {item.status} already")
        if state.status in UNFINISHED and state.status is not OrderStatus.WAITING:
            raise StoreUnavailable("the order of this is about to wait for the decision; try again in a moment")
        if state.status is not OrderStatus.WAITING:
            raise ApprovalOver(f"the order of this is {state.status}, and waits for no decision")
        at = self._database.clock.now()
        (asked,) = entries_after(connection, order_id, _seq(connection, order_id, approval_id) - 1, 1)
        fact = ApprovalDecided(approval_id=approval_id, call_id="", decision=decision, note=note)
        state = write(connection, state, [Draft(at=at, origin=asked.origin, data=fact)])
        add_note(connection, at, DECIDED, principal=principal, order_id=order_id, detail={"decision": decision})
        resume(connection, state, at, f"the outline was {_OUTCOMES[decision]}")
        return item.model_copy(
            update={
                "status": _OUTCOMES[decision],
                "decision": decision,
                "by": principal,
                "note": note,
                "decided_at": at,
            }
        ), True


def _seq(connection: Connection, order_id: str, approval_id: str) -> int:
    return next(
        entry.seq
        for entry in _entries(connection, order_id)
        if isinstance(entry.data, ApprovalRequested) and entry.data.approval_id == approval_id
    )


def _entries(connection: Connection, order_id: str) -> Sequence[Entry]:
    numbers = connection.execute(_OF_ORDER, {"of": order_id}).scalars().all()
    return [entry for seq in numbers for entry in entries_after(connection, order_id, seq - 1, 1)]


def _items(connection: Connection, order_id: str) -> Sequence[OutlineItem]:
    entries = _entries(connection, order_id)
    decided = {one.data.approval_id: one for one in entries if isinstance(one.data, ApprovalDecided)}
    state = seen(connection, order_id)
    return [
        _item(one, one.data, decided.get(one.data.approval_id), state)
        for one in entries
        if isinstance(one.data, ApprovalRequested) and one.data.tool == OUTLINE and state is not None
    ]


def _item(entry: Entry, asked: ApprovalRequested, decided: Entry | None, state: State) -> OutlineItem:
    """The document of an outline is the session of its order."""
    said = decided.data if decided is not None and isinstance(decided.data, ApprovalDecided) else None
    over: ItemStatus = "void" if state.status in FINAL else "pending"
    return OutlineItem(
        id=asked.approval_id,
        order_id=entry.order_id,
        record_id=entry.record_id,
        agent=entry.agent,
        depth=entry.depth,
        document_id=state.session_id,
        digest=asked.arguments_digest,
        status=over if said is None else _OUTCOMES[said.decision],
        decision=said.decision if said is not None else None,
        note=said.note if said is not None else None,
        requested_at=entry.at,
        decided_at=decided.at if decided is not None else None,
    )
