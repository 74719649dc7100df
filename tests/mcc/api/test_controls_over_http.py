"""Cancel, pause, resume and steer over HTTP: receipts, and the outcome of each control."""

from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest

from mcc.api.app import RedisAccess, build_app
from mcc.contracts.order import WorkOrder
from mcc.contracts.wire import Hint, Wake
from mcc.dispatch.publisher import AsyncPublisher, Message
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import TOKEN
from tests.mcc.api.test_orders_over_http import is_problem

ORDERS = "/api/v1/orders"
KINDS = ["cancel", "pause", "resume", "steer"]


async def placed(api: httpx.AsyncClient) -> str:
    return str((await api.post(ORDERS, json={"prompt": "x"})).json()["id"])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_to_a_running_order_gets_a_receipt_and_is_listed(
    api: httpx.AsyncClient, store: Store, kind: str
) -> None:
    order_id = await placed(api)
    HandDrone(store).claim(order_id)
    answer = await api.post(f"{ORDERS}/{order_id}/{kind}", json={"message": "look there", "reason": "because"})
    assert answer.status_code == 202
    assert set(answer.json()) >= {"id", "requested_at"}
    (control,) = (await api.get(f"{ORDERS}/{order_id}/controls")).json()["items"]
    assert (control["id"], control["kind"], control["message"]) == (answer.json()["id"], kind, "look there")
    assert control["applied_seq"] is None and control["refused"] is None


@pytest.mark.parametrize("kind", ["cancel", "pause", "resume"])
async def test_a_request_needs_no_body(api: httpx.AsyncClient, store: Store, kind: str) -> None:
    order_id = await placed(api)
    HandDrone(store).claim(order_id)
    assert (await api.post(f"{ORDERS}/{order_id}/{kind}")).status_code == 202


MEGABYTE = "é" * 524_288


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/orders", {"prompt": MEGABYTE}),
        ("/orders", {"prompt": MEGABYTE, "when_busy": "steer", "session_id": "SESSION"}),
        ("/orders/ORDER/steer", {"message": MEGABYTE}),
        ("/orders/ORDER/fork", {"after": 1, "prompt": MEGABYTE}),
        ("/orders/ORDER/cancel", {"reason": MEGABYTE}),
        ("/questions/none", {"answer": MEGABYTE}),
        ("/approvals/none", {"decision": "deny", "note": MEGABYTE}),
        ("/notes/decide", {"project": "p", "name": MEGABYTE, "version": 1, "decision": "accept"}),
        ("/sessions", {"title": MEGABYTE}),
    ],
    ids=["prompt", "steering prompt", "steer", "fork", "cancel", "answer", "denial", "note", "title"],
)
async def test_a_message_of_a_megabyte_is_refused_with_the_length_that_it_may_have(
    api: httpx.AsyncClient, store: Store, path: str, body: dict[str, object]
) -> None:
    order_id = await placed(api)
    session_id = HandDrone(store).claim(order_id).claim.order.session_id
    named = {key: session_id if value == "SESSION" else value for key, value in body.items()}
    answer = await api.post(f"/api/v1{path.replace('ORDER', order_id)}", json=named)
    detail = is_problem(answer, 422)
    assert "at most" in detail and len(answer.content) < 10_000, "it says what is possible, and not what was sent"
    assert [order.id for order in store.orders.list().items] == [order_id] and store.controls.of_order(order_id) == []


@pytest.mark.parametrize("body", [None, {}, {"message": ""}, {"message": "  \n"}, {"reason": "x"}])
async def test_a_steer_without_a_message_is_refused(
    api: httpx.AsyncClient, store: Store, body: dict[str, str] | None
) -> None:
    order_id = await placed(api)
    assert (await api.post(f"{ORDERS}/{order_id}/steer", json=body)).status_code == 422
    assert store.controls.of_order(order_id) == []


