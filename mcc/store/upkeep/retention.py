"""Retention: empties the journals of orders that ended long ago, and removes rows that nothing refers to.

All work is done in small transactions, and may stop after any of them: a later run continues where this one stopped.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from statistics import median_high

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.drones import Registration, SandboxState
from mcc.contracts.journal import READABLE_VERSIONS, ControlApplied
from mcc.contracts.order_facts import OrderQueued
from mcc.contracts.shape import to_json
from mcc.contracts.status import FINAL
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.tables import (
    BLOBS,
    DRONES,
    JOURNAL,
    KEYS,
    NOTES,
    ORDERS,
    RECORDS,
    STATE,
    SWEEPERS,
    TEXT_USES,
    among,
    size_of,
)
from mcc.store.history.indexing import forget_pruned
from mcc.store.rows.artifact_rows import let_go
from mcc.store.rows.forking import OPENING_ENTRIES
from mcc.store.rows.order_rows import entries_after, lock
from mcc.store.rows.packs import PackedRow, pack_record, pack_sizes, replace_pack, rows_in_pack
from mcc.store.rows.part_rows import forget_parts
from mcc.store.rows.texts import digests, named_in, parsed
from mcc.store.rows.transcript_rows import drop_old_bases, named_by_turn
from mcc.store.rows.transitions import IDEMPOTENCY_HOURS
from mcc.store.rows.views import has_status
from mcc.store.upkeep.packing import after_place, each_order
from mcc.store.work.artifacts import remove_unused, unused
from mcc.store.work.document_ends import due, purge
from mcc.store.work.endings import record_of, stored_record
from mcc.store.work.leases import LIVE

CHUNK = 1_000
"""Entries that one transaction removes."""

LOOKED_AT = 2_000
"""Texts that one statement checks for uses."""

TEXTS = 200
"""Texts that one transaction removes; on PostgreSQL nobody can store a text meanwhile."""

ORDERS_AT_ONCE = 200
KEPT_HOURS = 24
"""Unused texts, incarnations that are gone, and silent sweepers are kept for this long."""

BARE_BYTES = 1_500
"""A registration that contains no more than a drone's name and place is shorter than this."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """Numbers of what was removed, or would be: `orders` whose journals were emptied, deleted `documents`, and the rest
    by kind. `bytes`: the length of all removed texts and `files` (given to an order whose journal is gone, or to none).
    """

    orders: int = 0
    documents: int = 0
    entries: int = 0
    texts: int = 0
    files: int = 0
    drones: int = 0
    bytes: int = 0

    def __add__(self, other: "Cleared") -> "Cleared":
        return Cleared(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(Cleared)})


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes in bytes: the database, the free space in its file, and the journal of an order, as the median of the
    newest ended orders (None if no order has ended).
    """

    bytes: int
    free: int
    per_order: int | None


