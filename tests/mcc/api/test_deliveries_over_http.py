"""`deliver` of orders, and POST /orders/{id}/deliver: a turn of the same session that delivers another one's work."""

from pathlib import Path

import httpx
import pytest

from mcc.configuration.forges import Forge
from mcc.configuration.workspaces import GitRemote, WorkspaceSettings
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from tests.mcc.api.test_orders_made_of_others_over_http import placed, running
from tests.mcc.api.test_orders_over_http import ORDERS, is_problem

DELIVER = "/api/v1/orders/{order_id}/deliver"
ADDRESS = "https://git.example.org/team/shop"
NOWHERE = "https://no-forge.example.org/team"


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    allowed = WorkspaceSettings(
        git=(GitRemote(address="https://git.example.org/team/*"), GitRemote(address=f"{NOWHERE}/*"))
    )
    forges = {"hub": Forge(kind="gitea", address="https://git.example.org", token_env="HUB_TOKEN")}
    return ServiceSettings(data_dir=tmp_path, workspaces=allowed, forges=forges)


async def test_a_delivery_is_the_next_turn_of_the_session_that_it_delivers_for(
    api: httpx.AsyncClient, store: Store
) -> None:
    wish = {"pull_request": True, "title": "Mended"}
    source = await placed(api, workspace=ADDRESS, deliver=wish)
    is_problem(await api.post(DELIVER.format(order_id=source)), 409)
    running(store, source).finish()
    answer = await api.post(DELIVER.format(order_id=source), headers={"Idempotency-Key": "k", "MCC-Attended": "true"})
    assert answer.status_code == 201, answer.text
    order = answer.json()
    assert (order["kind"], order["session_seq"], order["workspace"]) == ("deliver", 2, ADDRESS)
    assert order["deliver"]["title"] == "Mended" and order["on_ask"] == "wait"
    assert (order["origin"]["kind"], order["origin"]["order_id"]) == ("deliver", source)
    again = await api.post(DELIVER.format(order_id=source), headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.json()["id"]) == (200, order["id"])
    other = await api.post(DELIVER.format(order_id=source), json={"base": "next"}, headers={"Idempotency-Key": "k"})
    is_problem(other, 409)


async def test_what_cannot_be_delivered_is_said(api: httpx.AsyncClient, store: Store) -> None:
    without = await placed(api)
    running(store, without).finish()
    is_problem(await api.post(DELIVER.format(order_id=without)), 422)
    is_problem(await api.post(DELIVER.format(order_id="0190c9a2-0000-7000-8000-000000000000")), 404)
    is_problem(await api.post(ORDERS, json={"kind": "deliver", "workspace": ADDRESS}), 422)
    is_problem(await api.post(ORDERS, json={"prompt": "x", "deliver": {"pull_request": True}}), 422)
    for wrong in (
        {"push": False},
        {"branch": "a..b"},
        {"branch": "-x"},
        {"base": "a/"},
        {"close": 0},
        {"forced": True},
    ):
        is_problem(await api.post(ORDERS, json={"prompt": "x", "workspace": ADDRESS, "deliver": wrong}), 422)


async def test_what_no_forge_would_take_is_refused_before_the_work_is_done(api: httpx.AsyncClient) -> None:
    answer = await api.post(ORDERS, json={"prompt": "x", "workspace": f"{NOWHERE}/shop", "deliver": {}})
    is_problem(answer, 422)
    assert "[forges.NAME]" in answer.text and "[forges.hub] is https://git.example.org" in answer.text
    for branch, why in (("main", "begin with mcc/"), ("feature", "prefix of [forges.hub]")):
        wish = {"branch": branch}
        answer = await api.post(ORDERS, json={"prompt": "x", "workspace": ADDRESS, "deliver": wish})
        is_problem(answer, 422)
        assert why in answer.text and "deliver.branch" in answer.text