@pytest.mark.parametrize(
    ("kind", "body", "field", "words"),
    [
        ("steer", {"mode": "inject"}, "message", "what should the agent be told"),
        ("steer", {"mode": "redirect", "remove_tools": ["run_shell"]}, "message", "the task from now on"),
        ("steer", {"message": "x", "mode": "replace"}, "mode", "redirect"),
        ("steer", {"remove_tools": ["read_fiel"]}, "remove_tools", "read_file"),
        ("steer", {"remove_tools": ["workspace_wirte"]}, "remove_tools", "workspace_write"),
        ("steer", {"remove_tools": ["submit_result"]}, "remove_tools", "hand in"),
        ("steer", {"remove_tools": ["finish"]}, "remove_tools", "hand in"),
        ("steer", {"remove_tools": ["no such"]}, "remove_tools.0", "should be a name"),
        ("pause", {"mode": "redirect"}, "mode", "belongs to a steer"),
        ("resume", {"remove_tools": ["read_file"]}, "remove_tools", "belongs to a steer"),
        ("cancel", {"mode": "inject"}, "mode", "belongs to a steer"),
    ],
)
async def test_what_cannot_be_meant_is_refused_with_a_sentence(
    api: httpx.AsyncClient, store: Store, kind: str, body: dict[str, object], field: str, words: str
) -> None:
    order_id = await placed(api)
    HandDrone(store).claim(order_id)
    answer = await api.post(f"{ORDERS}/{order_id}/{kind}", json=body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == field and words in error["message"]
    assert store.controls.of_order(order_id) == []


async def test_the_list_of_controls_shows_how_a_steer_was_meant(api: httpx.AsyncClient, store: Store) -> None:
    order_id = await placed(api)
    HandDrone(store).claim(order_id)
    steers = [
        {"message": "Look south instead.", "mode": "redirect", "remove_tools": ["workspace_write", "read_file"]},
        {"message": " ", "remove_tools": ["run_shell"]},
    ]
    for body in steers:
        assert (await api.post(f"{ORDERS}/{order_id}/steer", json=body)).status_code == 202
    first, second = (await api.get(f"{ORDERS}/{order_id}/controls")).json()["items"]
    assert (first["mode"], first["remove_tools"]) == ("redirect", ["workspace_write", "read_file"])
    assert (second["message"], second["mode"], second["remove_tools"]) == (None, "inject", ["run_shell"])


async def test_the_masters_record_stands_for_the_order(api: httpx.AsyncClient, store: Store) -> None:
    order_id = await placed(api)
    held = HandDrone(store).claim(order_id)
    await api.post(f"{ORDERS}/{order_id}/cancel", json={"record_id": held.master.record_id})
    (control,) = store.controls.of_order(order_id)
    assert control.record_id is None


@pytest.mark.parametrize("kind", KINDS)
async def test_an_order_that_is_over_takes_no_request(api: httpx.AsyncClient, store: Store, kind: str) -> None:
    order_id = await placed(api)
    held = HandDrone(store).claim(order_id)
    held.start()
    held.finish()
    answer = await api.post(f"{ORDERS}/{order_id}/{kind}", json={"message": "x"})
    assert answer.status_code == 409 and "succeeded" in answer.json()["detail"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order_id", ["01900000-0000-7000-8000-000000000000", "nonsense"])
async def test_an_order_that_does_not_exist_takes_none(api: httpx.AsyncClient, kind: str, order_id: str) -> None:
    answer = await api.post(f"{ORDERS}/{order_id}/{kind}", json={"message": "x"})
    assert answer.status_code == 404


@pytest.mark.parametrize(
    "body", [{"record_id": "x"}, {"mesage": "x"}, {"message": "x" * 20_001}, {"message": "x" * 1_000_000}, [], "x"]
)
async def test_a_request_that_is_malformed_is_refused(api: httpx.AsyncClient, body: object) -> None:
    order_id = await placed(api)
    assert (await api.post(f"{ORDERS}/{order_id}/cancel", json=body)).status_code == 422


async def test_cancelling_a_queued_order_ends_it_at_once(api: httpx.AsyncClient) -> None:
    order_id = await placed(api)
    assert (await api.post(f"{ORDERS}/{order_id}/cancel", json={"reason": "changed my mind"})).status_code == 202
    assert (await api.get(f"{ORDERS}/{order_id}")).json()["status"] == "cancelled"


class RecordedPublisher(AsyncPublisher):
    def __init__(self) -> None:
        self.hints: list[Hint] = []
        self.wakes: list[tuple[str, Wake]] = []

    def report_status(self, order: WorkOrder, why: str = "") -> None:
        """There are no monitors."""

    async def publish(self, messages: Iterable[Message]) -> bool:
        self.hints.extend(message for message in messages if isinstance(message, Hint))
        return True

    async def wake(self, incarnation: str, wake: Wake) -> bool:
        self.wakes.append((incarnation, wake))
        return True


async def test_the_drone_that_runs_the_order_is_woken_and_no_other(tmp_path: Path) -> None:
    store, publisher = temporary_store(), RecordedPublisher()
    app = build_app(ServiceSettings(data_dir=tmp_path), store, token=TOKEN, redis=RedisAccess(publisher=publisher))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(app=app)
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as api,
        app.router.lifespan_context(app),
    ):
        order_id = await placed(api)
        busy, _ = HandDrone(store, name="busy"), HandDrone(store, name="idle")
        busy.claim(order_id)
        await api.post(f"{ORDERS}/{order_id}/cancel")
        await api.post(f"{ORDERS}/{order_id}/pause")
        second = (await api.post(ORDERS, json={"prompt": "x"})).json()
        await api.post(f"{ORDERS}/{second['id']}/cancel")
    assert publisher.wakes == [(busy.incarnation, Wake(order_id=order_id, control_seq=number)) for number in (1, 2)]
    told = [(hint.seq, hint.status) for hint in publisher.hints if hint.order_id == second["id"]]
    assert told == [(1, "queued"), (store.orders.get(second["id"]).last_seq, "cancelled")]


async def test_an_interrupting_order_wakes_the_drone_of_the_interrupted_one(tmp_path: Path) -> None:
    store, publisher = temporary_store(), RecordedPublisher()
    app = build_app(ServiceSettings(data_dir=tmp_path), store, token=TOKEN, redis=RedisAccess(publisher=publisher))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(app=app)
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as api,
        app.router.lifespan_context(app),
    ):
        first = (await api.post(ORDERS, json={"prompt": "first"})).json()
        drone = HandDrone(store)
        drone.claim(first["id"])
        again = {"prompt": "second", "session_id": first["session_id"]}
        assert (await api.post(ORDERS, json=again | {"when_busy": "interrupt"})).status_code == 201
        steered = await api.post(ORDERS, json=again | {"when_busy": "steer"})
    assert steered.status_code == 200
    assert steered.json()["id"] == first["id"] and steered.json()["receipt"]["id"]
    assert [(incarnation, wake.order_id) for incarnation, wake in publisher.wakes] == [
        (drone.incarnation, first["id"]),
        (drone.incarnation, first["id"]),
    ]