_IS_READABLE = STATE.c.journal_version.in_(READABLE_VERSIONS)
_ENDED = sa.select(STATE.c.order_id).where(
    STATE.c.order_id == ORDERS.c.id, has_status(STATE.c.status, FINAL), _IS_READABLE
)
_LONG_AGO = (
    ORDERS.c.finished_at.is_not(None),
    ORDERS.c.emptied_at.is_(None),
    ORDERS.c.finished_at <= sa.bindparam("before", type_=sa.BigInteger),
    _ENDED.exists(),
)
_DUE = (
    sa.select(ORDERS.c.id, ORDERS.c.finished_at)
    .where(*_LONG_AGO, after_place())
    .order_by(ORDERS.c.finished_at, ORDERS.c.id)
    .limit(ORDERS_AT_ONCE)
)
_MARK = (
    sa.update(ORDERS)
    .where(ORDERS.c.id == sa.bindparam("wanted"), *_LONG_AGO, ORDERS.c.pruned_at.is_(None))
    .values(pruned_at=sa.bindparam("at"))
)
_IS_MARKED = (
    sa.select(ORDERS.c.id).where(ORDERS.c.id == JOURNAL.c.order_id, ORDERS.c.pruned_at.is_not(None), _ENDED.exists())
).exists()
_GOES = (
    JOURNAL.c.order_id == sa.bindparam("of"),
    JOURNAL.c.seq > sa.bindparam("kept"),
    JOURNAL.c.kind != ControlApplied.kind,
)
_BYTES = size_of(JOURNAL.c.data_json)
_SOME = sa.select(JOURNAL.c.seq, _BYTES.label("size")).where(*_GOES).order_by(JOURNAL.c.seq)
_EMPTY = sa.delete(JOURNAL).where(*_GOES, JOURNAL.c.seq <= sa.bindparam("upto"), _IS_MARKED)
_LEFT = sa.select(JOURNAL.c.data_json, JOURNAL.c.large_json).where(JOURNAL.c.order_id == sa.bindparam("of"))
_OF_RECORD = sa.select(RECORDS.c.large_json).where(RECORDS.c.order_id == sa.bindparam("of"))
_RELEASE = sa.delete(TEXT_USES).where(TEXT_USES.c.owner == sa.bindparam("of"), ~among(TEXT_USES.c.digest, "needed"))
_EMPTIED = (
    sa.update(ORDERS)
    .where(ORDERS.c.id == sa.bindparam("wanted"), ORDERS.c.pruned_at.is_not(None))
    .values(emptied_at=sa.bindparam("at"))
)
_UNUSED = ~sa.select(TEXT_USES.c.owner).where(TEXT_USES.c.digest == BLOBS.c.digest).exists()
_LOOKED_AT = (
    sa.select(BLOBS.c.digest, _UNUSED.label("unused"))
    .where(BLOBS.c.digest > sa.bindparam("after"))
    .order_by(BLOBS.c.digest)
    .limit(LOOKED_AT)
)
_ARE_ORPHANS = (among(BLOBS.c.digest, "digests"), BLOBS.c.created_at < sa.bindparam("before"), _UNUSED)
_ORPHAN_BYTES = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(size_of(BLOBS.c.text_json)), 0)).where(
    *_ARE_ORPHANS
)
_REMOVE = sa.delete(BLOBS).where(*_ARE_ORPHANS)
_NAMED = sa.select(STATE.c.order_id).where(STATE.c.incarnation == DRONES.c.incarnation).exists()
_GONE = (DRONES.c.state != LIVE, DRONES.c.heartbeat_at < sa.bindparam("before"))
_OLD_DRONES = (
    sa.select(DRONES.c.incarnation, DRONES.c.registration_json, _NAMED.label("named"))
    .where(*_GONE, sa.or_(~_NAMED, size_of(DRONES.c.registration_json) > BARE_BYTES))
    .limit(CHUNK)
)
_FORGET_DRONE = sa.delete(DRONES).where(DRONES.c.incarnation == sa.bindparam("wanted"), *_GONE, ~_NAMED)
_BARE = (
    sa.update(DRONES)
    .where(DRONES.c.incarnation == sa.bindparam("wanted"), *_GONE)
    .values(registration_json=sa.bindparam("bare"))
)
_NEWEST = (
    sa.select(ORDERS.c.id)
    .where(ORDERS.c.finished_at.is_not(None), ORDERS.c.emptied_at.is_(None))
    .order_by(ORDERS.c.finished_at.desc())
    .limit(ORDERS_AT_ONCE)
)
_PER_ORDER = sa.select(sa.func.sum(_BYTES)).where(among(JOURNAL.c.order_id, "ids")).group_by(JOURNAL.c.order_id)
_FORGET_SWEEPERS = sa.delete(SWEEPERS).where(SWEEPERS.c.beat_at < sa.bindparam("before"))
_OLD_NOTE = sa.and_(sa.or_(~NOTES.c.newest, NOTES.c.deleted), NOTES.c.written_at < sa.bindparam("before"))
_FORGET_NOTES = sa.delete(NOTES).where(
    NOTES.c.state != "pending",
    sa.or_(_OLD_NOTE, sa.and_(NOTES.c.newest, NOTES.c.expires_at < sa.bindparam("before"))),
)
"""Versions that were replaced, rejected, deleted or expired, after the time for which journals are kept."""
_FORGET_KEYS = sa.delete(KEYS).where(KEYS.c.created_at < sa.bindparam("before"))


