"""A clock and a store for tests.

The store is the product's own SQL on a copy of an SQLite file that was migrated once (docs/decisions/15).
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

from mcc.store.clock import Clock
from mcc.store.migrate import upgrade
from mcc.store.store import Store, open_store


class FakeClock:
    """Implements `mcc.store.clock.Clock`; `advance` moves wall clock and uptime alike."""

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
        """Somebody sets the wall clock; uptime does not care."""
        self._now -= timedelta(seconds=seconds)

    def reboot(self) -> None:
        self._uptime = 1.0
        self._boots += 1


def temporary_store(clock: Clock | None = None, *, max_queued: int | None = None) -> Store:
    """An empty store with a database file of its own, which is removed once nobody holds the store any more.

    A store that is closed can be read again, as other ones can: what closes it need not be the last that looks at it.
    `clock` None: the real one. `max_queued`: as of `open_store`.
    """
    path = migrated_copy(_folder() / f"{uuid4()}.db")
    store = open_store(f"sqlite:///{path}", clock=clock, max_queued=max_queued)
    for engine in (store.database.engine, store.beats.engine):
        event.listen(engine, "connect", _never_flush)
    weakref.finalize(store.database, _remove, path)
    return store


def migrated_copy(path: Path) -> Path:
    """Make an empty database of this version's schema at `path`, in about a millisecond; answers `path`."""
    shutil.copyfile(_template(), path)
    return path


@cache
def _template() -> Path:
    path = _folder() / "template.db"
    upgrade(f"sqlite:///{path}")
    return path


@cache
def _folder() -> Path:
    """The process' own, gone when it ends."""
    folder = Path(mkdtemp(prefix="mcc-stores-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _never_flush(raw: sqlite3.Connection, _: object) -> None:
    # Safe here alone: no test outlives a crash of the machine, which is all that flushing is for.
    raw.execute("PRAGMA synchronous=OFF")


def _remove(path: Path) -> None:
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        file.unlink(missing_ok=True)
