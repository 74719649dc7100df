"""Which orders a list shows: their ids, found by the index that the filters call for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from mcc.contracts.status import OrderStatus
from mcc.store.tables import LABELS, ORDERS, STATE
from mcc.store.views import is_status

SHAPE = "00000000-0000-0000-0000-000000000000"
ENDING = 4
"""So many characters of its end find an order, in the index `orders_by_ending`."""


@dataclass(frozen=True, slots=True)
class Filter:
    """None: any. `part`: how an id begins or ends, four characters at least. `cursor`: ids below this one."""

    status: OrderStatus | None = None
    session_id: str | None = None
    label: str | None = None
    part: str | None = None
    cursor: str | None = None


def chosen_ids(wanted: Filter, most: int) -> sa.Select[str] | None:
    """The newest ids that fit, at most so many, newest first; None where none can.

    One column decides what is walked through, in the order of ids, and all else is looked up for what is met there.
    """
    if wanted.part is None:
        if wanted.label is not None and wanted.status is not None and wanted.session_id is None:
            return _labelled(wanted.label, wanted.status, wanted.cursor, most)
        return _newest(wanted, _walked(wanted), most)
    found = [_newest(wanted, ORDERS.c.id, most, like) for like in _likenesses(wanted.part)]
    if not found:
        return None
    either = sa.union(*(sa.select(one.subquery()) for one in found)).subquery()
    return sa.select(either.c.id).order_by(either.c.id.desc()).limit(most)


def _walked(wanted: Filter) -> sa.ColumnElement[str]:
    if wanted.label is not None:
        return LABELS.c.order_id
    return ORDERS.c.id if wanted.status is None or wanted.session_id is not None else STATE.c.order_id


def _newest(
    wanted: Filter, walked: sa.ColumnElement[str], most: int, *conditions: sa.ColumnElement[bool]
) -> sa.Select[str]:
    found = sa.select(walked.label("id")).where(*conditions).order_by(walked.desc()).limit(most)
    for column, condition in _conditions(wanted):
        found = found.where(condition, *([] if column.table is walked.table else [column == walked]))
    return found if wanted.cursor is None else found.where(walked < wanted.cursor)


def _labelled(label: str, status: OrderStatus, cursor: str | None, most: int) -> sa.Select[str]:
    """The newest orders with this label and this status, by leaps from one index to the other.

    Each order with the label is followed by the next one at or below it with the status, and that by the next one with
    the label: what only one of the two has many of is passed over at once.
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
    """Each with the order's id in the table that it is about."""
    if wanted.status is not None:
        yield STATE.c.order_id, is_status(STATE.c.status, wanted.status)
    if wanted.session_id is not None:
        yield ORDERS.c.id, ORDERS.c.session_id == wanted.session_id
    if wanted.label is not None:
        yield LABELS.c.order_id, LABELS.c.label == wanted.label


def _likenesses(part: str) -> Sequence[sa.ColumnElement[bool]]:
    """That an id begins so, as a range, and that it ends so; only those that an id can fulfil."""
    found: list[sa.ColumnElement[bool]] = []
    if _is_of(SHAPE[: len(part)], part):
        lowest, highest = (part + SHAPE[len(part) :].replace("0", digit) for digit in "0f")
        found.append(ORDERS.c.id.between(lowest, highest))
    if _is_of(SHAPE[-len(part) :], part):
        end = sa.func.substr(ORDERS.c.id, sa.literal_column(str(len(SHAPE) - ENDING + 1)))
        found.append(sa.and_(end == part[-ENDING:], ORDERS.c.id.endswith(part, autoescape=True)))
    return found


def _is_of(shape: str, part: str) -> bool:
    return len(part) == len(shape) and all(
        (one == "-") == (other == "-") for one, other in zip(shape, part, strict=True)
    )
