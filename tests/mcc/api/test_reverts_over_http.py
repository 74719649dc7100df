"""POST /orders/{id}/revert: an order that undoes another one's changes."""

from pathlib import Path

import httpx

from mcc.store.store import Store
from tests.mcc.api.test_orders_made_of_others_over_http import placed, running
from tests.mcc.api.test_orders_over_http import ORDERS, is_problem

REVERT = "/api/v1/orders/{order_id}/revert"


async def in_a_workspace(api: httpx.AsyncClient, store: Store, root: Path) -> str:
    source = await placed(api, workspace=str(root))
    running(store, source).finish()
    return source


async def test_a_revert_is_an_order_of_its_own_session(api: httpx.AsyncClient, store: Store, tmp_path: Path) -> None:
    source = await in_a_workspace(api, store, tmp_path / "work")
    answer = await api.post(REVERT.format(order_id=source), headers={"Idempotency-Key": "k"})

    assert answer.status_code == 201, answer.text
    order = answer.json()
    assert (order["kind"], order["prompt"], order["agent"], order["workspace"]) == (
        "revert",
        "",
        "revert",
        str(tmp_path / "work"),
    )
    origin = {"kind": "revert", "order_id": source, "after": None, "note": None, "overwrite": False}
    assert order["origin"] == origin and order["session_seq"] == 1
    again = await api.post(REVERT.format(order_id=source), headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.json()["id"]) == (200, order["id"])
    other = await api.post(REVERT.format(order_id=source), json={"to": 1}, headers={"Idempotency-Key": "k"})
    is_problem(other, 409)


async def test_how_far_and_over_whom_is_asked(api: httpx.AsyncClient, store: Store, tmp_path: Path) -> None:
    source = await in_a_workspace(api, store, tmp_path / "work")
    order = (await api.post(REVERT.format(order_id=source), json={"to": 1, "overwrite": True})).json()
    assert (order["origin"]["after"], order["origin"]["overwrite"]) == (1, True)
    for wrong in ({"to": -1}, {"to": "1"}, {"upto": 1}, {"to": 10**6}):
        is_problem(await api.post(REVERT.format(order_id=source), json=wrong), 422)


async def test_what_cannot_be_reverted_is_said(api: httpx.AsyncClient, store: Store, tmp_path: Path) -> None:
    going_on = await placed(api, workspace=str(tmp_path / "work"))
    is_problem(await api.post(REVERT.format(order_id=going_on)), 409)
    without = await placed(api)
    running(store, without).finish()
    is_problem(await api.post(REVERT.format(order_id=without)), 422)
    is_problem(await api.post(REVERT.format(order_id="0190c9a2-0000-7000-8000-000000000000")), 404)
    is_problem(await api.post(ORDERS, json={"kind": "revert", "workspace": str(tmp_path / "work")}), 422)


async def test_a_revert_is_neither_retried_nor_forked(api: httpx.AsyncClient, store: Store, tmp_path: Path) -> None:
    source = await in_a_workspace(api, store, tmp_path / "work")
    revert = (await api.post(REVERT.format(order_id=source))).json()["id"]
    running(store, revert).finish()
    is_problem(await api.post(f"{ORDERS}/{revert}/retry"), 422)
    is_problem(await api.post(f"{ORDERS}/{revert}/fork", json={"after": 1}), 422)
    assert (await api.post(REVERT.format(order_id=revert))).status_code == 201
