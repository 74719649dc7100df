"""The calls of both clients against a service that listens on a port."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcc.client import MCC, AsyncMCC, Conflict, Invalid, NotFound, NoToken, Refused, Unauthorized, Unreachable
from mcc.client.address import find
from mcc.contracts.control import ControlKind, ControlOfBatch
from mcc.contracts.limits import Limits
from mcc.contracts.reading import ReviewSent
from mcc.contracts.shape import to_json
from mcc.local.presence import Hold, Presence
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import Served

NOBODY = "01900000-0000-7000-8000-000000000000"


def test_an_order_lives_its_life_through_the_client(served: Served, store: Store, tmp_path: Path) -> None:
    drone = HandDrone(store, workspace_roots=(str(tmp_path),))
    with MCC(served.url, token=served.token) as mcc:
        order = mcc.orders.submit("Explain", workspace=tmp_path / "x", labels=("a",), limits=Limits(rounds=3))
        assert (order.workspace, order.labels, order.limits) == (str(tmp_path / "x"), ("a",), Limits(rounds=3))
        held = drone.claim(order.id)
        held.start()
        assert mcc.orders.record(order.id).status == "running"
        receipt = mcc.orders.steer(order.id, "look there")
        assert [(one.id, one.message) for one in mcc.orders.controls(order.id)] == [(receipt.id, "look there")]
        assert [drone.name for drone in mcc.drones.list()] == ["drone-1"]
        assert [agent.name for agent in mcc.agents.list()] == ["master"]
        assert [tool.name for tool in mcc.tools.list()] == ["read_file"]
        assert [model.name for model in mcc.models.list()] == ["offline"]
        mcc.orders.steer(order.id, "south", record_id=NOBODY, redirect=True, remove_tools=["read_file"], reason="why")
        last = mcc.orders.controls(order.id)[-1]
        assert (last.record_id, last.message, last.mode, last.reason) == (NOBODY, "south", "redirect", "why")
        assert last.remove_tools == ("read_file",)
        together = [ControlOfBatch(kind=ControlKind.PAUSE), ControlOfBatch(kind=ControlKind.STEER, message="north")]
        receipts = mcc.orders.control(order.id, together)
        kept = mcc.orders.controls(order.id)[-2:]
        assert [(one.id, one.kind, one.message) for one in kept] == [
            (receipts[0].id, "pause", None),
            (receipts[1].id, "steer", "north"),
        ]
        mcc.orders.cancel(order.id, reason="enough")
        other = mcc.orders.submit("second", session_id=order.session_id)
        assert [one.id for one in mcc.sessions.get(order.session_id).orders] == [other.id, order.id]
        assert [one.id for one in mcc.orders.list(limit=1).items] == [other.id]
        assert mcc.orders.get(other.id).blocked_by == order.id
        assert [entry.seq for entry in mcc.orders.journal(order.id, after=1)] == [2, 3]
        assert [entry.seq for entry in mcc.orders.journal(order.id, kinds=["agent.started", "order.queued"])] == [1, 3]
        assert [row.kind for row in mcc.orders.rows(order.id, kinds=["prompt", "note"]).items] == ["note", "prompt"]
        assert mcc.orders.overview(order.id, at=3).records[0].last_seq == 3
        assert mcc.orders.timeline(order.id, at=3).lanes[0].agent == "master"
        assert mcc.orders.changes(order.id) is None
        with pytest.raises(NotFound):
            mcc.orders.file_changes(order.id, "app.py")
        mcc.orders.keep_drafts(order.id, {"note": "half"})
        assert mcc.orders.drafts(order.id).drafts == {"note": "half"}
        sent = mcc.orders.review(order.id, note="All fine.")
        assert isinstance(sent, ReviewSent) and mcc.orders.controls(order.id)[-1].id == sent.receipt.id
        assert mcc.sessions.open("title").title == "title"
        assert len(mcc.sessions.list().items) == 2


def test_limits_that_nobody_named_are_those_of_the_orders_kind(served: Served) -> None:
    with MCC(served.url, token=served.token) as mcc:
        asked = Limits(wall_seconds=30.0)
        made = mcc.orders.submit(kind="generate", blueprint="course", limits=asked).limits
        assert made is not None and made.wall_seconds == 30.0
        assert (made.subagent_rounds, made.spawns, made.tool_calls) == (50, 20_000, 1_000_000)
        assert mcc.orders.submit("Explain", limits=asked).limits == asked


async def test_the_same_calls_can_be_awaited(served: Served, store: Store) -> None:
    drone = HandDrone(store)
    async with AsyncMCC(served.url, token=served.token) as mcc:
        order = await mcc.orders.submit("Explain")
        held = drone.claim(order.id)
        held.start()
        assert (await mcc.orders.pause(order.id)).id and (await mcc.orders.resume(order.id)).id
        assert (await mcc.orders.steer(order.id, remove_tools=("read_file",))).id
        assert [one.kind for one in await mcc.orders.controls(order.id)] == ["pause", "resume", "steer"]
        assert (await mcc.orders.record(order.id)).prompt == "Explain"
        assert len(await mcc.orders.journal(order.id)) == 3
        assert [one.name for one in await mcc.drones.list()] == ["drone-1"]
        assert (await mcc.sessions.get(order.session_id)).turns == 1
        assert (await mcc.orders.list(status="running")).items[0].id == order.id


def test_an_order_is_retried_forked_and_rolled_back(served: Served, store: Store) -> None:
    with MCC(served.url, token=served.token) as mcc:
        order = mcc.orders.submit("Explain")
        with pytest.raises(Conflict):
            mcc.orders.retry(order.id)
        with pytest.raises(Conflict):
            mcc.orders.roll_back(order.id)
        held = HandDrone(store).claim(order.id)
        held.start()
        held.finish()
        again = mcc.orders.retry(order.id, idempotency_key="k")
        assert again.origin is not None and (again.origin.kind, again.origin.order_id) == ("retry", order.id)
        assert mcc.orders.retry(order.id, idempotency_key="k").id == again.id != mcc.orders.retry(order.id).id
        fork = mcc.orders.fork(order.id, after=3, prompt="And then?")
        assert fork.origin is not None and (fork.origin.kind, fork.origin.after) == ("fork", 3)
        assert mcc.orders.record(fork.id).forked_from == mcc.orders.record(order.id).id
        with pytest.raises(Invalid, match="there is no entry 99"):
            mcc.orders.fork(order.id, after=99)
        assert mcc.orders.roll_back(order.id).left_out
        assert [one.left_out for one in mcc.sessions.get(order.session_id).orders] == [False, False, True]


async def test_retry_fork_and_rollback_can_be_awaited(served: Served, store: Store) -> None:
    async with AsyncMCC(served.url, token=served.token) as mcc:
        order = await mcc.orders.submit("Explain")
        held = HandDrone(store).claim(order.id)
        held.start()
        held.finish()
        assert (await mcc.orders.retry(order.id)).session_seq == 2
        fork = await mcc.orders.fork(order.id, after=3, idempotency_key="f")
        assert (await mcc.orders.fork(order.id, after=3, idempotency_key="f")).id == fork.id
        assert (await mcc.orders.roll_back(order.id)).left_out


MISTAKEN_FORKS: list[dict[str, Any]] = [{"after": after} for after in (0, 99, 1.5, "5", True, None)]
MISTAKEN_FORKS += [{"after": 1, "prompt": prompt} for prompt in ("", " \n", 7, "\ud800", "x" * 200_001)]


@pytest.mark.parametrize("asked", MISTAKEN_FORKS, ids=lambda asked: repr(asked)[:40])
async def test_both_clients_say_of_a_mistaken_fork_what_the_service_says(served: Served, asked: dict[str, Any]) -> None:
    async with AsyncMCC(served.url, token=served.token) as mcc:
        order = await mcc.orders.submit("Explain")
        with pytest.raises(Invalid) as awaited:
            await mcc.orders.fork(order.id, **asked)
    with MCC(served.url, token=served.token) as blocking, pytest.raises(Invalid) as refused:
        blocking.orders.fork(order.id, **asked)
    headers = {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=served.url, headers=headers) as bare:
        answer = await bare.post(f"/api/v1/orders/{order.id}/fork", content=to_json(asked))
    assert answer.status_code == 422
    assert refused.value.detail == awaited.value.detail == answer.json()["detail"]


def test_what_the_service_refuses_is_an_error_of_its_kind(served: Served, store: Store) -> None:
    with MCC(served.url, token=served.token) as mcc:
        with pytest.raises(NotFound):
            mcc.orders.get(NOBODY)
        with pytest.raises(NotFound):
            mcc.orders.get("../../healthz")
        with pytest.raises(Invalid) as invalid:
            mcc.orders.submit("x", queue="nowhere")
        assert invalid.value.errors[0]["field"] == "queue" and "nowhere" in invalid.value.detail
        order = mcc.orders.submit("x", idempotency_key="k")
        assert mcc.orders.submit("x", idempotency_key="k").id == order.id
        with pytest.raises(Conflict):
            mcc.orders.submit("y", idempotency_key="k")
        mcc.orders.cancel(order.id)
        with pytest.raises(Conflict):
            mcc.orders.cancel(order.id)
    with MCC(served.url, token="wrong") as mcc, pytest.raises(Unauthorized):
        mcc.orders.list()


def test_an_answer_that_was_lost_does_not_make_a_second_order() -> None:
    keys: list[str] = []
    order = {"prompt": "x", "id": NOBODY, "session_id": NOBODY, "session_seq": 1, "status": "queued"}

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) == 1:
            raise httpx.ReadError("lost")
        if len(keys) == 2:
            return httpx.Response(503, headers={"Retry-After": "0"}, json={"detail": "later"})
        return httpx.Response(201, json=order | {"created_at": "2026-01-01T00:00:00Z"})

    with MCC("http://service", token="t", transport=httpx.MockTransport(answer)) as mcc:
        assert mcc.orders.submit("x").id == NOBODY
    assert len(keys) == 3 and len(set(keys)) == 1


def test_what_passes_tomorrow_is_told_and_not_waited_for() -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.path)
        body = {"detail": "the budget does not suffice", "budget": {"owner": "person:a"}}
        return httpx.Response(429, headers={"Retry-After": "61"}, json=body)

    client = MCC("http://service", token="t", transport=httpx.MockTransport(answer))
    with client as mcc, pytest.raises(Refused, match="does not suffice") as refused:
        mcc.orders.submit("x")
    assert refused.value.problem["budget"] == {"owner": "person:a"} and len(sent) == 1


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_service_that_stays_broken_is_told(status: int) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, text="<html>", headers={"Retry-After": "0"})

    with MCC("http://service", token="t", transport=httpx.MockTransport(answer)) as mcc:
        with pytest.raises(Refused) as refused:
            mcc.orders.list()
        assert refused.value.status == status and str(status) in str(refused.value)


def test_a_steer_is_never_sent_twice() -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.path)
        raise httpx.ReadError("lost")

    with MCC("http://service", token="t", transport=httpx.MockTransport(answer)) as mcc, pytest.raises(Unreachable):
        mcc.orders.steer(NOBODY, "once")
    assert len(sent) == 1


def test_something_else_at_the_address_is_unreachable() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="<html>hello")

    with MCC("http://service", token="t", transport=httpx.MockTransport(answer)) as mcc:
        for call in (lambda: mcc.orders.get(NOBODY), mcc.orders.list, mcc.drones.list):
            with pytest.raises(Unreachable):
                call()


def test_a_service_is_found_by_its_family_or_the_environment(tmp_path: Path) -> None:
    environ = {"MCC_DATA_DIR": str(tmp_path)}
    with pytest.raises(Unreachable, match="mcc up"):
        find(None, None, environ)
    (tmp_path / "family.json").write_text(json.dumps({"url": "http://127.0.0.1:2/", "pid": 1}))
    with pytest.raises(Unreachable, match="mcc up"):
        find(None, None, environ)
    hold = Hold.take(tmp_path)
    hold.publish(Presence("http://127.0.0.1:1", 1, None, ""))
    with pytest.raises(NoToken, match="MCC_TOKEN"):
        find(None, None, environ)
    (tmp_path / "token").write_text("t" * 40 + "\n")
    assert (find(None, None, environ).url, find(None, None, environ).token) == ("http://127.0.0.1:1", "t" * 40)
    named = environ | {"MCC_URL": "http://elsewhere", "MCC_TOKEN": "n" * 40}
    assert (find(None, None, named).url, find(None, None, named).token) == ("http://elsewhere", "n" * 40)
    assert find("http://given", "x", named).url == "http://given"
    hold.release()


def test_the_token_of_this_machine_is_not_sent_to_another(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t" * 40)
    environ = {"MCC_DATA_DIR": str(tmp_path)}
    assert find("http://localhost:8420", None, environ).token == "t" * 40
    with pytest.raises(NoToken):
        find("http://localhost.example:8420", None, environ)


def test_importing_the_client_loads_neither_http_nor_models() -> None:
    code = "import sys, mcc.client; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    roots = {name.partition(".")[0] for name in done.stdout.split()}
    assert not roots & {"httpx", "fastapi", "sqlalchemy", "pydantic", "redis", "celery"}


COURSE = """
blueprint: tiny
root: course
components:
  course:
    metadata: {topic: {type: text, required: true}}
    properties: {title: {type: text, required: true}}
