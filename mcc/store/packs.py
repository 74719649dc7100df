"""Packs: the journal of an order that has ended as one compressed piece instead of a row for each entry.

Rows of one journal repeat each other: ids, names of fields, what a call was given and what a reply asked for. One piece
takes a fifth of the room, and costs nothing while the order runs (docs/decisions/17). Whoever reads a journal does not
see the difference.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.store.tables import JOURNAL, ORDERS, PACKS, among

LEVEL = 6
LARGEST_BYTES = 4_000_000
"""A longer journal keeps its rows: of a pack every page that is read is made from the whole."""


class PackedRow(NamedTuple):
    """A row of the table of entries."""

    order_id: str
    seq: int
    epoch: int
    at: int
    kind: str
    record_id: str | None
    parent_id: str | None
    agent: str | None
    depth: int
    call_id: str | None
    large_json: str | None
    data_json: str


_COLUMNS = PackedRow._fields
_ROWS = (
    sa.select(*(JOURNAL.c[name] for name in _COLUMNS))
    .where(JOURNAL.c.order_id == sa.bindparam("of"))
    .order_by(JOURNAL.c.seq)
)
_PACK = sa.select(PACKS.c.packed).where(PACKS.c.order_id == sa.bindparam("of"))
_SOME = sa.select(PACKS.c.order_id, PACKS.c.packed).where(among(PACKS.c.order_id, "ids"))
_SIZES = sa.select(PACKS.c.order_id, sa.func.length(PACKS.c.packed).label("size")).where(among(PACKS.c.order_id, "ids"))
_REPLACE = (
    sa.update(PACKS)
    .where(
        PACKS.c.order_id == sa.bindparam("of"),
        sa.select(ORDERS.c.id).where(ORDERS.c.id == PACKS.c.order_id, ORDERS.c.pruned_at.is_not(None)).exists(),
    )
    .values(packed=sa.bindparam("made"))
)
_ADD = sa.insert(PACKS)
_RECORD = sa.select(PACKS.c.record).where(PACKS.c.order_id == sa.bindparam("of"))
_PACK_RECORD = sa.text(
    "INSERT INTO journal_packs (order_id, packed, record) VALUES (:order_id, '', :record)"
    " ON CONFLICT (order_id) DO UPDATE SET record = excluded.record"
).bindparams(sa.bindparam("record", type_=sa.LargeBinary))


def packed(rows: Sequence[PackedRow]) -> bytes:
    """Each row is a line: its columns as JSON, a tab, its data. JSON has neither tabs nor line ends in it."""
    lines = (f"{json.dumps(row[1:-1], separators=(',', ':'))}\t{row.data_json}" for row in rows)
    return zlib.compress("\n".join(lines).encode(), LEVEL)


def unpacked(order_id: str, pack: bytes, after: int = 0, limit: int | None = None) -> list[PackedRow]:
    """The rows after entry `after`, at most `limit`; only those are taken apart."""
    lines = zlib.decompress(pack).decode().split("\n") if pack else []
    rows = []
    # Entry N stands in line N, or sooner where some were pruned.
    for line in lines if len(lines) <= after else lines[after:]:
        columns, _, data = line.partition("\t")
        row = PackedRow._make((order_id, *json.loads(columns), data))
        if row.seq > after:
            rows.append(row)
        if len(rows) == limit:
            break
    return rows


def rows_in_pack(connection: Connection, order_id: str, after: int = 0, limit: int | None = None) -> list[PackedRow]:
    """None of them when the order has no pack."""
    pack = connection.execute(_PACK, {"of": order_id}).scalar()
    return [] if pack is None else unpacked(order_id, pack, after, limit)


def packs_of(connection: Connection, order_ids: Sequence[str]) -> list[PackedRow]:
    """All entries of those of these orders that are packed."""
    found = connection.execute(_SOME, {"ids": order_ids})
    return [row for pack in found for row in unpacked(pack.order_id, pack.packed)]


def make_pack(connection: Connection, order_id: str) -> bool:
    """Keep the rows of a journal, which the caller removes then, as a pack. False: they stay as they are."""
    rows = [PackedRow._make(row) for row in connection.execute(_ROWS, {"of": order_id})]
    numbered = [row.seq for row in rows] == list(range(1, len(rows) + 1))
    plain = not any("\n" in row.data_json or "\t" in row.data_json for row in rows)
    if not (rows and numbered and plain) or sum(len(row.data_json) for row in rows) > LARGEST_BYTES:
        return False
    made = packed(rows)
    if unpacked(order_id, made) != rows:
        return False
    connection.execute(_ADD, {"order_id": order_id, "packed": made})
    return True


def replace_pack(connection: Connection, order_id: str, rows: Sequence[PackedRow]) -> bool:
    """Only these rows stay of the pack of an order that is marked as pruned; False for any other."""
    return connection.execute(_REPLACE, {"of": order_id, "made": packed(rows) if rows else b""}).rowcount == 1


def pack_record(connection: Connection, order_id: str, record: bytes) -> None:
    """Keep the record (JSON) of an order beside the pack of its journal, or what is left of that."""
    connection.execute(_PACK_RECORD, {"order_id": order_id, "record": zlib.compress(record, LEVEL)})


def record_in_pack(connection: Connection, order_id: str) -> bytes | None:
    """What `pack_record` was given."""
    kept = connection.execute(_RECORD, {"of": order_id}).scalar()
    return None if kept is None else zlib.decompress(kept)


def pack_sizes(connection: Connection, order_ids: Sequence[str]) -> Mapping[str, int]:
    """Bytes of the packs of those of these orders that have one."""
    return {row.order_id: row.size for row in connection.execute(_SIZES, {"ids": order_ids})}
