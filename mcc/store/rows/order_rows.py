"""The row of an order: locking it, and writing entries under that lock."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Draft, Entry, fact_of
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.shape import to_json, unchecked
from mcc.contracts.status import FINAL, OrderStatus, Reason
from mcc.contracts.usage import Usage
from mcc.store.database.clock import micros, moment
from mcc.store.database.columns import listed, postgres_rows
from mcc.store.database.direct import execute_later, send_later
from mcc.store.database.errors import BadEntry
from mcc.store.database.tables import BLOBS, JOURNAL, STATE, among
from mcc.store.rows.packs import rows_in_pack
from mcc.store.rows.texts import EntryOutline, TextPlace, cut, cut_places, digests, parsed, text_at, whole
from mcc.store.rows.transitions import fold_or_none
from mcc.store.rows.workspace_rows import leave_line, unlock_workspace

USAGE = tuple(Usage.model_fields)
ENTRY_COLUMNS = (
    "order_id",
    "seq",
    "epoch",
    "at",
    "kind",
    "record_id",
    "parent_id",
    "agent",
    "depth",
    "call_id",
    "data_json",
    "large_json",
)
BLOBS_AT_ONCE = 1_000_000
"""Characters of texts per INSERT, so that a large record is not held in memory twice."""

_BLOB = sa.text(
    "INSERT INTO blobs (digest, text_json, created_at) VALUES (:digest, :text_json, :created_at)"
    " ON CONFLICT (digest) DO NOTHING"
)
USE = sa.text("INSERT INTO text_uses (digest, owner) VALUES (:digest, :owner) ON CONFLICT DO NOTHING")
ENTRY_TYPES = dict.fromkeys(ENTRY_COLUMNS, "text") | {"seq": "int", "epoch": "int", "at": "bigint", "depth": "int"}
_COLUMNS = ", ".join(ENTRY_COLUMNS)
INSERT = {
    "postgresql": f"INSERT INTO journal ({_COLUMNS}) {postgres_rows(ENTRY_TYPES)}",
    "sqlite": f"INSERT INTO journal ({_COLUMNS}) VALUES ({', '.join('?' * len(ENTRY_COLUMNS))})",
}
_SPENT = sa.select(*(STATE.c[name] for name in USAGE)).where(STATE.c.order_id == sa.bindparam("wanted"))
_LOCKED = sa.select(STATE).where(STATE.c.order_id == sa.bindparam("wanted"))
_LOCK = _LOCKED.with_for_update()
_LOCK_FREE = _LOCKED.with_for_update(skip_locked=True)
_ENTRIES = (
    sa.select(JOURNAL)
    .where(JOURNAL.c.order_id == sa.bindparam("wanted"), JOURNAL.c.seq > sa.bindparam("after"))
    .order_by(JOURNAL.c.seq)
    .limit(sa.bindparam("most"))
)
_REQUESTS = (
    sa.select(JOURNAL.c.seq, JOURNAL.c.record_id, JOURNAL.c.kind)
    .where(
        JOURNAL.c.order_id == sa.bindparam("wanted"),
        JOURNAL.c.seq > sa.bindparam("after"),
        JOURNAL.c.kind == sa.literal_column(f"'{ModelStarted.kind}'"),
    )
    .order_by(JOURNAL.c.seq)
)
_SOME = sa.select(JOURNAL.c.seq, JOURNAL.c.data_json, JOURNAL.c.large_json).where(
    JOURNAL.c.order_id == sa.bindparam("wanted"), among(JOURNAL.c.seq, "numbers")
)
_NUMBERED = (
    sa.select(JOURNAL)
    .where(JOURNAL.c.order_id == sa.bindparam("wanted"), among(JOURNAL.c.seq, "numbers"))
    .order_by(JOURNAL.c.seq)
)
_SIZES = sa.select(BLOBS.c.digest, sa.func.length(BLOBS.c.text_json).label("size")).where(
    among(BLOBS.c.digest, "digests")
)
_KEPT = sa.select(BLOBS.c.digest, BLOBS.c.text_json).where(among(BLOBS.c.digest, "digests"))


def text_json(text: str | None) -> str | None:
    """Free text as a column stores it: JSON, in which any character is safe (docs/decisions/5)."""
    return None if text is None else to_json(text).decode()


def text_of(column: str | None) -> str | None:
    """The text in a column that `text_json` filled."""
    return None if column is None else str(parsed(column))


@dataclass(frozen=True, slots=True)
class OrderState:
    """A snapshot of an order's `order_state` row, taken when it was locked or read."""

    order_id: str
    session_id: str
    session_seq: int
    status: OrderStatus
    reason: str | None
    epoch: int
    last_seq: int
    control_seq: int
    attempt: int
    takeovers: int
    barren: int
    journal_version: int
    incarnation: str | None
    claim_token: str | None
    workspace_key: str | None
    not_before: int | None
    expires_at: int | None
    waits_until: int | None
    writes: bool
    wants_key: str | None
    wants_at: int | None

    @classmethod
    def of(cls, row: sa.RowMapping) -> "OrderState":
        return cls(**{name: row[name] for name in cls.__slots__ if name != "status"}, status=OrderStatus(row["status"]))