async def test_several_controls_are_kept_in_their_order_with_a_receipt_for_each(
    api: httpx.AsyncClient, store: Store
) -> None:
    order_id = await placed(api)
    HandDrone(store).claim(order_id)
    asked = [{"kind": "steer", "message": "look there", "remove_tools": ["git_read"]}, {"kind": "pause"}]
    answer = await api.post(f"{ORDERS}/{order_id}/controls:batch", json={"controls": asked})
    assert answer.status_code == 202, answer.text
    kept = store.controls.of_order(order_id)
    assert [receipt["id"] for receipt in answer.json()["items"]] == [control.id for control in kept]
    assert [(control.number, control.kind, control.refused) for control in kept] == [
        (1, "steer", None),
        (2, "pause", None),
    ]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"kind": "steer"}, "controls.1.message"),
        ({"kind": "pause", "mode": "redirect"}, "controls.1.mode"),
        ({"kind": "steer", "remove_tools": ["read_fiel"]}, "controls.1.remove_tools"),
        ({"kind": "stop"}, "controls.1.kind"),
    ],
)
async def test_of_controls_that_are_not_all_acceptable_none_is_kept(
    api: httpx.AsyncClient, store: Store, wrong: dict[str, object], field: str
) -> None:
    order_id = await placed(api)
    HandDrone(store).claim(order_id)
    asked = [{"kind": "pause"}, wrong]
    answer = await api.post(f"{ORDERS}/{order_id}/controls:batch", json={"controls": asked})
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert store.controls.of_order(order_id) == []
    assert (await api.post(f"{ORDERS}/{order_id}/controls:batch", json={"controls": []})).status_code == 422


@pytest.mark.parametrize("is_running", [True, False])
async def test_a_cancel_of_the_whole_order_wins_over_what_is_asked_with_it(
    api: httpx.AsyncClient, store: Store, is_running: bool
) -> None:
    order_id = await placed(api)
    if is_running:
        HandDrone(store).claim(order_id)
    asked = [{"kind": "steer", "message": "x"}, {"kind": "cancel", "reason": "enough"}, {"kind": "resume"}]
    answer = await api.post(f"{ORDERS}/{order_id}/controls:batch", json={"controls": asked})
    assert answer.status_code == 202
    kept = {control.id: control for control in store.controls.of_order(order_id)}
    steer, cancel, resume = (kept[receipt["id"]] for receipt in answer.json()["items"])
    assert (steer.kind, cancel.kind, resume.kind) == ("steer", "cancel", "resume")
    assert steer.refused == resume.refused == "The whole order was cancelled by the same request."
    assert cancel.refused is None and (cancel.applied_seq is not None) is not is_running
    assert store.orders.get(order_id).status == ("running" if is_running else "cancelled")
    again = await api.post(f"{ORDERS}/{order_id}/controls:batch", json={"controls": [{"kind": "pause"}]})
    assert again.status_code == (202 if is_running else 409)


async def test_of_ten_thousand_steers_those_beyond_what_an_agent_reads_are_refused_for_now(
    api: httpx.AsyncClient, store: Store
) -> None:
    order_id = await placed(api)
    HandDrone(store).claim(order_id)
    twenty = {"controls": [{"kind": "steer", "message": "x"}] * 20}
    statuses = [(await api.post(f"{ORDERS}/{order_id}/controls:batch", json=twenty)).status_code for _ in range(60)]
    assert statuses == [202] * 50 + [429] * 10
    refused = await api.post(f"{ORDERS}/{order_id}/steer", json={"message": "x"})
    assert refused.status_code == 429 and "1,000 requests of the kind steer" in refused.json()["detail"]
    assert int(refused.headers["retry-after"]) > 0
    assert (await api.post(f"{ORDERS}/{order_id}/cancel")).status_code == 202
    assert len(store.controls.of_order(order_id)) == 1_001
