"""This room is for what a simulated world leaves behind, told as a run of the real family leaves it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlalchemy.engine import Connection

from mcc.contracts.record import ChatRecord
from mcc.contracts.shape import to_json
from mcc.contracts.status import FINAL
from mcc.store.large import parsed
from mcc.store.ports import Store
from mcc.store.sql import SqlStore
from tests.faults.invariants.database import read_tables
from tests.faults.invariants.evidence import Evidence, Order, Post, Receipt
from tests.faults.script import MASTER
from tests.faults.simulation.watch import Watch, Watched


def remains(store: Store, watch: Watch, posts: Sequence[Post]) -> Evidence:
    """With numbers of steps for times."""
    run = {"writers": [MASTER]}
    empty = Evidence(run=run, posts=posts, effects=watch.effects, model_calls=watch.model_calls)
    if isinstance(store, SqlStore):
        whole = store.database.read(lambda connection: _read(empty, connection))
        return replace(whole, orders={order.id: _dated(order, watch) for order in whole.orders.values()})
    return replace(empty, orders={order_id: _remembered(store, one) for order_id, one in watch.orders.items()})


def _read(evidence: Evidence, connection: Connection) -> Evidence:
    return read_tables(evidence, connection)


def _dated(order: Order, watch: Watch) -> Order:
    at = {entry.seq: entry.at for entry in watch.orders[order.id].entries}
    entries = [replace(entry, at=at.get(entry.seq, 0.0)) for entry in order.entries]
    return replace(order, entries=entries, created_at=0.0)


def _remembered(store: Store, watched: Watched) -> Order:
    """From the memory store, which has no tables."""
    seen, record = store.orders.get(watched.id), store.orders.record(watched.id)
    said = parsed(to_json(seen))
    return Order(
        id=watched.id,
        session_id=seen.session_id,
        session_seq=seen.session_seq,
        spec=said,
        created_at=0.0,
        status=seen.status.value,
        reason=said["reason"],
        epoch=max((entry.epoch for entry in watched.entries), default=0),
        last_seq=seen.last_seq,
        outcome=said if seen.status in FINAL else None,
        input_tokens=0,
        output_tokens=0,
        entries=watched.entries,
        records=[] if record is None else list(_records(record)),
        receipts=list(_receipts(store, watched.id)),
    )


def _receipts(store: Store, order_id: str) -> Iterator[Receipt]:
    for one in store.controls.of_order(order_id):
        refused = one.refused is not None
        yield Receipt(one.id, order_id, one.number, one.kind.value, one.record_id, 0.0, one.applied_seq, refused)


def _records(record: ChatRecord) -> Iterator[tuple[str, str | None]]:
    yield record.id, record.parent_id
    for child in record.subagent_history:
        yield from _records(child)
