"""Which sessions a list shows: by archive, title and part of their ids."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import is_identifier
from mcc.store.database.errors import BadCursor
from mcc.store.database.tables import SESSIONS
from mcc.store.rows.actors import token_name
from mcc.store.rows.order_rows import text_of
from mcc.store.rows.session_rows import IS_THERE
from mcc.store.work.selection import CHUNK, SEARCHED


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """`archived`: those that are, or are not; None: any. `text`: in their titles, in upper or lower case. `part`: at
    an end of their ids. `cursor`: only ids below this one."""

    archived: bool | None = None
    text: str | None = None
    part: str | None = None
    cursor: str | None = None


def search_sessions(
    connection: Connection, wanted: SessionFilter, limit: int
) -> tuple[Sequence[sa.RowMapping], str | None]:
    """The newest sessions that match, at most `limit`, and the cursor from which to go on; None: no more match. Raises
    `BadCursor`."""
    if wanted.cursor is not None and not is_identifier(wanted.cursor):
        raise BadCursor("this cursor is not one that a page of sessions gave; begin without one")
    if wanted.text is None:
        rows = connection.execute(_newest(wanted, wanted.cursor, limit + 1)).mappings().all()
        return rows[:limit], rows[limit - 1]["id"] if len(rows) > limit else None
    return _titled(connection, wanted, wanted.text.casefold(), limit)


def _titled(
    connection: Connection, wanted: SessionFilter, text: str, limit: int
) -> tuple[Sequence[sa.RowMapping], str | None]:
    # Titles are compared here: the databases differ in what they take for the same letter.
    matches: list[sa.RowMapping] = []
    cursor = wanted.cursor
    for _ in range(0, SEARCHED, CHUNK):
        rows = connection.execute(_newest(wanted, cursor, CHUNK)).mappings().all()
        for row in rows:
            if text in (text_of(row["title_json"]) or "").casefold():
                matches.append(row)
            if len(matches) == limit:
                return matches, row["id"]
        if len(rows) < CHUNK:
            return matches, None
        cursor = rows[-1]["id"]
    return matches, cursor


def _newest(wanted: SessionFilter, cursor: str | None, most: int) -> sa.Select[tuple[object, ...]]:
    statement = sa.select(SESSIONS, token_name(SESSIONS)).where(IS_THERE).order_by(SESSIONS.c.id.desc()).limit(most)
    if cursor is not None:
        statement = statement.where(SESSIONS.c.id < cursor)
    if wanted.archived is not None:
        is_archived = SESSIONS.c.archived_at.is_not(None)
        statement = statement.where(is_archived if wanted.archived else ~is_archived)
    if wanted.part is not None:
        ends = (
            SESSIONS.c.id.startswith(wanted.part, autoescape=True),
            SESSIONS.c.id.endswith(wanted.part, autoescape=True),
        )
        statement = statement.where(sa.or_(*ends))
    return statement
