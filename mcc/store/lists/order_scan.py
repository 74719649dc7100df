"""Orders found by any filters together: one index is read backwards, the other filters are checked on what it holds."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.order import OrderKind
from mcc.contracts.order_lists import OrderCriteria
from mcc.contracts.status import FINAL, UNFINISHED, OrderStatus, WaitingReason
from mcc.store.database.clock import CLOCKS_DIFFER, id_at, micros, moment
from mcc.store.database.tables import APPROVALS, DRONES, LABELS, LIST_PROGRESS, ORDER_WORDS, ORDERS, STATE, among
from mcc.store.rows.inbox_rows import PENDING
from mcc.store.rows.texts import parsed
from mcc.store.rows.views import is_status
from mcc.store.rows.words import Term, having_all, terms_of
from mcc.store.work.selection import compacts, part_matches

HIGHEST = "g"
"""Above all ids."""

_PEOPLE = (WaitingReason.APPROVAL, WaitingReason.QUESTION, WaitingReason.PAUSED)
_WAITS_FOR_PEOPLE = sa.and_(
    is_status(STATE.c.status, OrderStatus.WAITING), STATE.c.reason.in_(sorted(reason.value for reason in _PEOPLE))
)
_PENDING_ITEM = sa.select(APPROVALS.c.id).where(APPROVALS.c.order_id == STATE.c.order_id, PENDING).exists()
_NEEDS_INPUT = sa.or_(_WAITS_FOR_PEOPLE, _PENDING_ITEM)
_NEWEST = sa.select(ORDERS.c.id, ORDERS.c.created_at).order_by(ORDERS.c.id.desc()).limit(1)
_NEWEST_EMPTY = _NEWEST.where(ORDERS.c.agent.is_(None))
_WORDS_FROM = sa.select(LIST_PROGRESS.c.reached).where(LIST_PROGRESS.c.name == "words")
_NEWEST_WORDLESS = _NEWEST.where(ORDERS.c.id < _WORDS_FROM.scalar_subquery())
_WORDS_INDEX = sa.table("order_words_index", sa.column("rowid", sa.Integer))
"""On SQLite, where full-text search is a table; its column of its own name is what is searched."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """The ids that fit, newest first; the cursor from which to go on, and how far was looked; None: to the end."""

    ids: Sequence[str]
    next_cursor: str | None = None
    searched_to: datetime | None = None


Index = Sequence[tuple[sa.ColumnElement[str], Sequence[sa.ColumnElement[bool]]]]
"""Ranges of indexes, each as its column of ids and its conditions; orders are in one of them or several."""


_EVERY: Index = [(ORDERS.c.id, ())]


@dataclass(frozen=True, slots=True)
class ScanBounds:
    """Bounds of a request: how many ids it looks at, and how many of them one statement does; `read_chunk`: where what
    was ordered has to be read. `probed`: up to how many orders of a filter are counted, to begin with the rarest."""

    examined: int = 20_000
    chunk: int = 2_000
    read_chunk: int = 200
    probed: int = 1_000

    def ids(self, connection: Connection, filters: OrderCriteria, cursor: str | None, limit: int) -> Scanned:
        """The newest orders below the id `cursor` that fit, at most `limit`, among at most `examined`."""
        terms = terms_of(filters.text or "")
        if filters.text is not None and not terms:
            return Scanned(())
        empty = _newest_unfilled(connection, filters)
        index, bounds = self._rarest(connection, filters), _Bounds(filters, empty.id if empty else None)
        reads = filters.workspace is not None or filters.kind not in (None, OrderKind.COMPACT)
        matching: list[str] = []
        below, most = cursor or HIGHEST, self.read_chunk if reads else self.chunk
        for examined in range(0, self.examined, most):
            if examined == most and terms and index is _EVERY:
                # Not before the newest orders were not enough: to count a common word takes long.
                index = self._with_words(connection, terms)
            chunk = bounds.newest(index, below, most).cte("chunk").prefix_with("MATERIALIZED")
            rows = connection.execute(_fitting(chunk, filters, terms, spec=reads)).all()
            fitting = (row for row in rows if row.fits and (not reads or _spec_fits(filters, row.spec_json)))
            matching += sorted((row.id for row in fitting), reverse=True)
            if len(matching) > limit:
                return _stopped(connection, matching[:limit], matching[limit - 1])
            ((lowest, size),) = ((row.id, row.size) for row in rows if not row.fits)
            if size < most:
                break
            below = lowest
        else:
            return _stopped(connection, matching, below)
        if empty is not None and empty.id < (cursor or HIGHEST):
            # The next page begins with the order that is not filled in yet.
            return Scanned(matching, empty.id + HIGHEST, moment(empty.created_at))
        return Scanned(matching)

    def _rarest(self, connection: Connection, filters: OrderCriteria) -> Index:
        """The index whose filter has the fewest orders; that of all orders where no filter has few."""
        rarest, fewest = _EVERY, self.probed
        for index in _indexes(filters):
            few = _count(connection, index, fewest)
            if few < fewest:
                rarest, fewest = index, few
        return rarest

    def _with_words(self, connection: Connection, terms: Sequence[Term]) -> Index:
        """The orders that have all of these words, if they are few, else all orders."""
        query = sa.literal(having_all(terms, connection.dialect.name), sa.Text)
        if connection.dialect.name == "postgresql":
            indexed = sa.func.to_tsvector(sa.literal_column("'simple'"), ORDER_WORDS.c.words)
            asked = sa.func.to_tsquery(sa.literal_column("'simple'"), query)
            having = sa.select(ORDER_WORDS.c.order_id).where(indexed.op("@@")(asked))
            # Materialized, or the bound would make a planner split the words of all orders, until enough fit.
            few = sa.select(having.cte("having").prefix_with("MATERIALIZED").c.order_id).limit(self.probed)
        else:
            matches = sa.literal_column("order_words_index").op("MATCH")(query)
            rows = sa.select(_WORDS_INDEX.c.rowid).where(matches).limit(self.probed).subquery("matching")
            few = sa.select(ORDER_WORDS.c.order_id).join(rows, rows.c.rowid == ORDER_WORDS.c.number)
        ids = connection.scalars(few).all()
        # By their ids: to keep their sequence, a planner would rather look into every order.
        return _EVERY if len(ids) >= self.probed else [(ORDERS.c.id, (among(ORDERS.c.id, "with_words", ids),))]


def _newest_unfilled(connection: Connection, filters: OrderCriteria) -> Any:
    """The newest order that these filters do not know about yet: neither that it fits, nor that it does not."""
    by_facets = filters.agent or filters.model or filters.drone or filters.fingerprint
    wanted = [query for query, asked in ((_NEWEST_EMPTY, by_facets), (_NEWEST_WORDLESS, filters.text)) if asked]
    rows = [row for query in wanted if (row := connection.execute(query).first()) is not None]
    return max(rows, key=lambda row: str(row.id), default=None)


def _stopped(connection: Connection, ids: Sequence[str], at: str) -> Scanned:
    placed = connection.scalar(sa.select(ORDERS.c.created_at).where(ORDERS.c.id == at))
    return Scanned(ids, at, moment(placed) if placed is not None else None)


class _Bounds:
    """Between which ids orders can fit: their ids tell when they were placed, by the clock of their service."""

    def __init__(self, filters: OrderCriteria, above: str | None) -> None:
        self._above = above
        self._since = None if filters.since is None else id_at(filters.since, -CLOCKS_DIFFER)
        self._until = None if filters.until is None else id_at(filters.until, CLOCKS_DIFFER)

    def newest(self, index: Index, below: str, most: int) -> sa.Select[Any]:
        """The newest ids below this one that the index holds."""
        parts = []
        for column, conditions in index:
            query = sa.select(column.label("id")).where(*conditions, column < below)
            if self._above is not None:
                query = query.where(column > self._above)
            if self._since is not None:
                query = query.where(column >= self._since)
            if self._until is not None:
                query = query.where(column < self._until)
            parts.append(query.order_by(column.desc()).limit(most))
        if len(parts) == 1:
            return parts[0]
        # Each part is read in the order of its index; together they would be sorted as a whole.
        either = sa.union(*(sa.select(part.subquery().c.id) for part in parts)).subquery()
        return sa.select(either.c.id).order_by(either.c.id.desc()).limit(most)


def _indexes(filters: OrderCriteria) -> Sequence[Index]:
    statuses = frozenset(filters.status)
    if filters.group is not None and not statuses:
        statuses = FINAL if filters.group == "done" else UNFINISHED
    indexes: list[Index] = [
        [(ORDERS.c.id, (match,)) for match in part_matches(filters.part or "")],
        [(ORDERS.c.id, (ORDERS.c.session_id == value,)) for value in filters.session_id],
        [(ORDERS.c.id, (ORDERS.c.fingerprint == value,)) for value in filters.fingerprint],
        [(LABELS.c.order_id, (LABELS.c.label == value,)) for value in filters.label],
        [(ORDERS.c.id, (ORDERS.c.agent == value,)) for value in filters.agent],
        [(STATE.c.order_id, (is_status(STATE.c.status, value),)) for value in sorted(statuses)],
    ]
    if filters.group == "needs_input":
        waiting = (is_status(STATE.c.status, OrderStatus.WAITING),)
        indexes.append([(STATE.c.order_id, waiting), (APPROVALS.c.order_id, (PENDING,))])
    return [index for index in indexes if index]


def _count(connection: Connection, index: Index, most: int) -> int:
    few = 0
    for column, conditions in index:
        some = sa.select(column).where(*conditions).limit(most - few).subquery()
        few += connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0
        if few >= most:
            break
    return few


def _fitting(chunk: sa.CTE, filters: OrderCriteria, terms: Sequence[Term], *, spec: bool) -> sa.CompoundSelect[Any]:
    """The orders of the chunk that fit, and one row with its lowest id and its size."""
    spec_json = ORDERS.c.spec_json if spec else sa.null()
    fitting = (
        sa.select(
            ORDERS.c.id, spec_json.label("spec_json"), sa.literal_column("1").label("fits"), sa.null().label("size")
        )
        .select_from(chunk.join(ORDERS, ORDERS.c.id == chunk.c.id).join(STATE, STATE.c.order_id == chunk.c.id))
        .where(*_conditions(filters))
    )
    if terms:
        # As substrings, so that no word of these orders is split anew, and no planner reads all orders with a word.
        places = (f" {term.stored}{'' if term.begins else ' '}" for term in terms)
        fitting = fitting.join(ORDER_WORDS, ORDER_WORDS.c.order_id == chunk.c.id)
        fitting = fitting.where(*(ORDER_WORDS.c.words.contains(place) for place in places))
    last: list[sa.ColumnElement[Any]] = [sa.func.min(chunk.c.id), sa.null(), sa.literal_column("0"), sa.func.count()]
    return sa.union_all(fitting, sa.select(*last))


def _conditions(filters: OrderCriteria) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = [
        column.in_(sorted(values))
        for column, values in (
            (STATE.c.status, {status.value for status in filters.status}),
            (ORDERS.c.agent, filters.agent),
            (ORDERS.c.model, filters.model),
            (ORDERS.c.principal, filters.who),
            (ORDERS.c.session_id, filters.session_id),
            (ORDERS.c.fingerprint, filters.fingerprint),
        )
        if values
    ]
    conditions.append(compacts(ORDERS.c.session_id, filters.kind is OrderKind.COMPACT))
    if filters.part is not None:
        conditions.append(sa.or_(sa.false(), *part_matches(filters.part)))
    if filters.label:
        has_label = (LABELS.c.order_id == ORDERS.c.id, LABELS.c.label.in_(filters.label))
        # Not `exists`: for a label that most orders have, PostgreSQL would read all of them first.
        labelled = sa.select(sa.func.min(LABELS.c.label)).where(*has_label).correlate(ORDERS).scalar_subquery()
        conditions.append(labelled.is_not(None))
    if filters.drone:
        conditions.append(_on_drone(filters.drone))
    if filters.since is not None:
        conditions.append(ORDERS.c.created_at >= micros(filters.since))
    if filters.until is not None:
        conditions.append(ORDERS.c.created_at < micros(filters.until))
    return [*conditions, *_in_group(filters)]


def _on_drone(names: Collection[str]) -> sa.ColumnElement[bool]:
    holder = sa.select(DRONES.c.incarnation).where(
        DRONES.c.incarnation == STATE.c.incarnation, DRONES.c.name.in_(sorted(names))
    )
    return sa.or_(ORDERS.c.last_drone.in_(sorted(names)), holder.exists())


def _in_group(filters: OrderCriteria) -> Sequence[sa.ColumnElement[bool]]:
    final = STATE.c.status.in_(sorted(status.value for status in FINAL))
    match filters.group:
        case None:
            return ()
        case "done":
            return (final,)
        case "working":
            return (~final, ~_NEEDS_INPUT)
        case "needs_input":
            return (~final, _NEEDS_INPUT)


def _spec_fits(filters: OrderCriteria, spec_json: str) -> bool:
    spec = parsed(spec_json)
    if filters.workspace not in (None, spec.get("workspace")):
        return False
    return filters.kind in (None, OrderKind.COMPACT) or spec.get("kind", OrderKind.CHAT) == filters.kind
