"""A buffer for the rows of new orders: one statement per table inserts them, however many orders there are."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.control import Control
from mcc.contracts.entry import Draft, Entry
from mcc.contracts.fact import Fact
from mcc.contracts.ids import fresh_ids
from mcc.contracts.order import WorkOrder
from mcc.store.database.columns import insert_of
from mcc.store.database.direct import send_later
from mcc.store.database.tables import ARTIFACT_USES, KEYS, LABELS, ORDERS, SESSIONS, STATE
from mcc.store.rows.order_rows import ENTRY_COLUMNS, entry_row, insert_rows, keep_blobs
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

    ids: Iterator[str] = field(default_factory=fresh_ids)
    """Ids for new orders and sessions."""
    sessions: list[Row] = field(default_factory=list)
    orders: list[Row] = field(default_factory=list)
    states: list[Row] = field(default_factory=list)
    labels: list[Row] = field(default_factory=list)
    keys: list[Row] = field(default_factory=list)
    attachments: list[Row] = field(default_factory=list)
    entries: list[tuple[Any, ...]] = field(default_factory=list)
    blobs: dict[str, str] = field(default_factory=dict)
    uses: list[tuple[str, str]] = field(default_factory=list)
    copied: dict[str, list[Fact]] = field(default_factory=dict)
    """By order, what its journal says of text from outside."""

    def write(self, order_id: str, drafts: Sequence[Draft]) -> Sequence[Entry]:
        """Add the first entries of an order's journal, and answer them. Raises `BadEntry`."""
        blobs: dict[str, str] = {}
        entries = [draft.numbered(order_id, seq) for seq, draft in enumerate(drafts, start=1)]
        self.entries += (entry_row(entry, 0, blobs) for entry in entries)
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
        for table, rows in (
            (SESSIONS, self.sessions),
            (ORDERS, self.orders),
            (STATE, self.states),
            (LABELS, self.labels),
            (KEYS, self.keys),
            (ARTIFACT_USES, self.attachments),
        ):
            _insert(connection, table, rows)
        if self.blobs:
            keep_blobs(connection, self.blobs, int(self.entries[0][_AT]), self.uses)
            self.blobs.clear()
            self.uses.clear()
        insert_rows(connection, self.entries)
        self.entries.clear()
        for order_id, facts in self.copied.items():
            mark_tainted(connection, order_id, facts)
        self.copied.clear()


_AT = ENTRY_COLUMNS.index("at")


def _insert(connection: Connection, table: sa.Table, rows: list[Row]) -> None:
    """Insert rows that all have the same columns, and forget them."""
    if rows:
        is_sqlite = connection.dialect.name == "sqlite"
        text = _insert_of(table, tuple(rows[0]), connection.dialect.name)
        send_later(connection, text, list(rows) if is_sqlite else (json.dumps(rows),))
        rows.clear()


_insert_of = cache(insert_of)
