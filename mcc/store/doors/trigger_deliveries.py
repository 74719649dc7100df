"""Deliveries to triggers: each is known by its row, and its order is placed in the transaction that inserts the row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import TRIGGER_DOOR, Actor
from mcc.contracts.control import ControlKind
from mcc.contracts.ids import named_session_id
from mcc.contracts.order import NewOrder
from mcc.contracts.replies import ReplyTarget
from mcc.contracts.shape import to_json
from mcc.contracts.triggers import KEPT_DAYS, TriggerDelivery, TriggerVerdict
from mcc.documents import change
from mcc.documents.blueprint import Blueprint
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadEntry, SomeRefused, StoreRefused
from mcc.store.database.tables import CONTROLS, ORDERS, REPLIES, SESSIONS, TRIGGER_DELIVERIES, among
from mcc.store.documents.changes import OpenChanges
from mcc.store.rows.order_rows import text_json, text_of
from mcc.store.work.document_orders import OrderedDocument, ordered_document
from mcc.store.work.documents import DocumentStore
from mcc.store.work.orders import OrderStore
from mcc.store.work.placing import Placing

LOOKED_AT = 5_000
"""Newest turns of a session, among which those by triggers are counted."""

FORGOTTEN_AT_ONCE = 10
"""Old deliveries that are forgotten for each new one."""

_COLUMNS = ("trigger", "key", "body_digest", "verdict", "order_id", "why_json", "at")
_ADD = sa.text(
    f"INSERT INTO trigger_deliveries ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
    " ON CONFLICT DO NOTHING RETURNING key"
)
_OF_TRIGGER = TRIGGER_DELIVERIES.c.trigger == sa.bindparam("of")
_SAME = sa.and_(
    _OF_TRIGGER,
    sa.or_(TRIGGER_DELIVERIES.c.key == sa.bindparam("same"), TRIGGER_DELIVERIES.c.body_digest == sa.bindparam("body")),
)
_KNOWN = sa.select(TRIGGER_DELIVERIES).where(_SAME).order_by(TRIGGER_DELIVERIES.c.at)
_FREE_REFUSED = sa.delete(TRIGGER_DELIVERIES).where(
    _SAME, TRIGGER_DELIVERIES.c.verdict == sa.literal_column("'refused'")
)
_SETTLE = (
    sa.update(TRIGGER_DELIVERIES)
    .where(_OF_TRIGGER, TRIGGER_DELIVERIES.c.key == sa.bindparam("same"))
    .values(order_id=sa.bindparam("order"))
)
_OLD = (
    sa.select(TRIGGER_DELIVERIES.c.trigger, TRIGGER_DELIVERIES.c.key)
    .where(TRIGGER_DELIVERIES.c.at < sa.bindparam("before"))
    .order_by(TRIGGER_DELIVERIES.c.at)
    .limit(FORGOTTEN_AT_ONCE)
)
_FORGET = sa.delete(TRIGGER_DELIVERIES).where(
    _OF_TRIGGER, TRIGGER_DELIVERIES.c.key == sa.bindparam("same"), TRIGGER_DELIVERIES.c.at < sa.bindparam("before")
)
_NEWEST = (
    sa.select(TRIGGER_DELIVERIES)
    .where(_OF_TRIGGER)
    .order_by(TRIGGER_DELIVERIES.c.at.desc(), TRIGGER_DELIVERIES.c.key)
    .limit(sa.bindparam("most"))
    .offset(sa.bindparam("skip"))
)
_COUNTED = (
    sa.select(TRIGGER_DELIVERIES.c.trigger, TRIGGER_DELIVERIES.c.verdict, sa.func.count().label("counted"))
    .where(among(TRIGGER_DELIVERIES.c.trigger, "triggers"), TRIGGER_DELIVERIES.c.at >= sa.bindparam("since"))
    .group_by(TRIGGER_DELIVERIES.c.trigger, TRIGGER_DELIVERIES.c.verdict)
    .order_by(TRIGGER_DELIVERIES.c.trigger, TRIGGER_DELIVERIES.c.verdict)
)
_ADD_SESSION = sa.text(
    "INSERT INTO sessions (id, title_json, principal, door, token_id, created_at, turns)"
    " VALUES (:id, :title_json, :principal, :door, :token_id, :created_at, 0) ON CONFLICT (id) DO NOTHING"
)
_SESSION = (
    sa.select(SESSIONS.c.door, SESSIONS.c.deleted_at, SESSIONS.c.turns)
    .where(SESSIONS.c.id == sa.bindparam("wanted"))
    .with_for_update()
)
_ADD_REPLY = sa.insert(REPLIES).values(order_id=sa.bindparam("order"), target_json=sa.bindparam("target"))
_IS_HEARD = sa.update(ORDERS).where(ORDERS.c.id == sa.bindparam("wanted")).values(has_webhook=True)
"""So that its end is noted."""
_OF_SESSION = (
    ORDERS.c.session_id == sa.bindparam("wanted"),
    ORDERS.c.session_seq > sa.bindparam("after"),
)
_LATELY = sa.union_all(
    sa.select(ORDERS.c.id).where(
        *_OF_SESSION,
        ORDERS.c.created_at > sa.bindparam("since"),
        sa.func.substr(ORDERS.c.door, 1, len(TRIGGER_DOOR)) == TRIGGER_DOOR,
    ),
    # What steers a turn is read by the model as a turn is.
    sa.select(CONTROLS.c.id)
    .join(ORDERS, ORDERS.c.id == CONTROLS.c.order_id)
    .where(
        *_OF_SESSION,
        CONTROLS.c.requested_at > sa.bindparam("since"),
        CONTROLS.c.kind == ControlKind.STEER.value,
        sa.func.substr(CONTROLS.c.door, 1, len(TRIGGER_DOOR)) == TRIGGER_DOOR,
    ),
).limit(sa.bindparam("most"))


@dataclass(frozen=True, slots=True)
class KnownDelivery:
    """What a delivery is known by. `body_digest` None: its id alone counts, as it is signed."""

    trigger: str
    key: str
    body_digest: str | None


@dataclass(frozen=True, slots=True)
class TriggeredOrder:
    """The order of a delivery, with the blueprint that it names. `session`: the text that names its session; None: it
    begins one of its own. `turns_an_hour`: how many of these a session takes. `anybodys`: it may control a turn that
    somebody else placed, and not only those of triggers. `reply`: where its answer goes; `joins`: the session that
    opened the request which that names, whosever it is, in place of the one of `session`."""

    new: NewOrder
    by: Actor
    session: str | None
    turns_an_hour: int
    blueprint: Blueprint | None = None
    anybodys: bool = False
    reply: ReplyTarget | None = None
    joins: str | None = None

    @property
    def session_id(self) -> str | None:
        """The id of its session; None: one of its own."""
        return self.joins or (None if self.session is None else named_session_id(self.session))


@dataclass(frozen=True, slots=True)
class TakenDelivery:
    """What became of a delivery. `created`: it has placed the order just now."""

    verdict: TriggerVerdict
    order_id: str | None = None
    why: str = ""
    created: bool = False


class TriggerDeliveryStore:
    """Every method blocks."""

    def __init__(self, database: Database, orders: OrderStore, documents: DocumentStore) -> None:
        self._database = database
        self._orders = orders
        self._documents = documents

    def note(self, known: KnownDelivery, verdict: TriggerVerdict, why: str) -> TakenDelivery:
        """Remember a delivery that places nothing; one that came before is `repeated`."""
        at = self._database.clock.now()

        def add(connection: Connection) -> TakenDelivery:
            repeated = _begin(connection, known, at, verdict, why)
            return repeated or TakenDelivery(verdict, why=why)

        return self._database.write(add, repeatable=True)

    def place(self, known: KnownDelivery, order: TriggeredOrder) -> TakenDelivery:
        """Remember a delivery and place its order, in one transaction. What the database refuses is `refused`, and
        tried again when it comes again."""
        at = self._database.clock.now()
        try:
            document = ordered_document(self._documents, order.new, order.by, at, order.blueprint)
            return self._place(known, order, document, at)
        except SomeRefused as refused:
            return self.note(known, "refused", str(refused.refused[0]))
        except (StoreRefused, BadEntry, change.DispatchRefused) as refused:
            return self.note(known, "refused", str(refused))

    def _place(
        self, known: KnownDelivery, order: TriggeredOrder, document: OrderedDocument | None, at: datetime
    ) -> TakenDelivery:
        opened: list[OpenChanges] = []

        def take(connection: Connection) -> TakenDelivery:
            # Anew at each attempt: what an undone transaction changed in memory must not be taken over.
            opened[:] = [self._documents.opened(connection)]
            if (repeated := _begin(connection, known, at, "placed", "")) is not None:
                return repeated
            placing = self._placing(connection, order, document, at)
            (accepted,) = self._orders.place_within(connection, opened[0], [placing])
            settled = {"of": known.trigger, "same": known.key, "order": accepted.order_id}
            connection.execute(_SETTLE, settled)
            # What steers an order is answered where the answer of that one goes.
            if order.reply is not None and accepted.created:
                connection.execute(_ADD_REPLY, {"order": accepted.order_id, "target": to_json(order.reply).decode()})
                connection.execute(_IS_HEARD, {"wanted": accepted.order_id})
            return TakenDelivery("placed", accepted.order_id, created=accepted.created)

        # Whoever takes it again after a commit finds its row, and answers with the same order.
        taken = self._database.write(take, repeatable=True)
        opened[0].committed()
        return taken

    def _placing(
        self, connection: Connection, order: TriggeredOrder, document: OrderedDocument | None, at: datetime
    ) -> Placing:
        new = order.new
        if order.session_id is not None:
            _open_session(connection, order.session_id, order, at)
            new = new.model_copy(update={"session_id": order.session_id})
        return Placing(new, order.by, None, at, self._database.time, None, document, anybodys=order.anybodys)

    def list(self, trigger: str, *, skip: int = 0, most: int = 50) -> Sequence[TriggerDelivery]:
        """The deliveries of a trigger, newest first."""
        asked = {"of": trigger, "most": most, "skip": skip}
        rows = self._database.read(lambda connection: connection.execute(_NEWEST, asked).mappings().all())
        return [_shown(row) for row in rows]

    def counts(self, triggers: Sequence[str], since: datetime) -> Mapping[str, Mapping[TriggerVerdict, int]]:
        """How many deliveries of each of these triggers came to what since then; those that repeated another one have
        no row, and are not counted."""
        asked = {"triggers": triggers, "since": micros(since)}
        counted: dict[str, dict[TriggerVerdict, int]] = {name: {} for name in triggers}
        for row in self._database.read(lambda connection: connection.execute(_COUNTED, asked).all()):
            counted[row.trigger][row.verdict] = row.counted
        return counted


def _begin(
    connection: Connection, known: KnownDelivery, at: datetime, verdict: TriggerVerdict, why: str
) -> TakenDelivery | None:
    """Insert the row of a delivery, which locks out others of the same key or body; answers what it repeats."""
    same = {"of": known.trigger, "same": known.key, "body": known.body_digest}
    before = micros(at - timedelta(days=KEPT_DAYS))
    _forget(connection, before)
    row = {
        "trigger": known.trigger,
        "key": known.key,
        "body_digest": known.body_digest,
        "verdict": verdict,
        "order_id": None,
        "why_json": text_json(why) if why else None,
        "at": micros(at),
    }
    if connection.execute(_ADD, row).first() is not None:
        return None
    # What was refused has placed nothing: its sender may try again once that is put right.
    connection.execute(_FREE_REFUSED, same)
    if connection.execute(_ADD, row).first() is not None:
        return None
    earlier = connection.execute(_KNOWN, same).mappings().first()
    return TakenDelivery("repeated", earlier["order_id"] if earlier else None, "The same delivery came before.")


def _forget(connection: Connection, before: int) -> None:
    old = connection.execute(_OLD, {"before": before}).all()
    if old:
        # Sorted, so that two transactions that forget the same rows do not deadlock.
        over = [{"of": trigger, "same": key, "before": before} for trigger, key in sorted(tuple(row) for row in old)]
        connection.execute(_FORGET, over)


def _open_session(connection: Connection, session_id: str, order: TriggeredOrder, at: datetime) -> None:
    """Lock the session, which is made when it is missing. Raises `StoreRefused` where it takes no turn of a trigger."""
    if order.joins is None:
        row = {"id": session_id, "title_json": text_json(""), **order.by.columns, "created_at": micros(at)}
        connection.execute(_ADD_SESSION, row)
    session = connection.execute(_SESSION, {"wanted": session_id}).first()
    if session is None or session.deleted_at is not None:
        raise StoreRefused(f"the session {session_id} is being deleted: send it again in a minute")
    if order.joins is None and not (session.door or "").startswith(TRIGGER_DOOR):
        raise StoreRefused(f"the session {session_id} was not made by a trigger, so no trigger may write to it")
    asked = {
        "wanted": session_id,
        "after": session.turns - LOOKED_AT,
        "since": micros(at - timedelta(hours=1)),
        "most": order.turns_an_hour,
    }
    if len(connection.execute(_LATELY, asked).all()) >= order.turns_an_hour:
        raise StoreRefused(
            f"the session {session_id} had {order.turns_an_hour} turns by triggers within an hour, which is as many as "
            "it takes (turns_an_hour)"
        )


def _shown(row: Mapping[str, Any] | sa.RowMapping) -> TriggerDelivery:
    return TriggerDelivery(
        key=row["key"],
        verdict=row["verdict"],
        order_id=row["order_id"],
        why=text_of(row["why_json"]) or "",
        at=moment(row["at"]),
    )
