"""The store of one workspace's checkpoints on this host: contents by digest, trees, and the checkpoints of each order.

One SQLite file for each workspace: a checkpoint is stored completely or not at all, whatever is killed meanwhile, and
all checkpoints share one copy of each content. Only the drones of this host read it.
"""

import os
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drone.checkpoints.tree import EMPTY, TreeEntry, digest_of, packed, unpacked
from mcc.configuration.places import make_private_directory, private_opener

PIECE = 4 << 20
"""Bytes of content in one row."""

BUSY_SECONDS = 60.0
_UNUSABLE = "The checkpoints of this workspace cannot be used: {}."

_SCHEMA = """
CREATE TABLE IF NOT EXISTS contents (
    digest BLOB NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (digest, number)
);
CREATE TABLE IF NOT EXISTS trees (digest BLOB PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS seen (path BLOB PRIMARY KEY, stamp BLOB NOT NULL, digest BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS calls (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, order_id TEXT NOT NULL, call_id TEXT NOT NULL,
    at REAL NOT NULL, before BLOB NOT NULL, after BLOB, closed INTEGER, paths BLOB, seq INTEGER,
    UNIQUE (order_id, call_id)
);
CREATE INDEX IF NOT EXISTS calls_of_an_order ON calls (order_id, number);
"""


class StoreBroken(Exception):
    """The checkpoints of a workspace cannot be read or written; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of one tool call: the tree `before` it, and the tree `after` it, None while the call runs.

    `number` counts the calls of the workspace in the order in which they began, `closed` in the order in which they
    ended. `paths`: the paths that the call may have changed, None = anything. `seq`: the journal entry that tells of
    the checkpoint, None where there is none.
    """

    number: int
    id: str
    order_id: str
    call_id: str
    before: bytes
    after: bytes | None
    closed: int | None
    paths: tuple[bytes, ...] | None
    seq: int | None


