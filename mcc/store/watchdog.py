"""Connections on which nothing comes back are cut, so that whoever waits for them goes on."""

import socket
import threading
import time
from contextlib import suppress
from typing import Any

import structlog
from sqlalchemy import event
from sqlalchemy.engine import Engine

log = structlog.get_logger("mcc.store")

LOOK_SECONDS = 0.5
_UNWATCHED = "mcc_unwatched"


class Watchdog:
    """Cuts connections to a PostgreSQL server that have been in use for `seconds` without the end of a statement.

    The server ends long statements itself. But a link whose far end still confirms what it gets, a stuck pooler for
    one, lets neither the server's limits nor those of TCP tell, and libpq waits on it for ever.
    """

    def __init__(self, engine: Engine, seconds: float) -> None:
        self._seconds = seconds
        self._used: dict[int, tuple[float, Any]] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        event.listen(engine, "checkout", self._taken)
        event.listen(engine, "checkin", self._given_back)
        event.listen(engine, "invalidate", self._given_back)
        event.listen(engine, "close", self._given_back)
        event.listen(engine, "after_cursor_execute", self._moved)

    def close(self) -> None:
        self._stopped.set()

    def _taken(self, connection: Any, record: Any, _: object) -> None:
        if self._thread is None:
            self._start()
        self._used[id(connection)] = (time.monotonic() + self._seconds, connection)

    def _given_back(self, connection: Any, record: Any, *_: object) -> None:
        record.info.pop(_UNWATCHED, None)
        self._used.pop(id(connection), None)

    def _moved(self, connection: Any, *_: object) -> None:
        known = self._used.get(id(connection.connection.driver_connection))
        if known is None:
            return
        seconds = float("inf") if connection.info.get(_UNWATCHED) else self._seconds
        self._used[id(known[1])] = (time.monotonic() + seconds, known[1])

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="database watchdog", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            now = time.monotonic()
            for key, (deadline, connection) in list(self._used.items()):
                if now > deadline and self._used.pop(key, None) is not None:
                    log.warning("the database says nothing; the connection is cut", seconds=self._seconds)
                    _cut(connection)


def unwatched(connection: Any) -> None:
    """Until it is given back, the statements of this (SQLAlchemy) connection may take as long as they need."""
    connection.info[_UNWATCHED] = True


def _cut(connection: Any) -> None:
    """Let the far end seem gone; the thread that uses the connection finds out and gives it up."""
    with suppress(OSError, AttributeError):
        twin = socket.socket(fileno=socket.dup(connection.fileno()))
        with twin:
            twin.shutdown(socket.SHUT_RDWR)
