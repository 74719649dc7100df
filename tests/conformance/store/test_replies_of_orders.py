"""Answers that go back to where their orders came from: once each, by the rows of webhooks, to a strict forge."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.git_delivery import DeliveryFinished, DeliveryRequest, DeliveryStarted
from mcc.contracts.ids import named_session_id
from mcc.contracts.order import NewOrder, WhenBusy
from mcc.contracts.replies import ForgeReply
from mcc.contracts.status import OrderStatus
from mcc.contracts.webhooks import Delivery, DeliveryState
from mcc.store.doors.delivery_lists import DeliveryFilter
from mcc.store.doors.messages import PRUNED
from mcc.store.doors.trigger_deliveries import KnownDelivery, TakenDelivery, TriggeredOrder
from mcc.webhooks.courier import GAPS_SECONDS
from mcc.webhooks.replying import ReplyTables
from tests.conformance.store.scene import Scene, started
from tests.drone.delivery.forge import Failing, FakeForge, fake_forge
from tests.mcc.webhooks.receiver import courier_to
from tests.mcc.webhooks.replies import THREAD, tables_of

BY = Actor("trigger:issues", "trigger/issues")
TARGET = ForgeReply(forge="hub", project="team/shop", number=7)


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[FakeForge]:
    (tmp_path / "team" / "shop").mkdir(parents=True)
    with fake_forge("github", tmp_path) as running:
        running.threads[THREAD] = []
        yield running


def asked(**changed: object) -> TriggeredOrder:
    order = TriggeredOrder(NewOrder(prompt="Look"), BY, "team/shop#7", 20, reply=TARGET)
    return replace(order, **changed)  # type: ignore[arg-type]


def taken(scene: Scene, key: str = "1", **changed: object) -> TakenDelivery:
    return scene.store.trigger_deliveries.place(KnownDelivery("issues", key, f"body of {key}"), asked(**changed))


def ended(scene: Scene, key: str = "1", **changed: object) -> str:
    """The id of an order of a trigger, which has ended."""
    order_id = str(taken(scene, key, **changed).order_id)
    scene.hold(order_id, token=f"t-{key}").finish()
    return order_id


async def sent(scene: Scene, forge: FakeForge, *, tables: ReplyTables | None = None) -> Delivery:
    """The one reply, after whatever was due was tried."""
    courier = courier_to(scene.store, replies=tables or tables_of(forge))
    await courier.once()
    await courier.once()
    (delivery,) = scene.store.webhooks.lists.find(DeliveryFilter()).items
    return delivery


def comments(forge: FakeForge) -> list[str]:
    return [str(each["body"]) for each in forge.threads[THREAD]]


async def test_an_answer_goes_back_once_when_its_order_has_ended(scene: Scene, forge: FakeForge) -> None:
    order_id = str(taken(scene).order_id)
    held = scene.hold(order_id)
    courier = courier_to(scene.store, replies=tables_of(forge))
    await courier.once()
    assert comments(forge) == []
    held.finish()
    delivery = await sent(scene, forge)
    (text,) = comments(forge)
    assert text.startswith(f"<!-- mcc-reply:{order_id} -->\n> the answer")
    assert (delivery.state, delivery.endpoint_id, delivery.order_id) == (
        DeliveryState.DELIVERED,
        "forges.hub",
        order_id,
    )
    await courier.once()
    assert len(comments(forge)) == 1
    # The first time nothing is looked for: nobody can have written it.
    assert [each.partition(" ")[0] for each in forge.asked] == ["POST"]


async def test_an_order_without_a_reply_is_answered_nowhere(scene: Scene, forge: FakeForge) -> None:
    ended(scene, reply=None)
    courier = courier_to(scene.store, replies=tables_of(forge))
    await courier.once()
    assert scene.store.webhooks.lists.find(DeliveryFilter()).items == [] and forge.asked == []


@pytest.mark.parametrize("cut", [Failing(0, after=True), Failing(502, after=True)])
async def test_after_an_unknown_outcome_the_reply_is_looked_for_and_not_written_twice(
    scene: Scene, forge: FakeForge, cut: Failing
) -> None:
    ended(scene)
    forge.failing.append(cut)
    assert (await sent(scene, forge)).state is DeliveryState.PENDING
    # The search itself fails: what was not known before is not known now.
    scene.clock.advance(GAPS_SECONDS[0] * 2)
    forge.failing.append(Failing(429))
    assert (await sent(scene, forge)).state is DeliveryState.PENDING
    scene.clock.advance(GAPS_SECONDS[1] * 2)
    delivery = await sent(scene, forge)
    assert (delivery.state, delivery.tries, len(comments(forge))) == (DeliveryState.DELIVERED, 3, 1)


async def test_whoever_is_killed_between_sending_and_noting_leaves_one_comment(scene: Scene, forge: FakeForge) -> None:
    ended(scene)
    deliveries = scene.store.webhooks.deliveries
    scene.store.webhooks.fanning_out.advance()
    (claimed,) = deliveries.claim("killed", {"forges.hub": 1})
    assert not claimed.may_be_there
    # It has sent the comment, and is gone.
    await courier_to(scene.store, replies=tables_of(forge))._told(claimed)
    assert len(comments(forge)) == 1 and (await sent(scene, forge)).state is DeliveryState.PENDING
    scene.clock.advance(61)
    assert (await sent(scene, forge)).state is DeliveryState.DELIVERED
    assert len(comments(forge)) == 1


async def test_what_was_given_back_before_it_was_sent_is_sent(scene: Scene, forge: FakeForge) -> None:
    ended(scene)
    scene.store.webhooks.fanning_out.advance()
    deliveries = scene.store.webhooks.deliveries
    deliveries.let_go(deliveries.claim("ends", {"forges.hub": 1}), "ends")
    assert (await sent(scene, forge)).state is DeliveryState.DELIVERED and len(comments(forge)) == 1


@pytest.mark.parametrize(
    "failing", [Failing(429, {"Retry-After": "7"}), Failing(500), Failing(403, {"Retry-After": "9"})]
)
async def test_a_forge_that_is_busy_is_asked_again(scene: Scene, forge: FakeForge, failing: Failing) -> None:
    ended(scene)
    forge.failing.append(failing)
    delivery = await sent(scene, forge)
    assert (delivery.state, delivery.tries, delivery.last_status) == (DeliveryState.PENDING, 1, failing.status)
    assert f"answered {failing.status}" in (delivery.last_error or "")
    scene.clock.advance(60)
    assert (await sent(scene, forge)).state is DeliveryState.DELIVERED and len(comments(forge)) == 1
    # Only where it may be there is it looked for.
    looked = ["GET"] if failing.status == 500 else []
    assert [each.partition(" ")[0] for each in forge.asked] == ["POST", *looked, "POST"]


async def test_what_a_forge_refuses_is_dead_and_told_and_can_be_replayed(scene: Scene, forge: FakeForge) -> None:
    ended(scene)
    forge.locked.add(THREAD)
    delivery = await sent(scene, forge)
    assert (delivery.state, delivery.last_status) == (DeliveryState.DEAD, 403)
    assert "issue is locked" in (delivery.last_error or "")
    forge.locked.clear()
    scene.store.webhooks.lists.replay(delivery.id, by=BY)
    assert (await sent(scene, forge)).state is DeliveryState.DELIVERED and len(comments(forge)) == 1


async def test_a_missing_token_is_told_and_the_reply_waits_for_it(scene: Scene, forge: FakeForge) -> None:
    ended(scene)
    delivery = await sent(scene, forge, tables=replace(tables_of(forge), tokens={}))
    assert delivery.state is DeliveryState.PENDING and "HUB_TOKEN" in (delivery.last_error or "")
    scene.clock.advance(60)
    assert (await sent(scene, forge)).state is DeliveryState.DELIVERED


async def test_a_table_that_is_gone_and_a_pruned_journal_have_no_reply(scene: Scene, forge: FakeForge) -> None:
    ended(scene)
    delivery = await sent(scene, forge, tables=ReplyTables())
    assert "no table [forges.hub]" in (delivery.last_error or "") and forge.asked == []
    scene.clock.advance(86_400)
    for _ in scene.store.retention.clear(scene.clock.now()):
        pass
    assert (await sent(scene, forge)).last_error == PRUNED


def test_what_steers_an_order_is_answered_where_that_order_is(scene: Scene, forge: FakeForge) -> None:
    first = taken(scene)
    held = scene.hold(str(first.order_id))
    steer = NewOrder(prompt="Also there", when_busy=WhenBusy.STEER)
    other = ForgeReply(forge="hub", project="team/shop", number=8)
    assert taken(scene, "2", new=steer, reply=other).order_id == first.order_id
    replace(held, control_seq=1).finish()
    scene.store.webhooks.fanning_out.advance()
    (delivery,) = scene.store.webhooks.lists.find(DeliveryFilter()).items
    message = scene.store.webhooks.messages.read(
        scene.store.webhooks.deliveries.claim("me", {delivery.endpoint_id: 1})[0]
    )
    assert not isinstance(message, str) and getattr(message, "target", None) == TARGET


def opened(scene: Scene) -> str:
    """The session of somebody's order that has opened request 7."""
    order = scene.store.orders.place(NewOrder(prompt="Mend it"), by=Actor("person:1", "page")).order
    held = scene.hold(order.id)
    place = {"forge": "hub", "project": "Team/Shop", "branch": "mcc/1", "base": "main"}
    held.write(started(), DeliveryStarted.model_validate({"step": "request", **place, "commit": "c" * 40}))
    request = DeliveryRequest(number=7, url="https://hub.test/7", state="open", created=True)
    held.write(DeliveryFinished(step="request", ok=True, request=request))
    held.finish()
    return order.session_id


