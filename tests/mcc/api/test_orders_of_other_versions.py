"""Orders accepted by a service of another version, read and ended by this one."""

import httpx
import pytest
import sqlalchemy as sa

from mcc.contracts.journal import JOURNAL_VERSION
from mcc.store.database.tables import STATE
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.mcc.api.test_orders_over_http import ORDERS, is_problem

UNKNOWN = 99


async def of_another_version(api: httpx.AsyncClient, store: Store) -> str:
    order_id = str((await api.post(ORDERS, json={"prompt": "x"})).json()["id"])
    of_version(store, order_id, UNKNOWN)
    return order_id


def of_version(store: Store, order_id: str, version: int) -> None:
    change = sa.update(STATE).where(STATE.c.order_id == order_id).values(journal_version=version)
    store.database.write(lambda connection: connection.execute(change))


async def told(api: httpx.AsyncClient, order_id: str) -> list[str]:
    answer = await api.get(f"{ORDERS}/{order_id}/journal")
    assert answer.status_code == 200
    return [entry["kind"] for entry in answer.json()["items"]]


async def test_one_that_no_agent_has_begun_is_cancelled_and_its_journal_read(
    api: httpx.AsyncClient, store: Store
) -> None:
    order_id = await of_another_version(api, store)
    assert (await api.post(f"{ORDERS}/{order_id}/cancel", json={"reason": "enough"})).status_code == 202
    order = (await api.get(f"{ORDERS}/{order_id}")).json()
    assert (order["status"], order["detail"], order["last_seq"]) == ("cancelled", "enough", 3)
    assert await told(api, order_id) == ["order.queued", "control.applied", "order.finished"]
    is_problem(await api.get(f"{ORDERS}/{order_id}/record"), 404)
    events = await api.get(f"{ORDERS}/{order_id}/events")
    assert events.text.count("event: ") == 3 and "event: order.finished" in events.text
    assert (await api.get(f"{ORDERS}/{order_id}/events?after=3")).status_code == 204


@pytest.mark.parametrize("when_busy", ["interrupt", "rollback"])
async def test_one_that_agents_have_begun_stays_for_those_who_know_its_journal(
    api: httpx.AsyncClient, store: Store, when_busy: str
) -> None:
    order_id = await of_another_version(api, store)
    of_version(store, order_id, JOURNAL_VERSION)
    drone = HandDrone(store)
    held = drone.claim(order_id)
    held.start()
    of_version(store, order_id, UNKNOWN)
    store.claims.hand_back([(order_id, held.claim.epoch)], drone="drone-1", message="told to stop")
    asked = {"prompt": "y", "session_id": held.claim.order.session_id, "when_busy": when_busy}
    placed = await api.post(ORDERS, json=asked)
    assert (placed.status_code, placed.json()["blocked_by"]) == (201, order_id)
    assert (await api.get(f"{ORDERS}/{order_id}")).json()["status"] == "queued"
    [control] = (await api.get(f"{ORDERS}/{order_id}/controls")).json()["items"]
    assert (control["kind"], control["applied_seq"], control["refused"]) == ("cancel", None, None)
    assert (await told(api, order_id))[-1] == "order.handed_back"
    assert (await api.get(f"{ORDERS}/{order_id}/record")).json()["status"] == "running"
