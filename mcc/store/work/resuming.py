"""Queues waiting orders again, inside a transaction."""

from datetime import datetime

from sqlalchemy.engine import Connection

from mcc.contracts.control import Control
from mcc.contracts.order_facts import OrderResumed
from mcc.contracts.status import OrderStatus
from mcc.store.rows.control_rows import apply_controls
from mcc.store.rows.order_rows import OrderState, write
from mcc.store.rows.transitions import applied_draft, order_draft


def resume(
    connection: Connection,
    state: OrderState,
    at: datetime,
    message: str,
    control: Control | None = None,
    *,
    workspace_key: str | None = None,
) -> OrderState:
    """Queue a waiting order again, even before the time for which it waits, and mark `control` as applied.

    `workspace_key`: the order continues in the directory with this key.
    """
    drafts = [applied_draft(control, at)] if control else []
    drafts.append(order_draft(at, OrderResumed(message=message)))
    apply_controls(connection, state.order_id, list(enumerate(drafts, start=state.last_seq + 1)))
    changes: dict[str, object] = {"reason": None, "not_before": None, "waits_until": None, "epoch": state.epoch + 1}
    if workspace_key is not None:
        changes["workspace_key"] = workspace_key
    return write(connection, state, drafts, status=OrderStatus.QUEUED, **changes)
