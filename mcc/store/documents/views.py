"""Pages of documents and of their histories."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.documents import Counts, DocumentSummary, HistoryItem, PinnedBlueprint
from mcc.contracts.ids import is_identifier
from mcc.contracts.status import UNFINISHED
from mcc.documents.views import history_item
from mcc.store.database.clock import moment
from mcc.store.database.errors import BadCursor
from mcc.store.database.tables import BLUEPRINTS, DOCUMENT_HISTORY, DOCUMENTS, STATE, among
from mcc.store.documents.rows import step_of, unknown_document
from mcc.store.rows.actors import token_name, who
from mcc.store.rows.order_rows import text_of
from mcc.store.rows.values import Page
from mcc.store.rows.views import has_status

_SUMMARY = (
    sa.select(DOCUMENTS, token_name(DOCUMENTS), BLUEPRINTS.c.version.label("blueprint_version"))
    .join(BLUEPRINTS, BLUEPRINTS.c.digest == DOCUMENTS.c.blueprint)
    .where(DOCUMENTS.c.deleted_at.is_(None))
)
_ONE = _SUMMARY.where(DOCUMENTS.c.id == sa.bindparam("wanted"))
_GENERATED_BY = (
    sa.select(STATE.c.session_id, STATE.c.order_id)
    .where(among(STATE.c.session_id, "ids"), has_status(STATE.c.status, UNFINISHED))
    .order_by(STATE.c.session_seq.desc())
)
_COUNTS = tuple(Counts.model_fields)


def summaries(
    connection: Connection,
    *,
    status: str | None,
    blueprint: str | None,
    part: str | None,
    cursor: str | None,
    limit: int,
) -> Page[DocumentSummary]:
    """Newest first. `blueprint`: a name, or `NAME:DIGITS` with the first digits of a digest; `part`: documents whose id
    begins or ends with it. Raises `BadCursor`."""
    if cursor is not None and not is_identifier(cursor):
        raise BadCursor("this cursor is not one that a page of documents gave; begin without one")
    statement = _SUMMARY.order_by(DOCUMENTS.c.id.desc()).limit(limit + 1)
    if status is not None:
        statement = statement.where(DOCUMENTS.c.status == status)
    if blueprint is not None:
        name, _, digits = blueprint.partition(":")
        statement = statement.where(DOCUMENTS.c.name == name)
        if digits:
            statement = statement.where(DOCUMENTS.c.blueprint.startswith(f"sha256:{digits}", autoescape=True))
    if part is not None:
        at_an_end = (DOCUMENTS.c.id.startswith(part, autoescape=True), DOCUMENTS.c.id.endswith(part, autoescape=True))
        statement = statement.where(sa.or_(*at_an_end))
    if cursor is not None:
        statement = statement.where(DOCUMENTS.c.id < cursor)
    rows = connection.execute(statement).mappings().all()
    items = _summaries(connection, rows[:limit])
    return Page(items, items[-1].id if len(rows) > limit else None)


def summary(connection: Connection, document_id: str) -> DocumentSummary:
    """Raises `UnknownDocument`."""
    rows = connection.execute(_ONE, {"wanted": document_id}).mappings().all() if is_identifier(document_id) else ()
    if not rows:
        raise unknown_document(document_id)
    return _summaries(connection, rows)[0]


def _summaries(connection: Connection, rows: Sequence[sa.RowMapping]) -> list[DocumentSummary]:
    ids = [row["id"] for row in rows]
    orders = connection.execute(_GENERATED_BY, {"ids": ids}).all() if ids else ()
    # The rows are sorted by turn, descending: the first unfinished order, which runs first, overwrites the others.
    generated_by = {row.session_id: row.order_id for row in orders}
    return [
        DocumentSummary(
            id=row["id"],
            title=text_of(row["title_json"]) or "",
            blueprint=PinnedBlueprint(name=row["name"], version=row["blueprint_version"], digest=row["blueprint"]),
            version=row["version"],
            status=row["status"],
            counts=Counts(**{name: row[name] for name in _COUNTS}),
            order_id=generated_by.get(row["id"]),
            created_at=moment(row["created_at"]),
            updated_at=moment(row["updated_at"]),
            **who(row),
        )
        for row in rows
    ]


def history_page(connection: Connection, document_id: str, cursor: str | None, limit: int) -> Page[HistoryItem]:
    """Newest first; the commands of one version in reverse order. Raises `BadCursor`."""
    place = _place(cursor)
    statement = (
        sa.select(DOCUMENT_HISTORY)
        .where(DOCUMENT_HISTORY.c.document_id == document_id)
        .order_by(DOCUMENT_HISTORY.c.version.desc(), DOCUMENT_HISTORY.c.n.desc())
        .limit(limit + 1)
    )
    if place is not None:
        at = sa.tuple_(DOCUMENT_HISTORY.c.version, DOCUMENT_HISTORY.c.n)
        statement = statement.where(at < sa.tuple_(sa.literal(place[0]), sa.literal(place[1])))
    rows = connection.execute(statement).all()
    last = rows[limit - 1] if len(rows) > limit else None
    return Page([history_item(step_of(row)) for row in rows[:limit]], f"{last.version}-{last.n}" if last else None)


def _place(cursor: str | None) -> tuple[int, int] | None:
    if cursor is None:
        return None
    version, _, n = cursor.partition("-")
    if not (version.isdecimal() and n.isdecimal() and len(cursor) <= 20):
        raise BadCursor("this cursor is not one that a page of a history gave; begin without one")
    return int(version), int(n)
