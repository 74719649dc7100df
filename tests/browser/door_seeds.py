"""Schedules, webhooks and deliveries to triggers in every state that the page draws."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from mcc.contracts.callers import Actor
from mcc.contracts.git_delivery import Deliver, DeliveryRequest, GitDelivery
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder
from mcc.contracts.schedules import Missed, NewSchedule, ScheduleRun
from mcc.contracts.shape import now
from mcc.contracts.token_text import new_webhook_secret
from mcc.contracts.triggers import TriggerVerdict
from mcc.contracts.webhooks import NewWebhook, WebhookFilters, WebhookType
from mcc.store.doors.deliveries import TryResult
from mcc.store.doors.running import add_missed, add_run
from mcc.store.doors.trigger_deliveries import KnownDelivery
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone, HeldOrder

HOSTILE = "\u202egnp.eralod\u202c"
"""What somebody else wrote: it would be read from the right."""

TRIGGER = {
    "path": "forge/issues",
    "scheme": "github",
    "secret_env": ["A"],
    "when": "event == 'issues'",
    "session": "{payload.n}",
    "reply": {"forge": "hub", "project": "team/shop", "number": "{payload.n}"},
    "order": {"prompt": "Solve {payload.title}"},
}
FORGES = {"hub": {"kind": "github", "address": "https://forge.example", "token_env": "HUB_TOKEN"}}
TRIGGER_SECRET = "a-secret-for-tests-0123456789"


def add_schedule(store: Store, name: str = "nightly-report", who: str = "operator", **more: object) -> str:
    """The id of a schedule, each night at 02:30 in Berlin unless it is said otherwise."""
    when = {"cron": "30 2 * * 1-5", "zone": "Europe/Berlin"}
    order = {"prompt": "Report for {date}", "labels": ["nightly"]}
    new = NewSchedule.model_validate({"name": name, **when, "order": order, **more})
    return store.schedules.add(new, by=Actor(who)).id


def add_runs(store: Store, schedule_id: str, order_id: str, before: datetime | None = None) -> None:
    """One that placed this order, one that was refused, and one for three that were missed."""
    last = before or now()
    refused = ScheduleRun(instant=last - timedelta(days=1), outcome="refused", why=f"workspace: there is no {HOSTILE}.")
    missed = Missed(count=3, since=last - timedelta(days=5), until=last - timedelta(days=2))
    with store.database.engine.begin() as connection:
        add_missed(connection, schedule_id, missed, missed.until - timedelta(days=1))
        add_run(connection, schedule_id, refused)
        add_run(connection, schedule_id, ScheduleRun(instant=last, outcome="placed", order_id=order_id))


def add_webhook(store: Store, name: str = "chat", **more: object) -> str:
    """The id of an endpoint."""
    url = "https://chat.example/hooks/mcc?key=hidden"
    new = NewWebhook.model_validate({"name": name, "url": url, **more})
    return store.webhooks.endpoints.make(new, new_webhook_secret(), by=Actor("operator")).id


def seed_webhooks(store: Store) -> str:
    """An endpoint with a delivery that is dead, one that was delivered and one that waits, and another that is off."""
    filters = WebhookFilters(labels=("nightly",), agents=("master",))
    endpoint = add_webhook(store, types=(WebhookType.FINISHED, WebhookType.APPROVAL), filters=filters)
    for result in (
        TryResult(False, 500, f"the receiver answered 500: {HOSTILE}"),
        TryResult(True, 204),
        TryResult(False, None, "the receiver was silent for 15 seconds", 3_600.0),
    ):
        store.webhooks.lists.test(endpoint, by=Actor("operator"))
        (claimed,) = store.webhooks.deliveries.claim("a-test", {endpoint: 1})
        store.webhooks.deliveries.settle(claimed, "a-test", result)
    off = add_webhook(store, "pager")
    store.webhooks.lists.test(off, by=Actor("operator"))
    (claimed,) = store.webhooks.deliveries.claim("a-test", {off: 1})
    store.webhooks.deliveries.settle(claimed, "a-test", TryResult(False, 410, "gone", gone=True))
    return endpoint


def seed_deliveries(store: Store, trigger: str = "issues") -> None:
    """Deliveries to a trigger that started nothing, for different reasons."""
    told: Mapping[TriggerVerdict, str] = {
        "no_match": "when: false",
        "own": "it tells of what this service wrote itself",
        "refused": f"workspace: there is no {HOSTILE}.",
    }
    for verdict, why in told.items():
        store.trigger_deliveries.note(KnownDelivery(trigger, f"id:{fresh_id()}", None), verdict, why)


def on_git(store: Store) -> HeldOrder:
    """An order at work on a git address, that is to be delivered with a request."""
    new = NewOrder(
        prompt="Mend the shop", workspace="https://forge.example/team/shop", deliver=Deliver(pull_request=True)
    )
    placed = store.orders.place(new, by=Actor("operator", "page"))
    held = HandDrone(store).claim(placed.order.id)
    held.start()
    return held


def delivered(url: str, why: str | None = None) -> GitDelivery:
    return GitDelivery(
        forge="hub",
        project="team/shop",
        branch="mcc/0190c9a2",
        base="main",
        commit="0123456789abcdef",
        request=DeliveryRequest(number=12, url=url, state="open", created=True),
        why=why,
    )


def deliver(store: Store) -> str:
    """The id of an order whose work was delivered."""
    held = on_git(store)
    held.finish("Mended.", delivery=delivered("https://forge.example/team/shop/pull/12"))
    return held.id
