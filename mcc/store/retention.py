"""Retention: the journals of orders that ended long ago are emptied, and what nobody needs any more is removed.

Everything happens in small transactions, each of which may be the last one: a later run goes on where this one stopped.
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
from mcc.store.clock import micros
from mcc.store.document_ends import due, purge
from mcc.store.endings import record_of, stored_record
from mcc.store.engine import Database
from mcc.store.forking import OPENING_ENTRIES
from mcc.store.leases import LIVE
from mcc.store.packing import after_place, each_order
from mcc.store.packs import PackedRow, pack_record, pack_sizes, replace_pack, rows_in_pack
from mcc.store.rows import entries_after, lock
from mcc.store.tables import (
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
from mcc.store.text_uses import adopt, named_in
from mcc.store.texts import digests, parsed
from mcc.store.transitions import IDEMPOTENCY_HOURS
from mcc.store.views import has_status

CHUNK = 1_000

LOOKED_AT = 2_000
"""Texts of which one statement asks whether anybody needs them."""

TEXTS = 200
"""Texts that one transaction removes: on PostgreSQL nobody keeps a text meanwhile."""

ORDERS_AT_ONCE = 200
LEFT_HOURS = 24
"""A text that nobody needs, an incarnation that is gone, and a sweeper that is silent stay for so long."""

BARE_BYTES = 1_500
"""A registration that says no more than a drone's name and place is shorter."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """What was removed, or would be: `orders` lose their journals, `documents` had been deleted, `bytes` is the length
    of all texts in it."""

    orders: int = 0
    documents: int = 0
    entries: int = 0
    texts: int = 0
    drones: int = 0
    bytes: int = 0

    def __add__(self, other: "Cleared") -> "Cleared":
        return Cleared(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(Cleared)})


@dataclass(frozen=True, slots=True)
class Size:
    """In bytes: the database, what is free in its file, and what the journal of an order takes, the median of the
    newest ones that ended. None: none has.
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
_FORGET_NOTES = sa.delete(NOTES).where(
    sa.or_(
        sa.and_(~NOTES.c.newest, NOTES.c.written_at < sa.bindparam("before")),
        sa.and_(NOTES.c.newest, NOTES.c.deleted, NOTES.c.written_at < sa.bindparam("before")),
        sa.and_(NOTES.c.newest, NOTES.c.expires_at < sa.bindparam("before")),
    )
)
"""Versions that others followed, and what was deleted or has expired, for as long as journals are kept."""
_FORGET_KEYS = sa.delete(KEYS).where(KEYS.c.created_at < sa.bindparam("before"))


