"""Webhooks by the Python client."""

import pytest

from mcc.client import AsyncMCC
from mcc.client.errors import Conflict, NotFound
from mcc.store.doors.delivery_lists import DeliveryFilter
from mcc.store.store import Store
from mcc.testing.served import Served

URL = "https://ci.example.com/hook?token=abc"


async def test_an_endpoint_from_its_registration_to_its_removal(served: Served, store: Store) -> None:
    mcc = AsyncMCC(served.url, token=served.token)
    new = await mcc.webhooks.add("ci", URL, types=["order.queued"], filters={"agents": ["master"]})
    assert new.secret.startswith("whsec_")
    changed = await mcc.webhooks.change(new.id, name="cd")
    assert (await mcc.webhooks.get(new.id)) == changed and changed.name == "cd"
    tested = await mcc.webhooks.test(new.id)
    assert (await mcc.webhooks.deliveries(endpoint=new.id)).items == (tested,)
    assert (await mcc.webhooks.rotate(new.id, keep_seconds=0)).former_until is None
    with pytest.raises(Conflict):
        await mcc.webhooks.replay(tested.id)
    await mcc.webhooks.remove(new.id)
    again = await mcc.webhooks.replay(tested.id)
    assert (again.id, again.tries) == (tested.id, 0)
    assert await mcc.webhooks.replay_all(endpoint=new.id) == 0
    assert [each.name for each in await mcc.webhooks.list()] == ["orders"]
    assert len(store.webhooks.lists.find(DeliveryFilter()).items) == 1
    with pytest.raises(NotFound):
        await mcc.webhooks.get(new.id)
    await mcc.close()
