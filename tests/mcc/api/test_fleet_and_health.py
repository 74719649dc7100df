"""Sessions, drones and their offers, health, metrics, and the OpenAPI document."""

import json
import re
from pathlib import Path

import httpx
import pytest
from pydantic import BaseModel

from mcc.api.app import build_app
from mcc.api.fleet import offers
from mcc.contracts.drones import Capability, DroneCounters, Registration
from mcc.contracts.entry import Entry
from mcc.contracts.git_delivery import Deliver
from mcc.contracts.order import NewOrder
from mcc.contracts.schedules import NewSchedule, ScheduleChange, ScheduleToPreview
from mcc.contracts.webhooks import NewReplay, NewRotation, NewWebhook, WebhookChange
from mcc.settings import ServiceSettings
from mcc.store.database.errors import StoreUnavailable
from mcc.store.store import Store
from mcc.testing import FakeClock, temporary_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import TOKEN

V1 = "/api/v1"


async def test_a_session_is_opened_listed_and_shown_with_its_turns_newest_first(api: httpx.AsyncClient) -> None:
    opened = await api.post(f"{V1}/sessions", json={"title": "About this"})
    assert opened.status_code == 201
    session = opened.json()["id"]
    turns = [
        (await api.post(f"{V1}/orders", json={"prompt": f"turn {n}", "session_id": session})).json()["id"]
        for n in range(3)
    ]
    shown = (await api.get(f"{V1}/sessions/{session}")).json()
    assert [order["id"] for order in shown["orders"]] == turns[::-1]
    assert (shown["title"], shown["turns"]) == ("About this", 3)
    assert session in [one["id"] for one in (await api.get(f"{V1}/sessions")).json()["items"]]
    assert (await api.post(f"{V1}/sessions")).status_code == 201


@pytest.mark.parametrize("session_id", ["x", "01900000-0000-7000-8000-000000000000", "%00"])
async def test_a_session_that_does_not_exist_is_not_found(api: httpx.AsyncClient, session_id: str) -> None:
    assert (await api.get(f"{V1}/sessions/{session_id}")).status_code == 404


