"""This room is for texts kept once under their SHA-256."""

from mcc.store.clock import micros
from mcc.store.large import text_digest
from mcc.store.sql.engine import Database
from mcc.store.sql.rows import keep_blobs, kept_blobs


class SqlTexts:
    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, text: str) -> str:
        digest, at = text_digest(text), micros(self._database.clock.now())
        self._database.write(lambda connection: keep_blobs(connection, {digest: text}, at), repeatable=True)
        return digest

    def kept(self, digest: str) -> str:
        if not digest.isalnum():
            raise KeyError(digest)
        return self._database.read(lambda connection: kept_blobs(connection, {digest}))[digest]
