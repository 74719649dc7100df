"""Marks of the sessions whose agents have been shown text from outside, written with the entries that say so."""

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.fact import Fact
from mcc.contracts.journal import AgentStarted, ToolFinished
from mcc.store.database.direct import execute_later
from mcc.store.database.tables import SESSION_TAINTS

_MARK = sa.text(
    "INSERT INTO session_taints (session_id, turn) SELECT session_id, session_seq FROM orders WHERE id = :of"
    " ON CONFLICT DO NOTHING"
)
_MARKED = sa.select(SESSION_TAINTS.c.session_id).where(
    SESSION_TAINTS.c.session_id == sa.bindparam("of"), SESSION_TAINTS.c.turn < sa.bindparam("before")
)


def taints(fact: Fact) -> bool:
    """Whether this entry says that an agent was shown text from outside."""
    return isinstance(fact, AgentStarted | ToolFinished) and fact.tainted


def mark_tainted(connection: Connection, order_id: str, facts: Iterable[Fact]) -> None:
    """Mark the session of the order if one of these entries says so. What is marked once stays marked: later turns are
    shown, or can look up, what this one was shown."""
    if any(map(taints, facts)):
        execute_later(connection, _MARK, {"of": order_id})


def is_tainted(connection: Connection, session_id: str, before: int) -> bool:
    """Whether a turn of this session before turn `before` showed text from outside."""
    return connection.execute(_MARKED, {"of": session_id, "before": before}).first() is not None
