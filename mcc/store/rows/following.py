"""Orders without a model that follow another one: what it changed is reverted, or delivered to its git address."""

from mcc.contracts.changes import NewRevert
from mcc.contracts.git_delivery import DELIVER, Deliver
from mcc.contracts.order import NewOrder, OrderKind, OrderOrigin, WorkOrder
from mcc.contracts.status import FINAL
from mcc.store.database.errors import NotDeliverable, NotRevertible, OrderIsUnfinished
from mcc.store.rows.forking import DerivedOrder

REVERT = "revert"
"""Stands in place of the agent's name in orders that revert others."""

_WITH_WORK = frozenset({OrderKind.CHAT, OrderKind.GENERATE, OrderKind.DELIVER})


def deliver_of(source: WorkOrder, wish: Deliver | None) -> DerivedOrder:
    """The next turn of the session of `source`, which delivers and calls no model. `wish` None: as `source` wished,
    else its branch is pushed.

    Raises `OrderIsUnfinished`, and `NotDeliverable` for a source that has no checkout of a git address.
    """
    if source.status not in FINAL:
        raise OrderIsUnfinished(
            f"order {source.id} is {source.status.value}: only what an order that has ended did is delivered"
        )
    if source.workspace is None or "://" not in source.workspace or source.kind not in _WITH_WORK:
        raise NotDeliverable(f"order {source.id} did not work on a git address, so there is nothing to deliver")
    # What a delivery delivers is the work of the order before it.
    work = source.origin.order_id if source.kind is OrderKind.DELIVER and source.origin else source.id
    wished = wish or source.deliver or Deliver()
    new = NewOrder(
        kind=OrderKind.DELIVER,
        prompt=f"Deliver the work of order {work}.",
        agent=DELIVER,
        session_id=source.session_id,
        workspace=source.workspace,
        ref=source.ref,
        deliver=wished,
        mode=source.mode,
        permission=source.permission,
        queue=source.queue,
        priority=source.priority,
    )
    origin = OrderOrigin(kind="deliver", order_id=work)
    return DerivedOrder(new, origin, {"deliver": source.id, **wished.model_dump()})


def revert_of(source: WorkOrder, request: NewRevert) -> DerivedOrder:
    """An order, in a session of its own, that restores the workspace of `source`.

    Raises `OrderIsUnfinished`, and `NotRevertible` for a source without a workspace or a request for a missing entry.
    """
    if source.status not in FINAL:
        raise OrderIsUnfinished(
            f"order {source.id} is {source.status.value}: only an order that has ended is reverted; cancel it first"
        )
    if source.workspace is None:
        raise NotRevertible(f"order {source.id} had no workspace, so there is nothing to bring back")
    if request.to is not None and request.to > source.last_seq:
        raise NotRevertible(f"order {source.id} has entries 1 to {source.last_seq}: there is no entry {request.to}")
    new = NewOrder(
        kind=OrderKind.REVERT, agent=REVERT, workspace=source.workspace, queue=source.queue, priority=source.priority
    )
    origin = OrderOrigin(kind="revert", order_id=source.id, after=request.to, overwrite=request.overwrite)
    return DerivedOrder(new, origin, {"revert": source.id, **request.model_dump()}, title=f"Revert {source.id}")