class Retention:
    """Removes old data. Never removed: records, outcomes, controls, the audit, the newest version of each note, every
    version of a document that was not deleted, and the journal entries that later turns and retries need.

    An order whose journal a later version wrote is left to services of that version.
    """

    def __init__(self, database: Database, *, chunk: int = CHUNK) -> None:
        """`chunk`: entries that one transaction removes."""
        self._database = database
        self._chunk = chunk

    def clear(self, before: datetime, *, besides: Collection[str] = ()) -> Iterator[Cleared]:
        """Empty the journals of orders that ended at `before` or earlier, except `besides`; remove documents that were
        deleted by then, and everything that is unused. Yields what each small transaction removed. Raises
        `StoreUnavailable`.
        """
        for order_id in each_order(self._database, _DUE, before):
            if order_id not in besides:
                yield from self._prune(order_id, before)
        for count, size in purge(self._database, micros(before)):
            yield Cleared(documents=count, bytes=size)
        old = {"before": micros(before)}
        self._database.write(lambda connection: connection.execute(_FORGET_NOTES, old), repeatable=True)
        for size in remove_unused(self._database):
            yield Cleared(files=1, bytes=size)
        # Texts last: emptied journals and forgotten incarnations have released theirs by then.
        yield from self._forget()
        for some in self._orphans():
            wanted = {"digests": some, "before": self._day_ago()}
            yield self._database.write(partial(remove_texts, wanted=wanted), repeatable=True)

    def look(self, before: datetime, *, most: int | None = None) -> Cleared:
        """What `clear` would remove: journals (of at most `most` orders), documents, and texts that are unused already
        (with `most`, only the first few thousand texts are checked)."""
        documents, size = due(self._database, micros(before))
        cleared = Cleared(documents=documents, bytes=size)
        for order_id in islice(each_order(self._database, _DUE, before), most):
            cleared += self._database.read(partial(_would_go, order_id=order_id))
        for size in unused(self._database).values():
            cleared += Cleared(files=1, bytes=size)
        for some in self._orphans(texts=None if most is None else LOOKED_AT):
            cleared += self._database.read(partial(_orphaned, wanted={"digests": some, "before": self._day_ago()}))
        return cleared

    def size(self) -> Size:
        """The size of the database, and of a typical order in it."""
        return self._database.read(_size)

    def compact(self) -> None:
        """Rewrite the file of an SQLite database without its free space; no other process can write meanwhile."""
        self._database.read(lambda connection: connection.exec_driver_sql("VACUUM"))

    def _prune(self, order_id: str, before: datetime) -> Iterator[Cleared]:
        """Empty the journal of an order. The order is marked as pruned first: then nobody reads half of its journal."""
        at = micros(self._database.clock.now())
        marked = {"wanted": order_id, "before": micros(before), "at": at}

        def mark(connection: Connection) -> int | None:
            state = lock(connection, order_id, skip=True)
            if state is None or state.status not in FINAL:
                return None
            # An order that ended without a stored record has it in its journal alone, which goes now.
            record = None if stored_record(connection, order_id) else record_of(connection, order_id)
            if connection.execute(_MARK, marked).rowcount and record is not None:
                pack_record(connection, order_id, to_json(record))
            return _kept_entries(connection, order_id)

        kept = self._database.write(mark, repeatable=True)
        while kept is not None:
            removed = self._database.write(
                lambda connection: empty(connection, order_id, kept, self._chunk), repeatable=True
            )
            if removed.entries == 0:
                self._database.write(lambda connection: _release_texts(connection, order_id, kept, at))
                yield Cleared(orders=1)
                return
            yield removed

    def _forget(self) -> Iterator[Cleared]:
        """Remove incarnations that are gone, silent sweepers and old keys. An incarnation that an order names keeps a
        row with its name."""
        before = self._day_ago()
        old = {"before": micros(self._database.clock.now() - timedelta(hours=IDEMPOTENCY_HOURS))}
        self._database.write(lambda connection: connection.execute(_FORGET_KEYS, old), repeatable=True)
        gone = {"before": before}
        self._database.write(lambda connection: connection.execute(_FORGET_SWEEPERS, gone), repeatable=True)
        for row in self._database.read(lambda connection: connection.execute(_OLD_DRONES, gone).all()):
            forgotten = partial(_forget_drone, incarnation=row.incarnation, before=before)
            if row.named:
                known = Registration.model_validate(parsed(row.registration_json))
                nothing = {"agents": (), "tools": (), "models": (), "sandbox": SandboxState()}
                forgotten = partial(forgotten, bare=to_json(known.model_copy(update=nothing)).decode())
            yield Cleared(drones=self._database.write(forgotten, repeatable=True), bytes=len(row.registration_json))

    def _orphans(self, texts: int | None = None) -> Iterator[Sequence[str]]:
        """Digests of unused texts, up to `TEXTS` at a time. `texts`: how many texts are checked at least; None: all."""
        page = {"after": ""}
        while rows := self._database.read(lambda connection: connection.execute(_LOOKED_AT, page).all()):  # noqa: B023
            unused = [row.digest for row in rows if row.unused]
            yield from (unused[start : start + TEXTS] for start in range(0, len(unused), TEXTS))
            if texts is not None and (texts := texts - len(rows)) <= 0:
                return
            page = {"after": rows[-1].digest}

    def _day_ago(self) -> int:
        return micros(self._database.clock.now() - timedelta(hours=KEPT_HOURS))


def _kept_entries(connection: Connection, order_id: str) -> int:
    """The number of first entries that stay: one, and for a fork those it began with, which a retry of it copies."""
    first = entries_after(connection, order_id, limit=1)
    begun = first[0].data if first else None
    if isinstance(begun, OrderQueued) and begun.forked is not None:
        return begun.forked.until + OPENING_ENTRIES + 1
    return 1


