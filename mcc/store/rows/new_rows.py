"""A buffer for the rows of new orders: one statement per table inserts them, however many orders there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql.schema import ScalarElementColumnDefault

from mcc.contracts.control import Control
from mcc.contracts.entry import Draft, Entry
from mcc.contracts.fact import Fact
from mcc.contracts.order import WorkOrder
from mcc.store.database.direct import execute_later
from mcc.store.database.tables import ARTIFACT_USES, JOURNAL, KEYS, LABELS, ORDERS, SESSIONS, STATE
from mcc.store.rows.order_rows import ENTRY_COLUMNS, entry_row, keep_blobs
from mcc.store.rows.session_rows import mark_tainted, taints

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AcceptedOrder:
    """The order that answers the request: newly created, known by its idempotency key, or steered by `steer`."""

    order_id: str
    created: bool
    order: WorkOrder | None = None
    """The new order, if it begins a session; None: the caller has to read it."""
    steer: Control | None = None
    interrupted: str | None = None
    """Id of the order that it interrupts."""
    entries: Sequence[Entry] = ()
    """Its first journal entries."""


@dataclass(slots=True)
class NewRows:
    """Rows that an open transaction is about to insert. Code that has to read them back calls `insert` first."""

    sessions: list[Row] = field(default_factory=list)
    orders: list[Row] = field(default_factory=list)
    states: list[Row] = field(default_factory=list)
    labels: list[Row] = field(default_factory=list)
    keys: list[Row] = field(default_factory=list)
    attachments: list[Row] = field(default_factory=list)
    entries: list[Row] = field(default_factory=list)
    blobs: dict[str, str] = field(default_factory=dict)
    uses: list[tuple[str, str]] = field(default_factory=list)
    copied: dict[str, list[Fact]] = field(default_factory=dict)
    """By order, what its journal says of text from outside."""

    def write(self, order_id: str, drafts: Sequence[Draft]) -> Sequence[Entry]:
        """Add the first entries of an order's journal, and answer them. Raises `BadEntry`."""
        blobs: dict[str, str] = {}
        entries = [draft.numbered(order_id, seq) for seq, draft in enumerate(drafts, start=1)]
        self.entries += [dict(zip(ENTRY_COLUMNS, entry_row(entry, 0, blobs), strict=True)) for entry in entries]
        self.blobs |= blobs
        tainting: list[Fact] = [entry.fact for entry in entries if taints(entry.fact)]
        if tainting:
            self.copied[order_id] = tainting
        self.uses += ((digest, order_id) for digest in blobs)
        return entries

    def change_orders(self, connection: Connection, changes: Mapping[str, Row]) -> None:
        """Give columns of new orders other values, by order id, be they inserted already or not."""
        waiting = {row["id"] for row in self.orders}
        self.orders[:] = [{**row, **changes.get(row["id"], {})} for row in self.orders]
        for order_id, columns in changes.items():
            if order_id not in waiting:
                connection.execute(sa.update(ORDERS).where(ORDERS.c.id == order_id), columns)

    def insert(self, connection: Connection) -> None:
        """Insert all rows, those that are referred to first, and forget them."""
        for statement, rows in (
            (_SESSION, self.sessions),
            (_ORDER, self.orders),
            (_STATE, self.states),
            (_LABEL, self.labels),
            (_KEY, self.keys),
            (_ATTACHMENT, self.attachments),
        ):
            _insert(connection, statement, rows)
        if self.blobs:
            keep_blobs(connection, self.blobs, int(self.entries[0]["at"]), self.uses)
            self.blobs.clear()
            self.uses.clear()
        _insert(connection, _ENTRY, self.entries)
        for order_id, facts in self.copied.items():
            mark_tainted(connection, order_id, facts)
        self.copied.clear()


_SESSION, _ORDER, _STATE, _LABEL = (sa.insert(table) for table in (SESSIONS, ORDERS, STATE, LABELS))
_KEY, _ENTRY, _ATTACHMENT = sa.insert(KEYS), sa.insert(JOURNAL), sa.insert(ARTIFACT_USES)


_DEFAULTS = {
    table.name: {
        column.name: column.default.arg
        for column in table.columns
        if isinstance(column.default, ScalarElementColumnDefault)
    }
    for table in (SESSIONS, ORDERS, STATE, LABELS, KEYS, JOURNAL, ARTIFACT_USES)
}
"""Values for columns that a row leaves out. A statement for which SQLAlchemy has to add them cannot be prepared."""


def _insert(connection: Connection, statement: sa.Insert, rows: list[Row]) -> None:
    if rows:
        defaults = _DEFAULTS[statement.table.name]
        whole = [{**defaults, **row} for row in rows]
        execute_later(connection, statement, whole if len(whole) > 1 else whole[0])
        rows.clear()
