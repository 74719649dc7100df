"""The uses of texts that versions before schema 0008 stored, found in the rows that name those texts."""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.journal import AgentStarted, ToolFinished, TranscriptCompacted
from mcc.contracts.model_facts import ModelReplied
from mcc.rules.patterns import Pattern
from mcc.store.audit import add_note
from mcc.store.engine import Database
from mcc.store.rows import USE
from mcc.store.tables import AUDIT, BLOBS, DRONES, JOURNAL, RECORDS, among
from mcc.store.texts import digests
from mcc.store.values import KEEPER

ADOPTED = "texts.adopted"
"""Kind of the audit note which says that this search was done."""

ROWS = 500
_DIGEST = Pattern(r'"([0-9a-f]{64})"')
_NAMING = tuple(fact.kind for fact in (AgentStarted, ModelReplied, ToolFinished, TranscriptCompacted))
_IS_ADOPTED = sa.select(AUDIT.c.id).where(AUDIT.c.kind == ADOPTED).limit(1)
_ENTRIES = (
    sa.select(
        JOURNAL.c.order_id.label("owner"),
        JOURNAL.c.seq.label("place"),
        sa.case((JOURNAL.c.kind.in_(_NAMING), JOURNAL.c.data_json), else_="").label("document"),
        JOURNAL.c.large_json,
    )
    .where(
        sa.tuple_(JOURNAL.c.order_id, JOURNAL.c.seq) > sa.tuple_(sa.bindparam("owner"), sa.bindparam("place")),
        sa.or_(JOURNAL.c.large_json.is_not(None), JOURNAL.c.kind.in_(_NAMING)),
    )
    .order_by(JOURNAL.c.order_id, JOURNAL.c.seq)
    .limit(ROWS)
)
_RECORDS = (
    sa.select(
        RECORDS.c.order_id.label("owner"),
        RECORDS.c.position.label("place"),
        sa.literal("").label("document"),
        RECORDS.c.large_json,
    )
    .where(
        sa.tuple_(RECORDS.c.order_id, RECORDS.c.position) > sa.tuple_(sa.bindparam("owner"), sa.bindparam("place")),
        RECORDS.c.large_json.is_not(None),
    )
    .order_by(RECORDS.c.order_id, RECORDS.c.position)
    .limit(ROWS)
)
_DRONES = (
    sa.select(
        DRONES.c.incarnation.label("owner"),
        sa.literal(0).label("place"),
        DRONES.c.registration_json.label("document"),
        sa.literal(None).label("large_json"),
    )
    .where(DRONES.c.incarnation > sa.bindparam("owner"))
    .order_by(DRONES.c.incarnation)
    .limit(ROWS)
)
_KNOWN = sa.select(BLOBS.c.digest).where(among(BLOBS.c.digest, "digests"))


def named_in(document: str) -> Iterator[str]:
    """Strings in this JSON that look like the digest of a stored text."""
    return (found[1] or "" for found in _DIGEST.finditer(document))


def record_old_uses(database: Database) -> None:
    """Record the uses of texts that were written when uses were not recorded; does nothing after the first time.

    Each transaction handles `ROWS` rows, so that no lock is held for long. Every text written since has its use
    recorded in the same transaction.
    """
    if database.read(lambda connection: connection.execute(_IS_ADOPTED).first()) is not None:
        return
    for statement in (_ENTRIES, _RECORDS, _DRONES):
        at: dict[str, Any] | None = {"owner": "", "place": 0}
        while at is not None:
            at = database.write(lambda connection: _adopted(connection, statement, at), repeatable=True)  # noqa: B023

    def note(connection: Connection) -> None:
        add_note(connection, database.clock.now(), ADOPTED, principal=KEEPER, order_id=None, detail={})

    database.write(note)


def _adopted(connection: Connection, statement: sa.Select[Any], after: dict[str, Any] | None) -> dict[str, Any] | None:
    """Record the uses in the next rows after the place `after`; answers the place to continue from, None at the end."""
    parameters = statement.compile().params
    rows = connection.execute(statement, {name: value for name, value in (after or {}).items() if name in parameters})
    found = rows.all()
    uses = [(digest, row.owner) for row in found for digest in (*digests([row.large_json]), *named_in(row.document))]
    candidates = sorted({digest for digest, _ in uses})
    known = set(connection.execute(_KNOWN, {"digests": candidates}).scalars()) if candidates else set()
    added = [{"digest": digest, "owner": owner} for digest, owner in sorted(set(uses)) if digest in known]
    if added:
        connection.execute(USE, added)
    return {"owner": found[-1].owner, "place": found[-1].place} if len(found) == ROWS else None
