"""Orders that write in their workspace: one at a time, first come, first served."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.database.engine import Database
from mcc.store.database.errors import StoreFenced
from mcc.store.rows.order_rows import OrderState, is_held, lock, write
from mcc.store.rows.values import WorkspaceHold
from mcc.store.rows.workspace_rows import (
    before_in_line,
    first_in_line,
    has_lock,
    is_free,
    lock_workspace,
    others_can_go_first,
    serialize,
    stand_in_line,
    writer_in_the_way,
)
from mcc.store.work.resuming import resume

PATIENCE_SECONDS = 10.0
"""How long the first in line of a free workspace is left to the drones, before it is woken again or loses its place."""

MOST_LINES = 500
"""Bound on the lines that are looked at in one round."""

ITS_TURN = "its workspace is free"


@dataclass(frozen=True, slots=True)
class WorkspaceTaken:
    """An order may not write yet: `holder` writes in its workspace, or wanted to before it (`waits`)."""

    holder: str
    waits: bool


class WorkspaceLines:
    """Which orders write in which workspace, and the lines of those that want to."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(self, order_id: str, epoch: int, hold: WorkspaceHold) -> WorkspaceTaken | None:
        """Make the order, which runs under this epoch, the only one that writes in its workspace, above or below it,
        until this claim ends. Otherwise it joins the line, or keeps its place there, and the answer says why.

        May be repeated. Raises `StoreFenced`.
        """

        def work(connection: Connection) -> WorkspaceTaken | None:
            state = lock(connection, order_id)
            if state is None or not is_held(state, epoch):
                raise StoreFenced(f"order {order_id} is not held under epoch {epoch}")
            if has_lock(connection, order_id, epoch, hold):
                return None
            serialize(connection, hold)
            since = state.wants_at if state.wants_key == hold.key else None
            taken = _taken(connection, order_id, hold, since)
            if taken is None:
                lock_workspace(connection, order_id, epoch, hold)
                if not state.writes or state.wants_key is not None:
                    write(connection, state, [], writes=True, wants_key=None, wants_at=None)
            elif since is None:
                stand_in_line(connection, order_id, epoch, hold)
                write(connection, state, [], wants_key=hold.key, wants_at=self._now(connection))
            return taken

        return self._database.write(work, repeatable=True)

    def leave(self, order_id: str, epoch: int) -> None:
        """Let an order that runs under this epoch leave the line; nothing happens when it does not run or is in
        none."""

        def work(connection: Connection) -> None:
            state = lock(connection, order_id)
            if state is not None and is_held(state, epoch) and state.wants_key is not None:
                write(connection, state, [], wants_key=None, wants_at=None)

        self._database.write(work, repeatable=True)

    def wake(self) -> Sequence[str]:
        """Queue again the first in line of each workspace that is free; answers their ids."""
        first = self._database.read(lambda connection: to_wake(connection, self._now(connection), patience_seconds=0.0))
        return [order_id for order_id in first if self._database.write(partial(self._wake, order_id))]

    def _wake(self, order_id: str, connection: Connection) -> bool:
        state = lock(connection, order_id, skip=True)
        if state is None or state.status is not OrderStatus.WAITING:
            return False
        return wake_first(connection, state, self._database.clock.now(), self._now(connection)) is not None

    def _now(self, connection: Connection) -> int:
        return int(connection.scalar(sa.select(self._database.time.now)) or 0)


def _taken(connection: Connection, order_id: str, hold: WorkspaceHold, since: int | None) -> WorkspaceTaken | None:
    if (holder := writer_in_the_way(connection, order_id, hold)) is not None:
        return WorkspaceTaken(holder, waits=False)
    before = before_in_line(connection, order_id, hold, since)
    return None if before is None else WorkspaceTaken(before, waits=True)


def to_wake(connection: Connection, now: int, patience_seconds: float = PATIENCE_SECONDS) -> Sequence[str]:
    """The first in line of each free workspace, if it has been parked or queued for at least `patience_seconds`; `now`
    in microseconds."""
    due, key = list[str](), ""
    for _ in range(MOST_LINES):
        if (first := first_in_line(connection, key)) is None:
            break
        key = first.key
        is_due = now - first.since >= patience_seconds * 1_000_000
        if is_due and first.status is not OrderStatus.RUNNING and is_free(connection, first):
            due.append(first.order_id)
    return due


def wake_first(connection: Connection, state: OrderState, at: datetime, now: int) -> OrderState | None:
    """Queue a waiting order whose turn it is; the state afterwards. An order that is queued already, and that no drone
    has claimed, goes to the end of the line instead, with the answer None, if another one can go first."""
    if state.wants_key is None:
        return None
    if state.status is OrderStatus.QUEUED and others_can_go_first(connection, state.order_id, state.wants_key):
        write(connection, state, [], wants_at=now)
    if state.status is not OrderStatus.WAITING or state.reason != WaitingReason.WORKSPACE.value:
        return None
    return resume(connection, state, at, ITS_TURN)
