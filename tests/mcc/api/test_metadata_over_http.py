"""Metadata of an order over HTTP, and controls that an order excluded when it was placed."""

import httpx

from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone

ORDERS = "/api/v1/orders"


async def placed(api: httpx.AsyncClient, **fields: object) -> str:
    answer = await api.post(ORDERS, json={"prompt": "x", **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_metadata_is_set_with_a_receipt_and_shown_by_the_order(api: httpx.AsyncClient, store: Store) -> None:
    order_id = await placed(api, metadata={"ticket": "OPS-17"})
    HandDrone(store).claim(order_id)
    answer = await api.post(f"{ORDERS}/{order_id}/metadata", json={"metadata": {"tries": 2}, "reason": "counted"})
    assert answer.status_code == 202
    (control,) = (await api.get(f"{ORDERS}/{order_id}/controls")).json()["items"]
    assert (control["id"], control["kind"]) == (answer.json()["id"], "set_metadata")
    assert control["metadata"] == {"tries": 2}
    assert (await api.get(f"{ORDERS}/{order_id}")).json()["metadata"] == {"ticket": "OPS-17"}


async def test_metadata_belongs_to_a_set_metadata_and_is_needed_there(api: httpx.AsyncClient, store: Store) -> None:
    order_id = await placed(api)
    for kind, body, words in (
        ("metadata", {}, "say what is to be set"),
        ("metadata", {"metadata": {}}, "say what is to be set"),
        ("metadata", {"metadata": {"a": 1}, "remove_tools": ["run_shell"]}, "remove_tools belongs to a steer"),
        ("pause", {"metadata": {"a": 1}}, "metadata belongs to a set_metadata"),
        ("metadata", {"metadata": {"a": "x" * 20_000}}, "16,000 are the most"),
    ):
        answer = await api.post(f"{ORDERS}/{order_id}/{kind}", json=body)
        assert answer.status_code == 422 and words in answer.json()["detail"], answer.text
    assert store.controls.of_order(order_id) == []


async def test_a_control_that_the_order_does_not_take_is_a_conflict_that_names_those_it_takes(
    api: httpx.AsyncClient, store: Store
) -> None:
    order_id = await placed(api, controls=["steer"])
    HandDrone(store).claim(order_id)
    for address, body in (
        ("pause", {}),
        ("controls:batch", {"controls": [{"kind": "steer", "message": "m"}, {"kind": "pause"}]}),
    ):
        answer = await api.post(f"{ORDERS}/{order_id}/{address}", json=body)
        assert answer.status_code == 409 and "takes no pause" in answer.json()["detail"]
        assert "allowed: steer" in answer.json()["detail"]
    assert store.controls.of_order(order_id) == []
    assert (await api.post(f"{ORDERS}/{order_id}/cancel")).status_code == 202


async def test_a_pause_without_a_resume_is_not_accepted(api: httpx.AsyncClient) -> None:
    answer = await api.post(ORDERS, json={"prompt": "x", "controls": ["pause"]})
    assert answer.status_code == 422 and "would never go on" in answer.json()["detail"]
