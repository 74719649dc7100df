"""The inbox as a list: what agents ask people, and the orders that people should look at, newest first."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.approvals import (
    ITEM_KINDS,
    ORDER_ITEM_KINDS,
    AnyItem,
    InboxItem,
    InboxKind,
    ItemKind,
    ItemStatus,
    OrderItem,
)
from mcc.contracts.ids import is_identifier
from mcc.contracts.order import OrderOutcome
from mcc.contracts.shape import to_json
from mcc.contracts.wire import InboxChange
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadCursor
from mcc.store.database.tables import APPROVALS, NOTES, ORDERS, SEEN, SEEN_BEFORE, among
from mcc.store.rows.inbox_rows import ITEM, PENDING, item_of
from mcc.store.rows.note_items import note_items
from mcc.store.rows.note_rows import number_of
from mcc.store.rows.texts import parsed
from mcc.store.rows.transitions import title_of
from mcc.store.rows.values import Page

SHOWN = timedelta(days=14)
"""For how long the inbox tells of an order that ended."""

_IN_INBOX = (ORDERS.c.finished_at.is_not(None), ORDERS.c.inbox.is_not(None))
_ENDED_ID = ORDERS.c.inbox + ":" + ORDERS.c.id
_ENDED = (
    sa.select(ORDERS.c.id, ORDERS.c.inbox, ORDERS.c.agent, ORDERS.c.outcome_json, ORDERS.c.finished_at)
    .where(ORDERS.c.principal == sa.bindparam("placed_by"), *_IN_INBOX)
    .order_by(ORDERS.c.finished_at.desc(), _ENDED_ID.desc())
)
_NEXT_OWNER = (
    sa.select(ORDERS.c.principal)
    .where(ORDERS.c.principal > sa.bindparam("after"), *_IN_INBOX)
    .order_by(ORDERS.c.principal)
    .limit(1)
)
_ABOUT = sa.select(ORDERS.c.id, ORDERS.c.principal, ORDERS.c.agent, ORDERS.c.spec_json).where(among(ORDERS.c.id, "ids"))
_SEEN = sa.select(SEEN.c.item).where(SEEN.c.principal == sa.bindparam("viewer"), among(SEEN.c.item, "items"))
_SEEN_BEFORE = sa.select(SEEN_BEFORE.c.at).where(SEEN_BEFORE.c.principal == sa.bindparam("viewer"))
_SEE = sa.text(
    "INSERT INTO seen (principal, item, order_id) VALUES (:principal, :item, :order_id) ON CONFLICT DO NOTHING"
)
_SEE_BEFORE = sa.text(
    "INSERT INTO seen_before (principal, at) VALUES (:principal, :at)"
    " ON CONFLICT (principal) DO UPDATE SET at = excluded.at WHERE seen_before.at < excluded.at"
)
_ASKED_IN = sa.select(APPROVALS.c.id, APPROVALS.c.order_id).where(among(APPROVALS.c.id, "ids"))
_NOTED_IN = sa.select(NOTES.c.id, NOTES.c.order_id).where(among(NOTES.c.id, "ids"))

PAGE_BYTES = 1_500_000
"""The size at which a page ends, though more items are wanted."""

MOST_PENDING = 1_000
"""How many pending items are compared with those of before; of more, the count alone is exact."""

_ITEM_CHANGE = sa.select(APPROVALS.c.id, APPROVALS.c.kind, APPROVALS.c.order_id, APPROVALS.c.status)
_PENDING = _ITEM_CHANGE.where(PENDING).order_by(APPROVALS.c.requested_at.desc(), APPROVALS.c.id).limit(MOST_PENDING)
_COUNT = sa.select(sa.func.count()).select_from(APPROVALS).where(PENDING)
_CHANGES = _ITEM_CHANGE.where(among(APPROVALS.c.id, "ids")).order_by(APPROVALS.c.id)


@dataclass(frozen=True, slots=True)
class InboxQuery:
    """What a page of the inbox lists; None = any. `status`: items without one are listed all the same.

    `viewer`: the principal for whom items are seen; `unseen`: those alone that it has not seen. `owner`: of orders that
    this principal placed. `stuck`: the orders that are; which they are is not for the store to say.
    """

    status: ItemStatus | None = None
    kinds: frozenset[InboxKind] = ITEM_KINDS
    order_id: str | None = None
    viewer: str = ""
    unseen: bool = False
    owner: str | None = None
    stuck: Sequence[OrderItem] = ()
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far a page reaches: below the item at `place` (microseconds, id), and later than `after` (microseconds)."""

    place: tuple[int, str] | None
    after: int | None
    most: int

    def conditions(self, at: sa.ColumnElement[int], item_id: sa.ColumnElement[str]) -> Sequence[sa.ColumnElement[bool]]:
        later = [] if self.after is None else [at > self.after]
        if self.place is None:
            return later
        # The first of both is what an index can begin with; an id may be an expression.
        return [*later, at <= self.place[0], sa.tuple_(at, item_id) < sa.tuple_(*self.place)]


class InboxStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self,
        status: ItemStatus | None = None,
        *,
        kinds: Collection[ItemKind] = ITEM_KINDS,
        order_id: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[AnyItem]:
        """What agents ask people, newest first. Raises `BadCursor`."""
        page = self.look(InboxQuery(status, frozenset(kinds), order_id, cursor=cursor, limit=limit))
        return Page([item for item in page.items if not isinstance(item, OrderItem)], page.next_cursor)

    def pending(self) -> tuple[int, Sequence[InboxChange]]:
        """How many items of agents wait for a person, and the newest `MOST_PENDING` of them."""

        def counted(connection: Connection) -> tuple[int, Sequence[InboxChange]]:
            newest = [InboxChange(**row._asdict()) for row in connection.execute(_PENDING)]
            count = len(newest) if len(newest) < MOST_PENDING else int(connection.execute(_COUNT).scalar_one())
            return count, newest

        return self._database.read(counted)

    def changes(self, ids: Collection[str]) -> Sequence[InboxChange]:
        """What has become of these items of agents, in the order of their ids; unknown ones are left out."""
        if not ids:
            return ()
        wanted = {"ids": sorted(ids)}
        return self._database.read(
            lambda connection: [InboxChange(**row._asdict()) for row in connection.execute(_CHANGES, wanted)]
        )

    def look(self, query: InboxQuery) -> Page[InboxItem]:
        """Newest first. A page ends with its limit, or sooner where items are large; with `unseen` it may have no item,
        and yet a cursor. Raises `BadCursor`."""
        place = None if query.cursor is None else _place(query.cursor)

        def page(connection: Connection) -> Page[InboxItem]:
            # Of what was seen by its time nothing is read.
            before = connection.scalar(_SEEN_BEFORE, {"viewer": query.viewer}) if query.viewer else None
            reach = _Reach(place, before if query.unseen else None, query.limit + 1)
            newest = sorted(self._items(connection, query, reach), key=_key, reverse=True)
            listed = _fitting(newest[: query.limit])
            more = f"{_key(listed[-1])[0]}.{listed[-1].id}" if len(newest) > len(listed) else None
            told = _told(connection, listed, query.viewer, before)
            return Page([item for item in told if not (query.unseen and item.seen)], more)

        return self._database.read(page)

    def see(self, viewer: str, *, ids: Sequence[str] = (), before: datetime | None = None) -> None:
        """Mark these items, and all up to a time, as seen by this principal; unknown ids are passed over."""
        now = self._database.clock.now()

        def mark(connection: Connection) -> None:
            if before is not None:
                # What comes later is new, whatever time was named.
                connection.execute(_SEE_BEFORE, {"principal": viewer, "at": micros(min(before, now))})
            for item, order_id in sorted(_orders_of(connection, ids).items()):
                connection.execute(_SEE, {"principal": viewer, "item": item, "order_id": order_id})

        self._database.write(mark, repeatable=True)

    def _items(self, connection: Connection, query: InboxQuery, reach: _Reach) -> Sequence[InboxItem]:
        """The newest items of each kind, more than a page of them."""
        items: list[InboxItem] = []
        if asked := query.kinds & (ITEM_KINDS - {"note"}):
            items += _asked(connection, query, asked, reach)
        if "note" in query.kinds:
            conditions = [] if query.owner is None else [_placed_by(NOTES.c.order_id, query.owner)]
            if reach.after is not None:
                conditions.append(NOTES.c.written_at > reach.after)
            items += note_items(connection, query.status, query.order_id, reach.place, reach.most, *conditions)
        if ended := query.kinds & (ORDER_ITEM_KINDS - {"stuck"}):
            items += self._ended(connection, query, ended, reach)
        if "stuck" in query.kinds:
            items += _stuck(connection, query, reach)
        return items

    def _ended(
        self, connection: Connection, query: InboxQuery, kinds: Collection[str], reach: _Reach
    ) -> Sequence[OrderItem]:
        oldest = micros(self._database.clock.now() - SHOWN)
        conditions = [
            ORDERS.c.inbox.in_(sorted(kinds)),
            *replace(reach, after=max(oldest, reach.after or 0)).conditions(ORDERS.c.finished_at, _ENDED_ID),
        ]
        if query.order_id is not None:
            conditions.append(ORDERS.c.id == query.order_id)
        statement = _ENDED.where(*conditions).limit(reach.most)
        owners = _owners(connection) if query.owner is None else (query.owner,)
        rows = [row for owner in owners for row in connection.execute(statement, {"placed_by": owner}).mappings()]
        return [_ended_item(row) for row in rows]


def _fitting(items: Sequence[InboxItem]) -> Sequence[InboxItem]:
    """The first items, as many as fit into a page, at least one: a call may be as large as what it writes."""
    size = 0
    for count, item in enumerate(items):
        size += len(to_json(item))
        if count and size > PAGE_BYTES:
            return items[:count]
    return items