"""


def test_a_document_lives_its_life_through_the_client(served: Served) -> None:
    with MCC(served.url, token=served.token) as mcc:
        kept = mcc.blueprints.keep(COURSE)
        assert mcc.blueprints.get(kept.name).digest == kept.digest
        assert "tiny" in {one.name for one in mcc.blueprints.list()}
        made = mcc.documents.create(kept.name, {"topic": "Light"}, idempotency_key="k")
        assert mcc.documents.create(kept.name, {"topic": "Light"}, idempotency_key="k").id == made.id
        assert [one.id for one in mcc.documents.list(blueprint="tiny", part=made.id[-12:]).items] == [made.id]
        command = {"command": "set_value", "node": "/", "values": {"title": "Light and leaves"}}
        done = mcc.documents.run(made.id, [command], expected_version=made.version, idempotency_key="c")
        assert (done.version, done.status, done.changed) == (2, "done", ("/",))
        assert mcc.documents.run(made.id, [command], expected_version=made.version, idempotency_key="c") == done
        with pytest.raises(Conflict) as refused:
            mcc.documents.run(made.id, [command], expected_version=made.version)
        assert (refused.value.problem["version"], refused.value.problem["changed"]) == (2, ["/"])
        assert mcc.documents.get(made.id, node="/", depth=0).nodes[0].props["title"] == "Light and leaves"
        assert mcc.documents.get(made.id, version=1).nodes[0].props["title"] is None
        assert mcc.documents.history(made.id, limit=1).items[0].command == "set_value"
        assert mcc.documents.diff(made.id, 1).nodes[0].fields == {"props.title": (None, "Light and leaves")}
        assert mcc.documents.export(made.id, "html").startswith(b"<!doctype html>")
        mcc.documents.delete(made.id)
        with pytest.raises(NotFound):
            mcc.documents.get(made.id)


async def test_the_same_calls_about_documents_can_be_awaited(served: Served) -> None:
    async with AsyncMCC(served.url, token=served.token) as mcc:
        await mcc.blueprints.keep(COURSE)
        made = await mcc.documents.create("tiny", {"topic": "Light"})
        await mcc.documents.run(made.id, [{"command": "set_metadata", "node": "/", "values": {"topic": "Heat"}}])
        assert (await mcc.documents.get(made.id)).nodes[0].metadata == {"topic": "Heat"}
        assert b'"topic":"Heat"' in await mcc.documents.export(made.id)


def test_of_a_wrong_blueprint_the_client_is_told_all(served: Served) -> None:
    with MCC(served.url, token=served.token) as mcc, pytest.raises(Invalid) as refused:
        mcc.blueprints.keep(COURSE.replace("required", "requird"))
    assert [one["line"] for one in refused.value.errors] == [6, 7]


async def test_both_clients_cancel_many_orders_and_list_by_the_same_filters(served: Served, store: Store) -> None:
    with MCC(served.url, token=served.token) as mcc:
        first, second = (mcc.orders.submit(prompt, labels=["a"]) for prompt in ("one", "two"))
        since = store.orders.get(second.id).created_at
        assert [one.id for one in mcc.orders.list(agent="master", since=since).items] == [second.id]
        done = mcc.orders.cancel_all(agent="master", since=since, reason="enough")
        assert (done.requested, done.ended, done.next_cursor) == (1, 1, None)
        assert (mcc.orders.get(second.id).detail, mcc.orders.get(first.id).status) == ("enough", "queued")
        with pytest.raises(Invalid):
            mcc.orders.cancel_all(reason="which?")
    async with AsyncMCC(served.url, token=served.token) as awaited:
        assert (await awaited.orders.cancel_all(all=True)).requested == 1
        assert (await awaited.orders.list(label="a", workspace="/nowhere")).items == ()