def lock(connection: Connection, order_id: str, *, skip: bool = False) -> OrderState | None:
    """The order's row, locked until the transaction ends; None when there is no such order.

    `skip`: None as well when another transaction has locked the row.
    """
    statement = _LOCK_FREE if skip else _LOCK
    row = connection.execute(statement, {"wanted": order_id}).mappings().first()
    return OrderState.of(row) if row else None


def read_state(connection: Connection, order_id: str) -> OrderState | None:
    """The order's row as it is now, without a lock."""
    row = connection.execute(_LOCKED, {"wanted": order_id}).mappings().first()
    return OrderState.of(row) if row else None


def is_held(state: OrderState, epoch: int) -> bool:
    return state.status is OrderStatus.RUNNING and state.epoch == epoch


def entry_row(entry: Entry, epoch: int, blobs: dict[str, str]) -> tuple[Any, ...]:
    """The values of `ENTRY_COLUMNS`; texts too large for a row are added to `blobs`. Raises `BadEntry`."""
    fact = entry.data
    try:
        data, large = cut(to_json(fact.stored), blobs)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadEntry(f"this {fact.kind} cannot be written as JSON: {error}") from error
    # Asked for by its class: a model takes long to say that it has no such attribute.
    call = getattr(fact, "call_id", None) if "call_id" in type(fact).__pydantic_fields__ else None
    return (
        entry.order_id,
        entry.seq,
        epoch,
        micros(entry.at),
        fact.kind,
        entry.record_id,
        entry.parent_id,
        entry.agent,
        entry.depth,
        fact.child_id if isinstance(fact, AgentDelivered) else call,
        data,
        large,
    )


def spent_in(entries: Iterable[Entry | Draft]) -> Usage:
    """The total usage that these entries report."""
    total = Usage()
    for entry in entries:
        if (used := entry.data.added_usage) is not None:
            total = total.plus(used)
    return total


def keep_blobs(connection: Connection, blobs: Mapping[str, str], at: int, uses: Iterable[tuple[str, str]]) -> None:
    """Store texts by digest, and their uses: pairs of a digest and its owner.

    Rows are written in the order of their digests, and after the rows of orders are locked, so that no two transactions
    deadlock. The removal of unused texts sees a text together with its use, or waits for this transaction.
    """
    rows: list[dict[str, Any]] = []
    for key in sorted(blobs):
        rows.append({"digest": key, "text_json": text_json(blobs[key]), "created_at": at})
        if sum(len(row["text_json"]) for row in rows) > BLOBS_AT_ONCE:
            execute_later(connection, _BLOB, rows)
            rows = []
    if rows:
        execute_later(connection, _BLOB, rows)
    if used := [{"digest": digest, "owner": owner} for digest, owner in sorted(set(uses))]:
        execute_later(connection, USE, used)


def kept_blobs(connection: Connection, wanted: set[str]) -> dict[str, str]:
    """The stored texts with these digests, by digest."""
    return {digest: str(parsed(text)) for digest, text in _kept_json(connection, wanted)}


def _kept_json(connection: Connection, wanted: set[str]) -> Iterator[tuple[str, str]]:
    """Pairs of a digest and its text as JSON."""
    listed = sorted(wanted)
    # By some hundreds, so that the texts of a long journal are not all in memory twice.
    for start in range(0, len(listed), 500):
        for row in connection.execute(_KEPT, {"digests": listed[start : start + 500]}):
            yield row.digest, row.text_json


