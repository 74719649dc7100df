"""Cancels of many orders: found by filters, a group of them in each transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.cancelling import MAX_CANCELLED, OrdersToCancel
from mcc.contracts.control import Control, ControlKind, NewControl
from mcc.contracts.ids import is_identifier
from mcc.contracts.status import OrderStatus
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadCursor, OrderIsFinal, StoreRefused
from mcc.store.work.controls import requested
from mcc.store.work.selection import Filter, search

GROUP_ORDERS = 100
"""Orders whose cancels share a transaction, so that it holds their locks, and that of the database, for a moment."""


@dataclass(frozen=True, slots=True)
class Cancels:
    """The controls that were requested, and the cursor from which to go on; None: no more orders fit."""

    controls: Sequence[Control]
    next_cursor: str | None = None


class Cancelling:
    def __init__(self, database: Database) -> None:
        self._database = database

    def cancel(
        self,
        asked: OrdersToCancel,
        *,
        by: Actor,
        cursor: str | None = None,
        most: int = MAX_CANCELLED,
        owner: str | None = None,
    ) -> Cancels:
        """Cancel the newest `most` unfinished orders that fit `asked`, below the id `cursor`. `owner`: only those that
        this principal placed.

        An order that ends meanwhile is passed over. What was cancelled before an error stays so. Raises `BadCursor`.
        """
        if cursor is not None and not is_identifier(cursor):
            raise BadCursor("this cursor is not one that a cancel of orders gave; begin without one")
        status = None if asked.status is None else OrderStatus(asked.status)
        filters = Filter(status, asked.session_id, asked.label, None, cursor, asked.since, unfinished=status is None)
        wanted = replace(filters, principal=owner)

        def find(connection: Connection) -> tuple[list[str], str | None]:
            rows, following = search(connection, wanted, asked.agent, asked.workspace, most)
            return [row["id"] for row in rows], following

        ids, following = self._database.read(find)
        at, request = self._database.clock.now(), NewControl(reason=asked.reason)
        controls: list[Control] = []
        for start in range(0, len(ids), GROUP_ORDERS):
            # In the order of their ids, as everybody locks several orders.
            group = sorted(ids[start : start + GROUP_ORDERS])
            cancel = partial(_cancel, order_ids=group, request=request, by=by, at=at)
            controls += self._database.write(cancel)
        return Cancels(controls, following)

    def each(self, order_ids: Sequence[str], *, reason: str | None, by: Actor) -> Mapping[str, Control | StoreRefused]:
        """Cancel these orders in one transaction; answers the control of each, or why it is not cancelled."""
        at, request = self._database.clock.now(), NewControl(reason=reason)
        # In the order of their ids, as everybody locks several orders.
        cancel = partial(_cancel_each, order_ids=sorted(set(order_ids)), request=request, by=by, at=at)
        return self._database.write(cancel)


def _cancel_each(
    connection: Connection, order_ids: Sequence[str], request: NewControl, by: Actor, at: datetime
) -> Mapping[str, Control | StoreRefused]:
    controls: dict[str, Control | StoreRefused] = {}
    for order_id in order_ids:
        try:
            controls[order_id] = requested(connection, order_id, ControlKind.CANCEL, request, by, at)
        except StoreRefused as refused:
            controls[order_id] = refused
    return controls


def _cancel(
    connection: Connection, order_ids: Sequence[str], request: NewControl, by: Actor, at: datetime
) -> Sequence[Control]:
    controls: list[Control] = []
    for order_id in order_ids:
        try:
            controls.append(requested(connection, order_id, ControlKind.CANCEL, request, by, at))
        except OrderIsFinal:
            continue
    return controls
