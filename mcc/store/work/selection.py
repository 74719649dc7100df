"""Queries for the ids of a list's orders, each written so that the index for its filters is used."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.order import OrderKind
from mcc.contracts.status import UNFINISHED, OrderStatus
from mcc.store.database.clock import CLOCKS_DIFFER, id_at, micros
from mcc.store.database.tables import LABELS, ORDERS, SESSIONS, STATE
from mcc.store.rows.texts import parsed
from mcc.store.rows.views import ORDER, has_status, is_status

SHAPE = "00000000-0000-0000-0000-000000000000"
SEARCHED = 2_000
CHUNK = 200
"""Orders that are looked through, and read at a time, for those of an agent or a workspace, which no index knows."""

_COMPACTING = sa.select(SESSIONS.c.id).where(SESSIONS.c.compacts.is_not(None))
_VERSION: tuple[sa.ColumnElement[int], ...] = (sa.literal_column("15"), sa.literal_column("1"))
"""Where an id says its version. Sessions whose orders compact others have ids of version 5, all others of version 7."""

ENDING = 4
"""Trailing characters of an id in the index `orders_by_ending`."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Filters of a list; None matches any order. `part`: an id begins or ends with it, four characters at least.
    `cursor`: only ids below this one. `since`: placed at this time or later. `unfinished`: only orders that are.
    `kind`: orders that compact a session are left out unless it is theirs. `principal`: who placed it."""

    status: OrderStatus | None = None
    session_id: str | None = None
    label: str | None = None
    part: str | None = None
    cursor: str | None = None
    since: datetime | None = None
    unfinished: bool = False
    kind: OrderKind | None = None
    principal: str | None = None


def chosen_ids(wanted: Filter, most: int) -> sa.Select[str] | None:
    """The newest matching ids, at most `most`, newest first; None when no id can match.

    The query scans the index of one column in the order of ids, and checks the other filters for each id it meets.
    """
    if wanted.part is None:
        others = (
            wanted.session_id is not None
            or wanted.since is not None
            or wanted.unfinished
            or wanted.kind
            or wanted.principal
        )
        if wanted.label is not None and wanted.status is not None and not others:
            return _labelled(wanted.label, wanted.status, wanted.cursor, most)
        return _newest(wanted, _scanned(wanted), most)
    parts = [_newest(wanted, ORDERS.c.id, most, matches) for matches in part_matches(wanted.part)]
    if not parts:
        return None
    either = sa.union(*(sa.select(part.subquery()) for part in parts)).subquery()
    return sa.select(either.c.id).order_by(either.c.id.desc()).limit(most)


def compacts(session_id: sa.ColumnElement[str], wanted: bool) -> sa.ColumnElement[bool]:
    """Whether an order compacts a session, or does not, by the version of its own session's id."""
    version = sa.func.substr(session_id, *_VERSION)
    return version == sa.literal_column("'5'") if wanted else version != sa.literal_column("'5'")


def _scanned(wanted: Filter) -> sa.ColumnElement[str]:
    """The id column, of the table whose index is scanned."""
    if wanted.label is not None:
        return LABELS.c.order_id
    by_status = wanted.status is not None or wanted.unfinished
    return STATE.c.order_id if by_status and wanted.session_id is None else ORDERS.c.id


def _newest(
    wanted: Filter, scanned: sa.ColumnElement[str], most: int, *conditions: sa.ColumnElement[bool]
) -> sa.Select[str]:
    newest = sa.select(scanned.label("id")).where(*conditions).order_by(scanned.desc()).limit(most)
    if scanned.table is not LABELS and wanted.kind is not OrderKind.COMPACT:
        # By the id alone, as no index is wide enough. Nobody gives orders that compact a label.
        newest = newest.where(compacts(scanned.table.c.session_id, False))
    for column, condition in _conditions(wanted):
        newest = newest.where(condition, *([] if column.table is scanned.table else [column == scanned]))
    if wanted.since is not None:
        newest = newest.where(scanned >= id_at(wanted.since, -CLOCKS_DIFFER))
    return newest if wanted.cursor is None else newest.where(scanned < wanted.cursor)