class Retention:
    """Records, outcomes, controls, the audit and the newest version of each note stay for good, of a journal what later
    turns and retries need, and of a document that is not deleted every version.

    An order whose journal a later version wrote is left to services of that version.
    """

    def __init__(self, database: Database, *, chunk: int = CHUNK) -> None:
        """`chunk`: so many entries one transaction removes."""
        self._database = database
        self._chunk = chunk

    def clear(self, before: datetime, *, besides: Collection[str] = ()) -> Iterator[Cleared]:
        """Empty the journals of orders that ended at `before` or earlier, but for `besides`, and remove documents that
        were deleted by then, and what is left over; what each small step removed. Raises `StoreUnavailable`.
        """
        adopt(self._database)
        for order_id in each_order(self._database, _DUE, before):
            if order_id not in besides:
                yield from self._prune(order_id, before)
        for count, size in purge(self._database, micros(before)):
            yield Cleared(documents=count, bytes=size)
        old = {"before": micros(before)}
        self._database.write(lambda connection: connection.execute(_FORGET_NOTES, old), repeatable=True)
        yield from self._forget()
        yield from self._remove_orphans()

    def look(self, before: datetime, *, most: int | None = None) -> Cleared:
        """What `clear` would remove of journals (of `most` orders), of documents, and of texts that nobody needs
        already (with `most`, of the first few thousand)."""
        documents, size = due(self._database, micros(before))
        found = Cleared(documents=documents, bytes=size)
        for order_id in islice(each_order(self._database, _DUE, before), most):
            found += self._database.read(partial(_would_go, order_id=order_id))
        for some in self._orphans(texts=None if most is None else LOOKED_AT):
            found += self._database.read(partial(_orphaned, asked={"digests": some, "before": self._left()}))
        return found

    def size(self) -> Size:
        """How large the database is, and its usual order."""
        return self._database.read(_size)

    def compact(self) -> None:
        """Write the file of an SQLite database anew, without what is free in it; nobody may write meanwhile."""
        self._database.read(lambda connection: connection.exec_driver_sql("VACUUM"))

    def _prune(self, order_id: str, before: datetime) -> Iterator[Cleared]:
        """Mark it first: from then on nobody reads its journal, however far the rest gets."""
        at = micros(self._database.clock.now())
        asked = {"wanted": order_id, "before": micros(before), "at": at}

        def mark(connection: Connection) -> int | None:
            state = lock(connection, order_id, skip=True)
            if state is None or state.status not in FINAL:
                return None
            record = None if stored_record(connection, order_id) else record_of(connection, order_id)
            if connection.execute(_MARK, asked).rowcount and record is not None:
                pack_record(connection, order_id, to_json(record))
            return _kept_entries(connection, order_id)

        kept = self._database.write(mark, repeatable=True)
        while kept is not None:
            removed = self._database.write(
                lambda connection: empty(connection, order_id, kept, self._chunk), repeatable=True
            )
            if removed.entries == 0:
                self._database.write(lambda connection: _settle(connection, order_id, kept, at))
                yield Cleared(orders=1)
                return
            yield removed

    def _forget(self) -> Iterator[Cleared]:
        """Incarnations that are gone, silent sweepers, old keys. What names an order's drone keeps its name."""
        before = self._left()
        old = {"before": micros(self._database.clock.now() - timedelta(hours=IDEMPOTENCY_HOURS))}
        self._database.write(lambda connection: connection.execute(_FORGET_KEYS, old), repeatable=True)
        gone = {"before": before}
        self._database.write(lambda connection: connection.execute(_FORGET_SWEEPERS, gone), repeatable=True)
        for row in self._database.read(lambda connection: connection.execute(_OLD_DRONES, gone).all()):
            forgotten = partial(_forget_drone, incarnation=row.incarnation, before=before)
            if row.named:
                forgotten = partial(forgotten, bare=_bare(row.registration_json))
            yield Cleared(drones=self._database.write(forgotten, repeatable=True), bytes=len(row.registration_json))

    def _remove_orphans(self) -> Iterator[Cleared]:
        for some in self._orphans():
            asked = {"digests": some, "before": self._left()}
            yield self._database.write(partial(_remove, asked=asked), repeatable=True)

    def _orphans(self, texts: int | None = None) -> Iterator[Sequence[str]]:
        """Digests of texts that nobody uses, some at a time. `texts`: so many are looked at; None: all."""
        asked = {"after": ""}
        while rows := self._database.read(lambda connection: connection.execute(_LOOKED_AT, asked).all()):  # noqa: B023
            unused = [row.digest for row in rows if row.unused]
            yield from (unused[start : start + TEXTS] for start in range(0, len(unused), TEXTS))
            if texts is not None and (texts := texts - len(rows)) <= 0:
                return
            asked = {"after": rows[-1].digest}

    def _left(self) -> int:
        return micros(self._database.clock.now() - timedelta(hours=LEFT_HOURS))


def _kept_entries(connection: Connection, order_id: str) -> int:
    """So many first entries stay: the first one, and what a fork began with, which its retry begins with as well."""
    first = entries_after(connection, order_id, limit=1)
    begun = first[0].data if first else None
    if isinstance(begun, OrderQueued) and begun.forked is not None:
        return begun.forked.until + OPENING_ENTRIES + 1
    return 1


def _remove(connection: Connection, asked: Mapping[str, object]) -> Cleared:
    if connection.dialect.name == "postgresql":
        # Who keeps a text, and writes down that it is used, holds this table until both are committed.
        connection.execute(sa.text("LOCK TABLE blobs IN SHARE ROW EXCLUSIVE MODE"))
    found = _orphaned(connection, asked)
    connection.execute(_REMOVE, asked)
    return found


