"""The journal: batches of many orders in one transaction, each fenced by the row of its order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.entry import Entry
from mcc.contracts.fact import Fact
from mcc.contracts.ids import is_identifier
from mcc.contracts.journal import AgentFinished, AgentStarted, AgentStep, ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.contracts.usage import Usage
from mcc.store.database.clock import micros
from mcc.store.database.columns import listed, postgres_rows
from mcc.store.database.direct import send
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadEntry
from mcc.store.database.tables import STATE, among
from mcc.store.rows.control_rows import apply_controls
from mcc.store.rows.inbox_rows import update_inbox
from mcc.store.rows.order_rows import (
    ENTRY_COLUMNS,
    ENTRY_TYPES,
    USAGE,
    entries_after,
    entry_row,
    insert_rows,
    keep_blobs,
    kept_blobs,
    outlined_after,
    spent_in,
    texts_at,
)
from mcc.store.rows.session_rows import mark_tainted, note_requests, taints
from mcc.store.rows.texts import EntryOutline, TextPlace, text_digest
from mcc.store.rows.values import Appended, Batch, Reached
from mcc.store.rows.views import check_whole, unknown_order

_BATCH = {"order_id": "text", "epoch": "int", "old_seq": "int", "new_seq": "int"}
_BATCH |= {name: "float8" if name == "cost_usd" else "bigint" for name in USAGE}


_SQLITE_COLUMNS = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in _BATCH)
_SPENT = ", ".join(f"{name} = s.{name} + b.{name}" for name in USAGE)
# Because of the ||, no index on the status is used, which would read all running orders for every group.
_HELD = "s.order_id = b.order_id AND s.epoch = b.epoch AND s.last_seq = b.old_seq AND s.status || '' = 'running'"
# On PostgreSQL the rows are locked in the order of their ids first, so that two writers never deadlock.
_LOCKED = f"""
    WITH b AS MATERIALIZED ({postgres_rows(_BATCH)}), held AS MATERIALIZED (
        SELECT s.order_id FROM order_state s JOIN b ON {_HELD} ORDER BY s.order_id FOR UPDATE OF s
    )"""
_ADVANCE_LOCKED = f"""
    UPDATE order_state s SET last_seq = b.new_seq, {_SPENT}
    FROM b JOIN held ON held.order_id = b.order_id WHERE {_HELD} RETURNING s.order_id"""
ADVANCE = {
    "postgresql": _LOCKED + _ADVANCE_LOCKED,
    "sqlite": f"""
        UPDATE order_state AS s SET last_seq = b.new_seq, {_SPENT}
        FROM (SELECT {_SQLITE_COLUMNS} FROM json_each(?)) AS b WHERE {_HELD} RETURNING order_id""",
}
"""Advances the orders of all batches of a group. The one parameter is a JSON list: psycopg adapts arrays far slower."""

APPEND = f"""{_LOCKED}, advanced AS ({_ADVANCE_LOCKED}
    ), added AS (
        INSERT INTO journal ({", ".join(ENTRY_COLUMNS)})
        SELECT e.* FROM ({postgres_rows(ENTRY_TYPES)}) AS e JOIN advanced ON advanced.order_id = e.order_id
    ) SELECT order_id FROM advanced"""
"""Advances the orders and inserts the entries in one statement, on PostgreSQL: one round trip instead of four."""

_REACHED = sa.select(STATE.c.order_id, STATE.c.last_seq, STATE.c.status, STATE.c.epoch).where(
    among(STATE.c.order_id, "ids")
)


@dataclass(frozen=True, slots=True)
class Written:
    """A batch encoded for the database, once, however often it is sent."""

    batch: Batch
    rows: list[tuple[Any, ...]]
    blobs: Mapping[str, str]
    spent: Usage

    @property
    def new_seq(self) -> int:
        return self.batch.last_seq + len(self.rows)

    @property
    def is_rows_alone(self) -> bool:
        """Whether nothing but entries is stored: no texts, no controls, no items of the inbox, no mark of a session."""
        return not self.blobs and all(_is_row_alone(entry.data) for entry in self.batch.entries)

    @property
    def figures(self) -> tuple[Any, ...]:
        """The values of `_BATCH`."""
        batch, spent = self.batch, self.spent.__dict__
        return (batch.order_id, batch.epoch, batch.last_seq, self.new_seq, *(spent[name] for name in USAGE))

    @classmethod
    def of(cls, batch: Batch) -> "Written":
        """Raises `BadEntry`, and ValueError when the entries are not numbered from `last_seq` + 1 on."""
        blobs = dict(batch.texts)
        rows = [entry_row(entry, batch.epoch, blobs) for entry in batch.entries]
        numbers = [entry.seq for entry in batch.entries if entry.order_id == batch.order_id]
        if numbers != list(range(batch.last_seq + 1, batch.last_seq + 1 + len(rows))):
            raise ValueError(f"entries must be of order {batch.order_id}, numbered on from {batch.last_seq + 1}")
        return cls(batch, rows, blobs, spent_in(batch.entries))


def _is_row_alone(fact: Fact) -> bool:
    match fact:
        case AgentStarted() | ToolFinished():
            return not taints(fact)
        case AgentStep() | ModelStarted() | ModelReplied():
            return True
        case ToolStarted(approval_id=approval_id):
            return approval_id is None
        case AgentFinished(status=status):
            return status is RecordStatus.COMPLETED
    return False


@dataclass(slots=True)
class _Tally:
    written: list[Written] = field(default_factory=list)
    fenced: set[str] = field(default_factory=set)
    culprits: dict[str, str] = field(default_factory=dict)

    def encode(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            try:
                self.written.append(Written.of(batch))
            except (BadEntry, TypeError, ValueError, OverflowError) as error:
                self.culprits[batch.order_id] = str(error)


class JournalStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._advance = ADVANCE[database.dialect]
        self._appends_at_once = database.dialect == "postgresql"

    def append(self, batches: Sequence[Batch]) -> Appended:
        """Commit all batches in one transaction, each fenced by its order's row.

        A batch that the database refuses does not affect the others. After a commit with an unknown outcome the rows
        are read again. Raises ValueError for two batches of one order, and `StoreUnavailable`.
        """
        if len({batch.order_id for batch in batches}) != len(batches):
            raise ValueError("one append holds at most one batch of an order")
        tally = _Tally()
        tally.encode(batches)
        try:
            tally.fenced |= self._append(tally.written)
        # One refused entry undoes all batches, so each is written by itself, which finds out whose it is.
        except BadEntry:
            for encoded in tally.written:
                try:
                    tally.fenced |= self._append([encoded])
                except BadEntry as error:
                    tally.culprits[encoded.batch.order_id] = str(error)
        return Appended(frozenset(tally.fenced), tally.culprits)

    def _append(self, written: Sequence[Written]) -> set[str]:
        # One statement is one round trip, and a transaction without BEGIN and COMMIT.
        if self._appends_at_once and all(one.is_rows_alone for one in written):
            return self._database.write(lambda connection: _at_once(connection, written), repeatable=True, single=True)
        return self._database.write(lambda connection: self._together(connection, written), repeatable=True)

    def within(self, connection: Connection, batches: Sequence[Batch]) -> None:
        """Append in the caller's transaction, which has locked these orders and checked their epochs and numbers."""
        fenced = self._together(connection, [Written.of(batch) for batch in batches])
        assert not fenced, f"orders {fenced} were locked"

    def _together(self, connection: Connection, written: Sequence[Written]) -> set[str]:
        """Write all of them in this transaction; answers the ids of the orders that are fenced."""
        if not written:
            return set()
        parameters = (listed(tuple(_BATCH), [encoded.figures for encoded in written]),)
        held = set(send(connection, self._advance, parameters).scalars())
        accepted = [encoded for encoded in written if encoded.batch.order_id in held]
        self._insert_all(connection, accepted)
        missed = [encoded for encoded in written if encoded.batch.order_id not in held]
        return _fenced(connection, missed) if missed else set()

    def _insert_all(self, connection: Connection, accepted: Sequence[Written]) -> None:
        blobs = {digest: text for encoded in accepted for digest, text in encoded.blobs.items()}
        uses = ((digest, encoded.batch.order_id) for encoded in accepted for digest in encoded.blobs)
        keep_blobs(connection, blobs, micros(self._database.clock.now()), uses)
        insert_rows(connection, [row for encoded in accepted for row in encoded.rows])
        for encoded in accepted:
            numbered = [(entry.seq, entry) for entry in encoded.batch.entries]
            apply_controls(connection, encoded.batch.order_id, numbered)
            update_inbox(connection, encoded.batch.order_id, numbered)
            mark_tainted(connection, encoded.batch.order_id, (entry.fact for entry in encoded.batch.entries))
            note_requests(connection, encoded.batch.order_id, (entry.fact for entry in encoded.batch.entries))

    def read(self, order_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """Entries after number `after`, in order and with their large texts. Raises `UnknownOrder`, `JournalPruned`."""
        return self._read(order_id, after, lambda connection: entries_after(connection, order_id, after, limit))

    def outlined(self, order_id: str, outline: EntryOutline, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """As `read`, with marks of `outline` in place of long texts, which are not read. Raises as `read` does."""
        return self._read(
            order_id, after, lambda connection: outlined_after(connection, order_id, outline, after, limit)
        )

    def check(self, order_id: str) -> None:
        """Raises `UnknownOrder`, and `JournalPruned` when the journal was pruned."""
        self._database.read(lambda connection: check_whole(connection, order_id))

    def texts(self, order_id: str, places: Sequence[TextPlace]) -> Sequence[bytes]:
        """The texts at these places of an outline, each JSON-escaped and without the quotes."""
        return self._database.read(lambda connection: texts_at(connection, order_id, places))

    def _read(self, order_id: str, after: int, find: Callable[[Connection], Sequence[Entry]]) -> Sequence[Entry]:
        if not is_identifier(order_id):
            raise unknown_order(order_id)

        def entries(connection: Connection) -> Sequence[Entry]:
            found = find(connection)
            # A pruned journal keeps a few entries: the first ones, and later ones with gaps before them. So only a read
            # from the start, one that finds nothing, or one that finds a gap needs the check.
            if after == 0 or not found or found[0].seq != after + 1 or found[-1].seq != after + len(found):
                check_whole(connection, order_id)
            return found

        return self._database.read(entries)

    def reached(self, order_ids: Sequence[str]) -> Mapping[str, Reached]:
        """Status and newest entry number of the known ones of these orders, by id, in one query."""
        ids = [order_id for order_id in order_ids if is_identifier(order_id)]
        rows = self._database.read(lambda connection: connection.execute(_REACHED, {"ids": ids}).all()) if ids else []
        return {row.order_id: Reached(row.last_seq, OrderStatus(row.status)) for row in rows}


def _at_once(connection: Connection, written: Sequence[Written]) -> set[str]:
    """As `JournalStore._together`, with one statement. For batches that are rows alone."""
    if not written:
        return set()
    figures = listed(tuple(_BATCH), [encoded.figures for encoded in written])
    rows = listed(ENTRY_COLUMNS, [row for encoded in written for row in encoded.rows])
    held = set(send(connection, APPEND, (figures, rows)).scalars())
    missed = [encoded for encoded in written if encoded.batch.order_id not in held]
    return _fenced(connection, missed) if missed else set()


def _fenced(connection: Connection, missed: Sequence[Written]) -> set[str]:
    """The orders of these batches, except those that were advanced before: a commit of unknown outcome succeeded."""
    rows = connection.execute(_REACHED, {"ids": [encoded.batch.order_id for encoded in missed]})
    reached = {row.order_id: (row.epoch, row.last_seq, row.status) for row in rows}
    return {
        encoded.batch.order_id
        for encoded in missed
        if reached.get(encoded.batch.order_id) != (encoded.batch.epoch, encoded.new_seq, OrderStatus.RUNNING.value)
    }


class Texts:
    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, text: str, *, owner: str | None = None) -> str:
        """Store `text` once under its SHA-256; answers the digest in hex.

        `owner`: the id of the order that uses the text; a text without users is removed after a day
        (`mcc.store.upkeep.retention`).
        """
        digest, at = text_digest(text), micros(self._database.clock.now())
        uses = [(digest, owner)] if owner else []
        self._database.write(lambda connection: keep_blobs(connection, {digest: text}, at, uses), repeatable=True)
        return digest

    def kept(self, digest: str) -> str:
        """The text with this digest. Raises `KeyError`."""
        if not digest.isalnum():
            raise KeyError(digest)
        return self._database.read(lambda connection: kept_blobs(connection, {digest}))[digest]
