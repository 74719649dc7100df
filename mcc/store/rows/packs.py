"""Packs: the journal of an ended order as one compressed blob instead of a row per entry.

Rows of one journal repeat ids, field names, and arguments of calls. A pack takes a fifth of their space, and costs
nothing while the order runs (docs/decisions/17). Readers of a journal do not notice the difference.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.store.database.tables import JOURNAL, ORDERS, PACKS, among

LEVEL = 6
LARGEST_BYTES = 4_000_000
"""A longer journal keeps its rows: reading any page of a pack decompresses all of it."""


class PackedRow(NamedTuple):
    """A row of the table `journal`."""

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
    """One line per row: its columns as JSON, a tab, its data. JSON contains neither tabs nor line ends."""
    # Data is kept as its own text and not parsed: it must come back byte for byte.
    lines = (f"{json.dumps(row[1:-1], separators=(',', ':'))}\t{row.data_json}" for row in rows)
    return zlib.compress("\n".join(lines).encode(), LEVEL)


def unpacked(order_id: str, pack: bytes, after: int = 0, limit: int | None = None) -> list[PackedRow]:
    """The rows after entry `after`, at most `limit`; only those are parsed."""
    lines = zlib.decompress(pack).decode().split("\n") if pack else []
    rows = []
    # Entry N is in line N, or in an earlier one if entries before it were pruned.
    for line in lines if len(lines) <= after else lines[after:]:
        columns, _, data = line.partition("\t")
        row = PackedRow._make((order_id, *json.loads(columns), data))
        if row.seq > after:
            rows.append(row)
        if len(rows) == limit:
            break
    return rows


def rows_in_pack(connection: Connection, order_id: str, after: int = 0, limit: int | None = None) -> list[PackedRow]:
    """As `unpacked`; an empty list when the order has no pack."""
    pack = connection.execute(_PACK, {"of": order_id}).scalar()
    return [] if pack is None else unpacked(order_id, pack, after, limit)


def packs_of(connection: Connection, order_ids: Sequence[str]) -> list[PackedRow]:
    """All rows of those of these orders that are packed."""
    found = connection.execute(_SOME, {"ids": order_ids})
    return [row for pack in found for row in unpacked(pack.order_id, pack.packed)]


def make_pack(connection: Connection, order_id: str) -> bool:
    """Store the rows of a journal as a pack; the caller then deletes the rows. False: the journal cannot be packed, and
    its rows must stay."""
    rows = [PackedRow._make(row) for row in connection.execute(_ROWS, {"of": order_id})]
    numbered = [row.seq for row in rows] == list(range(1, len(rows) + 1))
    plain = not any("\n" in row.data_json or "\t" in row.data_json for row in rows)
    if not (rows and numbered and plain) or sum(len(row.data_json) for row in rows) > LARGEST_BYTES:
        return False
    pack = packed(rows)
    # The rows are deleted next, for good: what cannot be read back exactly stays as it is.
    if unpacked(order_id, pack) != rows:
        return False
    connection.execute(_ADD, {"order_id": order_id, "packed": pack})
    return True


def replace_pack(connection: Connection, order_id: str, rows: Sequence[PackedRow]) -> bool:
    """Keep only these rows in the pack of an order that is marked as pruned; False if it is not marked."""
    return connection.execute(_REPLACE, {"of": order_id, "made": packed(rows) if rows else b""}).rowcount == 1


def pack_record(connection: Connection, order_id: str, record: bytes) -> None:
    """Store the record (JSON) of an order in its row of packs, next to the pack of its journal if there is one."""
    connection.execute(_PACK_RECORD, {"order_id": order_id, "record": zlib.compress(record, LEVEL)})


def record_in_pack(connection: Connection, order_id: str) -> bytes | None:
    """The record (JSON) that `pack_record` stored, if any."""
    kept = connection.execute(_RECORD, {"of": order_id}).scalar()
    return None if kept is None else zlib.decompress(kept)


def pack_sizes(connection: Connection, order_ids: Sequence[str]) -> Mapping[str, int]:
    """Bytes of the packs of these orders, by order id, for those that have one."""
    return {row.order_id: row.size for row in connection.execute(_SIZES, {"ids": order_ids})}