def _orphaned(connection: Connection, asked: Mapping[str, object]) -> Cleared:
    texts, size = connection.execute(_ORPHAN_BYTES, asked).one()
    return Cleared(texts=texts, bytes=size)


def _would_go(connection: Connection, order_id: str) -> Cleared:
    kept = _kept_entries(connection, order_id)
    asked = {"of": order_id, "kept": kept}
    if pack := rows_in_pack(connection, order_id):
        entries = sum(_goes(row, kept) for row in pack)
        return Cleared(orders=1, entries=entries, bytes=_pack_size(connection, order_id))
    goes = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(_BYTES), 0)).where(*_GOES)
    entries, size = connection.execute(goes, asked).one()
    return Cleared(orders=1, entries=entries, bytes=size)


def _pack_size(connection: Connection, order_id: str) -> int:
    return pack_sizes(connection, [order_id]).get(order_id, 0)


def _goes(row: PackedRow, kept: int) -> bool:
    """As `_GOES`, of a row in a pack."""
    return row.seq > kept and row.kind != ControlApplied.kind


def empty(connection: Connection, order_id: str, kept: int, most: int) -> Cleared:
    """The next entries of a journal that is marked, oldest first, so that a gap shows to whoever still reads it.

    Those of a pack all at once.
    """
    if pack := rows_in_pack(connection, order_id):
        left = [row for row in pack if not _goes(row, kept)]
        before = _pack_size(connection, order_id)
        if len(left) == len(pack) or not replace_pack(connection, order_id, left):
            return Cleared()
        return Cleared(entries=len(pack) - len(left), bytes=before - _pack_size(connection, order_id))
    asked = {"of": order_id, "kept": kept}
    rows = connection.execute(_SOME.limit(most), asked).all()
    if not rows:
        return Cleared()
    removed = connection.execute(_EMPTY, {**asked, "upto": rows[-1].seq}).rowcount
    return Cleared(entries=removed, bytes=sum(row.size for row in rows))


def _settle(connection: Connection, order_id: str, kept: int, at: int) -> None:
    """The order uses no more than its record, and what is left of its journal, name."""
    left = connection.execute(_LEFT, {"of": order_id}).all() or rows_in_pack(connection, order_id)
    needed = digests(row.large_json for row in left)
    needed |= digests(connection.execute(_OF_RECORD, {"of": order_id}).scalars())
    if kept > 1:
        needed |= {digest for row in left for digest in named_in(row.data_json)}
    connection.execute(_RELEASE, {"of": order_id, "needed": sorted(needed)})
    connection.execute(_EMPTIED, {"wanted": order_id, "at": at})


def _forget_drone(connection: Connection, incarnation: str, before: int, bare: str | None = None) -> int:
    """`bare`: what stays of the registration of one that orders name."""
    asked = {"wanted": incarnation, "before": before}
    done: int = (
        connection.execute(_FORGET_DRONE, asked) if bare is None else connection.execute(_BARE, {**asked, "bare": bare})
    ).rowcount
    if done:
        connection.execute(_RELEASE, {"of": incarnation, "needed": ()})
    return done


def _size(connection: Connection) -> Size:
    ids = connection.execute(_NEWEST).scalars().all()
    found = [*connection.execute(_PER_ORDER, {"ids": ids}).scalars(), *pack_sizes(connection, ids).values()]
    each = [int(size) for size in found]
    if connection.dialect.name == "postgresql":
        whole = connection.execute(sa.text("SELECT pg_database_size(current_database())")).scalar_one()
        return Size(whole, 0, median_high(each) if each else None)
    pages, free, page = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    )
    return Size(pages * page, free * page, median_high(each) if each else None)


def _bare(registration: str) -> str:
    known = Registration.model_validate(parsed(registration))
    return to_json(
        known.model_copy(update={"agents": (), "tools": (), "models": (), "sandbox": SandboxState()})
    ).decode()
