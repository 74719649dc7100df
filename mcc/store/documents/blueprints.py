"""Blueprints by digest: those that documents are pinned to, and those that were uploaded to the service."""

from collections import OrderedDict
from threading import Lock

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.documents.blueprint import Blueprint
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.errors import UnknownBlueprint
from mcc.store.database.tables import BLUEPRINTS
from mcc.store.rows.order_rows import text_json, text_of

PARSED = 32
"""Parsed blueprints that a process keeps."""

_ADD = sa.text(
    "INSERT INTO blueprints (digest, name, version, text_json, kept, created_at)"
    " VALUES (:digest, :name, :version, :text_json, :kept, :created_at) ON CONFLICT (digest) DO NOTHING"
)
_KEEP = (
    sa.update(BLUEPRINTS)
    .where(BLUEPRINTS.c.digest == sa.bindparam("wanted"))
    .values(kept=True, created_at=sa.bindparam("at"))
)
_TEXT = sa.select(BLUEPRINTS.c.text_json).where(BLUEPRINTS.c.digest == sa.bindparam("wanted"))
_NAMED = (
    sa.select(BLUEPRINTS.c.digest)
    .where(BLUEPRINTS.c.name == sa.bindparam("wanted"))
    .order_by(BLUEPRINTS.c.created_at.desc(), BLUEPRINTS.c.digest)
)
_KEPT = (
    sa.select(BLUEPRINTS.c.name, BLUEPRINTS.c.digest)
    .where(BLUEPRINTS.c.kept)
    .order_by(BLUEPRINTS.c.name, BLUEPRINTS.c.created_at.desc(), BLUEPRINTS.c.digest)
)


def keep_blueprint(connection: Connection, blueprint: Blueprint, at: int, *, kept: bool = False) -> None:
    """Store the blueprint's content. `kept`: it was uploaded; from now on its name finds it, before older ones."""
    row = {
        "digest": blueprint.digest,
        "name": blueprint.name,
        "version": blueprint.spec.version,
        "text_json": text_json(blueprint.text),
        "kept": kept,
        "created_at": at,
    }
    connection.execute(_ADD, row)
    if kept:
        connection.execute(_KEEP, {"wanted": blueprint.digest, "at": at})


class BlueprintStore:
    """Blueprints with a cache of parsed ones, whose contents never change. Safe for several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = Lock()
        self._parsed: OrderedDict[str, Blueprint] = OrderedDict()

    def keep(self, blueprint: Blueprint) -> None:
        """Store an uploaded blueprint: from now on `find` and `list` answer it."""
        at = micros(self._database.clock.now())
        self._database.write(lambda connection: keep_blueprint(connection, blueprint, at, kept=True), repeatable=True)
        self.remember(blueprint)

    def get(self, digest: str) -> Blueprint:
        """The blueprint with this whole digest. Raises `UnknownBlueprint`. Parsing may take seconds."""
        with self._lock:
            if (known := self._parsed.get(digest)) is not None:
                self._parsed.move_to_end(digest)
                return known
        text = self._database.read(lambda connection: connection.scalar(_TEXT, {"wanted": digest}))
        if text is None:
            raise UnknownBlueprint(f"there is no blueprint with the digest {digest[:80]}")
        return self.remember(Blueprint.parse(text_of(text) or "", digest))

    def remember(self, blueprint: Blueprint) -> Blueprint:
        """Add the blueprint to the cache."""
        with self._lock:
            self._parsed[blueprint.digest] = blueprint
            while len(self._parsed) > PARSED:
                self._parsed.popitem(last=False)
        return blueprint

    def find(self, name: str, digits: str | None = None) -> Blueprint | None:
        """The newest uploaded blueprint of this name. With the first `digits` of a digest, also one that only documents
        are pinned to. None: there is none.
        """
        statement = _NAMED.where(BLUEPRINTS.c.kept)
        if digits is not None:
            statement = _NAMED.where(BLUEPRINTS.c.digest.startswith(f"sha256:{digits}", autoescape=True))
        digest = self._database.read(lambda connection: connection.scalar(statement.limit(1), {"wanted": name}))
        return None if digest is None else self.get(digest)

    def list(self) -> tuple[Blueprint, ...]:
        """The uploaded blueprints, the newest of each name, sorted by name."""
        rows = self._database.read(lambda connection: connection.execute(_KEPT).all())
        newest: dict[str, str] = {}
        for row in rows:
            newest.setdefault(row.name, row.digest)
        return tuple(self.get(digest) for digest in newest.values())
