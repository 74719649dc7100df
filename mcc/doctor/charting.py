"""This room is for drawing up a chart: asks the store about all that Celery named, and this machine about processes."""

import socket
from collections.abc import Mapping, Sequence
from typing import Protocol

from mcc.contracts.status import OrderStatus
from mcc.doctor.chart import Chart, Node, Patience, Silence
from mcc.doctor.processes import lives_of
from mcc.doctor.silence import silence_of
from mcc.store.examined import Examined, SeenOrder
from mcc.store.ports import Examiner, Journal

ENTRIES = 2_000
"""So many of an order's newest entries are read to find its open calls."""

QUIET_ORDERS, QUIET_SECONDS = 50, 20.0
"""The calls of so many orders are looked for, the most silent ones first, and of none that was heard of just now."""


class Looked(Protocol):
    """The part of a store that a chart is drawn from."""

    @property
    def examiner(self) -> Examiner: ...
    @property
    def journal(self) -> Journal: ...


def chart_of(store: Looked, nodes: Sequence[Node] | None, patience: Patience, *, host: str = "") -> Chart:
    """`nodes` are asked for first: what the store says later can only be newer. `host` "": this one.

    Raises `StoreUnavailable`.
    """
    examined = store.examiner.look()
    named = [task.order_id for node in nodes or () for task in node.tasks if task.order_id is not None]
    return Chart(
        examined=examined,
        patience=patience,
        nodes=nodes,
        known=store.examiner.orders(named) if named else {},
        silences=_silences(store.journal, examined, patience),
        lives=lives_of(examined.drones, host or socket.gethostname()),
    )


def _silences(journal: Journal, examined: Examined, patience: Patience) -> Mapping[str, Silence]:
    least = min(patience.stuck_seconds or QUIET_SECONDS, QUIET_SECONDS)
    quiet = [
        order
        for order in examined.orders
        if order.status is OrderStatus.RUNNING and (examined.now - order.last_entry_at).total_seconds() > least
    ]
    quiet.sort(key=lambda order: order.last_entry_at)
    return {order.id: _silence(journal, order) for order in quiet[:QUIET_ORDERS]}


def _silence(journal: Journal, order: SeenOrder) -> Silence:
    return silence_of(journal.read(order.id, after=max(order.last_seq - ENTRIES, 0), limit=2 * ENTRIES))
