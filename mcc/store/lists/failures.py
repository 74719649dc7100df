"""Failures of the newest orders, gathered by their fingerprints."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.order import OrderOutcome
from mcc.contracts.order_bulk import Failure
from mcc.contracts.status import FailureReason
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.tables import ORDERS, among
from mcc.store.rows.facets import DETAIL_CHARACTERS
from mcc.store.rows.texts import parsed

NEWEST = 10_000
"""Failures that are looked at."""

ORDERS_SHOWN = 5
CAUSES_SHOWN = 200

_HAS_CAUSE = (ORDERS.c.fingerprint.is_not(None), ORDERS.c.finished_at >= sa.bindparam("since", type_=sa.BigInteger))
_RECENT = (
    sa.select(ORDERS.c.id, ORDERS.c.fingerprint, ORDERS.c.agent, ORDERS.c.finished_at)
    .where(*_HAS_CAUSE)
    .order_by(ORDERS.c.finished_at.desc(), ORDERS.c.id.desc())
    .limit(NEWEST)
)
_OUTCOMES = sa.select(ORDERS.c.id, ORDERS.c.outcome_json).where(among(ORDERS.c.id, "ids"))


class FailureStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def since(self, time: datetime) -> Sequence[Failure]:
        """The causes of the failures since then, of the newest `NEWEST`; the `CAUSES_SHOWN` most frequent ones."""

        def gathered(connection: Connection) -> Sequence[Failure]:
            causes: dict[str, list[sa.RowMapping]] = {}
            for row in connection.execute(_RECENT, {"since": micros(time)}).mappings():
                causes.setdefault(row["fingerprint"], []).append(row)
            newest = {rows[0]["id"]: rows for rows in causes.values()}
            # What failures say is read of one of each cause alone.
            outcomes = connection.execute(_OUTCOMES, {"ids": sorted(newest)}) if newest else ()
            failures = [_failure(newest[row.id], row.outcome_json) for row in outcomes]
            return sorted(failures, key=lambda failure: (-failure.count, failure.fingerprint))[:CAUSES_SHOWN]

        return self._database.read(gathered)


def _failure(rows: Sequence[sa.RowMapping], outcome_json: str) -> Failure:
    """One cause; its orders newest first."""
    outcome = OrderOutcome.model_validate(parsed(outcome_json))
    return Failure(
        fingerprint=rows[0]["fingerprint"],
        reason=None if outcome.reason is None else FailureReason(outcome.reason),
        agent=rows[0]["agent"],
        detail=None if outcome.detail is None else outcome.detail[:DETAIL_CHARACTERS],
        count=len(rows),
        first_at=moment(rows[-1]["finished_at"]),
        last_at=moment(rows[0]["finished_at"]),
        orders=tuple(row["id"] for row in rows[:ORDERS_SHOWN]),
    )