def test_an_event_on_a_request_of_ours_is_a_turn_of_its_session_whosever_it_is(scene: Scene) -> None:
    session_id = opened(scene)
    assert scene.store.sessions.of_request("hub", "team/shop", 7) == session_id
    joined = scene.store.orders.get(str(taken(scene, joins=session_id).order_id))
    assert (joined.session_id, joined.session_seq, joined.principal) == (session_id, 2, BY.principal)
    assert scene.status(joined.id) is OrderStatus.QUEUED
    # Nothing was made for the text that names a session.
    assert named_session_id("team/shop#7") not in [each.id for each in scene.store.sessions.list().items]


def test_such_a_session_takes_as_many_turns_an_hour_and_none_once_it_is_deleted(scene: Scene) -> None:
    session_id = opened(scene)
    verdicts = [taken(scene, key, joins=session_id, turns_an_hour=2).verdict for key in "123"]
    assert verdicts == ["placed", "placed", "refused"]
    scene.clock.advance(3_601)
    assert taken(scene, "4", joins=session_id, turns_an_hour=2).verdict == "placed"
    scene.store.removal.begin(session_id, by=BY)
    refused = taken(scene, "5", joins=session_id)
    assert refused.verdict == "refused" and "deleted" in refused.why


def test_replies_go_with_their_session(scene: Scene, forge: FakeForge) -> None:
    order_id = ended(scene)
    scene.store.removal.begin(scene.store.orders.get(order_id).session_id, by=BY)
    for _ in range(3):
        scene.store.removal.advance()
    again = taken(scene, "2")
    assert again.verdict == "placed" and again.order_id != order_id
