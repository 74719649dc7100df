"""The inbox through both clients."""

import pytest

from mcc.client import MCC, AsyncMCC
from mcc.client.errors import Conflict
from mcc.contracts.inbox_facts import ApprovalRequested
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import Served


def asking(store: Store, order_id: str) -> None:
    held = HandDrone(store).claim(order_id)
    held.start()
    held.write(ApprovalRequested(approval_id="approval", call_id="call", tool="git_commit", digest="sha256:1"))


def test_both_clients_list_the_inbox_and_mark_what_was_seen(served: Served, store: Store) -> None:
    with MCC(served.url, token=served.token) as mcc:
        order = mcc.orders.submit("Look around", on_ask="wait")
        asking(store, order.id)
        with pytest.raises(Conflict):
            mcc.inbox.approve("approval", digest="sha256:2")
        assert mcc.inbox.deny("approval", digest="sha256:1").status == "denied"
        assert [item.kind for item in mcc.inbox.look(kinds=["ready", "approval"], status="denied").items] == [
            "approval"
        ]
        [item] = mcc.inbox.look(status="denied").items
        mcc.inbox.see([item.id])
        assert mcc.inbox.look(status=None, unseen=True).items == ()
        mcc.inbox.see(before=item.requested_at)  # type: ignore[union-attr]


async def test_the_same_calls_about_the_inbox_can_be_awaited(served: Served, store: Store) -> None:
    async with AsyncMCC(served.url, token=served.token) as mcc:
        order = await mcc.orders.submit("Look around", on_ask="wait")
        asking(store, order.id)
        [item] = (await mcc.inbox.look(scope="mine")).items
        assert (item.kind, item.title, item.owner) == ("approval", "Look around", "operator")
        await mcc.inbox.see([item.id])
        assert (await mcc.inbox.look(unseen=True)).items == ()