async def test_drones_are_shown_with_their_slots_and_status(tmp_path: Path) -> None:
    clock = FakeClock()
    store = temporary_store(clock)
    app = build_app(ServiceSettings(data_dir=tmp_path), store, token=TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as api:
        drone = HandDrone(store, name="one", lease_seconds=12)
        store.leases.renew(drone.incarnation, lease_seconds=12, active=3, counters=DroneCounters(refused_messages=2))
        (shown,) = (await api.get(f"{V1}/drones")).json()["items"]
        assert (shown["name"], shown["slots"], shown["active"], shown["status"]) == ("one", 10, 3, "up")
        assert shown["refused_messages"] == 2
        clock.advance(60)
        (silent,) = (await api.get(f"{V1}/drones")).json()["items"]
        assert silent["status"] == "silent"


async def test_agents_tools_and_models_are_those_of_the_drones(api: httpx.AsyncClient, store: Store) -> None:
    HandDrone(store, name="one", agents=("master", "explore"))
    HandDrone(store, name="two")
    agents = (await api.get(f"{V1}/agents")).json()
    assert [(agent["name"], agent["drones"]) for agent in agents["items"]] == [
        ("explore", ["one"]),
        ("master", ["one", "two"]),
    ]
    assert agents["next_cursor"] is None
    assert [tool["name"] for tool in (await api.get(f"{V1}/tools")).json()["items"]] == ["read_file"]
    assert [model["name"] for model in (await api.get(f"{V1}/models")).json()["items"]] == ["offline"]


@pytest.mark.parametrize("path", ["agents", "tools", "models", "drones", "blueprints", "notes"])
async def test_every_list_is_read_page_by_page(path: str, api: httpx.AsyncClient, store: Store) -> None:
    for name in ("one", "two"):
        HandDrone(store, name=name, agents=("master", "explore"))
    all_at_once = (await api.get(f"{V1}/{path}")).json()["items"]
    paged: list[object] = []
    query: dict[str, str] | None = {"limit": "1"}
    while query is not None:
        page = (await api.get(f"{V1}/{path}", params=query)).json()
        assert len(page["items"]) <= 1
        paged += page["items"]
        query = {"limit": "1", "cursor": page["next_cursor"]} if page["next_cursor"] else None
    assert paged == all_at_once
    wrong = await api.get(f"{V1}/{path}", params={"cursor": "foreign"})
    assert (wrong.status_code, wrong.headers["content-type"]) == (400, "application/problem+json")


def test_an_offer_has_a_problem_only_when_no_drone_can_use_it() -> None:
    def drone(name: str, *models: Capability) -> Registration:
        return Registration(
            incarnation=name, name=name, pid=1, host="h", version="0", queues=("default",), slots=1, models=models
        )

    fast, broken = Capability(name="fast", description="Quick."), Capability(name="fast", problem="no key")
    both = offers([drone("a", broken), drone("b", fast)], lambda one: one.models)
    assert [(one.problem, one.drones, one.description) for one in both] == [(None, ("b",), "Quick.")]
    alone = offers([drone("a", broken)], lambda one: one.models)
    assert [(one.problem, one.drones) for one in alone] == [("no key", ())]


async def test_health_is_told_without_a_token(api: httpx.AsyncClient) -> None:
    del api.headers["authorization"]
    assert (await api.get("/healthz")).json()["status"] == "ok"
    ready = await api.get("/readyz")
    assert (ready.status_code, ready.json()["redis"]) == (200, "none")


class OldStore(Store):
    def schema_problem(self) -> str | None:
        return "The schema is older than this version: run `mcc db upgrade`."


class AwayStore(Store):
    def schema_problem(self) -> str | None:
        raise StoreUnavailable("The database does not answer.")


@pytest.mark.parametrize(("kind", "words"), [(OldStore, "mcc db upgrade"), (AwayStore, "does not answer")])
async def test_a_service_without_its_database_is_alive_and_not_ready(
    tmp_path: Path, store: Store, kind: type[Store], words: str
) -> None:
    app = build_app(ServiceSettings(data_dir=tmp_path), kind(**vars(store)), token=TOKEN)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as api:
        ready = await api.get("/readyz")
        assert (ready.status_code, (await api.get("/healthz")).status_code) == (503, 200)
        assert words in ready.json()["detail"] and ready.headers["retry-after"]


async def test_figures_are_told_to_prometheus(api: httpx.AsyncClient, store: Store) -> None:
    await api.post(f"{V1}/orders", json={"prompt": "x"})
    await api.get(f"{V1}/orders/01900000-0000-7000-8000-000000000000")
    HandDrone(store)
    text = (await api.get("/metrics")).text
    assert 'mcc_orders{status="queued"} 1.0' in text
    assert 'mcc_drones{status="up"} 1.0' in text
    assert "mcc_viewers 0.0" in text
    assert 'mcc_requests_total{method="POST",route="/api/v1/orders",status="201"} 1.0' in text
    assert 'mcc_requests_total{method="GET",route="/api/v1/orders/{order_id}",status="404"} 1.0' in text
    assert 'mcc_request_seconds_count{method="POST",route="/api/v1/orders"} 1.0' in text


async def test_the_figure_of_refused_messages_is_that_of_the_live_drones(tmp_path: Path) -> None:
    clock = FakeClock()
    store = temporary_store(clock)
    app = build_app(ServiceSettings(data_dir=tmp_path), store, token=TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as api:
        assert "mcc_refused_messages 0.0" in (await api.get("/metrics")).text
        for name, refused in (("one", 2), ("two", 5)):
            drone = HandDrone(store, name=name, lease_seconds=12)
            store.leases.renew(
                drone.incarnation, lease_seconds=12, active=0, counters=DroneCounters(refused_messages=refused)
            )
            clock.advance(8)
        assert "mcc_refused_messages 7.0" not in (await api.get("/metrics")).text
        assert "mcc_refused_messages 5.0" in (await api.get("/metrics")).text


async def test_the_examples_of_an_order_are_orders(api: httpx.AsyncClient) -> None:
    document = (await api.get(f"{V1}/openapi.json")).json()
    examples = document["paths"]["/api/v1/orders"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    assert len(examples) >= 3
    for example in examples.values():
        NewOrder.model_validate_json(json.dumps(example["value"]))


DOORS: dict[tuple[str, str], type[BaseModel]] = {
    ("/api/v1/webhooks", "post"): NewWebhook,
    ("/api/v1/webhooks/{webhook_id}", "patch"): WebhookChange,
    ("/api/v1/webhooks/{webhook_id}/rotate", "post"): NewRotation,
    ("/api/v1/webhooks/deliveries:replay", "post"): NewReplay,
    ("/api/v1/schedules", "post"): NewSchedule,
    ("/api/v1/schedules/{schedule_id}", "patch"): ScheduleChange,
    ("/api/v1/schedules:preview", "post"): ScheduleToPreview,
    ("/api/v1/orders/{order_id}/deliver", "post"): Deliver,
}


async def test_what_doors_take_is_shown_by_examples_that_they_take(api: httpx.AsyncClient) -> None:
    paths = (await api.get(f"{V1}/openapi.json")).json()["paths"]
    for (path, method), model in DOORS.items():
        examples = paths[path][method]["requestBody"]["content"]["application/json"]["examples"]
        assert len(examples) >= 2
        for example in examples.values():
            model.model_validate_json(json.dumps(example["value"]))
    ping, *entries = paths["/api/v1/events"]["get"]["responses"]["200"]["content"]["application/x-ndjson"][
        "example"
    ].splitlines()
    assert json.loads(ping) == {"type": "ping"} and entries
    for line in entries:
        Entry.model_validate_json(line)


async def test_each_call_is_summed_up_by_the_beginning_of_its_description(api: httpx.AsyncClient) -> None:
    paths = (await api.get(f"{V1}/openapi.json")).json()["paths"]
    assert paths["/api/v1/orders"]["get"]["summary"] == "Orders, newest first, that fit all filters"
    assert paths["/api/v1/approvals"]["get"]["summary"] == "The inbox items that are approved or denied"
    for operation in (one for methods in paths.values() for one in methods.values()):
        whole = " ".join(operation["description"].split())
        assert whole.startswith(operation["summary"]) and whole[len(operation["summary"])] in ".;:"
        assert " " in operation["summary"]


async def test_the_api_describes_itself_without_other_hosts(api: httpx.AsyncClient) -> None:
    document = (await api.get(f"{V1}/openapi.json")).json()
    paths = document["paths"]
    assert {"/api/v1/orders", "/api/v1/orders/{order_id}/events", "/api/v1/drones", "/healthz"} <= set(paths)
    assert paths["/api/v1/orders"]["post"]["responses"]["201"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/WorkOrder"
    }
    page = await api.get("/api/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "http://" not in page.text and "https://" not in page.text
    assert page.text.count("<script") == page.text.count("<script src=") == 2
    for address in re.findall(r'(?:src|href)="(/[^"]+)"', page.text):
        asset = await api.get(address, headers={"Authorization": ""})
        assert asset.status_code == 200 and asset.headers["content-type"].startswith("text/")
