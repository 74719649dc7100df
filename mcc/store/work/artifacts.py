"""Files that people give to orders: stored in pieces as they arrive, read by drones, removed when nobody needs them."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.attachments import UNATTACHED_BYTES, UNATTACHED_HOURS, StoredFile
from mcc.contracts.ids import fresh_id
from mcc.store.database.artifact_tables import ARTIFACT_CHUNKS, ARTIFACT_USES, ARTIFACTS
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.errors import TooManyFiles, UnknownArtifact
from mcc.store.rows.artifact_rows import may_use
from mcc.store.rows.order_rows import text_json, text_of

_IS_USED = sa.select(ARTIFACT_USES.c.order_id).where(ARTIFACT_USES.c.artifact_id == ARTIFACTS.c.id).exists()
_UNATTACHED = sa.select(sa.func.coalesce(sa.func.sum(ARTIFACTS.c.bytes), 0)).where(
    ARTIFACTS.c.principal == sa.bindparam("of"), ~_IS_USED
)
_GROW = (
    sa.update(ARTIFACTS)
    .where(ARTIFACTS.c.id == sa.bindparam("wanted"), ARTIFACTS.c.digest == "")
    .values(bytes=ARTIFACTS.c.bytes + sa.bindparam("more"))
)
_END = (
    sa.update(ARTIFACTS)
    .where(ARTIFACTS.c.id == sa.bindparam("wanted"), ARTIFACTS.c.digest == "")
    .values(
        digest=sa.bindparam("digest_"),
        media_type=sa.bindparam("media_type_"),
        width=sa.bindparam("width_"),
        height=sa.bindparam("height_"),
    )
)
_WHOLE = sa.select(ARTIFACTS).where(ARTIFACTS.c.id == sa.bindparam("wanted"), ARTIFACTS.c.digest != "")
_CHUNK = sa.select(ARTIFACT_CHUNKS.c.data).where(
    ARTIFACT_CHUNKS.c.artifact_id == sa.bindparam("wanted"), ARTIFACT_CHUNKS.c.number == sa.bindparam("number")
)
_REMOVE = sa.delete(ARTIFACTS).where(ARTIFACTS.c.id == sa.bindparam("wanted"))
_OLD = (
    sa.select(ARTIFACTS.c.id, ARTIFACTS.c.bytes)
    .where(ARTIFACTS.c.created_at < sa.bindparam("before"), ~_IS_USED)
    .order_by(ARTIFACTS.c.created_at)
)
_LOCK = sa.select(ARTIFACTS.c.id).where(ARTIFACTS.c.id == sa.bindparam("wanted")).with_for_update()
_HAS = sa.select(ARTIFACT_USES.c.order_id).where(
    ARTIFACT_USES.c.artifact_id == sa.bindparam("wanted"), ARTIFACT_USES.c.order_id == sa.bindparam("of")
)
_USED = sa.select(ARTIFACT_USES.c.order_id).where(ARTIFACT_USES.c.artifact_id == sa.bindparam("wanted")).limit(1)


class ArtifactStore:
    """Every method blocks."""

    def __init__(self, database: Database, *, unattached_bytes: int = UNATTACHED_BYTES) -> None:
        """`unattached_bytes`: most bytes of a principal's files that no order has."""
        self._database = database
        self._unattached_bytes = unattached_bytes

    def begin(self, principal: str, name: str) -> str:
        """The id of a new file, whose bytes follow. Raises `TooManyFiles`."""
        artifact_id = fresh_id()
        row = {
            "id": artifact_id,
            "principal": principal,
            "name_json": text_json(name),
            "created_at": micros(self._database.clock.now()),
        }

        def work(connection: Connection) -> None:
            self._check_room(connection, principal, 0)
            connection.execute(sa.insert(ARTIFACTS), row)

        self._database.write(work)
        return artifact_id

    def append(self, artifact_id: str, principal: str, number: int, data: bytes) -> None:
        """Store the next piece of the file, which has this number, from 0. Raises `TooManyFiles`, `UnknownArtifact`
        where the file was removed meanwhile."""

        def work(connection: Connection) -> None:
            self._check_room(connection, principal, len(data))
            if not connection.execute(_GROW, {"wanted": artifact_id, "more": len(data)}).rowcount:
                raise _unknown(artifact_id)
            piece = {"artifact_id": artifact_id, "number": number, "data": data}
            connection.execute(sa.insert(ARTIFACT_CHUNKS), piece)

        self._database.write(work)

    def finish(self, artifact_id: str, digest: str, media_type: str, size: tuple[int, int] | None) -> StoredFile:
        """All bytes are stored: the file can be given to orders. Raises `UnknownArtifact`."""
        width, height = size or (None, None)
        ended = {
            "wanted": artifact_id,
            "digest_": digest,
            "media_type_": media_type,
            "width_": width,
            "height_": height,
        }

        def work(connection: Connection) -> StoredFile:
            connection.execute(_END, ended)
            return _file(_row(connection, artifact_id))

        return self._database.write(work, repeatable=True)

    def get(self, artifact_id: str, principal: str) -> StoredFile:
        """Raises `UnknownArtifact`, also for the file of another principal."""
        row = self._database.read(lambda connection: _row(connection, artifact_id))
        if not may_use(row.principal, principal):
            raise _unknown(artifact_id)
        return _file(row)

    def of_order(self, order_id: str, artifact_id: str) -> StoredFile:
        """A file that the order has. Raises `UnknownArtifact`, also where it was given to other orders alone."""

        def work(connection: Connection) -> StoredFile:
            if connection.execute(_HAS, {"wanted": artifact_id, "of": order_id}).scalar() is None:
                raise _unknown(artifact_id)
            return _file(_row(connection, artifact_id))

        return self._database.read(work)

    def pieces(self, artifact_id: str) -> Iterator[bytes]:
        """The bytes of a file in pieces, each read when it is asked for. Raises `UnknownArtifact` where the file was
        removed, also in between."""
        size = self._database.read(lambda connection: _row(connection, artifact_id)).bytes
        number = 0
        while size > 0:
            wanted = {"wanted": artifact_id, "number": number}
            data = self._database.read(lambda connection: connection.execute(_CHUNK, wanted).scalar())  # noqa: B023
            if data is None:
                raise _unknown(artifact_id)
            yield bytes(data)
            size, number = size - len(data), number + 1

    def remove(self, artifact_id: str, principal: str, *, anybodys: bool = False) -> None:
        """Remove a file, also from orders that have it. Raises `UnknownArtifact`, also for the file of another
        principal unless `anybodys`."""

        def work(connection: Connection) -> None:
            row = _row(connection, artifact_id)
            if not (anybodys or row.principal == principal):
                raise _unknown(artifact_id)
            connection.execute(_REMOVE, {"wanted": artifact_id})

        self._database.write(work)

    def give_up(self, artifact_id: str) -> None:
        """Remove a file that did not arrive whole."""
        self._database.write(lambda connection: connection.execute(_REMOVE, {"wanted": artifact_id}), repeatable=True)

    def _check_room(self, connection: Connection, principal: str, more: int) -> None:
        stored = int(connection.execute(_UNATTACHED, {"of": principal}).scalar_one())
        if stored + more > self._unattached_bytes:
            raise TooManyFiles(
                f"files that no order has take {stored:,} bytes, and at most {self._unattached_bytes:,} are kept: give "
                "them to orders, remove some, or wait until they are a day old"
            )


