"""Ending an order inside a transaction: outcome, record tree, last entries; and reading its record afterwards."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.entry import Draft
from mcc.contracts.journal import JOURNAL_VERSION, READABLE_VERSIONS
from mcc.contracts.order import OrderOutcome
from mcc.contracts.record import ChatRecord
from mcc.contracts.shape import to_json
from mcc.contracts.status import FINAL, OrderStatus
from mcc.store.database.clock import micros
from mcc.store.database.direct import execute_later
from mcc.store.database.tables import JOURNAL, RECORDS, STATE
from mcc.store.rows.budget_rows import settle
from mcc.store.rows.control_rows import apply_cancels, apply_controls, refuse_open_controls
from mcc.store.rows.facets import keep_outcome
from mcc.store.rows.inbox_rows import update_inbox
from mcc.store.rows.order_rows import (
    OrderState,
    folded,
    keep_blobs,
    kept_blobs,
    read_state,
    reason_of,
    spent_so_far,
    write,
)
from mcc.store.rows.packs import pack_record, record_in_pack
from mcc.store.rows.session_rows import mark_tainted
from mcc.store.rows.texts import cut, digests, parsed, whole
from mcc.store.rows.transitions import ENDED, StoreEnding, ended_by_store, ended_unread
from mcc.store.rows.usage_rows import note_usage
from mcc.store.work.late_answers import keep_unread

IS_ENDABLE = sa.or_(
    STATE.c.journal_version.in_(READABLE_VERSIONS),
    ~sa.select(JOURNAL.c.seq).where(JOURNAL.c.order_id == STATE.c.order_id, JOURNAL.c.record_id.is_not(None)).exists(),
)
"""This version can read the order's journal, or no agent has written in it: either way no open call is overlooked."""

_MAY_END = sa.select(STATE.c.order_id).where(STATE.c.order_id == sa.bindparam("wanted"), IS_ENDABLE)
_STORED = sa.select(RECORDS).where(RECORDS.c.order_id == sa.bindparam("wanted")).order_by(RECORDS.c.position)
_ADD_RECORD = sa.insert(RECORDS)
_PACKED_ROWS = sa.delete(RECORDS).where(RECORDS.c.order_id == sa.bindparam("of"))


def may_end(connection: Connection, state: OrderState) -> bool:
    """Whether this version may end the order itself (`IS_ENDABLE`); if not, a service or drone of a later one must."""
    if state.journal_version in READABLE_VERSIONS:
        return True
    return connection.execute(_MAY_END, {"wanted": state.order_id}).first() is not None


def end_by_store(connection: Connection, state: OrderState, verdict: StoreEnding, at: datetime) -> OrderState:
    """End an order that no drone runs: close its open calls, raise the epoch, store its record as far as it got."""
    fold = folded(connection, state)
    if fold is None:
        drafts, outcome = ended_unread(verdict, spent_so_far(connection, state.order_id), at)
        return end(connection, state, drafts, outcome, None, epoch=state.epoch + 1)
    drafts, outcome = ended_by_store(fold, state.last_seq, verdict, at)
    return end(connection, state, drafts, outcome, fold.record(), epoch=state.epoch + 1)


def end(
    connection: Connection,
    state: OrderState,
    drafts: Sequence[Draft],
    outcome: OrderOutcome,
    record: ChatRecord | None,
    *,
    epoch: int,
) -> OrderState:
    """Write the final status with `drafts`, outcome and record, and settle all controls; answers the row afterwards.

    `drafts` may close calls of agents in this version's entry shapes, so the journal's version becomes at least this.
    """
    at = drafts[-1].at
    ended = write(
        connection,
        state,
        drafts,
        status=outcome.status,
        reason=reason_of(outcome.reason),
        epoch=epoch,
        journal_version=max(state.journal_version, JOURNAL_VERSION),
        claim_token=None,
        waits_until=None,
    )
    keep_outcome(connection, state, outcome, record, micros(at))
    note_usage(connection, state.order_id, outcome, micros(at))
    settle(connection, state.order_id, outcome)
    if record is not None:
        keep_record(connection, record, micros(at))
    numbered = list(enumerate(drafts, start=state.last_seq + 1))
    update_inbox(connection, state.order_id, numbered)
    mark_tainted(connection, state.order_id, (draft.fact for draft in drafts))
    if state.control_seq:
        apply_controls(connection, state.order_id, numbered)
        # Before the rest is refused: a cancel that was honoured must not be told as refused.
        if outcome.status is OrderStatus.CANCELLED:
            apply_cancels(connection, state.order_id, micros(at), ended.last_seq)
        keep_unread(connection, state)
        refuse_open_controls(connection, state.order_id, ENDED)
    return ended


def keep_record(connection: Connection, record: ChatRecord, at: int) -> None:
    """Store the tree, one row per record."""
    blobs: dict[str, str] = {}
    rows = []
    for position, node in enumerate(_tree(record)):
        document, large = cut(to_json(node.model_copy(update={"subagent_history": ()})), blobs)
        rows.append(
            {
                "order_id": record.order_id,
                "position": position,
                "record_id": node.id,
                "parent_id": node.parent_id,
                "record_json": document,
                "large_json": large,
            }
        )
    keep_blobs(connection, blobs, at, ((digest, record.order_id) for digest in blobs))
    execute_later(connection, _ADD_RECORD, rows)


def _tree(record: ChatRecord) -> Iterator[ChatRecord]:
    yield record
    for child in record.subagent_history:
        yield from _tree(child)


def pack_stored_record(connection: Connection, order_id: str) -> None:
    """Move the stored record from its rows into the order's pack."""
    if (record := _in_rows(connection, order_id)) is not None:
        pack_record(connection, order_id, to_json(record))
        connection.execute(_PACKED_ROWS, {"of": order_id})


def record_of(connection: Connection, order_id: str) -> ChatRecord | None:
    """The record of an ended order: the stored one, else the fold of its journal. None if the order has not ended, no
    agent began, or the journal is malformed.
    """
    kept = stored_record(connection, order_id)
    state = None if kept else read_state(connection, order_id)
    if state is None or state.status not in FINAL:
        return kept
    fold = folded(connection, state)
    return fold.record() if fold else None


def stored_record(connection: Connection, order_id: str) -> ChatRecord | None:
    """The record that was stored when the order ended, from the pack or from rows."""
    if (kept := record_in_pack(connection, order_id)) is not None:
        return ChatRecord.model_validate(parsed(kept))
    return _in_rows(connection, order_id)


def _in_rows(connection: Connection, order_id: str) -> ChatRecord | None:
    """The tree, rebuilt from its rows: children follow their parent, in their order."""
    rows = connection.execute(_STORED, {"wanted": order_id}).all()
    blobs = kept_blobs(connection, digests(row.large_json for row in rows))
    children: dict[str, list[ChatRecord]] = {}
    made: ChatRecord | None = None
    # Backwards, because a parent stands before its children: they are complete when it is reached.
    for row in reversed(rows):
        node = ChatRecord.model_validate(whole(row.record_json, row.large_json, blobs))
        below = tuple(reversed(children.get(row.record_id, [])))
        made = node.model_copy(update={"subagent_history": below})
        if row.position > 0:
            children.setdefault(row.parent_id, []).append(made)
    return made
