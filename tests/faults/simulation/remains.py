"""What a simulated world leaves behind, told as a run of the real family leaves it."""

from collections.abc import Sequence
from dataclasses import replace

from mcc.store.store import Store
from tests.faults.invariants.database import read_tables
from tests.faults.invariants.evidence import Evidence, Order, Post
from tests.faults.simulation.watch import Watch


def remains(store: Store, watch: Watch, posts: Sequence[Post]) -> Evidence:
    """With numbers of steps for times."""
    empty = Evidence(posts=posts, effects=watch.effects, model_calls=watch.model_calls)
    whole = store.database.read(lambda connection: read_tables(empty, connection))
    return replace(whole, orders={order.id: _dated(order, watch) for order in whole.orders.values()})


def _dated(order: Order, watch: Watch) -> Order:
    at = {entry.seq: entry.at for entry in watch.orders[order.id].entries}
    entries = [replace(entry, at=at.get(entry.seq, 0.0)) for entry in order.entries]
    return replace(order, entries=entries, created_at=0.0)
