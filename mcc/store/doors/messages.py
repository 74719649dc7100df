"""What a delivery tells and to where, read anew at each try: the fixed part of its order, and its entry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.approvals import AnyItem
from mcc.contracts.entry import Entry
from mcc.contracts.order import NewOrder, OrderKind, OrderOutcome
from mcc.contracts.replies import ReplyTarget, is_reply, reply_target
from mcc.contracts.webhooks import OF_ENTRIES, WebhookType
from mcc.schedules.timing import Timing
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.tables import ORDERS, REPLIES, SCHEDULE_RUNS, SCHEDULES, WEBHOOK_ENDPOINTS
from mcc.store.doors.deliveries import ClaimedDelivery
from mcc.store.doors.schedules import spec_of
from mcc.store.doors.webhooks import REMOVED, secrets_of
from mcc.store.rows.inbox_rows import item_when_asked
from mcc.store.rows.order_rows import entries_numbered
from mcc.store.rows.texts import parsed

DELETED = "its order was deleted"
UNSCHEDULED = "its schedule was removed, or what it missed is forgotten"
PRUNED = "the journal of its order was pruned"

_ENDPOINT = sa.select(WEBHOOK_ENDPOINTS).where(WEBHOOK_ENDPOINTS.c.id == sa.bindparam("wanted"))
_REPLY = sa.select(REPLIES.c.target_json).where(REPLIES.c.order_id == sa.bindparam("wanted"))
_MISSED = (
    sa.select(SCHEDULES, SCHEDULE_RUNS.c.since, SCHEDULE_RUNS.c.instant, SCHEDULE_RUNS.c.count)
    .join(SCHEDULE_RUNS, SCHEDULE_RUNS.c.schedule_id == SCHEDULES.c.id)
    .where(
        SCHEDULES.c.id == sa.bindparam("wanted"),
        SCHEDULE_RUNS.c.instant >= sa.bindparam("until", type_=sa.BigInteger),
        SCHEDULE_RUNS.c.outcome == sa.literal_column("'missed'"),
    )
    .order_by(SCHEDULE_RUNS.c.instant)
    .limit(1)
)
_ORDER = sa.select(ORDERS).where(ORDERS.c.id == sa.bindparam("wanted"))


@dataclass(frozen=True, slots=True)
class ToldOrder:
    """What never changes of an order that is told of."""

    id: str
    session_id: str
    kind: OrderKind
    agent: str
    labels: Sequence[str]
    principal: str
    door: str | None


@dataclass(frozen=True, slots=True)
class Happening:
    """What is told. `order`, `entry` None: it is of no order, but of what `of` says. `outcome`: of the entry with which
    the order ended; `item`: of one that put it into the inbox."""

    type: WebhookType
    at: datetime
    seq: int
    order: ToldOrder | None = None
    entry: Entry | None = None
    outcome: OrderOutcome | None = None
    item: AnyItem | None = None
    of: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A happening, the address that it goes to, and what it is signed by, the newest first."""

    url: str
    secrets: Sequence[str]
    happening: Happening


@dataclass(frozen=True, slots=True)
class OutgoingReply:
    """The end of an order, and where its answer goes."""

    target: ReplyTarget
    happening: Happening


class MessageReader:
    """Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, claimed: ClaimedDelivery) -> OutgoingMessage | OutgoingReply | str:
        """The message, or why there is none any more."""
        return self._database.read(lambda connection: self._message(connection, claimed))

    def _message(self, connection: Connection, claimed: ClaimedDelivery) -> OutgoingMessage | OutgoingReply | str:
        if is_reply(claimed.endpoint_id):
            target = connection.scalar(_REPLY, {"wanted": claimed.order_id})
            told = self._told(connection, claimed)
            if target is None or isinstance(told, str):
                return told if isinstance(told, str) else DELETED
            return OutgoingReply(reply_target(parsed(target)), told[1])
        endpoint = connection.execute(_ENDPOINT, {"wanted": claimed.endpoint_id}).mappings().first()
        if endpoint is None:
            return REMOVED
        at = micros(self._database.clock.now())
        secrets = [each.secret for each in secrets_of(endpoint) if each.counts(at)]
        if claimed.type not in OF_ENTRIES:
            of: Mapping[str, Any] = {"webhook": {"id": endpoint["id"], "name": endpoint["name"]}}
            if claimed.type is WebhookType.MISSED:
                missed = _missed(connection, claimed.order_id, claimed.seq)
                if missed is None:
                    return UNSCHEDULED
                of = {"schedule": missed}
            happening = Happening(claimed.type, claimed.created_at, claimed.seq, of=of)
            return OutgoingMessage(endpoint["url"], secrets, happening)
        told = self._told(connection, claimed)
        return told if isinstance(told, str) else OutgoingMessage(endpoint["url"] or told[0] or "", secrets, told[1])

    def _told(self, connection: Connection, claimed: ClaimedDelivery) -> tuple[str | None, Happening] | str:
        """The `webhook_url` of the order and what is told of it, or why nothing can be told any more."""
        order = connection.execute(_ORDER, {"wanted": claimed.order_id}).mappings().first()
        if order is None:
            return DELETED
        entries = entries_numbered(connection, claimed.order_id, [claimed.seq])
        if order["pruned_at"] is not None or not entries:
            return PRUNED
        spec = NewOrder.model_validate(parsed(order["spec_json"]))
        return spec.webhook_url, _happening(order, spec, entries[0])


def _missed(connection: Connection, schedule_id: str, until: int) -> Mapping[str, Any] | None:
    """How many instants the schedule had missed up to this one, and from when on; None where that is not known any
    more. The run that stands for them may stand for later ones too by now, of which a message of their own tells."""
    row = connection.execute(_MISSED, {"wanted": schedule_id, "until": until}).mappings().first()
    if row is None or row["since"] is None or row["since"] > until:
        return None
    first, last, count = moment(row["since"]), moment(until), row["count"]
    if row["instant"] != until:
        count = 1 + sum(1 for _ in takewhile(lambda instant: instant <= last, Timing.of(spec_of(row)).after(first)))
    return {"id": schedule_id, "count": count, "from": first, "to": last}


def _happening(order: sa.RowMapping, spec: NewOrder, entry: Entry) -> Happening:
    told = ToldOrder(
        order["id"], order["session_id"], spec.kind, spec.agent, spec.labels, order["principal"], order["door"]
    )
    outcome = None
    if entry.kind == WebhookType.FINISHED and order["outcome_json"]:
        outcome = OrderOutcome.model_validate(parsed(order["outcome_json"]))
    item = item_when_asked(order["session_id"], entry)
    return Happening(WebhookType(entry.kind), entry.at, entry.seq, told, entry, outcome, item)
