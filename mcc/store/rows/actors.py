"""Who did something, as rows tell it."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from mcc.contracts.callers import Actor
from mcc.store.database.people_tables import API_TOKENS
from mcc.store.database.tables import ORDERS
from mcc.store.rows.order_rows import text_of

WHO_PLACED = (ORDERS.c.principal, ORDERS.c.door, ORDERS.c.token_id)
"""What `actor_of` reads, of an order."""


def actor_of(row: Mapping[str, Any] | sa.RowMapping) -> Actor:
    """Without the name of its token."""
    return Actor(row["principal"], row["door"], row["token_id"])


def who(row: Mapping[str, Any] | sa.RowMapping) -> dict[str, Any]:
    """The fields of answers that say who did it, of a row that was selected with `token_name`."""
    return {"principal": row["principal"], "door": row["door"], "token": text_of(row["token_json"])}


def token_name(table: sa.Table) -> sa.Label[str | None]:
    """The column `token_json`: the name of the token by which a row of this table came; None: by none."""
    named = sa.select(API_TOKENS.c.name_json).where(API_TOKENS.c.id == table.c.token_id)
    return named.scalar_subquery().label("token_json")