@lru_cache(maxsize=256)
def _changing(columns: tuple[str, ...], counted: tuple[str, ...]) -> sa.UpdateBase:
    """An UPDATE of the row `of`: parameters `new_…` replace the values of `columns` and are added to `counted`."""
    new = {name: sa.bindparam(f"new_{name}", type_=STATE.c[name].type) for name in (*columns, *counted)}
    added = {name: STATE.c[name] + new[name] for name in counted}
    return sa.update(STATE).where(STATE.c.order_id == sa.bindparam("of")).values({**new, **added})


def write(
    connection: Connection,
    state: OrderState,
    drafts: Sequence[Draft],
    *,
    status: OrderStatus | None = None,
    **changes: Any,
) -> OrderState:
    """Number and insert `drafts`, and change the locked row; answers the row as it is afterwards.

    `changes` are columns of the row and their new values. The caller holds the lock, so `state` is current. An order
    that stops running releases its workspace; one that ends leaves the line for it.
    """
    if status in FINAL and state.wants_key is not None:
        changes |= {"wants_key": None, "wants_at": None}
    new_seq = state.last_seq + len(drafts)
    used = spent_in(drafts)
    counted = {name: count for name in USAGE if (count := getattr(used, name)) != 0}
    values = {**changes, "last_seq": new_seq}
    if status is not None:
        values["status"] = status.value
    figures = {f"new_{name}": value for name, value in (*values.items(), *counted.items())}
    execute_later(connection, _changing(tuple(values), tuple(counted)), {"of": state.order_id, **figures})
    kept = {name: value for name, value in changes.items() if name in OrderState.__slots__}
    changed = replace(state, last_seq=new_seq, status=status or state.status, **kept)
    # In the same transaction, so that no order waits for a workspace that nobody has.
    if state.status is OrderStatus.RUNNING and changed.status is not OrderStatus.RUNNING:
        unlock_workspace(connection, state.order_id, stays_in_line=changed.wants_key is not None)
    elif state.wants_key is not None and changed.wants_key is None:
        leave_line(connection, state.order_id)
    insert_entries(connection, changed, drafts, first=state.last_seq + 1)
    return changed


def insert_all(connection: Connection, drafts: Sequence[tuple[OrderState, Draft]]) -> None:
    """Insert one small entry per order, numbered `last_seq` of its state. The entries may not contain long texts."""
    numbered = [(draft.numbered(state.order_id, state.last_seq), state.epoch) for state, draft in drafts]
    insert_rows(connection, [entry_row(entry, epoch, {}) for entry, epoch in numbered])


