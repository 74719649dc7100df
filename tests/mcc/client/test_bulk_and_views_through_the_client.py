"""Many orders at once, failures and saved views, over HTTP and through both clients."""

import httpx
import pytest

from mcc.client import MCC, AsyncMCC
from mcc.client.errors import NotFound, Refused
from mcc.contracts.order_bulk import BulkItem
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import Served


def test_orders_are_cancelled_and_repeated_by_their_ids(served: Served, store: Store) -> None:
    with MCC(served.url, token=served.token) as mcc:
        one, two = mcc.orders.submit("one"), mcc.orders.submit("two")
        missing = "01a1d430-364d-7000-8000-9cf7f3a86dc4"
        cancelled = mcc.orders.bulk("cancel", [one.id, missing, one.id], reason="enough")
        assert [item.status for item in cancelled] == [OrderStatus.CANCELLED, None, OrderStatus.CANCELLED]
        assert cancelled[0] == BulkItem(id=one.id, status=OrderStatus.CANCELLED)
        assert "there is no order" in (cancelled[1].problem or "")
        retried = mcc.orders.bulk("retry", [one.id, two.id], idempotency_key="key")
        assert retried == mcc.orders.bulk("retry", [one.id, two.id], idempotency_key="key")
        again, refused = retried
        assert again.order_id is not None and mcc.orders.get(again.order_id).prompt == "one"
        assert refused.order_id is None and refused.status is OrderStatus.QUEUED and "queued" in (refused.problem or "")


@pytest.mark.parametrize("body", [{}, {"action": "cancel", "ids": []}, {"action": "burn", "ids": ["x"]}])
def test_what_is_no_action_on_orders_is_refused(served: Served, body: dict[str, object]) -> None:
    headers = {"Authorization": f"Bearer {served.token}"}
    answer = httpx.post(f"{served.url}/api/v1/orders:bulk", json=body, headers=headers, trust_env=False)
    assert answer.status_code == 422


def test_failures_and_lists_are_read(served: Served, store: Store) -> None:
    with MCC(served.url, token=served.token) as mcc:
        order = mcc.orders.submit("one", labels=["nightly"], model="offline")
        assert mcc.orders.failures() == ()
        with pytest.raises(Refused, match="90 days"):
            mcc.orders.failures(since=order.created_at.replace(year=2020))
        held = HandDrone(store).claim(order.id)
        held.start()
        [summary] = mcc.orders.summaries(label=["nightly", "daily"], drone="drone-1", since=order.created_at).items
        assert (summary.id, summary.title, summary.principal) == (order.id, "one", "operator")
        assert [item.id for item in mcc.orders.list(status=["running"], until=now()).items] == [order.id]
        assert mcc.orders.list(group="done").items == ()
        assert [(count.status, count.orders) for count in mcc.orders.counts()] == [(OrderStatus.RUNNING, 1)]
        with pytest.raises(Refused):
            mcc.orders.list(status="unheard of")


def test_views_are_kept_by_name(served: Served) -> None:
    with MCC(served.url, token=served.token) as mcc:
        kept = mcc.views.put("What failed?", {"status": ["failed"]}, position=1, shared=True)
        assert mcc.views.list() == (kept,) and mcc.views.get("What failed?") == kept
        mcc.views.delete("What failed?")
        with pytest.raises(NotFound):
            mcc.views.get("What failed?")
        with pytest.raises(Refused, match="8,000"):
            mcc.views.put("long", {"text": "x" * 9_000})


async def test_the_same_calls_about_many_orders_and_views_can_be_awaited(served: Served) -> None:
    async with AsyncMCC(served.url, token=served.token) as mcc:
        order = await mcc.orders.submit("one")
        [item] = await mcc.orders.bulk("cancel", [order.id])
        assert item.status is OrderStatus.CANCELLED
        assert await mcc.orders.failures() == ()
        await mcc.views.put("mine", {})
        assert [view.name for view in await mcc.views.list()] == ["mine"]
