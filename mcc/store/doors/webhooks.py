"""Endpoints of webhooks: made, changed, turned off, their secrets."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import to_json
from mcc.contracts.token_text import new_webhook_secret
from mcc.contracts.webhook_urls import shown_url
from mcc.contracts.webhooks import (
    ORDERS_ENDPOINT,
    NewWebhook,
    Webhook,
    WebhookChange,
    WebhookFilters,
    WebhookType,
)
from mcc.store.database.clock import micros, moment, moment_or_none
from mcc.store.database.engine import Database
from mcc.store.database.errors import (
    SecretsOverlap,
    TooManyWebhooks,
    UnknownWebhook,
    WebhookIsBuiltIn,
    WebhookNameTaken,
)
from mcc.store.database.tables import WEBHOOK_DELIVERIES, WEBHOOK_ENDPOINTS
from mcc.store.rows.audit import add_note
from mcc.store.rows.order_rows import text_json
from mcc.store.rows.texts import parsed

MOST_WEBHOOKS = 200
BY_REQUEST = "turned off on request"
GONE = "the receiver answered 410: it is gone"
NO_SECRET = "no secret"
REMOVED = "its endpoint was removed"
MAKER = "mcc"

_ALL = sa.select(WEBHOOK_ENDPOINTS).order_by(WEBHOOK_ENDPOINTS.c.name)
_ONE = sa.select(WEBHOOK_ENDPOINTS).where(WEBHOOK_ENDPOINTS.c.id == sa.bindparam("wanted"))
_LOCKED = _ONE.with_for_update()
_NAMED = sa.select(WEBHOOK_ENDPOINTS.c.id).where(WEBHOOK_ENDPOINTS.c.name == sa.bindparam("called"))
_COUNT = sa.select(sa.func.count()).select_from(WEBHOOK_ENDPOINTS)
_ADD = sa.insert(WEBHOOK_ENDPOINTS)
_ADD_BUILT_IN = sa.text(
    "INSERT INTO webhook_endpoints (id, name, types_json, filters_json, secrets_json, principal, created_at)"
    " VALUES (:id, :name, :types_json, :filters_json, :secrets_json, :principal, :created_at) ON CONFLICT DO NOTHING"
)
_ONE_AT_A_TIME = sa.text("SELECT pg_advisory_xact_lock(hashtext('webhook_endpoints'))")
_REMOVE = sa.delete(WEBHOOK_ENDPOINTS).where(WEBHOOK_ENDPOINTS.c.id == sa.bindparam("wanted"))
_BURY = (
    sa.update(WEBHOOK_DELIVERIES)
    .where(WEBHOOK_DELIVERIES.c.endpoint_id == sa.bindparam("of"), WEBHOOK_DELIVERIES.c.state == "pending")
    .values(
        state="dead",
        ended_at=sa.bindparam("at"),
        last_error_json=sa.bindparam("why"),
        held_by=None,
        held_until=None,
    )
)


WITHOUT_SECRET = (
    sa.update(WEBHOOK_ENDPOINTS)
    .where(WEBHOOK_ENDPOINTS.c.secrets_json.is_(None), WEBHOOK_ENDPOINTS.c.off_at.is_(None))
    .values(off_at=sa.bindparam("at"), off_why=NO_SECRET)
)
"""Turns off what came from a backup, until it is given a new secret."""


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """What messages of an endpoint are signed by. `until`: it counts until then, None: for good; both in microseconds.
    `shown`: somebody was told it."""

    secret: str
    made_at: int
    until: int | None = None
    shown: bool = True

    def counts(self, at: int) -> bool:
        return self.until is None or self.until > at


def secrets_of(row: Mapping[str, Any] | sa.RowMapping) -> Sequence[SigningSecret]:
    """Those in a row of an endpoint, the newest first."""
    return [SigningSecret(**each) for each in parsed(row["secrets_json"])] if row["secrets_json"] else []


def _secrets_json(secrets: Sequence[SigningSecret]) -> str:
    return to_json([asdict(each) for each in secrets]).decode()


class WebhookStore:
    """Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> Sequence[Webhook]:
        """All endpoints by their names, the built-in one among them."""
        if ORDERS_ENDPOINT not in [webhook.id for webhook in self.made()]:
            at = self._database.clock.now()
            self._database.write(lambda connection: ensure_built_in(connection, at), repeatable=True)
        return self.made()

    def made(self) -> Sequence[Webhook]:
        """As `list`, of those that are there: nothing is written."""
        at = self._database.clock.now()
        rows = self._database.read(lambda connection: connection.execute(_ALL).mappings().all())
        return [webhook_of(row, at) for row in rows]

    def get(self, webhook_id: str) -> Webhook:
        """Raises `UnknownWebhook`."""
        for webhook in self.list():
            if webhook.id == webhook_id:
                return webhook
        raise _unknown(webhook_id)

    def make(self, new: NewWebhook, secret: str, *, by: Actor) -> Webhook:
        """Raises `TooManyWebhooks`, `WebhookNameTaken`."""
        at, webhook_id = self._database.clock.now(), fresh_id()
        row = {
            "id": webhook_id,
            "name": new.name,
            "url": new.url,
            "types_json": to_json(new.types).decode(),
            "filters_json": to_json(new.filters).decode(),
            "secrets_json": _secrets_json([SigningSecret(secret, micros(at))]),
            "principal": by.principal,
            "created_at": micros(at),
        }

        def work(connection: Connection) -> Webhook:
            ensure_built_in(connection, at)
            if connection.dialect.name == "postgresql":
                connection.execute(_ONE_AT_A_TIME)
            # The built-in one is not among those that are counted.
            if (connection.scalar(_COUNT) or 0) > MOST_WEBHOOKS:
                raise TooManyWebhooks(f"there are {MOST_WEBHOOKS} endpoints, which is as many as may be: remove one")
            _refuse_taken(connection, new.name)
            connection.execute(_ADD, row)
            add_note(connection, at, "webhook.added", by=by, order_id=None, detail=_noted(webhook_id, new))
            return webhook_of(connection.execute(_ONE, {"wanted": webhook_id}).mappings().one(), at)

        return self._database.write(work)

    def change(self, webhook_id: str, change: WebhookChange, *, by: Actor) -> Webhook:
        """Raises `UnknownWebhook`, `WebhookNameTaken`, `WebhookIsBuiltIn`."""
        at = self._database.clock.now()
        if webhook_id == ORDERS_ENDPOINT and change.model_fields_set != {"off"}:
            raise WebhookIsBuiltIn("the endpoint for the webhook_url of orders can only be turned off, or on again")

        def work(connection: Connection) -> Webhook:
            row = _locked(connection, webhook_id, at)
            values: dict[str, Any] = {}
            if change.name is not None and change.name != row["name"]:
                _refuse_taken(connection, change.name)
                values["name"] = change.name
            if change.url is not None:
                values["url"] = change.url
            if change.types is not None:
                values["types_json"] = to_json(change.types).decode()
            if change.filters is not None:
                values["filters_json"] = to_json(change.filters).decode()
            if change.off is not None and change.off != (row["off_at"] is not None):
                values |= {"off_at": micros(at) if change.off else None, "off_why": BY_REQUEST if change.off else None}
                if row["secrets_json"] is None:
                    values |= {"off_at": micros(at), "off_why": NO_SECRET}
            if values:
                connection.execute(_update(webhook_id, values))
                add_note(connection, at, "webhook.changed", by=by, order_id=None, detail=_noted(webhook_id, change))
            return webhook_of(connection.execute(_ONE, {"wanted": webhook_id}).mappings().one(), at)

        return self._database.write(work)

    def rotate(self, webhook_id: str, secret: str, keep_seconds: int, *, by: Actor) -> Webhook:
        """From now on its messages are signed by `secret`, and for `keep_seconds` by the present one too.

        Raises `UnknownWebhook`, `SecretsOverlap`.
        """
        at = self._database.clock.now()
        until = micros(at + timedelta(seconds=keep_seconds))

        def work(connection: Connection) -> Webhook:
            row = _locked(connection, webhook_id, at)
            # One that nobody was told is of no use to a receiver.
            kept = [each for each in secrets_of(row) if each.shown and each.counts(micros(at))]
            if len(kept) > 1:
                ends = moment(min(each.until or 0 for each in kept[1:])).isoformat(timespec="seconds")
                raise SecretsOverlap(f"two secrets sign until {ends}: rotate after that")
            former = [SigningSecret(each.secret, each.made_at, until) for each in kept if keep_seconds]
            values: dict[str, Any] = {"secrets_json": _secrets_json([SigningSecret(secret, micros(at)), *former])}
            if row["off_why"] == NO_SECRET:
                values |= {"off_at": None, "off_why": None}
            connection.execute(_update(webhook_id, values))
            detail = {"webhook": webhook_id, "keep_seconds": keep_seconds}
            add_note(connection, at, "webhook.rotated", by=by, order_id=None, detail=detail)
            return webhook_of(connection.execute(_ONE, {"wanted": webhook_id}).mappings().one(), at)

        return self._database.write(work)

    def remove(self, webhook_id: str, *, by: Actor) -> None:
        """What waits for it is dead from now on. Raises `UnknownWebhook`, `WebhookIsBuiltIn`."""
        at = self._database.clock.now()
        if webhook_id == ORDERS_ENDPOINT:
            raise WebhookIsBuiltIn("the endpoint for the webhook_url of orders is built in: turn it off instead")

        def work(connection: Connection) -> None:
            row = _locked(connection, webhook_id, at)
            connection.execute(_REMOVE, {"wanted": webhook_id})
            connection.execute(_BURY, {"of": webhook_id, "at": micros(at), "why": text_json(REMOVED)})
            detail = {"webhook": webhook_id, "name": row["name"]}
            add_note(connection, at, "webhook.removed", by=by, order_id=None, detail=detail)

        self._database.write(work)