class CheckpointStore:
    """The store in the file at `path`, created when first opened. Every method blocks. Safe for many threads and
    processes.

    Methods raise `StoreBroken`. `changing` is one transaction; reads outside of one see what is committed.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> "Iterator[CheckpointStore]":
        """Open the store, for use inside the block. Raises `StoreBroken`."""
        try:
            make_private_directory(path.parent)
            # Created here, because SQLite would create it with the rights that the umask leaves.
            os.close(private_opener(str(path), os.O_RDWR | os.O_CREAT))
        except OSError as error:
            raise StoreBroken(_UNUSABLE.format(error)) from error
        try:
            with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
                _prepare(connection)
                yield cls(path, connection)
        except sqlite3.Error as error:
            raise StoreBroken(_UNUSABLE.format(error)) from error

    @contextmanager
    def changing(self) -> Iterator[None]:
        """A transaction: all writes inside are committed together, or none when the block raises."""
        # With the lock for writing: a transaction that only asks for it at its first write can fail there.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def has(self, digest: bytes) -> bool:
        found = self._connection.execute("SELECT 1 FROM contents WHERE digest = ? LIMIT 1", (digest,)).fetchone()
        return found is not None

    def keep(self, digest: bytes, pieces: Iterable[bytes]) -> None:
        """Store a content, given in pieces, under its digest."""
        rows = ((digest, number, piece) for number, piece in enumerate(pieces))
        self._connection.executemany("INSERT OR IGNORE INTO contents VALUES (?, ?, ?)", rows)

    def drop(self, digest: bytes) -> None:
        self._connection.execute("DELETE FROM contents WHERE digest = ?", (digest,))

    def pieces(self, digest: bytes) -> Iterator[bytes]:
        """The content with this digest, in pieces. Raises KeyError where it is not kept."""
        rows = self._connection.execute("SELECT data FROM contents WHERE digest = ? ORDER BY number", (digest,))
        first = rows.fetchone()
        if first is None:
            raise KeyError(digest.hex())
        yield first[0]
        for row in rows:
            yield row[0]

    def content(self, digest: bytes, most: int) -> bytes | None:
        """The whole content with this digest; None where it is not kept or has more than `most` bytes."""
        try:
            data = b""
            for piece in self.pieces(digest):
                data += piece
                if len(data) > most:
                    return None
            return data
        except KeyError:
            return None

    def keep_tree(self, digest: bytes, data: bytes) -> None:
        self._connection.execute("INSERT OR IGNORE INTO trees VALUES (?, ?)", (digest, data))

    def keep_listing(self, listing: dict[bytes, TreeEntry]) -> bytes:
        data = packed(listing)
        self.keep_tree(digest := digest_of(data), data)
        return digest

    def tree(self, digest: bytes) -> dict[bytes, TreeEntry]:
        """The listing with this digest. Raises `StoreBroken` where it is not kept."""
        if digest == EMPTY:
            return {}
        row = self._connection.execute("SELECT data FROM trees WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise StoreBroken("A tree of a checkpoint is missing from the store.")
        return unpacked(row[0])

    def seen(self) -> dict[bytes, tuple[bytes, bytes]]:
        """Path of each file of the last scan → its stamp and digest then."""
        return {path: (stamp, digest) for path, stamp, digest in self._connection.execute("SELECT * FROM seen")}

    def replace_seen(self, now: dict[bytes, tuple[bytes, bytes]], before: dict[bytes, tuple[bytes, bytes]]) -> None:
        gone = [(path,) for path in before.keys() - now.keys()]
        self._connection.executemany("DELETE FROM seen WHERE path = ?", gone)
        rows = [(path, *what) for path, what in now.items() if before.get(path) != what]
        self._connection.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", rows)

    def begin(self, checkpoint: Checkpoint) -> None:
        """Store a new checkpoint; the store assigns `number` and, later, `closed`."""
        paths = None if checkpoint.paths is None else b"\0".join(checkpoint.paths)
        self._connection.execute(
            "INSERT INTO calls (id, order_id, call_id, at, before, paths) VALUES (?, ?, ?, ?, ?, ?)",
            (checkpoint.id, checkpoint.order_id, checkpoint.call_id, time.time(), checkpoint.before, paths),
        )

    def note_entry(self, checkpoint_id: str, seq: int) -> None:
        """Record the number of the journal entry that tells of a checkpoint."""
        self._connection.execute("UPDATE calls SET seq = ? WHERE id = ?", (seq, checkpoint_id))

    def close_call(self, checkpoint_id: str, after: bytes) -> None:
        """Close a checkpoint: its call is over and left this tree. May be repeated."""
        self._connection.execute(
            "UPDATE calls SET after = ?, closed = (SELECT coalesce(max(closed), 0) + 1 FROM calls) WHERE id = ?",
            (after, checkpoint_id),
        )

    def checkpoints(self, order_id: str) -> list[Checkpoint]:
        """The checkpoints of an order, in the order in which its calls began."""
        rows = self._connection.execute(
            "SELECT number, id, order_id, call_id, before, after, closed, paths, seq FROM calls WHERE order_id = ? "
            "ORDER BY number",
            (order_id,),
        )
        return [_checkpoint(row) for row in rows]

    def unfinished(self) -> list[Checkpoint]:
        """The checkpoints of all orders whose call is not over, in the order in which the calls began."""
        rows = self._connection.execute(
            "SELECT number, id, order_id, call_id, before, after, closed, paths, seq FROM calls WHERE after IS NULL "
            "ORDER BY number"
        )
        return [_checkpoint(row) for row in rows]

    def orders_before(self, when: float) -> list[str]:
        """Orders whose last call began before `when` (seconds since the epoch)."""
        rows = self._connection.execute("SELECT order_id FROM calls GROUP BY order_id HAVING max(at) < ?", (when,))
        return [order_id for (order_id,) in rows]

    def forget(self, order_ids: Iterable[str]) -> None:
        """Delete the checkpoints of these orders, which cannot be reverted any more."""
        self._connection.executemany("DELETE FROM calls WHERE order_id = ?", [(one,) for one in order_ids])

    def roots(self) -> list[bytes]:
        """The digests of all trees that are the `before` or `after` of a checkpoint."""
        rows = self._connection.execute("SELECT before FROM calls UNION SELECT after FROM calls WHERE after NOTNULL")
        return [digest for (digest,) in rows]

    def remove_except(self, trees: Collection[bytes], contents: Collection[bytes]) -> int:
        """Delete all trees and contents except these; answers how many contents were deleted."""
        for table, needed in (("trees", trees), ("contents", contents)):
            known = {digest for (digest,) in self._connection.execute(f"SELECT DISTINCT digest FROM {table}")}
            gone = [(digest,) for digest in known.difference(needed)]
            self._connection.executemany(f"DELETE FROM {table} WHERE digest = ?", gone)
        self._connection.execute("DELETE FROM seen WHERE digest NOT IN (SELECT digest FROM contents)")
        return len(gone)  # of `contents`, the last table

    def shrink(self) -> None:
        """Give the space of deleted rows back to the file system."""
        # `fetchall` runs the statements to their end: each step of the first one frees a page.
        self._connection.execute("PRAGMA incremental_vacuum").fetchall()
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _checkpoint(row: Any) -> Checkpoint:
    number, id, order_id, call_id, before, after, closed, paths, seq = row
    known = None if paths is None else tuple(filter(None, paths.split(b"\0")))
    return Checkpoint(number, id, order_id, call_id, before, after, closed, known, seq)


def _prepare(connection: sqlite3.Connection) -> None:
    # auto_vacuum stands first: it takes effect only in a database that is still empty.
    for pragma in ("auto_vacuum = INCREMENTAL", "journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'calls'").fetchone():
        connection.executescript(_SCHEMA)
