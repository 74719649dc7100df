"""The overview of an order as of one of its entries."""

from mcc.contracts.order import WorkOrder
from mcc.contracts.reading import Overview
from mcc.reading.file_changes import shortened
from mcc.reading.index import LinesAt
from mcc.reading.tree import OrderTree

MOST_RECORDS = 2_000


def overview(order: WorkOrder, read: LinesAt, *, skip: int = 0, as_of_last: bool = False) -> Overview:
    """The agents of an order after the first `skip`, as of the last of these lines, and with `as_of_last` the order
    itself too. Of long lists of what it changed, it has the beginning."""
    tree, totals = read.tree, read.tree.totals()
    shown = order.model_copy(update={"changes": shortened(order.changes)}) if order.changes else order
    records = list(tree.records.values())
    end = skip + MOST_RECORDS
    return Overview(
        order=as_of(shown, tree, read.at) if as_of_last and read.at < read.of else shown,
        last_seq=read.of,
        at=read.at,
        index=read.index,
        records=tuple(tree.overview_of(record, totals[record.id]) for record in records[skip:end]),
        attempts=tuple(tree.attempts_to(read.at)),
        next_cursor=str(end) if end < len(records) else None,
    )


def as_of(order: WorkOrder, tree: OrderTree, at: int) -> WorkOrder:
    """The order as its entries up to `at` tell of it: what came later is not there yet."""
    later = {"reason", "detail", "answer", "result", "accepted", "changes", "finished_at", "waits_for", "drone"}
    known = {"status": tree.status, "usage": tree.usage, "last_seq": at, "attempt": len(tree.attempts)}
    return order.model_copy(update={**dict.fromkeys(later), **known})
