"""Query plans of all statements that a call sends to the database."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from mcc.store.database.engine import Database
from mcc.store.database.tables import METADATA

Sent = tuple[str, Any]
EXPLAIN = {"sqlite": "EXPLAIN QUERY PLAN ", "postgresql": "EXPLAIN "}
SMALL = frozenset({"drones", "sweepers", "workspace_locks", "grants"})
GROWING = frozenset(METADATA.tables) - SMALL
"""Tables that grow with the number of orders."""


@contextmanager
def overheard(database: Database) -> Iterator[list[Sent]]:
    """Record the statements sent during the block, with the parameters of their first row."""
    sent: list[Sent] = []

    def record(_: object, __: object, statement: str, parameters: Any, ___: object, many: bool) -> None:
        if statement.lstrip()[:6].upper() in ("SELECT", "INSERT", "UPDATE", "DELETE") or "WITH" in statement[:20]:
            sent.append((statement, parameters[0] if many else parameters))

    event.listen(database.engine, "before_cursor_execute", record)
    try:
        yield sent
    finally:
        event.remove(database.engine, "before_cursor_execute", record)


def plans(database: Database, call: Callable[[], object], *, by_index: bool = False) -> Sequence[str]:
    """The steps that read tables, from the plans of all statements of one call.

    `by_index`: disable sequential scans on PostgreSQL, which it otherwise prefers for small tables even when an index
    fits.
    """
    with overheard(database) as sent:
        call()
    found: list[str] = []
    with database.engine.connect() as plain:
        connection = plain.execution_options(mcc_read=True)
        if by_index and database.dialect == "postgresql":
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        for statement, parameters in sent:
            rows = connection.exec_driver_sql(_explained(database.dialect, statement), parameters).all()
            found += [step for row in rows if (step := _step(str(row[-1])))]
        plain.rollback()
    return list(dict.fromkeys(found))


def _explained(dialect: str, statement: str) -> str:
    # PostgreSQL shows what each step of a recursion looks up only if the statement runs.
    runs = dialect == "postgresql" and statement.startswith("WITH RECURSIVE")
    return f"{EXPLAIN[dialect]}{'ANALYZE ' if runs else ''}{statement}"


def full_scans(steps: Sequence[str]) -> Sequence[str]:
    """The steps that read a whole table that grows with the orders."""
    return [step for step in steps if _is_full(step)]


def _is_full(step: str) -> bool:
    words = step.split()
    if words[0] == "SCAN":
        return len(words) > 1 and words[1] in GROWING and "INDEX" not in words
    return step.startswith("Seq Scan on") and words[3] in GROWING


def _step(line: str) -> str | None:
    """The line without its costs if it says how a table is read, else None."""
    text = line.strip().removeprefix("->").strip().partition("  (cost")[0]
    is_read = text.startswith(("SEARCH", "SCAN")) or " Scan " in f" {text}"
    return text if is_read else None