def ensure_built_in(connection: Connection, at: datetime) -> None:
    """Make the endpoint for the `webhook_url` of orders, if it is not there. Nobody is told its first secret: who wants
    to check signatures has it rotated."""
    if connection.execute(_ONE, {"wanted": ORDERS_ENDPOINT}).first() is None:
        row = {
            "id": ORDERS_ENDPOINT,
            "name": ORDERS_ENDPOINT,
            "types_json": "[]",
            "filters_json": to_json(WebhookFilters()).decode(),
            "secrets_json": _secrets_json([SigningSecret(new_webhook_secret(), micros(at), shown=False)]),
            "principal": MAKER,
            "created_at": micros(at),
        }
        connection.execute(_ADD_BUILT_IN, row)


def turn_off(connection: Connection, webhook_id: str, why: str, at: datetime) -> None:
    """Turn an endpoint off by ourselves, with a note; nothing for one that is off."""
    off = sa.update(WEBHOOK_ENDPOINTS).where(WEBHOOK_ENDPOINTS.c.id == webhook_id, WEBHOOK_ENDPOINTS.c.off_at.is_(None))
    if connection.execute(off.values(off_at=micros(at), off_why=why)).rowcount:
        detail = {"webhook": webhook_id, "why": why}
        add_note(connection, at, "webhook.off", by=Actor(MAKER), order_id=None, detail=detail)


