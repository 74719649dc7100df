"""Idempotency keys that count, and those that are forgotten because they are old."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.store.database.clock import micros
from mcc.store.database.tables import KEYS, among
from mcc.store.rows.transitions import IDEMPOTENCY_HOURS

KnownKeys: TypeAlias = dict[str, Mapping[str, Any]]
"""Rows of known idempotency keys, by key digest."""

USED_OTHERWISE = "this Idempotency-Key was used with another body: take a new key, or send the same body again"
_KNOWN_KEYS = sa.select(KEYS).where(KEYS.c.principal == sa.bindparam("of"), among(KEYS.c.key_digest, "wanted"))
FORGOTTEN_PER_KEY = 10
"""Old keys removed per new one. The number is bounded because a hundred thousand keys may expire at one moment."""

_IS_OLD = KEYS.c.created_at < sa.bindparam("before")
_OLD_KEYS = sa.select(KEYS).where(_IS_OLD).order_by(KEYS.c.created_at).limit(sa.bindparam("most"))
_FORGET_KEY = sa.delete(KEYS).where(
    KEYS.c.principal == sa.bindparam("of"), KEYS.c.key_digest == sa.bindparam("old"), _IS_OLD
)


def known_keys(connection: Connection, principal: str, wanted: Sequence[str], at: datetime) -> KnownKeys:
    """Those of these keys of `principal` that count at `at`, by digest; some of the keys that no longer do are
    forgotten."""
    oldest = micros(at - timedelta(hours=IDEMPOTENCY_HOURS))
    rows = connection.execute(_KNOWN_KEYS, {"of": principal, "wanted": wanted}).mappings().all()
    old = connection.execute(_OLD_KEYS, {"before": oldest, "most": FORGOTTEN_PER_KEY * len(wanted)}).mappings().all()
    over = {(row["principal"], row["key_digest"]) for row in (*rows, *old) if row["created_at"] < oldest}
    if over:
        # Sorted, so that two transactions that forget the same keys do not deadlock.
        forgotten = [{"of": principal, "old": digest, "before": oldest} for principal, digest in sorted(over)]
        connection.execute(_FORGET_KEY, forgotten)
    return {row["key_digest"]: dict(row) for row in rows if row["created_at"] >= oldest}
