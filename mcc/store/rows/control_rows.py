"""Rows of controls: read, added and settled inside a transaction."""

import json
from bisect import bisect
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import TRIGGER_DOOR, Actor
from mcc.contracts.control import Control, ControlKind, SteerMode, control_refusal, merged
from mcc.contracts.entry import Draft, Entry
from mcc.contracts.ids import root_record_id
from mcc.contracts.inbox_facts import ApprovalDecided, QuestionAnswered, Said
from mcc.contracts.journal import ControlApplied
from mcc.contracts.shape import to_json
from mcc.store.database.clock import micros, moment, moment_or_none
from mcc.store.database.errors import TooManyControls
from mcc.store.database.tables import CONTROLS, ORDERS, STATE
from mcc.store.rows.actors import token_name, who
from mcc.store.rows.audit import add_note
from mcc.store.rows.order_rows import OrderState, requests_after, text_json, text_of
from mcc.store.rows.texts import parsed

CONTROL = sa.select(CONTROLS, token_name(CONTROLS))
IS_OPEN = sa.and_(CONTROLS.c.applied_seq.is_(None), CONTROLS.c.refused_json.is_(None))
CONTROL = sa.select(CONTROLS, token_name(CONTROLS))
_OF_ORDER = CONTROL.where(CONTROLS.c.order_id == sa.bindparam("wanted")).order_by(CONTROLS.c.number)
_APPLIED = (
    sa.update(CONTROLS)
    .where(CONTROLS.c.order_id == sa.bindparam("of"), IS_OPEN)
    .values(
        applied_at=sa.bindparam("at"),
        applied_seq=sa.bindparam("seq"),
        delivered_at=sa.func.coalesce(CONTROLS.c.delivered_at, sa.bindparam("at")),
    )
)
_APPLY = _APPLIED.where(CONTROLS.c.id == sa.bindparam("wanted"))
_CANCEL = _APPLIED.where(CONTROLS.c.kind == ControlKind.CANCEL.value, CONTROLS.c.record_id.is_(None))
_OPEN_OF_KIND = sa.select(sa.func.count()).where(
    CONTROLS.c.order_id == sa.bindparam("wanted"), IS_OPEN, CONTROLS.c.kind == sa.bindparam("of_kind")
)
_REFUSE = (
    sa.update(CONTROLS).where(CONTROLS.c.id == sa.bindparam("wanted"), IS_OPEN).values(refused_json=sa.bindparam("why"))
)
_REFUSE_ALL = (
    sa.update(CONTROLS)
    .where(CONTROLS.c.order_id == sa.bindparam("wanted"), IS_OPEN)
    .values(refused_json=sa.bindparam("why"))
)
_NUMBER = sa.update(STATE).where(STATE.c.order_id == sa.bindparam("wanted")).values(control_seq=sa.bindparam("number"))
_ADD = sa.insert(CONTROLS)
_OWNER = sa.select(ORDERS.c.principal, ORDERS.c.door).where(ORDERS.c.id == sa.bindparam("of"))
_SPEC = sa.select(ORDERS.c.spec_json).where(ORDERS.c.id == sa.bindparam("wanted"))
_METADATA = sa.select(STATE.c.metadata_json).where(STATE.c.order_id == sa.bindparam("wanted"))
_SET_METADATA = (
    sa.update(STATE).where(STATE.c.order_id == sa.bindparam("wanted")).values(metadata_json=sa.bindparam("said"))
)


def control_of(row: sa.RowMapping) -> Control:
    return Control(
        id=row["id"],
        order_id=row["order_id"],
        number=row["number"],
        kind=ControlKind(row["kind"]),
        record_id=row["record_id"],
        message=text_of(row["message_json"]),
        reason=text_of(row["reason_json"]),
        mode=SteerMode(row["mode"] or SteerMode.INJECT) if row["kind"] == ControlKind.STEER else None,
        remove_tools=tuple(json.loads(row["remove_tools_json"] or "[]")),
        metadata=json.loads(row["metadata_json"]) if row["metadata_json"] else None,
        said=Said.model_validate(parsed(row["said_json"])) if row["said_json"] else None,
        **who(row),
        requested_at=moment(row["requested_at"]),
        delivered_at=moment_or_none(row["delivered_at"]),
        applied_at=moment_or_none(row["applied_at"]),
        applied_seq=row["applied_seq"],
        refused=text_of(row["refused_json"]),
    )


def carried(connection: Connection, order_id: str, controls: Sequence[Control]) -> list[Control]:
    """The controls, with the model request that carried the message of each applied steer, read from the journal: the
    first one of its agent after the entry that applied it."""
    applied = (control for control in controls if control.kind is ControlKind.STEER and control.message)
    steers = [control.applied_seq for control in applied if control.applied_seq]
    if not steers:
        return list(controls)
    requests = requests_after(connection, order_id, min(steers))
    told = list[Control]()
    for control in controls:
        if control.applied_seq in steers and control.kind is ControlKind.STEER:
            of_agent = requests.get(control.record_id or root_record_id(order_id), ())
            place = bisect(of_agent, control.applied_seq or 0)
            control = control.model_copy(update={"carried_seq": of_agent[place] if place < len(of_agent) else None})
        told.append(control)
    return told


