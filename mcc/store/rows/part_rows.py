"""Parts: the entries of a journal in short, by the thousand, compressed. They can be made again from the journal."""

import json
import zlib
from collections.abc import Sequence

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.entry_lines import EntryLine
from mcc.contracts.shape import to_json
from mcc.store.database.tables import JOURNAL_PARTS

PART_ENTRIES = 1_000
"""Part N holds the entries N × 1,000 + 1 to (N + 1) × 1,000."""

LEVEL = 6
_KEEP = sa.text(
    "INSERT INTO journal_parts (order_id, part, packed) SELECT id, :part, :packed FROM orders"
    # A journal may be pruned while somebody makes parts of it.
    " WHERE id = :of AND pruned_at IS NULL ON CONFLICT (order_id, part) DO NOTHING"
).bindparams(sa.bindparam("packed", type_=sa.LargeBinary), sa.bindparam("part", type_=sa.Integer))
_KEPT = (
    sa.select(JOURNAL_PARTS.c.part, JOURNAL_PARTS.c.packed)
    .where(JOURNAL_PARTS.c.order_id == sa.bindparam("of"), JOURNAL_PARTS.c.part >= sa.bindparam("first"))
    .order_by(JOURNAL_PARTS.c.part)
    .limit(sa.bindparam("most"))
)
_FORGET = sa.delete(JOURNAL_PARTS).where(JOURNAL_PARTS.c.order_id == sa.bindparam("of"))


def packed_part(lines: Sequence[EntryLine]) -> bytes:
    """A part by its columns, which compress better than its lines."""
    columns = zip(*lines, strict=True)
    return zlib.compress(to_json(dict(zip(EntryLine._fields, columns, strict=True))), LEVEL)


def unpacked_part(packed: bytes) -> list[EntryLine]:
    made = zlib.decompress(packed)
    try:
        columns = orjson.loads(made)  # twice as fast as pydantic's, and a long order has a hundred parts
    except ValueError:
        columns = json.loads(made)  # reads lone surrogates as well
    return list(map(EntryLine._make, zip(*(columns[name] for name in EntryLine._fields), strict=True)))


def kept_parts(connection: Connection, order_id: str, first: int, most: int) -> list[EntryLine]:
    """The lines of at most `most` stored parts, from part `first` on, without a gap."""
    lines: list[EntryLine] = []
    rows = connection.execute(_KEPT, {"of": order_id, "first": first, "most": most})
    for number, row in enumerate(rows, first):
        if row.part != number:
            break
        lines += unpacked_part(row.packed)
    return lines


def keep_part(connection: Connection, order_id: str, part: int, packed: bytes) -> None:
    """Store a part, unless it is stored or the journal was pruned."""
    connection.execute(_KEEP, {"of": order_id, "part": part, "packed": packed})


def forget_parts(connection: Connection, order_id: str) -> None:
    connection.execute(_FORGET, {"of": order_id})
