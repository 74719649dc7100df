"""Locks on workspaces: taken inside a claim, freed when the order stops running."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.status import OrderStatus
from mcc.store.tables import STATE, WORKSPACE_LOCKS
from mcc.store.values import WorkspaceHold

_NAMESPACE = 0x4D4343
_ONE_AT_A_TIME = sa.text("SELECT pg_advisory_xact_lock(:namespace, hashtext(:key))")
_IN_THE_WAY = (
    sa.select(WORKSPACE_LOCKS.c.order_id)
    .join(STATE, STATE.c.order_id == WORKSPACE_LOCKS.c.order_id)
    .where(
        WORKSPACE_LOCKS.c.workspace_key.in_(sa.bindparam("keys", expanding=True)),
        WORKSPACE_LOCKS.c.order_id != sa.bindparam("by"),
        STATE.c.epoch == WORKSPACE_LOCKS.c.epoch,
        STATE.c.status == OrderStatus.RUNNING.value,
        sa.or_(WORKSPACE_LOCKS.c.exclusive, sa.bindparam("alone", type_=sa.Boolean)),
    )
    .limit(1)
)
_TAKE = sa.text(
    "INSERT INTO workspace_locks (workspace_key, order_id, epoch, exclusive) VALUES (:key, :by, :epoch, :alone)"
    " ON CONFLICT (workspace_key, order_id) DO UPDATE SET epoch = excluded.epoch, exclusive = excluded.exclusive"
)
_RELEASE = sa.delete(WORKSPACE_LOCKS).where(WORKSPACE_LOCKS.c.order_id == sa.bindparam("of"))


def take(connection: Connection, order_id: str, epoch: int, hold: WorkspaceHold) -> bool:
    """Lock the workspace for an order whose row this transaction has locked; False when another order is in the way.

    Two claims of one workspace take turns: on PostgreSQL by locks on its keys, on SQLite all writes do.
    """
    if connection.dialect.name == "postgresql":
        for key in hold.keys:
            connection.execute(_ONE_AT_A_TIME, {"namespace": _NAMESPACE, "key": key})
    wanted = {"by": order_id, "alone": hold.exclusive}
    if connection.execute(_IN_THE_WAY, {**wanted, "keys": hold.keys}).first() is not None:
        return False
    connection.execute(_TAKE, [{**wanted, "key": key, "epoch": epoch} for key in hold.keys])
    return True


def release(connection: Connection, order_id: str) -> None:
    connection.execute(_RELEASE, {"of": order_id})
