"""Idempotency keys of requests about documents, with the stored answers."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.shape import digest, to_json
from mcc.store.database.clock import micros
from mcc.store.database.errors import IdempotencyConflict
from mcc.store.database.tables import DOCUMENT_KEYS
from mcc.store.rows.texts import parsed, text_digest
from mcc.store.rows.transitions import IDEMPOTENCY_HOURS

_KEY = sa.select(DOCUMENT_KEYS).where(
    DOCUMENT_KEYS.c.principal == sa.bindparam("of"), DOCUMENT_KEYS.c.key_digest == sa.bindparam("wanted")
)
_FORGET = sa.delete(DOCUMENT_KEYS).where(DOCUMENT_KEYS.c.created_at < sa.bindparam("before"))
_ADD = sa.insert(DOCUMENT_KEYS)


def forget_requests(connection: Connection, at: datetime) -> None:
    """Remove requests that are older than `IDEMPOTENCY_HOURS`."""
    connection.execute(_FORGET, {"before": micros(at - timedelta(hours=IDEMPOTENCY_HOURS))})


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """A request with an idempotency key: its principal, and the digests of key and body."""

    principal: str
    key_digest: str
    body_digest: str
    at: datetime

    @classmethod
    def of(cls, principal: str, key: str | None, body: Any, at: datetime) -> "DocumentRequest | None":
        """None without a key."""
        return None if key is None else cls(principal, text_digest(key), digest(body), at)

    def answered(self, connection: Connection) -> Any:
        """The answer to the first request with this key; None when this is the first. Raises `IdempotencyConflict`."""
        forget_requests(connection, self.at)
        row = connection.execute(_KEY, {"of": self.principal, "wanted": self.key_digest}).first()
        if row is None:
            return None
        if row.body_digest != self.body_digest:
            raise IdempotencyConflict(
                "this Idempotency-Key was used with another body: take a new key, or send the same body again"
            )
        return parsed(row.answer_json)

    def keep(self, connection: Connection, document_id: str, answer: object) -> None:
        """Store the answer for later requests with this key."""
        row = {
            "principal": self.principal,
            "key_digest": self.key_digest,
            "body_digest": self.body_digest,
            "document_id": document_id,
            "answer_json": to_json(answer).decode(),
            "created_at": micros(self.at),
        }
        connection.execute(_ADD, row)
