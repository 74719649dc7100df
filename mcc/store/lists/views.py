"""Saved views: filters under a name, of a principal or shared."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.order_bulk import MOST_VIEWS, View, ViewContent
from mcc.contracts.shape import to_json
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.errors import TooManyViews, UnknownView
from mcc.store.database.tables import VIEWS
from mcc.store.rows.order_rows import text_json, text_of
from mcc.store.rows.texts import parsed

_PUT = sa.text(
    "INSERT INTO views (principal, name_json, query_json, position, shared, updated_at)"
    " VALUES (:principal, :name_json, :query_json, :position, :shared, :updated_at)"
    " ON CONFLICT (principal, name_json) DO UPDATE SET query_json = excluded.query_json,"
    " position = excluded.position, shared = excluded.shared, updated_at = excluded.updated_at"
).bindparams(sa.bindparam("shared", type_=sa.Boolean()))
_SEEN_BY = (
    sa.select(VIEWS)
    .where(sa.or_(VIEWS.c.principal == sa.bindparam("viewer"), VIEWS.c.shared))
    .order_by(VIEWS.c.position, VIEWS.c.name_json, VIEWS.c.principal)
)
_OWN = sa.select(sa.func.count()).where(VIEWS.c.principal == sa.bindparam("owner"))
_DELETE = sa.delete(VIEWS).where(VIEWS.c.principal == sa.bindparam("owner"), VIEWS.c.name_json == sa.bindparam("of"))


class ViewStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, viewer: str) -> Sequence[View]:
        """The views of this principal and the shared ones, by their positions."""
        rows = self._database.read(lambda connection: connection.execute(_SEEN_BY, {"viewer": viewer}).mappings().all())
        return [_view(row) for row in rows]

    def get(self, viewer: str, name: str) -> View:
        """The view of this principal, else a shared one, of this name. Raises `UnknownView`."""
        named = [view for view in self.list(viewer) if view.name == name]
        for view in sorted(named, key=lambda view: view.owner != viewer):
            return view
        raise UnknownView(f"there is no view {name[:100]!r}")

    def put(self, owner: str, name: str, content: ViewContent) -> View:
        """Keep a view under this name, in place of the one that has it. Raises `TooManyViews`."""
        at = self._database.clock.now()
        row = {
            "principal": owner,
            "name_json": text_json(name),
            "query_json": to_json(content.query).decode(),
            "position": content.position,
            "shared": content.shared,
            "updated_at": micros(at),
        }

        def keep(connection: Connection) -> None:
            connection.execute(_PUT, row)
            if (connection.scalar(_OWN, {"owner": owner}) or 0) > MOST_VIEWS:
                raise TooManyViews(f"{owner} has {MOST_VIEWS} views, which is as many as are kept: delete one")

        self._database.write(keep, repeatable=True)
        return View(**dict(content), name=name, owner=owner, updated_at=at)

    def delete(self, owner: str, name: str) -> None:
        """Raises `UnknownView`."""
        gone = {"owner": owner, "of": text_json(name)}
        if not self._database.write(lambda connection: connection.execute(_DELETE, gone).rowcount):
            raise UnknownView(f"there is no view {name[:100]!r} of {owner}")


def _view(row: sa.RowMapping) -> View:
    return View(
        name=text_of(row["name_json"]) or "",
        owner=row["principal"],
        query=parsed(row["query_json"]),
        position=row["position"],
        shared=row["shared"],
        updated_at=moment(row["updated_at"]),
    )