def remove_texts(connection: Connection, wanted: Mapping[str, object]) -> Cleared:
    """Remove those of the texts `digests` that nothing uses and that were stored before `before`."""
    if connection.dialect.name == "postgresql":
        # A transaction that stores a text and its use holds a lock on this table until both are committed, so this
        # waits for it, and sees the use.
        connection.execute(sa.text("LOCK TABLE blobs IN SHARE ROW EXCLUSIVE MODE"))
    orphaned = _orphaned(connection, wanted)
    connection.execute(_REMOVE, wanted)
    return orphaned


def _orphaned(connection: Connection, wanted: Mapping[str, object]) -> Cleared:
    texts, size = connection.execute(_ORPHAN_BYTES, wanted).one()
    return Cleared(texts=texts, bytes=size)


def _would_go(connection: Connection, order_id: str) -> Cleared:
    kept = _kept_entries(connection, order_id)
    if pack := rows_in_pack(connection, order_id):
        entries = sum(_goes(row, kept) for row in pack)
        return Cleared(orders=1, entries=entries, bytes=_pack_size(connection, order_id))
    goes = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(_BYTES), 0)).where(*_GOES)
    entries, size = connection.execute(goes, {"of": order_id, "kept": kept}).one()
    return Cleared(orders=1, entries=entries, bytes=size)


def _pack_size(connection: Connection, order_id: str) -> int:
    return pack_sizes(connection, [order_id]).get(order_id, 0)


def _goes(row: PackedRow, kept: int) -> bool:
    """As the condition `_GOES`, for a row of a pack."""
    return row.seq > kept and row.kind != ControlApplied.kind


def empty(connection: Connection, order_id: str, kept: int, most: int) -> Cleared:
    """Remove the next `most` entries of a journal that is marked as pruned, but not the first `kept`; a pack is emptied
    at once.

    The oldest go first, so that a reader that began before notices the gap.
    """
    if pack := rows_in_pack(connection, order_id):
        left = [row for row in pack if not _goes(row, kept)]
        before = _pack_size(connection, order_id)
        if len(left) == len(pack) or not replace_pack(connection, order_id, left):
            return Cleared()
        return Cleared(entries=len(pack) - len(left), bytes=before - _pack_size(connection, order_id))
    journal = {"of": order_id, "kept": kept}
    rows = connection.execute(_SOME.limit(most), journal).all()
    if not rows:
        return Cleared()
    removed = connection.execute(_EMPTY, {**journal, "upto": rows[-1].seq}).rowcount
    return Cleared(entries=removed, bytes=sum(row.size for row in rows))


def _release_texts(connection: Connection, order_id: str, kept: int, at: int) -> None:
    """Reduce the order's texts to those that record, rest of the journal and later turns need, and mark it emptied."""
    left = connection.execute(_LEFT, {"of": order_id}).all() or rows_in_pack(connection, order_id)
    needed = digests(row.large_json for row in left)
    needed |= digests(connection.execute(_OF_RECORD, {"of": order_id}).scalars())
    # Copied entries name results of their source by digest in the text of their data.
    if kept > 1:
        needed |= {digest for row in left for digest in named_in(row.data_json)}
    needed |= named_by_turn(connection, order_id)
    drop_old_bases(connection, order_id)
    connection.execute(_RELEASE, {"of": order_id, "needed": sorted(needed)})
    let_go(connection, order_id)
    forget_pruned(connection, order_id)
    forget_parts(connection, order_id)
    connection.execute(_EMPTIED, {"wanted": order_id, "at": at})


def _forget_drone(connection: Connection, incarnation: str, before: int, bare: str | None = None) -> int:
    """Remove an incarnation, or reduce the registration of one that orders name to `bare`; answers the rows changed."""
    drone = {"wanted": incarnation, "before": before}
    done: int = (
        connection.execute(_FORGET_DRONE, drone) if bare is None else connection.execute(_BARE, {**drone, "bare": bare})
    ).rowcount
    if done:
        connection.execute(_RELEASE, {"of": incarnation, "needed": ()})
    return done


def _size(connection: Connection) -> Size:
    ids = connection.execute(_NEWEST).scalars().all()
    sizes = [*connection.execute(_PER_ORDER, {"ids": ids}).scalars(), *pack_sizes(connection, ids).values()]
    each = [int(size) for size in sizes]
    free = 0
    if connection.dialect.name == "sqlite":
        free = _pragma(connection, "freelist_count") * _pragma(connection, "page_size")
    return Size(size_in_bytes(connection), free, median_high(each) if each else None)


def size_in_bytes(connection: Connection) -> int:
    """The size of the whole database, free space included."""
    if connection.dialect.name == "postgresql":
        return int(connection.execute(sa.text("SELECT pg_database_size(current_database())")).scalar_one())
    return _pragma(connection, "page_count") * _pragma(connection, "page_size")


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
