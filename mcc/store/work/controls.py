"""Controls of orders: request, delivery to drones, refusal."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.control import Control, ControlKind, ControlOfBatch, NewControl
from mcc.contracts.ids import is_identifier
from mcc.contracts.shape import digest
from mcc.contracts.status import FINAL, sources_of
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.errors import ControlNotTaken, IdempotencyConflict, OrderIsFinal
from mcc.store.database.tables import CONTROLS, KEYS, among
from mcc.store.rows.control_rows import (
    CONTROL,
    IS_OPEN,
    add_control,
    carried,
    check_room,
    control_of,
    controls_of,
    refuse_control,
    why_not_taken,
)
from mcc.store.rows.order_rows import OrderState, entries_after, is_held, lock
from mcc.store.rows.texts import text_digest
from mcc.store.rows.transitions import (
    ControlEffect,
    accepted_by,
    cancelled_by,
    cancels_order,
    effect_of,
    final_sentence,
    new_control,
    said_by,
    why_refused,
)
from mcc.store.rows.views import is_pruned, unknown_order
from mcc.store.work.endings import end_by_store, may_end
from mcc.store.work.known_keys import USED_OTHERWISE, known_keys
from mcc.store.work.resuming import resume

_OPEN = CONTROL.where(among(CONTROLS.c.order_id, "ids"), IS_OPEN).order_by(CONTROLS.c.order_id, CONTROLS.c.number)
_DELIVER = (
    sa.update(CONTROLS)
    .where(among(CONTROLS.c.id, "ids"), CONTROLS.c.delivered_at.is_(None))
    .values(delivered_at=sa.bindparam("at"))
)
_ONE = CONTROL.where(CONTROLS.c.id == sa.bindparam("wanted"))
_NOT_RUN = sources_of("cancel_queued", "cancel_waiting")


CANCEL_WINS = "The whole order was cancelled by the same request."
"""The reason with which controls are refused that were requested together with a cancel of the whole order."""


class Controls:
    def __init__(self, database: Database) -> None:
        self._database = database

    def request(self, order_id: str, kind: ControlKind, request: NewControl, *, by: Actor) -> Control:
        """Add a control under the order's lock, numbered `control_seq` + 1.

        If no drone runs the order, a cancel ends it at once; a resume, or the cancel of one agent, queues a waiting
        order again; other controls stay open for the next holder. A control for a single agent of an order that was
        never claimed is refused. Raises `UnknownOrder`, `OrderIsFinal`, `ControlNotTaken`, `TooManyControls`.
        """
        if not is_identifier(order_id):
            raise unknown_order(order_id)
        at = self._database.clock.now()
        return self._database.write(lambda connection: requested(connection, order_id, kind, request, by, at))

    def request_once(
        self, order_id: str, kind: ControlKind, request: NewControl, *, by: Actor, key: str | None
    ) -> tuple[Control, bool]:
        """As `request`, but with an idempotency key that was used for the same request the control that was made then.
        Answers also whether it is new. Raises as `request` does, and `IdempotencyConflict`."""
        if not is_identifier(order_id):
            raise unknown_order(order_id)
        at = self._database.clock.now()
        body = digest([order_id, kind.value, request.model_dump(mode="json")])

        def once(connection: Connection) -> tuple[Control, bool]:
            if key is None:
                return requested(connection, order_id, kind, request, by, at), True
            # Locked first: of two requests with one key, the second waits, and finds what the first has made.
            lock(connection, order_id)
            known = known_keys(connection, by.principal, [text_digest(key)], at).get(text_digest(key))
            if known is not None and known["control_id"] is not None:
                if known["body_digest"] != body:
                    raise IdempotencyConflict(USED_OTHERWISE)
                row = connection.execute(_ONE, {"wanted": known["control_id"]}).mappings().one()
                return control_of(row), False
            control = requested(connection, order_id, kind, request, by, at)
            if known is not None:
                raise IdempotencyConflict(USED_OTHERWISE)
            used = {"principal": by.principal, "key_digest": text_digest(key), "body_digest": body}
            made = {"order_id": order_id, "control_id": control.id, "created_at": micros(at)}
            connection.execute(sa.insert(KEYS), {**used, **made})
            return control, True

        return self._database.write(once)

    def request_all(self, order_id: str, request: Sequence[ControlOfBatch], *, by: Actor) -> Sequence[Control]:
        """As `request` for several controls, in one transaction; answers them in the same sequence.

        If one of them cancels the whole order, only that one is carried out, and the others are refused. Raises
        `UnknownOrder`, `OrderIsFinal`, `ControlNotTaken`, `TooManyControls`, and adds none then.
        """
        if not is_identifier(order_id):
            raise unknown_order(order_id)
        at = self._database.clock.now()
        return self._database.write(lambda connection: _request_all(connection, order_id, request, by, at))

    def pending(self, held: Mapping[str, int]) -> Sequence[Control]:
        """Open controls of these orders (order id -> highest control number seen); marks them as delivered."""
        if not held:
            return []
        rows = self._database.read(lambda connection: connection.execute(_OPEN, {"ids": list(held)}).mappings().all())
        controls = [control_of(row) for row in rows if row["number"] > held[row["order_id"]]]
        new = [control.id for control in controls if control.delivered_at is None]
        # Drones ask again and again, and nearly always hear nothing new: then nothing is written.
        if not new:
            return controls
        at = self._database.clock.now()
        marked = {"ids": new, "at": micros(at)}
        self._database.write(lambda connection: connection.execute(_DELIVER, marked), repeatable=True)
        return [control.model_copy(update={"delivered_at": control.delivered_at or at}) for control in controls]

    def refuse(self, control_id: str, why: str, *, epoch: int | None = None) -> bool:
        """Refuse an open control with the reason `why`; answers whether it was open.

        `epoch`: refuse it only while its order runs under this epoch, so that a former holder cannot refuse it.
        """
        if not is_identifier(control_id):
            return False
        return self._database.write(partial(_refuse, control_id=control_id, why=why, epoch=epoch), repeatable=True)

    def of_order(self, order_id: str) -> Sequence[Control]:
        """All controls of an order, by number. Raises `UnknownOrder`."""

        def controls(connection: Connection) -> Sequence[Control]:
            is_pruned(connection, order_id)
            return carried(connection, order_id, controls_of(connection, order_id))

        return self._database.read(controls)


def requested(
    connection: Connection,
    order_id: str,
    kind: ControlKind,
    request: NewControl,
    by: Actor,
    at: datetime,
    *,
    refused: str | None = None,
) -> Control:
    """See `Controls.request`. `refused`: the control is stored as refused with this reason, and has no effect."""
    state = lock(connection, order_id)
    if state is None:
        raise unknown_order(order_id)
    if state.status in FINAL:
        raise OrderIsFinal(final_sentence(order_id, state.status))
    control = new_control(order_id, state.control_seq + 1, kind, request, by, at)
    if why := why_not_taken(connection, order_id, kind, control.record_id):
        raise ControlNotTaken(why)
    if not refused and not cancels_order(control):
        check_room(connection, order_id, kind)
    # Worked out before the control is added, which would be among those before it.
    effect = ControlEffect.STAYS if refused else _effect(connection, state, control)
    add_control(connection, state, control.model_copy(update={"refused": refused or why_refused(effect)}), by)
    if effect in (ControlEffect.ENDS, ControlEffect.RESUMES, ControlEffect.REQUEUES):
        # Read anew: the control has just raised the order's `control_seq`.
        _act_at_once(connection, lock(connection, order_id) or state, control, effect, at)
    row = connection.execute(_ONE, {"wanted": control.id}).mappings().one()
    return control_of(row)


def _request_all(
    connection: Connection, order_id: str, request: Sequence[ControlOfBatch], by: Actor, at: datetime
) -> Sequence[Control]:
    cancels = (
        index
        for index, control in enumerate(request)
        if control.kind is ControlKind.CANCEL and control.record_id is None
    )
    cancel = next(cancels, None)
    made: dict[int, Control] = {}
    for index, control in enumerate(request):
        if cancel is not None and index != cancel:
            made[index] = requested(connection, order_id, control.kind, control, by, at, refused=CANCEL_WINS)
    # The cancel comes last, because an order that has ended accepts no controls.
    for index, control in enumerate(request) if cancel is None else [(cancel, request[cancel])]:
        made[index] = requested(connection, order_id, control.kind, control, by, at)
    return [made[index] for index in range(len(request))]


def _effect(connection: Connection, state: OrderState, control: Control) -> ControlEffect:
    if state.status not in _NOT_RUN:
        return ControlEffect.STAYS
    before = controls_of(connection, state.order_id) if state.control_seq else []
    endable = may_end(connection, state)
    return effect_of(control, state.status, state.reason, attempt=state.attempt, before=before, endable=endable)


def _act_at_once(
    connection: Connection, state: OrderState, control: Control, effect: ControlEffect, at: datetime
) -> None:
    if effect is ControlEffect.ENDS:
        end_by_store(connection, state, cancelled_by(control), at)
    else:
        done = control if effect is ControlEffect.RESUMES else None
        (last,) = entries_after(connection, state.order_id, state.last_seq - 1)
        resume(connection, state, at, said_by(control), done, workspace_key=accepted_by(control, last.data))


def _refuse(connection: Connection, control_id: str, why: str, epoch: int | None) -> bool:
    if epoch is not None:
        order_id = connection.execute(_ONE, {"wanted": control_id}).mappings().one_or_none()
        state = lock(connection, order_id["order_id"]) if order_id else None
        if state is None or not is_held(state, epoch):
            return False
    return refuse_control(connection, control_id, why)
