"""Whose a thing is: the principal of an order, session or document, of the order of an item, of what a grant is for."""

from collections.abc import Collection, Mapping
from enum import StrEnum

import sqlalchemy as sa

from mcc.store.database.engine import Database
from mcc.store.database.tables import APPROVALS, DOCUMENTS, GRANTS, ORDERS, SCHEDULES, SESSIONS, among


class Thing(StrEnum):
    """What somebody owns. `ITEM`: of the inbox; `SESSION_OF_ITEM`: the session of its order. `TURN`: an order together
    with its session or document, as another turn of the same is placed."""

    ORDER = "order"
    TURN = "turn"
    SESSION = "session"
    DOCUMENT = "document"
    ITEM = "item"
    SESSION_OF_ITEM = "session_of_item"
    GRANT = "grant"
    SCHEDULE = "schedule"


NOBODY = ""
"""Whose the grant of a workspace is, as it decides for everybody; and a turn of one in the session of another."""


def _principals(table: sa.Table) -> sa.Select[tuple[str, str]]:
    return sa.select(table.c.id, table.c.principal.label("owner")).where(among(table.c.id, "wanted"))


# The row of a document's session tells who first worked on the document, not whose it is.
_OF_SESSION = sa.func.coalesce(DOCUMENTS.c.principal, SESSIONS.c.principal, ORDERS.c.principal)
_IN_SESSIONS = sa.outerjoin(ORDERS, SESSIONS, SESSIONS.c.id == ORDERS.c.session_id).outerjoin(
    DOCUMENTS, DOCUMENTS.c.id == ORDERS.c.session_id
)
_GRANTS = (
    sa.select(GRANTS.c.id, sa.func.coalesce(ORDERS.c.principal, SESSIONS.c.principal, NOBODY).label("owner"))
    .outerjoin(ORDERS, sa.and_(GRANTS.c.scope == "order", ORDERS.c.id == GRANTS.c.scope_id))
    .outerjoin(SESSIONS, sa.and_(GRANTS.c.scope == "session", SESSIONS.c.id == GRANTS.c.scope_id))
    .where(among(GRANTS.c.id, "wanted"))
)
_OWNERS: Mapping[Thing, sa.Select[tuple[str, str]]] = {
    Thing.ORDER: _principals(ORDERS),
    Thing.TURN: sa.select(
        ORDERS.c.id, sa.case((ORDERS.c.principal == _OF_SESSION, ORDERS.c.principal), else_=NOBODY).label("owner")
    )
    .select_from(_IN_SESSIONS)
    .where(among(ORDERS.c.id, "wanted")),
    Thing.SESSION: _principals(SESSIONS),
    Thing.DOCUMENT: _principals(DOCUMENTS),
    Thing.ITEM: sa.select(APPROVALS.c.id, ORDERS.c.principal.label("owner"))
    .join(ORDERS, ORDERS.c.id == APPROVALS.c.order_id)
    .where(among(APPROVALS.c.id, "wanted")),
    Thing.SESSION_OF_ITEM: sa.select(APPROVALS.c.id, _OF_SESSION.label("owner"))
    .select_from(_IN_SESSIONS.join(APPROVALS, APPROVALS.c.order_id == ORDERS.c.id))
    .where(among(APPROVALS.c.id, "wanted")),
    Thing.GRANT: _GRANTS,
    Thing.SCHEDULE: _principals(SCHEDULES),
}


class OwnerStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def owners(self, thing: Thing, ids: Collection[str]) -> Mapping[str, str]:
        """The owner of each of these; unknown ones are left out."""
        wanted = {"wanted": [each for each in ids if "\0" not in each]}
        rows = self._database.read(lambda connection: connection.execute(_OWNERS[thing], wanted).all())
        return {row.id: row.owner for row in rows}