def _labelled(label: str, status: OrderStatus, cursor: str | None, most: int) -> sa.Select[str]:
    """The newest orders with this label and this status, found by a merge of two indexes that skips ahead.

    A recursive query alternates: from an order with the label to the next order at or below it with the status, from
    there to the next one with the label, and so on; where both meet, the order has both. So a long run of orders that
    only one index holds is skipped in one step.
    """
    has_it = is_status(STATE.c.status, status)

    def labelled(*below: sa.ColumnElement[bool]) -> sa.ScalarSelect[str]:
        newest = sa.select(LABELS.c.order_id).where(LABELS.c.label == label, *below).order_by(LABELS.c.order_id.desc())
        return newest.limit(1).scalar_subquery()

    first = labelled() if cursor is None else labelled(LABELS.c.order_id < cursor)
    begun = sa.select(
        first.label("id"),
        sa.cast(sa.null(), STATE.c.order_id.type).label("before"),
        sa.literal_column("1").label("leaps"),
    )
    walk = begun.cte("walk", recursive=True)
    with_status = sa.select(STATE.c.order_id).where(has_it, STATE.c.order_id <= walk.c.id)
    by_turns = sa.case(
        (walk.c.leaps == 1, with_status.order_by(STATE.c.order_id.desc()).limit(1).scalar_subquery()),
        (walk.c.id == walk.c.before, labelled(LABELS.c.order_id < walk.c.id)),
        else_=labelled(LABELS.c.order_id <= walk.c.id),
    )
    walk = walk.union_all(sa.select(by_turns, walk.c.id, 1 - walk.c.leaps).where(walk.c.id.is_not(None)))
    return sa.select(walk.c.id).where(walk.c.leaps == 0, walk.c.id == walk.c.before).limit(most)


def _conditions(wanted: Filter) -> Iterator[tuple[sa.ColumnElement[str], sa.ColumnElement[bool]]]:
    """The conditions, each with the id column of the table it refers to."""
    if wanted.status is not None:
        yield STATE.c.order_id, is_status(STATE.c.status, wanted.status)
    if wanted.unfinished:
        yield STATE.c.order_id, has_status(STATE.c.status, UNFINISHED)
    if wanted.since is not None:
        yield ORDERS.c.id, ORDERS.c.created_at >= micros(wanted.since)
    if wanted.principal is not None:
        yield ORDERS.c.id, ORDERS.c.principal == wanted.principal
    if wanted.session_id is not None:
        yield ORDERS.c.id, ORDERS.c.session_id == wanted.session_id
    if wanted.kind is OrderKind.COMPACT:
        yield ORDERS.c.id, ORDERS.c.session_id.in_(_COMPACTING)
    if wanted.label is not None:
        yield LABELS.c.order_id, LABELS.c.label == wanted.label


def part_matches(part: str) -> Sequence[sa.ColumnElement[bool]]:
    """The conditions that an id begins with `part` (as a range) and that it ends with it; only those that an id can
    meet, given where its hyphens are."""
    conditions: list[sa.ColumnElement[bool]] = []
    if _is_of(SHAPE[: len(part)], part):
        lowest, highest = (part + SHAPE[len(part) :].replace("0", digit) for digit in "0f")
        conditions.append(ORDERS.c.id.between(lowest, highest))
    if _is_of(SHAPE[-len(part) :], part):
        end = sa.func.substr(ORDERS.c.id, sa.literal_column(str(len(SHAPE) - ENDING + 1)))
        conditions.append(sa.and_(end == part[-ENDING:], ORDERS.c.id.endswith(part, autoescape=True)))
    return conditions


def _is_of(shape: str, part: str) -> bool:
    return len(part) == len(shape) and all(
        (one == "-") == (other == "-") for one, other in zip(shape, part, strict=True)
    )


def search(
    connection: Connection, wanted: Filter, agent: str | None, workspace: str | None, limit: int
) -> tuple[list[sa.RowMapping], str | None]:
    """The rows of `ORDER` of the newest matching orders, at most `limit`, and the cursor from which to go on; None: no
    more orders match."""
    matches: list[sa.RowMapping] = []
    kind = None if wanted.kind is OrderKind.COMPACT else wanted.kind
    if agent is None and workspace is None and kind is None:
        rows = _rows(connection, wanted, limit + 1)
        return rows[:limit], rows[limit - 1]["id"] if len(rows) > limit else None
    for _ in range(0, SEARCHED, CHUNK):
        rows = _rows(connection, wanted, CHUNK)
        for row in rows:
            spec = parsed(row["spec_json"])
            fits = agent in (None, spec.get("agent")) and workspace in (None, spec.get("workspace"))
            if fits and kind in (None, spec.get("kind", OrderKind.CHAT)):
                matches.append(row)
            if len(matches) == limit:
                return matches, row["id"]
        if len(rows) < CHUNK:
            return matches, None
        wanted = replace(wanted, cursor=rows[-1]["id"])
    return matches, wanted.cursor


def _rows(connection: Connection, wanted: Filter, most: int) -> list[sa.RowMapping]:
    chosen = chosen_ids(wanted, most)
    if chosen is None:
        return []
    ids = chosen.subquery("chosen")
    statement = ORDER.join(ids, ids.c.id == ORDERS.c.id).order_by(ids.c.id.desc())
    return list(connection.execute(statement).mappings())
