"""What people have begun to write about orders: one JSON object for each person and order."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.shape import to_json
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.tables import DRAFTS
from mcc.store.rows.texts import parsed
from mcc.store.rows.views import is_pruned

_KEEP = sa.text(
    "INSERT INTO drafts (order_id, principal, drafts_json, changed_at) VALUES (:of, :principal, :drafts, :at)"
    " ON CONFLICT (order_id, principal) DO UPDATE SET drafts_json = excluded.drafts_json,"
    " changed_at = excluded.changed_at"
)
_OF = (DRAFTS.c.order_id == sa.bindparam("of"), DRAFTS.c.principal == sa.bindparam("principal"))
_READ = sa.select(DRAFTS.c.drafts_json, DRAFTS.c.changed_at).where(*_OF)
_DROP = sa.delete(DRAFTS).where(*_OF)


class DraftStore:
    """Every method blocks, and raises `UnknownOrder`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, order_id: str, principal: str) -> tuple[Mapping[str, Any], datetime] | None:
        """The drafts and when they were changed; None where there are none."""

        def read(connection: Connection) -> Any:
            is_pruned(connection, order_id)
            return connection.execute(_READ, {"of": order_id, "principal": principal}).first()

        row = self._database.read(read)
        return None if row is None else (parsed(row.drafts_json), moment(row.changed_at))

    def keep(self, order_id: str, principal: str, drafts: Mapping[str, Any]) -> None:
        """Replace the drafts; empty ones are dropped."""
        at = micros(self._database.clock.now())

        def keep(connection: Connection) -> None:
            is_pruned(connection, order_id)
            wanted = {"of": order_id, "principal": principal}
            if drafts:
                connection.execute(_KEEP, {**wanted, "drafts": to_json(drafts).decode(), "at": at})
            else:
                connection.execute(_DROP, wanted)

        self._database.write(keep, repeatable=True)
