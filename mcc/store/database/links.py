"""A pool of connections that statements are given to directly; what one of them loses, those as old have lost too."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf

from sqlalchemy.engine import Engine

from mcc.store.database.connections import ConnectionWatchdog, is_used_up
from mcc.store.database.direct import Link


class Links:
    """A pool of idle `Link` connections of one engine, `most` at most. Safe for several threads."""

    def __init__(self, engine: Engine, most: int, watchdog: ConnectionWatchdog | None = None) -> None:
        """`watchdog` watches the connections while they are in use."""
        self._engine = engine
        self._watchdog = watchdog
        self._free: deque[Link] = deque()
        self._most = most
        self._lost_at = -inf
        """When a connection was lost last: what was opened before leads to the same server."""
        self.losses = 0

    @property
    def has_listeners(self) -> bool:
        """Whether event listeners want to see statements or commits, of which only SQLAlchemy notifies them."""
        dispatch = self._engine.dispatch
        return bool(dispatch.before_cursor_execute) or bool(dispatch.commit)

    @contextmanager
    def writing(self) -> Iterator[Link]:
        """A connection with an open transaction, which is committed unless something is raised."""
        with self.reading() as link:
            link.begin_now()
            yield link
            link.commit_now()

    @contextmanager
    def reading(self) -> Iterator[Link]:
        """A connection without a transaction: the one used last, which has prepared most of the statements."""
        try:
            link = self._free.pop()
        except IndexError:
            link = Link(self._engine, self._watchdog)
        try:
            link.checked_out()
            link.refresh()
            yield link
        finally:
            self._give_back(link)

    def close(self) -> None:
        """Close all idle connections; those in use are closed when they are returned."""
        # First, so that no connection that is returned now is kept.
        self._most = 0
        with suppress(IndexError):
            while True:
                self._free.pop().close()

    def _end_elders(self) -> None:
        """Close the idle connections of now; those in use that are as old are closed when they are returned."""
        self._lost_at = time.monotonic()
        self.losses += 1
        with suppress(IndexError):
            while True:
                link = self._free.pop()
                # Not returned to SQLAlchemy's pool, which would keep it open until somebody takes it.
                link.invalidate()
                link.close()

    def _give_back(self, link: Link) -> None:
        was_lost = link.invalidated
        try:
            link.reset()
        except Exception:
            link.invalidate()
        if was_lost:
            # What ended this connection has ended the others as well; SQLAlchemy drops those in its own pool.
            self._end_elders()
        elif link.opened_at <= self._lost_at and not link.invalidated:
            link.invalidate()
        if len(self._free) < self._most and not link.invalidated and not is_used_up(self._engine):
            self._free.append(link)
        else:
            link.close()
