"""Webhooks on every store: what is noted in the transaction of an entry, told to whom, tried again, given up."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from standardwebhooks.webhooks import Webhook as Verifier

from mcc.contracts.callers import Actor
from mcc.contracts.ids import call_id
from mcc.contracts.inbox_facts import QuestionAnswered, QuestionAsked
from mcc.contracts.order import NewFork
from mcc.contracts.schedules import Missed, NewSchedule
from mcc.contracts.token_text import new_webhook_secret
from mcc.contracts.webhooks import ORDERS_ENDPOINT, Delivery, DeliveryState, NewReplay, NewWebhook, WebhookChange
from mcc.contracts.webhooks import Webhook as Endpoint
from mcc.store.database.errors import (
    DeliveryIsNotDead,
    SecretsOverlap,
    UnknownDelivery,
    UnknownWebhook,
    WebhookIsBuiltIn,
    WebhookIsOff,
    WebhookNameTaken,
)
from mcc.store.database.tables import SCHEDULE_RUNS, SCHEDULES, WEBHOOK_EVENTS
from mcc.store.doors.delivery_lists import DEAD_DAYS, DELIVERED_DAYS, DeliveryFilter
from mcc.store.doors.messages import PRUNED
from mcc.store.doors.running import add_missed, as_text
from mcc.store.doors.webhooks import GONE
from mcc.webhooks.courier import GAPS_SECONDS
from tests.conformance.store.scene import Scene, at_once, called, replied, returned, started
from tests.mcc.webhooks.receiver import Receiver, answering, courier_to, receiving

BY = Actor("operator", "cli")
SECRET = new_webhook_secret()


def endpoint(scene: Scene, receiver: Receiver, name: str = "ci", **fields: Any) -> Endpoint:
    new = NewWebhook.model_validate({"name": name, "url": receiver.url, **fields})
    return scene.store.webhooks.endpoints.make(new, SECRET, by=BY)


def noted(scene: Scene) -> list[tuple[int, str]]:
    """Numbers and kinds of what was noted and not yet looked at."""
    ordered = sa.select(WEBHOOK_EVENTS).order_by(WEBHOOK_EVENTS.c.order_id, WEBHOOK_EVENTS.c.seq)
    return scene.store.database.read(lambda one: [(row.seq, row.kind) for row in one.execute(ordered)])


def deliveries(scene: Scene, **wanted: Any) -> list[Delivery]:
    """The oldest first."""
    return list(scene.store.webhooks.lists.find(DeliveryFilter(**wanted)).items)[::-1]


def states(scene: Scene) -> list[str]:
    return [each.state.value for each in sorted(deliveries(scene), key=lambda each: (each.order_id, each.seq))]


def question() -> QuestionAsked:
    return QuestionAsked(question_id="q", call_id="c", question="which?")


def test_where_nobody_hears_nothing_is_noted(scene: Scene) -> None:
    scene.running().finish()
    assert noted(scene) == []


def test_an_endpoint_hears_of_every_change_of_an_order_from_then_on(scene: Scene) -> None:
    before = scene.running()
    scene.store.webhooks.endpoints.make(NewWebhook(name="ci", url="https://ci.test"), SECRET, by=BY)
    before.finish()
    held = scene.running()
    held.write(started(), question())
    held.finish()
    kinds = [kind for _, kind in noted(scene)]
    assert kinds == ["order.finished", "order.queued", "question.asked", "order.finished"]


def test_an_endpoint_that_is_off_or_removed_hears_of_nothing(scene: Scene) -> None:
    made = scene.store.webhooks.endpoints.make(NewWebhook(name="ci", url="https://ci.test"), SECRET, by=BY)
    scene.store.webhooks.endpoints.change(made.id, WebhookChange(off=True), by=BY)
    scene.place()
    assert noted(scene) == []
    scene.store.webhooks.endpoints.change(made.id, WebhookChange(off=False), by=BY)
    scene.place()
    scene.store.webhooks.endpoints.remove(made.id, by=BY)
    scene.place()
    assert [kind for _, kind in noted(scene)] == ["order.queued"]


def test_the_address_of_an_order_hears_when_it_waits_and_of_its_end(scene: Scene) -> None:
    scene.running().finish()
    held = scene.running(webhook_url="https://ci.test/hook")
    held.write(started(), question())
    held.finish()
    assert [kind for _, kind in noted(scene)] == ["order.finished"]


def test_what_a_fork_copied_is_not_told_again(scene: Scene) -> None:
    held = scene.running()
    record = str(held.origin.record_id)
    asked = question().model_copy(update={"call_id": call_id(record, 1, 0)})
    answered = QuestionAnswered(question_id="q", call_id=asked.call_id, answer="this one")
    held.write(started(), replied(), called(record), asked, answered, returned(record))
    held.finish()
    scene.store.webhooks.endpoints.make(NewWebhook(name="ci", url="https://ci.test"), SECRET, by=BY)
    forked = scene.store.orders.fork(held.order_id, NewFork(after=held.last_seq), by=BY)
    assert "tool.finished" in scene.kinds(forked.order.id)
    assert noted(scene) == [(1, "order.queued")]


async def test_an_order_is_told_from_beginning_to_end_signed_and_once(scene: Scene) -> None:
    async with receiving() as receiver:
        endpoint(scene, receiver)
        held = scene.running("do it", labels=("nightly",))
        held.write(started(), question())
        held.finish()
        courier = courier_to(scene.store, receiver)
        for _ in range(5):
            await courier.once()
    assert receiver.types == ["order.queued", "question.asked", "order.finished"]
    assert states(scene) == ["delivered"] * 3
    for received in receiver.received:
        # It is told the time of the test's clock, which the verifier does not know.
        headers = dict(received.headers)
        signed_at = scene.clock.now()
        expected = Verifier(SECRET).sign(received.id, signed_at, received.body.decode())
        assert headers["webhook-signature"] == expected
    end = receiver.received[-1].said
    order = scene.store.orders.get(held.order_id)
    assert end["timestamp"] == scene.clock.now().isoformat().replace("+00:00", "Z")
    assert end["data"]["order"] == {
        "id": order.id,
        "session_id": order.session_id,
        "kind": "chat",
        "agent": "master",
        "labels": ["nightly"],
        "principal": "someone",
        "door": None,
    }
    assert (end["data"]["status"], end["data"]["answer"], end["data"]["seq"]) == (
        "succeeded",
        "the answer",
        order.last_seq,
    )
    assert end["data"]["links"]["page"] == f"https://mcc.test/orders/{order.id}"
    asked = receiver.received[1].said["data"]["item"]
    assert (asked["kind"], asked["question"], asked["status"]) == ("question", "which?", "pending")


@pytest.mark.parametrize(
    ("filters", "types", "hears"),
    [
        ({}, (), True),
        ({}, ("order.queued",), True),
        ({}, ("order.finished",), False),
        ({"labels": ("a", "z")}, (), True),
        ({"labels": ("z",)}, (), False),
        ({"kinds": ("generate",)}, (), False),
        ({"agents": ("master",), "principals": ("someone",)}, (), True),
        ({"principals": ("person:x",)}, (), False),
        ({"doors": ("page",)}, (), False),
    ],
)
async def test_an_endpoint_hears_of_the_orders_that_its_filters_name(
    scene: Scene, filters: dict[str, Any], types: tuple[str, ...], hears: bool
) -> None:
    async with receiving() as receiver:
        endpoint(scene, receiver, filters=filters, types=types)
        scene.place(labels=("a", "b"))
        await courier_to(scene.store, receiver).once()
    assert bool(receiver.received) is hears
    assert noted(scene) == []


async def test_after_a_kill_between_sending_and_noting_it_the_same_bytes_are_sent_again(scene: Scene) -> None:
    async with receiving() as receiver:
        endpoint(scene, receiver)
        scene.place()
        killed = asyncio.create_task(courier_to(scene.store, receiver).once())
        receiver.answers.append(None)
        while not receiver.received:
            await asyncio.wait({killed}, timeout=0.01)
        killed.cancel()
        await asyncio.wait({killed})
        others = courier_to(scene.store, receiver)
        await others.once()
        assert len(receiver.received) == 1, "it is held"
        scene.clock.advance(61)
        await others.once()
    first, second = receiver.received
    assert (first.id, first.body) == (second.id, second.body)
    assert first.headers["webhook-timestamp"] != second.headers["webhook-timestamp"]
    assert states(scene) == ["delivered"]


def test_two_services_claim_no_delivery_twice(scene: Scene) -> None:
    made = scene.store.webhooks.endpoints.make(NewWebhook(name="ci", url="https://ci.test"), SECRET, by=BY)
    for _ in range(12):
        scene.place()
    scene.store.webhooks.fanning_out.advance()
    claims = at_once(*(lambda who=who: scene.store.webhooks.deliveries.claim(who, {made.id: 8}) for who in ("a", "b")))
    ids = [
        claimed.id
        for claims_of_one in claims
        if not isinstance(claims_of_one, BaseException)
        for claimed in claims_of_one
    ]
    assert len(ids) == len(set(ids)) >= 8


async def test_a_delivery_waits_for_the_one_before_it_of_its_order_and_not_for_others(scene: Scene) -> None:
    async with receiving(answering(500)) as receiver:
        endpoint(scene, receiver)
        held = scene.running()
        courier = courier_to(scene.store, receiver)
        await courier.once()
        held.finish()
        scene.place()
        await courier.once()
        assert receiver.types == ["order.queued", "order.queued"]
        scene.clock.advance(6)
        await courier.once()
        await courier.once()
    assert receiver.types == ["order.queued", "order.queued", "order.queued", "order.finished"]
    assert receiver.received[2].id == receiver.received[0].id


async def test_it_is_tried_for_three_days_then_it_is_dead_and_lets_the_next_one_go(scene: Scene) -> None:
    async with receiving(*[answering(503)] * (len(GAPS_SECONDS) + 1)) as receiver:
        endpoint(scene, receiver)
        held = scene.running()
        courier = courier_to(scene.store, receiver)
        began = scene.clock.now()
        await courier.once()
        held.finish()
        for tries, gap in enumerate(GAPS_SECONDS, start=1):
            (first, *_) = deliveries(scene)
            assert (first.tries, first.state) == (tries, DeliveryState.PENDING)
            assert first.due_at is not None
            assert 0.9 * gap <= (first.due_at - scene.clock.now()).total_seconds() <= 1.1 * gap
            scene.clock.advance(gap * 1.1)
            await courier.once()
        assert states(scene) == ["dead", "pending"]
        assert scene.clock.now() - began >= timedelta(hours=71)
        await courier.once()
    assert states(scene) == ["dead", "delivered"]
    (dead, _) = sorted(deliveries(scene), key=lambda each: each.seq)
    assert (dead.last_status, dead.last_error) == (503, "it answered 503")


async def test_what_is_dead_is_replayed_with_its_id(scene: Scene) -> None:
    async with receiving(answering(410)) as receiver:
        made = endpoint(scene, receiver)
        scene.place()
        courier = courier_to(scene.store, receiver)
        await courier.once()
        assert scene.store.webhooks.endpoints.get(made.id).off_why == GONE
        (dead,) = deliveries(scene, state=DeliveryState.DEAD)
        scene.store.webhooks.lists.replay(dead.id, by=BY)
        with pytest.raises(DeliveryIsNotDead):
            scene.store.webhooks.lists.replay(dead.id, by=BY)
        await courier.once()
        assert len(receiver.received) == 1, "nothing is sent to an endpoint that is off"
        scene.store.webhooks.endpoints.change(made.id, WebhookChange(off=False), by=BY)
        await courier.once()
    assert [each.id for each in receiver.received] == [dead.id, dead.id]
    assert scene.store.webhooks.lists.replay_all(NewReplay(), by=BY) == 0


async def test_all_that_is_dead_of_an_endpoint_since_a_time_is_replayed_at_once(scene: Scene) -> None:
    async with receiving(answering(410)) as receiver:
        made = endpoint(scene, receiver)
        scene.place()
        await courier_to(scene.store, receiver).once()
    later = NewReplay(endpoint=made.id, since=scene.clock.now() + timedelta(seconds=1))
    assert scene.store.webhooks.lists.replay_all(later, by=BY) == 0
    assert scene.store.webhooks.lists.replay_all(NewReplay(endpoint="other"), by=BY) == 0
    assert scene.store.webhooks.lists.replay_all(NewReplay(endpoint=made.id), by=BY) == 1
    assert states(scene) == ["pending"]


async def test_after_a_rotation_both_secrets_sign_for_a_while_and_a_third_is_refused(scene: Scene) -> None:
    newer = new_webhook_secret()
    async with receiving() as receiver:
        made = endpoint(scene, receiver)
        scene.store.webhooks.endpoints.rotate(made.id, newer, 3_600, by=BY)
        with pytest.raises(SecretsOverlap):
            scene.store.webhooks.endpoints.rotate(made.id, new_webhook_secret(), 3_600, by=BY)
        courier = courier_to(scene.store, receiver)
        scene.place()
        await courier.once()
        scene.clock.advance(3_601)
        scene.place()
        await courier.once()
    both, alone = (each.headers["webhook-signature"].split() for each in receiver.received)
    first = receiver.received[0]
    at = scene.clock.now() - timedelta(seconds=3_601)
    assert both == [Verifier(each).sign(first.id, at, first.body.decode()) for each in (newer, SECRET)]
    assert len(alone) == 1


async def test_the_address_of_an_order_is_signed_by_the_built_in_endpoint(scene: Scene) -> None:
    async with receiving() as receiver:
        held = scene.running(webhook_url=receiver.url)
        held.finish()
        shown = scene.store.webhooks.endpoints.rotate(ORDERS_ENDPOINT, SECRET, 3_600, by=BY)
        assert shown.former_until is None, "nobody was told the secret before it"
        await courier_to(scene.store, receiver).once()
    (received,) = receiver.received
    expected = Verifier(SECRET).sign(received.id, scene.clock.now(), received.body.decode())
    assert received.headers["webhook-signature"] == expected
    assert [each.endpoint_id for each in deliveries(scene)] == [ORDERS_ENDPOINT]


async def test_secrets_and_what_nobody_sees_are_not_sent(scene: Scene) -> None:
    async with receiving() as receiver:
        endpoint(scene, receiver)
        held = scene.running()
        asked = question().model_copy(update={"question": f"use hunter2-hunter2 or {new_webhook_secret()}? \u202e"})
        held.write(started(), asked)
        courier = courier_to(scene.store, receiver, secrets=("hunter2-hunter2",))
        await courier.once()
        await courier.once()
    body = receiver.received[-1].body
    assert b"hunter2" not in body and b"whsec_" not in body and b"\\u202e" in body.lower()
    assert receiver.received[-1].said["data"]["item"]["question"] == "use [redacted] or [redacted]? \u202e"


async def test_what_waits_for_a_deleted_order_or_endpoint_is_dead(scene: Scene) -> None:
    async with receiving() as receiver:
        made, other = endpoint(scene, receiver), endpoint(scene, receiver, name="other")
        held = scene.running()
        held.finish()
        scene.store.webhooks.fanning_out.advance()
        scene.store.webhooks.endpoints.remove(other.id, by=BY)
        assert {each.state for each in deliveries(scene, endpoint=other.id)} == {DeliveryState.DEAD}
        scene.store.removal.begin(scene.store.orders.get(held.order_id).session_id, by=BY)
        scene.store.removal.advance()
        courier = courier_to(scene.store, receiver)
        await courier.once()
        await courier.once()
    assert receiver.received == []
    assert {(each.state, each.last_error) for each in deliveries(scene, endpoint=made.id)} == {
        (DeliveryState.DEAD, "its order was deleted")
    }


async def test_what_waits_for_an_order_whose_journal_was_pruned_is_dead(scene: Scene) -> None:
    async with receiving() as receiver:
        endpoint(scene, receiver, types=("order.finished",))
        scene.running().finish()
        scene.store.webhooks.fanning_out.advance()
        scene.clock.advance(60)
        for _ in scene.store.retention.clear(scene.clock.now()):
            pass
        await courier_to(scene.store, receiver).once()
    assert receiver.received == []
    assert [(each.state, each.last_error) for each in deliveries(scene)] == [(DeliveryState.DEAD, PRUNED)]


async def test_a_test_is_sent_to_its_endpoint_alone(scene: Scene) -> None:
    async with receiving() as receiver:
        made = endpoint(scene, receiver, types=("order.finished",))
        endpoint(scene, receiver, name="other")
        scene.store.webhooks.lists.test(made.id, by=BY)
        await courier_to(scene.store, receiver).once()
    (received,) = receiver.received
    assert received.said["type"] == "webhook.test" and received.said["data"]["order"] is None
    assert received.said["data"]["webhook"] == {"id": made.id, "name": "ci"}
    scene.store.webhooks.endpoints.change(made.id, WebhookChange(off=True), by=BY)
    with pytest.raises(WebhookIsOff):
        scene.store.webhooks.lists.test(made.id, by=BY)


async def test_what_a_schedule_missed_is_told_once_it_is_written(scene: Scene) -> None:
    row = {"instant": 1_750_000_000_000_000, "outcome": "missed", "count": 3, "since": 1, "is_open": False}
    schedule = {"id": "s", "name": "s", "spec_json": "{}", "principal": "operator", "version": 1, "paused": False}
    schedule |= {"created_at": 1, "last_instant": 1, "zone_data": "2026a"}

    def missed(instant: int, outcome: str) -> None:
        added = {**row, "schedule_id": "s", "instant": instant, "outcome": outcome}
        scene.store.database.write(lambda one: one.execute(sa.insert(SCHEDULE_RUNS), added))

    async with receiving() as receiver:
        scene.store.database.write(lambda one: one.execute(sa.insert(SCHEDULES), schedule))
        missed(1, "missed")
        made = endpoint(scene, receiver, filters={"labels": ("a",)})
        missed(2, "placed")
        missed(1_750_000_000_000_000, "missed")
        await courier_to(scene.store, receiver).once()
    (received,) = receiver.received
    assert (received.said["type"], made.filters.labels) == ("schedule.missed", ("a",))
    told = {"id": "s", "count": 3, "from": "1970-01-01T00:00:00.000001Z", "to": "2025-06-15T15:06:40Z"}
    assert received.said["data"]["schedule"] == told


async def test_what_is_missed_on_top_is_told_too_and_what_was_told_stays_as_it_is(scene: Scene) -> None:
    first = scene.clock.now().replace(second=0, microsecond=0)
    new = NewSchedule(name="s", every_seconds=60, starts_at=first, order={"prompt": "x"})
    schedule = scene.store.schedules.add(new, by=BY)

    def missed(number: int, count: int) -> None:
        since, until = first + timedelta(minutes=number), first + timedelta(minutes=number + count - 1)
        more = Missed(count=count, since=since, until=until)
        last = since - timedelta(minutes=1)
        scene.store.database.write(lambda one: add_missed(one, schedule.id, more, last))

    async with receiving(answering(500)) as receiver:
        endpoint(scene, receiver)
        courier = courier_to(scene.store, receiver)
        missed(0, 3)
        await courier.once()
        missed(3, 2)
        scene.clock.advance(60)
        await courier.once()
        await courier.once()
    failed, again, second = receiver.received
    assert failed.body == again.body
    begins, minutes = as_text(first), [as_text(first + timedelta(minutes=number)) for number in (2, 4)]
    assert again.said["data"]["schedule"] == {"id": schedule.id, "count": 3, "from": begins, "to": minutes[0]}
    assert second.said["data"]["schedule"] == {"id": schedule.id, "count": 5, "from": begins, "to": minutes[1]}


async def test_of_a_schedule_that_was_removed_nothing_missed_is_told(scene: Scene) -> None:
    new = NewSchedule(name="s", every_seconds=60, order={"prompt": "x"})
    schedule = scene.store.schedules.add(new, by=BY)
    at = scene.clock.now()
    async with receiving() as receiver:
        endpoint(scene, receiver)
        more = Missed(count=1, since=at, until=at)
        scene.store.database.write(lambda one: add_missed(one, schedule.id, more, at - timedelta(days=1)))
        scene.store.schedules.remove(schedule.id, by=BY)
        await courier_to(scene.store, receiver).once()
    (dead,) = deliveries(scene)
    assert not receiver.received and dead.state == "dead" and "removed" in str(dead.last_error)


async def test_rows_of_what_was_delivered_or_is_dead_go_after_their_time(scene: Scene) -> None:
    async with receiving(answering(410)) as receiver:
        endpoint(scene, receiver)
        other = endpoint(scene, receiver, name="other")
        scene.place()
        await courier_to(scene.store, receiver).once()
    assert sorted(states(scene)) == ["dead", "delivered"]
    scene.clock.advance(DELIVERED_DAYS * 86_400 + 1)
    assert scene.store.webhooks.lists.remove_old() == 1
    assert states(scene) == ["dead"]
    scene.clock.advance((DEAD_DAYS - DELIVERED_DAYS) * 86_400)
    assert scene.store.webhooks.lists.remove_old() == 1
    assert other and deliveries(scene) == []


def test_endpoints_are_changed_and_the_audit_says_so_without_secrets(scene: Scene) -> None:
    made = scene.store.webhooks.endpoints.make(NewWebhook(name="ci", url="https://ci.test/a?token=abc"), SECRET, by=BY)
    assert made.url == "https://ci.test/a?token=…"
    with pytest.raises(WebhookNameTaken):
        scene.store.webhooks.endpoints.make(NewWebhook(name="ci", url="https://ci.test"), SECRET, by=BY)
    changed = scene.store.webhooks.endpoints.change(made.id, WebhookChange(name="cd", url="https://cd.test?k=v"), by=BY)
    assert (changed.name, changed.url) == ("cd", "https://cd.test?k=…")
    scene.store.webhooks.endpoints.remove(made.id, by=BY)
    notes = scene.store.audit.list()[::-1]
    assert [note.kind for note in notes] == ["webhook.added", "webhook.changed", "webhook.removed"]
    told = str([note.detail for note in notes])
    assert "abc" not in told and SECRET not in told and (notes[0].principal, notes[0].door) == ("operator", "cli")


@pytest.mark.parametrize("unknown", ["nothing", "\0", "0197f000-0000-7000-8000-000000000000"])
def test_what_is_not_there_is_not_changed(scene: Scene, unknown: str) -> None:
    store = scene.store
    for call in (
        lambda: store.webhooks.endpoints.change(unknown, WebhookChange(off=True), by=BY),
        lambda: store.webhooks.endpoints.rotate(unknown, SECRET, 0, by=BY),
        lambda: store.webhooks.endpoints.remove(unknown, by=BY),
        lambda: store.webhooks.lists.test(unknown, by=BY),
    ):
        with pytest.raises(UnknownWebhook):
            call()
    with pytest.raises(UnknownDelivery):
        store.webhooks.lists.replay(unknown, by=BY)
    with pytest.raises(WebhookIsBuiltIn):
        store.webhooks.endpoints.change(ORDERS_ENDPOINT, WebhookChange(name="mine"), by=BY)
    with pytest.raises(WebhookIsBuiltIn):
        store.webhooks.endpoints.remove(ORDERS_ENDPOINT, by=BY)