def controls_of(connection: Connection, order_id: str) -> list[Control]:
    return [control_of(row) for row in connection.execute(_OF_ORDER, {"wanted": order_id}).mappings()]


def owner_of(connection: Connection, order_id: str) -> str:
    """The principal that placed the order."""
    return str(connection.scalar(_OWNER, {"of": order_id}))


def is_own(connection: Connection, order_id: str, by: Actor) -> bool:
    """Whether this principal placed the order."""
    return owner_of(connection, order_id) == by.principal


def joins(connection: Connection, order_id: str, by: Actor) -> bool:
    """Whether the order is this principal's, or a trigger's as well as this is: what one has begun, all go on with."""
    row = connection.execute(_OWNER, {"of": order_id}).one()
    doors = (row.door or "", by.door or "")
    return bool(row.principal == by.principal) or all(door.startswith(TRIGGER_DOOR) for door in doors)


def add_control(connection: Connection, state: OrderState, control: Control, by: Actor) -> None:
    """Insert the control and set the order's `control_seq` to its number. The caller holds the order's lock.

    A control of somebody else's order is noted in the audit, whichever way it came; decisions have notes of their own.
    """
    row = {
        "id": control.id,
        "order_id": state.order_id,
        "number": control.number,
        "kind": control.kind.value,
        "record_id": control.record_id,
        "message_json": text_json(control.message),
        "reason_json": text_json(control.reason),
        "mode": control.mode.value if control.mode else None,
        "remove_tools_json": json.dumps(control.remove_tools) if control.remove_tools else None,
        "metadata_json": None if control.metadata is None else to_json(control.metadata).decode(),
        "said_json": None if control.said is None else to_json(control.said).decode(),
        **by.columns,
        "requested_at": micros(control.requested_at),
        "refused_json": text_json(control.refused),
    }
    connection.execute(_ADD, row)
    connection.execute(_NUMBER, {"wanted": state.order_id, "number": control.number})
    if control.kind is not ControlKind.DECIDE and not is_own(connection, state.order_id, by):
        detail = {"control": control.id, "kind": control.kind.value}
        at = control.requested_at
        add_note(connection, at, "control", by=by, order_id=state.order_id, detail=detail)


MOST_OPEN = 1_000
"""How many controls of one kind an order has open at most: its agents carry out what came before, first."""


def check_room(connection: Connection, order_id: str, kind: ControlKind) -> None:
    """Raises `TooManyControls` when so many controls of this kind are open that no further one is taken. The caller
    holds the order's lock."""
    if int(connection.scalar(_OPEN_OF_KIND, {"wanted": order_id, "of_kind": kind.value}) or 0) >= MOST_OPEN:
        raise TooManyControls(
            f"{MOST_OPEN:,} requests of the kind {kind.value} wait for the agents of order {order_id} already: wait "
            "until some are applied, or cancel the order"
        )


def why_not_taken(connection: Connection, order_id: str, kind: ControlKind, record_id: str | None = None) -> str | None:
    """Why the order does not accept such a control: its caller restricted controls when placing it. None: it does."""
    spec = connection.execute(_SPEC, {"wanted": order_id}).scalar()
    takes = parsed(spec).get("controls") if spec else None
    return control_refusal(kind, record_id, None if takes is None else [ControlKind(one) for one in takes])


def apply_controls(connection: Connection, order_id: str, numbered: Sequence[tuple[int, Draft | Entry]]) -> None:
    """Mark the controls that these entries (given with their numbers) apply as applied, and merge the metadata that
    they set into the order's. The caller holds the order's lock."""
    rows, changes = [], list[Mapping[str, Any]]()
    for seq, entry in numbered:
        fact = entry.data
        if isinstance(fact, ControlApplied | ApprovalDecided | QuestionAnswered) and fact.control_id is not None:
            rows.append({"wanted": fact.control_id, "of": order_id, "at": micros(entry.at), "seq": seq})
        # Only of the order as a whole: a subagent's controls do not speak for it.
        if isinstance(fact, ControlApplied) and fact.metadata is not None and entry.origin.record_id is None:
            changes.append(fact.metadata)
    if rows:
        connection.execute(_APPLY, rows)
    if changes:
        kept = connection.execute(_METADATA, {"wanted": order_id}).scalar()
        metadata = reduce(merged, changes, json.loads(kept or "{}"))
        connection.execute(_SET_METADATA, {"wanted": order_id, "said": to_json(metadata).decode()})


def refuse_control(connection: Connection, control_id: str, why: str) -> bool:
    """Refuse a control; False when the control was not open (any more)."""
    return connection.execute(_REFUSE, {"wanted": control_id, "why": text_json(why)}).rowcount == 1


def refuse_open_controls(connection: Connection, order_id: str, why: str) -> None:
    """Refuse every control of the order that is still open."""
    connection.execute(_REFUSE_ALL, {"wanted": order_id, "why": text_json(why)})


def apply_cancels(connection: Connection, order_id: str, at: int, seq: int) -> None:
    """Mark every open cancel of the whole order as applied: the order was cancelled at entry `seq`."""
    connection.execute(_CANCEL, {"of": order_id, "at": at, "seq": seq})
