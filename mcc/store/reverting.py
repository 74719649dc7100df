"""Orders that take back what other orders changed."""

from mcc.contracts.changes import NewRevert
from mcc.contracts.order import NewOrder, OrderKind, OrderOrigin, WorkOrder
from mcc.contracts.status import FINAL
from mcc.store.errors import CannotRevert, OrderIsUnfinished
from mcc.store.forking import Made

REVERT = "revert"
"""The name that stands where an order has its agent."""


def revert_of(source: WorkOrder, request: NewRevert) -> Made:
    """An order, in a session of its own, that restores the workspace of `source`.

    Raises `OrderIsUnfinished`, and `CannotRevert` for one that can have changed nothing.
    """
    if source.status not in FINAL:
        raise OrderIsUnfinished(
            f"order {source.id} is {source.status.value}: only an order that has ended is reverted; cancel it first"
        )
    if source.workspace is None:
        raise CannotRevert(f"order {source.id} had no workspace, so there is nothing to bring back")
    if request.to is not None and request.to > source.last_seq:
        raise CannotRevert(f"order {source.id} has entries 1 to {source.last_seq}: there is no entry {request.to}")
    new = NewOrder(
        kind=OrderKind.REVERT, agent=REVERT, workspace=source.workspace, queue=source.queue, priority=source.priority
    )
    origin = OrderOrigin(kind="revert", order_id=source.id, after=request.to, overwrite=request.overwrite)
    return Made(new, origin, {"revert": source.id, **request.model_dump()}, title=f"Revert {source.id}")
