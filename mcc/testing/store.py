"""A clock and a store for tests.

The store runs the product's own SQL on a copy of an SQLite file that was migrated once (docs/decisions/15).
"""

import atexit
import shutil
import sqlite3
import weakref
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from uuid import uuid4

from sqlalchemy import event

from mcc.store.database.clock import Clock
from mcc.store.database.migrate import upgrade
from mcc.store.store import Store, open_store


class FakeClock:
    """A `mcc.store.database.clock.Clock` that tests move; `advance` moves wall clock and uptime together."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self._now = start
        self._uptime = 1_000.0
        self._boots = 1

    def now(self) -> datetime:
        return self._now

    def uptime(self) -> float:
        return self._uptime

    def boot(self) -> str:
        return f"boot-{self._boots}"

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._uptime += seconds

    def turn_back(self, seconds: float) -> None:
        """Set the wall clock back; the uptime does not change."""
        self._now -= timedelta(seconds=seconds)

    def reboot(self) -> None:
        self._uptime = 1.0
        self._boots += 1


def temporary_store(clock: Clock | None = None, *, max_queued: int | None = None) -> Store:
    """An empty store with a database file of its own, which is deleted when the store is garbage-collected.

    The file outlives `close`, because any store reopens its database when used after closing. `clock` None is the real
    clock; `max_queued` is that of `open_store`.
    """
    path = migrated_copy(_folder() / f"{uuid4()}.db")
    store = open_store(f"sqlite:///{path}", clock=clock, max_queued=max_queued)
    for engine in (store.database.engine, store.beats.engine):
        event.listen(engine, "connect", _never_flush)
    weakref.finalize(store.database, _remove, path)
    return store


def migrated_copy(path: Path) -> Path:
    """Create an empty database with the current schema at `path`, in about a millisecond. Answers `path`."""
    shutil.copyfile(_template(), path)
    return path


@cache
def _template() -> Path:
    path = _folder() / "template.db"
    upgrade(f"sqlite:///{path}")
    return path


@cache
def _folder() -> Path:
    """A temporary directory of this process, deleted at exit."""
    folder = Path(mkdtemp(prefix="mcc-stores-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _never_flush(raw: sqlite3.Connection, _: object) -> None:
    # Flushing protects against a crash of the machine only, which no test survives.
    raw.execute("PRAGMA synchronous=OFF")


def _remove(path: Path) -> None:
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        file.unlink(missing_ok=True)