def webhook_of(row: Mapping[str, Any] | sa.RowMapping, at: datetime) -> Webhook:
    valid = [each for each in secrets_of(row) if each.counts(micros(at))]
    return Webhook(
        id=row["id"],
        name=row["name"],
        url=None if row["url"] is None else shown_url(row["url"]),
        types=tuple(map(WebhookType, parsed(row["types_json"]))),
        filters=WebhookFilters.model_validate(parsed(row["filters_json"])),
        principal=row["principal"],
        created_at=moment(row["created_at"]),
        off_at=moment_or_none(row["off_at"]),
        off_why=row["off_why"],
        secret_at=moment(valid[0].made_at) if valid and valid[0].shown else None,
        former_until=moment_or_none(valid[1].until) if len(valid) > 1 else None,
    )


def _locked(connection: Connection, webhook_id: str, at: datetime) -> sa.RowMapping:
    """Raises `UnknownWebhook`."""
    if webhook_id == ORDERS_ENDPOINT:
        ensure_built_in(connection, at)
    row = None if "\0" in webhook_id else connection.execute(_LOCKED, {"wanted": webhook_id}).mappings().first()
    if row is None:
        raise _unknown(webhook_id)
    return row


def _unknown(webhook_id: str) -> UnknownWebhook:
    return UnknownWebhook(f"there is no webhook {webhook_id[:100]!r}: mcc webhooks list says which there are")


def _refuse_taken(connection: Connection, name: str) -> None:
    if connection.execute(_NAMED, {"called": name}).first() is not None:
        raise WebhookNameTaken(f"another webhook is called {name!r}: choose another name, or change that one")


def _update(webhook_id: str, values: Mapping[str, Any]) -> sa.Update:
    return sa.update(WEBHOOK_ENDPOINTS).where(WEBHOOK_ENDPOINTS.c.id == webhook_id).values(dict(values))


def _noted(webhook_id: str, said: NewWebhook | WebhookChange) -> dict[str, Any]:
    """What the audit says of a wish: addresses without the values of their queries."""
    said = said if said.url is None else said.model_copy(update={"url": shown_url(said.url)})
    return {"webhook": webhook_id, **said.model_dump(mode="json", exclude_unset=True)}
