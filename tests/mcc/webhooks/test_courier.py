"""The courier of a service while it runs: silent receivers hold up nobody, and what it held is given back."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager

import pytest

from mcc.addresses import AddressRule, Endpoint
from mcc.configuration.network import WebhookSettings
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import NewOrder
from mcc.contracts.token_text import new_webhook_secret
from mcc.contracts.webhooks import ORDERS_ENDPOINT, Delivery, DeliveryState, NewWebhook
from mcc.store.doors.delivery_lists import DeliveryFilter
from mcc.store.store import Offload, Store
from mcc.testing import temporary_store
from mcc.webhooks.courier import Courier, Senders
from mcc.webhooks.replying import ReplySender, ReplyTables
from mcc.webhooks.sending import WebhookAnswer, WebhookForm, WebhookSender
from mcc.webhooks.slots import AT_ONCE
from tests.mcc.webhooks.receiver import courier_to, of_this_machine, receiving
from tests.waiting import eventually

BY = Actor("test")


@pytest.fixture
def store() -> Iterator[Store]:
    opened = temporary_store()
    yield opened
    opened.close()


@asynccontextmanager
async def running(store: Store, *reached: Endpoint, sender: type[WebhookSender] = WebhookSender) -> AsyncIterator[None]:
    """A courier at work, which waits much longer for answers than these tests do."""
    form = WebhookForm(WebhookSettings(allow_private=tuple(map(str, reached))))
    rule = AddressRule(of_this_machine, allow_private=reached)
    senders = Senders(sender(form, rule, try_seconds=600.0), ReplySender(ReplyTables(), rule))
    courier = Courier(store, senders, Offload(2, "webhooks"), public_url="http://mcc.test")
    work = asyncio.create_task(courier.run())
    try:
        yield
    finally:
        work.cancel()
        await asyncio.wait({work})


async def test_silent_receivers_hold_up_nobody_else(store: Store) -> None:
    async with receiving(*[None] * (AT_ONCE + 20)) as silent, receiving() as well:
        hosts = [Endpoint(f"silent-{number}.test", silent.port) for number in range(AT_ONCE + 20)]
        for host in hosts:
            placed = store.orders.place(NewOrder(prompt="x", webhook_url=f"http://{host}/"), by=BY).order
            store.controls.request(placed.id, ControlKind.CANCEL, NewControl(), by=BY)
        new = NewWebhook.model_validate({"name": "well", "url": well.url, "types": ["order.queued"]})
        async with running(store, *hosts, Endpoint("127.0.0.1", well.port)):
            await eventually(lambda: len(silent.received) > 0, 120)
            store.webhooks.endpoints.make(new, new_webhook_secret(), by=BY)
            store.orders.place(NewOrder(prompt="x"), by=BY)
            await eventually(lambda: len(well.received) > 0, 120)
            found = store.webhooks.lists.find(
                DeliveryFilter(state=DeliveryState.PENDING, endpoint=ORDERS_ENDPOINT, limit=200)
            ).items
    assert len(found) == len(hosts) and {delivery.tries for delivery in found} == {0}


async def test_what_a_service_held_when_it_ended_is_due_at_once(store: Store) -> None:
    async with receiving(None) as receiver:
        store.webhooks.endpoints.make(NewWebhook(name="ci", url=receiver.url), new_webhook_secret(), by=BY)
        store.orders.place(NewOrder(prompt="x"), by=BY)
        async with running(store, Endpoint("127.0.0.1", receiver.port)):
            await eventually(lambda: len(receiver.received) == 1, 120)
        async with running(store, Endpoint("127.0.0.1", receiver.port)):
            await eventually(lambda: len(receiver.received) == 2, 120)
    first, second = receiver.received
    assert (first.id, first.body) == (second.id, second.body)


async def test_a_service_without_webhooks_leaves_them_to_others(store: Store) -> None:
    async with receiving() as receiver:
        new = NewWebhook(name="ci", url=receiver.url)
        store.webhooks.endpoints.make(new, new_webhook_secret(), by=BY)
        store.orders.place(NewOrder(prompt="x"), by=BY)
        courier = courier_to(store, receiver, replies_alone=True)
        await courier.once()
        (waiting,) = store.webhooks.lists.find(DeliveryFilter()).items
        assert (receiver.received, waiting.state, waiting.tries) == ([], DeliveryState.PENDING, 0)
        await courier_to(store, receiver).once()
        assert receiver.types == ["order.queued"]


class OneThatFails(WebhookSender):
    """Fails as nobody expects where the address says so."""

    async def post(self, address: str, headers: Mapping[str, str], body: bytes) -> WebhookAnswer:
        if address.endswith("/fails"):
            raise ArithmeticError("nobody expects this")
        return await super().post(address, headers, body)


async def test_a_try_that_fails_as_nobody_expects_is_told_and_ends_no_others(store: Store) -> None:
    async with receiving() as receiver:
        for name, url in (("fails", f"{receiver.url}/fails"), ("well", receiver.url)):
            store.webhooks.endpoints.make(NewWebhook(name=name, url=url), new_webhook_secret(), by=BY)
        reached = Endpoint("127.0.0.1", receiver.port)
        async with running(store, reached, sender=OneThatFails):
            store.orders.place(NewOrder(prompt="x"), by=BY)
            await eventually(lambda: any(each.tries for each in failing(store)), 120)
            (failed,) = failing(store)
            assert failed.state is DeliveryState.PENDING and "ArithmeticError" in str(failed.last_error)
            store.orders.place(NewOrder(prompt="y"), by=BY)
            await eventually(lambda: len(receiver.received) == 2, 120)


def failing(store: Store) -> list[Delivery]:
    return [each for each in store.webhooks.lists.find(DeliveryFilter()).items if each.last_error]