def insert_rows(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert entries, each given as its values of `ENTRY_COLUMNS`."""
    if rows:
        is_sqlite = connection.dialect.name == "sqlite"
        values = list(rows) if is_sqlite else (listed(ENTRY_COLUMNS, rows),)
        send_later(connection, INSERT[connection.dialect.name], values)


def insert_entries(connection: Connection, state: OrderState, drafts: Sequence[Draft], *, first: int) -> None:
    """Insert `drafts` numbered from `first` on, with their long texts."""
    blobs: dict[str, str] = {}
    rows = [
        entry_row(draft.numbered(state.order_id, seq), state.epoch, blobs)
        for seq, draft in enumerate(drafts, start=first)
    ]
    if rows:
        keep_blobs(connection, blobs, micros(drafts[0].at), ((digest, state.order_id) for digest in blobs))
        insert_rows(connection, rows)


def entries_after(connection: Connection, order_id: str, after: int = 0, limit: int = 1_000_000_000) -> list[Entry]:
    """The entries after number `after`, in order, from rows or from the pack, with their long texts put back."""
    return _entries(connection, _rows_after(connection, order_id, after, limit))


def _entries(connection: Connection, rows: Sequence[Any]) -> list[Entry]:
    blobs = kept_blobs(connection, digests(row.large_json for row in rows))
    return [_entry(row, fact_of(row.kind, whole(row.data_json, row.large_json, blobs))) for row in rows]


def entries_numbered(connection: Connection, order_id: str, numbers: Sequence[int]) -> list[Entry]:
    """The entries with these numbers, in order, with their long texts, as far as they are there."""
    rows: Sequence[Any] = connection.execute(_NUMBERED, {"wanted": order_id, "numbers": list(numbers)}).all()
    if numbers and not rows:
        wanted = frozenset(numbers)
        rows = [row for row in rows_in_pack(connection, order_id, min(wanted) - 1) if row.seq in wanted]
    return _entries(connection, rows)


def requests_after(connection: Connection, order_id: str, after: int) -> Mapping[str, Sequence[int]]:
    """The numbers of the entries `model.started` behind number `after`, in order, by record; none if pruned."""
    rows = connection.execute(_REQUESTS, {"wanted": order_id, "after": after}).all()
    found = defaultdict[str, list[int]](list)
    for row in rows or rows_in_pack(connection, order_id, after):
        if row.kind == ModelStarted.kind:
            found[row.record_id or ""].append(row.seq)
    return found


def _rows_after(connection: Connection, order_id: str, after: int, limit: int) -> Sequence[Any]:
    # Rows first: an order is packed an hour after its end, and is read most often before.
    rows = connection.execute(_ENTRIES, {"wanted": order_id, "after": after, "most": limit}).all()
    return rows or rows_in_pack(connection, order_id, after, limit)


def _entry(row: Any, fact: Fact) -> Entry:
    # What the store wrote was validated when it was written; validating each entry anew would cost more than reading
    # it.
    return unchecked(
        Entry,
        order_id=row.order_id,
        seq=row.seq,
        at=moment(row.at),
        record_id=row.record_id,
        parent_id=row.parent_id,
        agent=row.agent,
        depth=row.depth,
        data=fact,
    )


def outlined_after(connection: Connection, order_id: str, outline: EntryOutline, after: int, limit: int) -> list[Entry]:
    """As `entries_after`, with marks of `outline` in place of long texts, which are not read. Data that is stored as
    one blob is read, because it has to be parsed."""
    rows = _rows_after(connection, order_id, after, limit)
    wanted = sorted(digests(row.large_json for row in rows))
    sizes = {row.digest: row.size for row in connection.execute(_SIZES, {"digests": wanted})} if wanted else {}
    entries = []
    for row in rows:
        cut_out = cut_places(row.large_json)
        apart = bool(cut_out) and not cut_out[0][0]
        data = _whole_data(connection, row) if apart else parsed(row.data_json)
        places = () if apart else [TextPlace(row.seq, path, sizes[digest], digest) for path, digest in cut_out]
        entries.append(_entry(row, fact_of(row.kind, outline.of_row(row.seq, data, places))))
    return entries


def texts_at(connection: Connection, order_id: str, places: Sequence[TextPlace]) -> list[bytes]:
    """See `JournalStore.texts`. Each row and each blob is read once."""
    blobs = {place.digest for place in places if place.digest is not None}
    texts = {digest: text.encode()[1:-1] for digest, text in _kept_json(connection, blobs)}
    wanted = sorted({place.seq for place in places if place.digest is None})
    rows: Sequence[Any] = []
    if wanted:
        rows = connection.execute(_SOME, {"wanted": order_id, "numbers": wanted}).all()
    if wanted and not rows:
        rows = [row for row in rows_in_pack(connection, order_id, wanted[0] - 1) if row.seq in wanted]
    data = {row.seq: _whole_data(connection, row) for row in rows}
    return [text_at(data[at.seq], at.path) if at.digest is None else texts[at.digest] for at in places]


def _whole_data(connection: Connection, row: Any) -> Any:
    return whole(row.data_json, row.large_json, kept_blobs(connection, digests([row.large_json])))


def folded(connection: Connection, state: OrderState) -> Fold | None:
    """The fold of the whole journal so far; the caller holds the order's lock. None when the journal is malformed."""
    return fold_or_none(state.order_id, state.session_id, lambda: entries_after(connection, state.order_id))


def spent_so_far(connection: Connection, order_id: str) -> Usage:
    """The usage of an order according to the counters in its row."""
    row = connection.execute(_SPENT, {"wanted": order_id}).mappings().one()
    return Usage.model_validate(dict(row))


def reason_of(reason: Reason | None) -> str | None:
    return reason.value if reason else None
