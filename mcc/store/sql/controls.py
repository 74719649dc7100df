"""This room is for controls: requested under the order's lock, delivered, refused."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.control import Control, ControlKind, NewControl
from mcc.contracts.journal import OrderResumed
from mcc.contracts.status import FINAL, OrderStatus, sources_of
from mcc.store.clock import micros
from mcc.store.entries import WAKES, applied, cancelled_by, final_sentence, nobody_there, requested, stops_all, told
from mcc.store.errors import OrderIsFinal
from mcc.store.sql.endings import end_by_store
from mcc.store.sql.engine import Database
from mcc.store.sql.orders import is_identifier, known, unknown_order
from mcc.store.sql.receipts import IS_OPEN, add_control, control_of, controls_of, settle_applied, settle_refused
from mcc.store.sql.rows import State, lock, write
from mcc.store.sql.tables import CONTROLS

_OPEN = (
    sa.select(CONTROLS)
    .where(CONTROLS.c.order_id.in_(sa.bindparam("ids", expanding=True)), IS_OPEN)
    .order_by(CONTROLS.c.order_id, CONTROLS.c.number)
)
_DELIVER = (
    sa.update(CONTROLS)
    .where(CONTROLS.c.id.in_(sa.bindparam("ids", expanding=True)), CONTROLS.c.delivered_at.is_(None))
    .values(delivered_at=sa.bindparam("at"))
)
_ONE = sa.select(CONTROLS).where(CONTROLS.c.id == sa.bindparam("wanted"))
_NOT_RUN = sources_of("cancel_queued", "cancel_waiting")


class SqlControls:
    def __init__(self, database: Database) -> None:
        self._database = database

    def request(self, order_id: str, kind: ControlKind, asked: NewControl, *, principal: str) -> Control:
        if not is_identifier(order_id):
            raise unknown_order(order_id)
        at = self._database.clock.now()
        return self._database.write(lambda connection: _request(connection, order_id, kind, asked, principal, at))

    def pending(self, held: Mapping[str, int]) -> Sequence[Control]:
        if not held:
            return []
        found = self._database.read(lambda connection: _open(connection, held))
        new = [control.id for control in found if control.delivered_at is None]
        if not new:
            return found
        at = self._database.clock.now()
        marked = {"ids": new, "at": micros(at)}
        self._database.write(lambda connection: connection.execute(_DELIVER, marked), repeatable=True)
        return [one.model_copy(update={"delivered_at": one.delivered_at or at}) for one in found]

    def refuse(self, control_id: str, why: str) -> None:
        if is_identifier(control_id):
            self._database.write(lambda connection: settle_refused(connection, control_id, why), repeatable=True)

    def of_order(self, order_id: str) -> Sequence[Control]:
        def controls(connection: Connection) -> Sequence[Control]:
            known(connection, order_id)
            return controls_of(connection, order_id)

        return self._database.read(controls)


def _open(connection: Connection, held: Mapping[str, int]) -> list[Control]:
    rows = connection.execute(_OPEN, {"ids": list(held)}).mappings()
    return [control_of(row) for row in rows if row["number"] > held[row["order_id"]]]


def _request(
    connection: Connection, order_id: str, kind: ControlKind, asked: NewControl, principal: str, at: datetime
) -> Control:
    state = lock(connection, order_id)
    if state is None:
        raise unknown_order(order_id)
    if state.status in FINAL:
        raise OrderIsFinal(final_sentence(order_id, state.status))
    control = requested(order_id, state.control_seq + 1, kind, asked, at)
    refused = nobody_there(control) if state.status in _NOT_RUN else None
    control = control.model_copy(update={"refused": refused})
    add_control(connection, state, control, principal)
    if state.status in _NOT_RUN and control.open:
        _act_at_once(connection, state, control, at)
    row = connection.execute(_ONE, {"wanted": control.id}).mappings().one()
    return control_of(row)


def _act_at_once(connection: Connection, state: State, control: Control, at: datetime) -> None:
    """What needs no drone: a cancel, and a resume of an order that waits for no answer."""
    counted = lock(connection, state.order_id) or state
    if stops_all(control):
        end_by_store(connection, counted, cancelled_by(control), at)
    elif control.kind is ControlKind.RESUME and state.reason in WAKES:
        resume(connection, counted, at, "resumed on request", control)


def resume(connection: Connection, state: State, at: datetime, message: str, control: Control | None = None) -> State:
    """A waiting order becomes claimable again, whatever time it waited for."""
    drafts = [applied(control, at)] if control else []
    drafts.append(told(at, OrderResumed(message=message)))
    settle_applied(connection, state.order_id, list(enumerate(drafts, start=state.last_seq + 1)))
    woken = {"reason": None, "not_before": None, "waits_until": None, "epoch": state.epoch + 1}
    return write(connection, state, drafts, status=OrderStatus.QUEUED, **woken)
