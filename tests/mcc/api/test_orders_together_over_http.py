"""Many orders in one request over HTTP: all are accepted, or none and each unacceptable one is named."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcc.api.app import RedisAccess, build_app
from mcc.contracts.entry import Entry
from mcc.contracts.order import MAX_BATCH_ORDERS, WorkOrder
from mcc.contracts.wire import Hint
from mcc.dispatch.publisher import AsyncPublisher, Message
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import TOKEN

BATCH, ORDERS = "/api/v1/orders:batch", "/api/v1/orders"
NOBODY = "01900000-0000-7000-8000-000000000000"


def orders(*asked: dict[str, Any]) -> dict[str, Any]:
    return {"orders": list(asked)}


def errors(answer: httpx.Response, status: int = 422) -> list[dict[str, Any]]:
    assert answer.status_code == status and answer.headers["content-type"] == "application/problem+json", answer.text
    return list(answer.json().get("errors", ()))


async def test_each_has_a_result_in_its_place(api: httpx.AsyncClient, store: Store, nudges: Any) -> None:
    alone = await api.post(ORDERS, json={"prompt": "first"}, headers={"Idempotency-Key": "k1"})
    asked = orders({"prompt": "first", "idempotency_key": "k1"}, {"prompt": "second", "idempotency_key": "k2"})
    answer = await api.post(BATCH, json=asked)
    assert answer.status_code == 201
    known, made = answer.json()["items"]
    assert (known["id"], known["created"], made["created"]) == (alone.json()["id"], False, True)
    assert made["session_id"] == store.orders.get(made["id"]).session_id and made["status"] == "queued"
    assert store.orders.get(made["id"]).on_ask == "deny"
    again = await api.post(BATCH, json=asked)
    assert [one["id"] for one in again.json()["items"]] == [known["id"], made["id"]]
    assert {one.id for one in store.orders.list().items} == {known["id"], made["id"]}
    assert len(await nudges.until(1)) == 1


async def test_all_that_cannot_be_accepted_are_named_with_why_and_none_is_placed(
    api: httpx.AsyncClient, store: Store, tmp_path: Path
) -> None:
    HandDrone(store, agents=("master", "scout"))
    here = str(tmp_path / "work")
    asked = orders(
        {"prompt": "fine", "workspace": here},
        {"prompt": "outside", "workspace": "/etc"},
        {"prompt": "also fine", "workspace": here},
        {"prompt": "nobody", "agent": "scoot"},
        {"prompt": "over", "expires_at": "2020-01-01T00:00:00Z"},
    )
    answer = await api.post(BATCH, json=asked)
    found = errors(answer)
    assert [(one["index"], one["field"], one["status"]) for one in found] == [
        (1, "orders.1.workspace", 422),
        (3, "orders.3.agent", 422),
        (4, "orders.4.expires_at", 422),
    ]
    assert "scout" in found[1]["message"] and answer.json()["detail"].startswith("3 of these 5 orders")
    assert not store.orders.list().items
    rest = orders(asked["orders"][0], asked["orders"][2])
    assert (await api.post(BATCH, json=rest)).status_code == 201


async def test_an_order_of_the_wrong_form_is_named_by_its_index(api: httpx.AsyncClient) -> None:
    answer = await api.post(BATCH, json={"orders": [{"prompt": "x"}, {"prompt": ""}, {"prompt": "x", "priority": 10}]})
    assert answer.status_code == 422
    told = [(one["index"], one["status"], one["field"]) for one in answer.json()["errors"]]
    assert told == [(1, 422, "orders.1.prompt"), (2, 422, "orders.2.priority")]


@pytest.mark.parametrize("path", ["/api/v1/orders", BATCH])
async def test_a_field_that_is_named_like_an_order_with_a_huge_index_is_refused(
    api: httpx.AsyncClient, path: str
) -> None:
    (told,) = errors(await api.post(path, json={**orders({"prompt": "x"}), "prompt": "x", "orders." + "9" * 5_000: 1}))[
        -1:
    ]
    assert "index" not in told


async def test_what_only_the_database_knows_is_named_too(api: httpx.AsyncClient, store: Store) -> None:
    await api.post(BATCH, json=orders({"prompt": "first", "idempotency_key": "k1"}))
    asked = orders(
        {"prompt": "other", "idempotency_key": "k1"},
        {"prompt": "fine"},
        {"prompt": "lost", "session_id": NOBODY},
        {"kind": "generate", "document_id": NOBODY},
    )
    found = errors(await api.post(BATCH, json=asked))
    assert [(one["index"], one["status"]) for one in found] == [(0, 409), (2, 404), (3, 404)]
    assert len(store.orders.list().items) == 1
    unknown = errors(await api.post(BATCH, json=orders({"kind": "generate", "blueprint": "coarse"})))
    assert unknown[0]["field"] == "orders.0.blueprint" and unknown[0]["status"] == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"orders": []}, "orders"),
        ({"orders": [{"prompt": "x"}] * (MAX_BATCH_ORDERS + 1)}, "orders"),
        ({"orders": [{"prompt": "x"}, {"promt": "x"}]}, "orders.1.promt"),
        ({"orders": [{"prompt": "x", "idempotency_key": "with space"}]}, "orders.0.idempotency_key"),
        ([{"prompt": "x"}], ""),
    ],
)
async def test_a_request_of_the_wrong_form_is_refused(api: httpx.AsyncClient, body: Any, field: str) -> None:
    assert field in {one["field"] for one in errors(await api.post(BATCH, json=body))}


async def test_documents_are_begun_among_other_orders(api: httpx.AsyncClient) -> None:
    asked = orders(
        {"prompt": "a chat"},
        {"kind": "generate", "blueprint": "course", "generation": {"metadata": {"topic": "Photosynthesis"}}},
        {"prompt": "another chat"},
    )
    placed = (await api.post(BATCH, json=asked)).json()["items"]
    assert (await api.get(f"/api/v1/documents/{placed[1]['session_id']}")).json()["title"] == "Photosynthesis"
    assert [one["status"] for one in placed] == ["queued"] * 3


async def test_a_prompt_for_a_running_order_is_a_steer_with_its_receipt(api: httpx.AsyncClient, store: Store) -> None:
    first = (await api.post(ORDERS, json={"prompt": "begin"})).json()
    HandDrone(store).claim(first["id"])
    steer = {"prompt": "rather this", "session_id": first["session_id"], "when_busy": "steer"}
    placed = (await api.post(BATCH, json=orders({"prompt": "another"}, steer))).json()["items"]
    assert (placed[1]["id"], placed[1]["created"]) == (first["id"], False)
    assert [one.id for one in store.controls.of_order(first["id"])] == [placed[1]["receipt"]["id"]]


class RecordedPublisher(AsyncPublisher):
    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.shown: list[str] = []
        self.called: list[str] = []

    def report_status(self, order: WorkOrder, why: str = "") -> None:
        self.shown.append(order.id)

    async def publish(self, messages: Iterable[Message]) -> bool:
        self.sent.extend(messages)
        return True

    async def call(self, incarnations: Iterable[str]) -> bool:
        self.called.extend(incarnations)
        return True


async def test_drones_are_called_once_for_all_and_viewers_hear_of_each(tmp_path: Path) -> None:
    store, publisher = temporary_store(), RecordedPublisher()
    app = build_app(ServiceSettings(data_dir=tmp_path), store, token=TOKEN, redis=RedisAccess(publisher=publisher))
    transport, headers = httpx.ASGITransport(app=app), {"Authorization": f"Bearer {TOKEN}"}
    drones = [HandDrone(store, name=f"d{number}") for number in range(3)]
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as api,
        app.router.lifespan_context(app),
    ):
        answer = await api.post(BATCH, json=orders(*({"prompt": f"order {number}"} for number in range(250))))
    placed = [one["id"] for one in answer.json()["items"]]
    assert sorted(publisher.called) == sorted(drone.incarnation for drone in drones)
    assert publisher.shown == placed
    entries = [one for one in publisher.sent if isinstance(one, Entry)]
    hints = [one for one in publisher.sent if isinstance(one, Hint)]
    assert [(one.order_id, one.kind) for one in entries] == [(one, "order.queued") for one in placed]
    assert [(one.order_id, one.seq, one.status) for one in hints] == [(one, 1, "queued") for one in placed]


async def test_of_an_order_alone_and_of_one_made_of_it_viewers_hear_the_status_and_the_first_entries_once(
    tmp_path: Path,
) -> None:
    store, publisher = temporary_store(), RecordedPublisher()
    app = build_app(ServiceSettings(data_dir=tmp_path), store, token=TOKEN, redis=RedisAccess(publisher=publisher))
    transport, headers = httpx.ASGITransport(app=app), {"Authorization": f"Bearer {TOKEN}"}
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as api,
        app.router.lifespan_context(app),
    ):
        alone = (await api.post(ORDERS, json={"prompt": "alone"})).json()["id"]
        HandDrone(store).claim(alone).finish_without_start()
        again = (await api.post(f"{ORDERS}/{alone}/retry")).json()["id"]
    for order_id in (alone, again):
        of_order = [one for one in publisher.sent if isinstance(one, Entry | Hint) and one.order_id == order_id]
        assert [(one.seq, one.status) for one in of_order if isinstance(one, Hint)] == [(1, "queued")]
        assert [one for one in of_order if isinstance(one, Entry)] == store.journal.read(order_id)[:1]


CANCEL = "/api/v1/orders:cancel"


async def test_orders_are_cancelled_together_and_their_drone_is_woken(api: httpx.AsyncClient, store: Store) -> None:
    ids = [(await api.post(ORDERS, json={"prompt": "x", "labels": ["nightly"]})).json()["id"] for _ in range(3)]
    other = (await api.post(ORDERS, json={"prompt": "y"})).json()["id"]
    held = HandDrone(store).claim(ids[0])
    answer = await api.post(CANCEL, json={"label": "nightly", "reason": "superseded"})
    assert answer.status_code == 202 and answer.json() == {"requested": 3, "ended": 2, "next_cursor": None}
    assert [store.orders.get(id).status for id in (*ids, other)] == ["running", "cancelled", "cancelled", "queued"]
    assert [control.reason for control in store.controls.of_order(held.id)] == ["superseded"]
    assert (await api.post(CANCEL, json={"label": "nightly"})).json()["ended"] == 0


async def test_a_cancel_says_which_orders(api: httpx.AsyncClient) -> None:
    assert "Input names no order" in errors(await api.post(CANCEL, json={}))[0]["message"]
    assert errors(await api.post(CANCEL, json={"status": "failed"}))[0]["field"] == "status"
    assert errors(await api.post(CANCEL, json={"lable": "x"}))
    assert (await api.post(CANCEL, json={"all": True}, params={"cursor": "nonsense"})).status_code == 400


async def test_lists_take_the_filters_of_a_cancel(api: httpx.AsyncClient, store: Store, tmp_path: Path) -> None:
    HandDrone(store, agents=("master", "scout"))
    here = str(tmp_path / "work")
    asked = [{"prompt": "a", "agent": "scout"}, {"prompt": "b", "workspace": here}, {"prompt": "c"}]
    ids = [(await api.post(ORDERS, json=one)).json()["id"] for one in asked]

    async def listed(**filters: str) -> list[str]:
        return [one["id"] for one in (await api.get(ORDERS, params=filters)).json()["items"]]

    assert await listed(agent="scout") == ids[:1] and await listed(workspace=here) == ids[1:2]
    placed = store.orders.get(ids[1]).created_at.isoformat()
    assert await listed(since=placed) == [ids[2], ids[1]] and await listed(since=placed, agent="scout") == []
    assert (await api.get(ORDERS, params={"since": "yesterday"})).status_code == 422