def _asked(connection: Connection, query: InboxQuery, kinds: Collection[str], reach: _Reach) -> Sequence[AnyItem]:
    statement = ITEM.order_by(APPROVALS.c.requested_at.desc(), APPROVALS.c.id.desc()).limit(reach.most)
    statement = statement.where(*reach.conditions(APPROVALS.c.requested_at, APPROVALS.c.id))
    if query.status is not None:
        statement = statement.where(PENDING if query.status == "pending" else APPROVALS.c.status == query.status)
    if len(kinds) < len(ITEM_KINDS) - 1:
        # A single kind uses the index that begins with it. For several kinds, the + "" rules that index out and the
        # index by time is scanned: two ranges of the former would have to be sorted.
        kind = APPROVALS.c.kind if len(kinds) == 1 else APPROVALS.c.kind + ""
        statement = statement.where(kind.in_(sorted(kinds)))
    if query.order_id is not None:
        statement = statement.where(APPROVALS.c.order_id == query.order_id)
    if query.owner is not None:
        statement = statement.where(_placed_by(APPROVALS.c.order_id, query.owner))
    return [item_of(row) for row in connection.execute(statement).mappings()]


def _stuck(connection: Connection, query: InboxQuery, reach: _Reach) -> Sequence[OrderItem]:
    owners = {row.id: row.principal for row in _about(connection, [item.order_id for item in query.stuck])}
    return [
        item
        for item in query.stuck
        if query.owner in (None, owners.get(item.order_id))
        and query.order_id in (None, item.order_id)
        and (reach.place is None or _key(item) < reach.place)
        and (reach.after is None or micros(item.at) > reach.after)
    ]


def _ended_item(row: sa.RowMapping) -> OrderItem:
    outcome = OrderOutcome.model_validate(parsed(row["outcome_json"]))
    return OrderItem(
        id=f"{row['inbox']}:{row['id']}",
        kind=row["inbox"],
        order_id=row["id"],
        agent=row["agent"],
        reason=outcome.reason,
        detail=outcome.detail,
        at=moment(row["finished_at"]),
    )


def _told(connection: Connection, items: Sequence[InboxItem], viewer: str, before: int | None) -> Sequence[InboxItem]:
    """The items with what only lists tell of them."""
    about = {row.id: row for row in _about(connection, [item.order_id for item in items])}
    seen: set[str] = set()
    if viewer and items:
        asked = {"viewer": viewer, "items": [item.id for item in items]}
        seen = set(connection.execute(_SEEN, asked).scalars())
    told: list[InboxItem] = []
    for item in items:
        order = about.get(item.order_id)
        more: dict[str, object] = {"seen": item.id in seen or _key(item)[0] <= (before or 0)}
        if order is not None:
            more |= {"owner": order.principal, "title": title_of(parsed(order.spec_json)["prompt"])}
            more |= {"agent": item.agent or order.agent} if isinstance(item, OrderItem) else {}
        told.append(item.model_copy(update=more))
    return told


def _about(connection: Connection, order_ids: Collection[str]) -> Sequence[Any]:
    ids = sorted({order_id for order_id in order_ids if order_id})
    return connection.execute(_ABOUT, {"ids": ids}).all() if ids else ()


def _owners(connection: Connection) -> Sequence[str]:
    """The principals whose orders are in the inbox, each found by one step in the index that begins with them."""
    owners: list[str] = []
    while (owner := connection.scalar(_NEXT_OWNER, {"after": owners[-1] if owners else ""})) is not None:
        owners.append(owner)
    return owners


def _orders_of(connection: Connection, ids: Sequence[str]) -> Mapping[str, str]:
    """The orders of those of these items that exist, "" where an item has none; by the item's id."""
    known = [item for item in dict.fromkeys(ids) if "\0" not in item]
    ended = {
        item: order_id
        for item in known
        for kind, _, order_id in [item.partition(":")]
        if kind in ORDER_ITEM_KINDS and is_identifier(order_id)
    }
    placed = {row.id for row in _about(connection, ended.values())}
    orders = {item: order_id for item, order_id in ended.items() if order_id in placed}
    orders |= {row.id: row.order_id for row in connection.execute(_ASKED_IN, {"ids": known})}
    numbers = {number_of(item): item for item in known if is_identifier(item)}
    noted = connection.execute(_NOTED_IN, {"ids": sorted(numbers)}) if numbers else ()
    return orders | {numbers[row.id]: row.order_id or "" for row in noted}


def _placed_by(order_id: sa.ColumnElement[str], owner: str) -> sa.ColumnElement[bool]:
    return sa.select(ORDERS.c.id).where(ORDERS.c.id == order_id, ORDERS.c.principal == owner).exists()


def _key(item: InboxItem) -> tuple[int, str]:
    """The place of an item in the list."""
    return micros(item.at if isinstance(item, OrderItem) else item.requested_at), item.id


def _place(cursor: str) -> tuple[int, str]:
    at, _, item_id = cursor.partition(".")
    if not (at.isascii() and at.isdigit() and len(at) < 19 and item_id and "\0" not in item_id):
        raise BadCursor("this cursor is not one that a page of the inbox gave; begin without one")
    return int(at), item_id