def _row(connection: Connection, artifact_id: str) -> sa.Row[tuple[object, ...]]:
    row = connection.execute(_WHOLE, {"wanted": artifact_id}).first()
    if row is None:
        raise _unknown(artifact_id)
    return row


def _file(row: sa.Row[tuple[object, ...]]) -> StoredFile:
    return StoredFile(
        id=row.id,
        digest=row.digest,
        name=text_of(row.name_json) or "",
        media_type=row.media_type,
        bytes=row.bytes,
        width=row.width,
        height=row.height,
    )


def _unknown(artifact_id: str) -> UnknownArtifact:
    return UnknownArtifact(f"there is no file {artifact_id}")


def unused(database: Database) -> Mapping[str, int]:
    """The bytes of each file that no order has and that is older than a day, by id."""
    before = {"before": micros(database.clock.now() - timedelta(hours=UNATTACHED_HOURS))}
    return {row.id: row.bytes for row in database.read(lambda connection: connection.execute(_OLD, before).all())}


def remove_unused(database: Database) -> Iterator[int]:
    """Remove files that no order has and that are older than a day; yields the bytes of each."""
    for artifact_id, size in unused(database).items():

        def work(connection: Connection, wanted: str = artifact_id) -> bool:
            # Two statements: on PostgreSQL the first one waits for an order that is being given the file, and only
            # one that begins after the wait sees that.
            connection.execute(_LOCK, {"wanted": wanted})
            if connection.execute(_USED, {"wanted": wanted}).scalar() is not None:
                return False
            return connection.execute(_REMOVE, {"wanted": wanted}).rowcount > 0

        if database.write(work, repeatable=True):
            yield size
