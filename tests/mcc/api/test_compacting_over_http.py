"""Compaction of a session over HTTP: placed by the service alone, and told apart from its turns."""

import httpx

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone

SESSIONS = "/api/v1/sessions"
ORDERS = "/api/v1/orders"


def ended_turn(store: Store) -> str:
    order = store.orders.place(NewOrder(prompt="one"), by=Actor("p")).order
    store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor("p"))
    return order.session_id


async def test_a_session_is_compacted_by_an_order_that_is_answered_again_while_it_lasts(
    api: httpx.AsyncClient, store: Store
) -> None:
    session_id = ended_turn(store)
    first = await api.post(f"{SESSIONS}/{session_id}/compact")
    again = await api.post(f"{SESSIONS}/{session_id}/compact")
    assert (first.status_code, again.status_code) == (202, 200)
    order = first.json()
    assert again.json()["id"] == order["id"]
    assert (order["kind"], order["compacts"], order["status"]) == ("compact", session_id, "queued")
    here = httpx.URL(f"http://127.0.0.1:8420{SESSIONS}/{session_id}/compact")
    located = await api.get(here.join(first.headers["location"]))
    assert located.json()["id"] == order["id"]
    for query, ids in (({"kind": "compact"}, [order["id"]]), ({"status": "queued"}, []), ({"kind": "generate"}, [])):
        assert [one["id"] for one in (await api.get(ORDERS, params=query)).json()["items"]] == ids
    assert [one["id"] for one in (await api.get(SESSIONS)).json()["items"]] == [session_id]
    assert (await api.get(f"{SESSIONS}/{order['session_id']}")).status_code == 404


async def test_where_nothing_can_be_freed_it_is_refused(api: httpx.AsyncClient) -> None:
    session = (await api.post(SESSIONS, json={"title": "Talk"})).json()
    refused = await api.post(f"{SESSIONS}/{session['id']}/compact")
    assert refused.status_code == 409 and "nothing to compact" in refused.json()["detail"]
    assert (await api.post(f"{SESSIONS}/{fresh_id()}/compact")).status_code == 404


async def test_nobody_else_places_steers_or_repeats_such_an_order(api: httpx.AsyncClient, store: Store) -> None:
    placed = await api.post(ORDERS, json={"kind": "compact", "prompt": "x"})
    assert placed.status_code == 422 and "/sessions/{id}/compact" in placed.text
    batch = await api.post("/api/v1/orders:batch", json={"orders": [{"kind": "compact"}]})
    assert batch.status_code == 422
    order = (await api.post(f"{SESSIONS}/{ended_turn(store)}/compact")).json()
    steered = await api.post(f"{ORDERS}/{order['id']}/steer", json={"message": "hello"})
    forked = await api.post(f"{ORDERS}/{order['id']}/fork", json={"after": 1})
    retried = await api.post(f"{ORDERS}/{order['id']}/retry")
    assert [steered.status_code, forked.status_code, retried.status_code] == [409, 409, 409]
    held = HandDrone(store).claim(order["id"])
    assert held.claim.order.compacts == order["compacts"]
    assert (await api.post(f"{ORDERS}/{order['id']}/cancel", json={})).status_code == 202
