"""The database of a run, read by plain SQL: neither the product's fold nor its store is believed."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tests.faults.invariants.evidence import Entry, Evidence, Lock, Order, Receipt

MICRO = 1_000_000
TABLES = ("orders", "order_state", "journal", "controls", "chat_records", "sessions", "blobs", "drones", "audit")


def with_database(evidence: Evidence, url: str) -> Evidence:
    """The evidence with the rows behind this address (`sqlite:///PATH` or `postgresql://…`), which are only read."""
    engine = sa.create_engine(_driver(url))
    try:
        with engine.connect() as connection:
            return read_tables(evidence, connection)
    finally:
        engine.dispose()


def read_tables(evidence: Evidence, connection: Connection) -> Evidence:
    there = set(sa.inspect(connection).get_table_names())
    texts = {f"table {name}": _all_text(connection, name) for name in TABLES if name in there}
    locks = _rows(connection, "SELECT * FROM workspace_locks") if "workspace_locks" in there else []
    return replace(
        evidence,
        orders=_orders(connection),
        locks=[Lock(row["workspace_key"], row["order_id"], row["epoch"], bool(row["exclusive"])) for row in locks],
        texts={**evidence.texts, **texts},
    )


def _driver(url: str) -> sa.URL:
    made = sa.make_url(url)
    backend = made.get_backend_name()
    return made.set(drivername="postgresql+psycopg" if backend.startswith("postgres") else "sqlite+pysqlite")


def _rows(connection: Connection, statement: str) -> Sequence[Mapping[str, Any]]:
    return [dict(row) for row in connection.execute(sa.text(statement)).mappings()]


def _orders(connection: Connection) -> dict[str, Order]:
    entries: dict[str, list[Entry]] = defaultdict(list)
    blobs = {row["digest"]: row["text_json"] for row in _rows(connection, "SELECT digest, text_json FROM blobs")}
    for row in _rows(connection, "SELECT * FROM journal ORDER BY order_id, seq"):
        entries[row["order_id"]].append(_entry(row, blobs))
    receipts: dict[str, list[Receipt]] = defaultdict(list)
    for row in _rows(connection, "SELECT * FROM controls ORDER BY order_id, number"):
        receipts[row["order_id"]].append(_receipt(row))
    records: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    for row in _rows(connection, "SELECT order_id, record_id, parent_id FROM chat_records ORDER BY order_id, position"):
        records[row["order_id"]].append((row["record_id"], row["parent_id"]))
    rows = _rows(connection, "SELECT o.*, s.* FROM orders o JOIN order_state s ON s.order_id = o.id ORDER BY o.id")
    return {
        row["id"]: replace(
            _order(row), entries=entries[row["id"]], receipts=receipts[row["id"]], records=records[row["id"]]
        )
        for row in rows
    }


def _order(row: Mapping[str, Any]) -> Order:
    origin = json.loads(row.get("origin_json") or "null") or {}
    return Order(
        id=row["id"],
        session_id=row["session_id"],
        session_seq=row["session_seq"],
        spec=json.loads(row["spec_json"]),
        created_at=row["created_at"] / MICRO,
        status=row["status"],
        reason=row["reason"],
        epoch=row["epoch"],
        last_seq=row["last_seq"],
        outcome=json.loads(row["outcome_json"]) if row["outcome_json"] else None,
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        copied=int(origin.get("after") or 0),
        derived=bool(origin),
    )


def _entry(row: Mapping[str, Any], blobs: Mapping[str, str]) -> Entry:
    return Entry(
        order_id=row["order_id"],
        seq=row["seq"],
        epoch=row["epoch"],
        at=row["at"] / MICRO,
        kind=row["kind"],
        record_id=row["record_id"],
        parent_id=row["parent_id"],
        agent=row["agent"],
        call_id=row["call_id"],
        data=_whole(row["data_json"], row["large_json"], blobs),
    )


def _whole(document: str, places: str | None, blobs: Mapping[str, str]) -> Any:
    """The data with its large texts put back: `places` is a JSON list of `[path, digest]`, an empty path means all."""
    value = json.loads(document)
    for path, digest in json.loads(places or "[]"):
        text = json.loads(blobs[digest])
        if not path:
            return json.loads(text)
        target = value
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = text
    return value


def _receipt(row: Mapping[str, Any]) -> Receipt:
    return Receipt(
        id=row["id"],
        order_id=row["order_id"],
        number=row["number"],
        kind=row["kind"],
        record_id=row["record_id"],
        requested_at=row["requested_at"] / MICRO,
        applied_seq=row["applied_seq"],
        refused=row["refused_json"] is not None,
    )


def _all_text(connection: Connection, table: str) -> str:
    rows = connection.execute(sa.text(f"SELECT * FROM {table}"))
    return "\n".join(str(value) for row in rows for value in row if isinstance(value, str))
