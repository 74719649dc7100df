"""Orders over HTTP: placing, reading, and refusals at submission."""

import functools
import operator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcc.contracts.answers import RecordSetup
from mcc.contracts.journal import ToolFinished
from mcc.contracts.order import PROMPT_CHARACTERS
from mcc.contracts.shape import now, to_json
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone

ORDERS = "/api/v1/orders"
NOBODY = "01900000-0000-7000-8000-000000000000"


def is_problem(answer: httpx.Response, status: int) -> str:
    """The detail of a well-formed problem."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status and told["title"] and told["type"]
    return str(told["detail"])


async def test_an_order_is_placed_nudged_and_found(api: httpx.AsyncClient, nudges: Any, store: Store) -> None:
    placed = await api.post(ORDERS, json={"prompt": "Explain this", "priority": 2, "labels": ["a", "b"]})
    assert placed.status_code == 201
    order = placed.json()
    assert placed.headers["location"] == f"orders/{order['id']}", "also right behind a proxy that adds a prefix"
    assert (order["status"], order["priority"], order["labels"]) == ("queued", 2, ["a", "b"])
    assert (await api.get(str(placed.url.join(placed.headers["location"])))).json()["prompt"] == "Explain this"
    assert store.orders.get(order["id"]).last_seq == 1
    assert await nudges.until(1) == [(order["id"], "default", 2)]


async def test_the_same_key_and_body_give_the_same_order(api: httpx.AsyncClient, nudges: Any) -> None:
    key = {"Idempotency-Key": "k-1"}
    first = await api.post(ORDERS, json={"prompt": "once"}, headers=key)
    second = await api.post(ORDERS, json={"prompt": "once"}, headers=key)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    is_problem(await api.post(ORDERS, json={"prompt": "twice"}, headers=key), 409)
    assert len(await nudges.until(1)) == 1


@pytest.mark.parametrize("key", ["", "x" * 201, "with space", "é"])
async def test_a_key_that_is_none_is_refused(api: httpx.AsyncClient, key: str) -> None:
    answer = await api.post(ORDERS, json={"prompt": "x"}, headers={b"Idempotency-Key": key.encode()})
    is_problem(answer, 422)


async def test_a_busy_session_rejects_when_asked_to(api: httpx.AsyncClient) -> None:
    session = (await api.post("/api/v1/sessions", json={})).json()["id"]
    await api.post(ORDERS, json={"prompt": "first", "session_id": session})
    second = {"prompt": "second", "session_id": session, "when_busy": "reject"}
    is_problem(await api.post(ORDERS, json=second), 409)


async def test_a_session_that_does_not_exist_is_not_found(api: httpx.AsyncClient) -> None:
    is_problem(await api.post(ORDERS, json={"prompt": "x", "session_id": NOBODY}), 404)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": "x" * (PROMPT_CHARACTERS + 1)}, "prompt"),
        ({"prompt": "x", "promt": 1}, "promt"),
        ({"prompt": "x", "priority": 10}, "priority"),
        ({"prompt": "x", "labels": ["a"] * 21}, "labels"),
        ({"prompt": "x", "limits": {"depth": 9}}, "limits.depth"),
        ({"prompt": "x", "not_before": "2030-01-01T00:00:00"}, "not_before"),
        ({"prompt": "x", "session_id": "../etc"}, "session_id"),
        ({"prompt": "x", "agent": "a b"}, "agent"),
        ({"prompt": "x", "queue": "fast"}, "queue"),
        ({"prompt": "x", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
    ],
)
async def test_what_is_wrong_with_an_order_is_named(api: httpx.AsyncClient, body: dict[str, Any], field: str) -> None:
    answer = await api.post(ORDERS, json=body)
    assert field in is_problem(answer, 422)
    assert answer.json()["errors"][0]["field"] == field


async def test_a_prompt_of_the_longest_length_is_accepted(api: httpx.AsyncClient) -> None:
    assert (await api.post(ORDERS, json={"prompt": "é" * PROMPT_CHARACTERS})).status_code == 201


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com", "by https:// alone, unless [webhooks] allow_private of mcc.toml has example.com:80"),
        ("https://me:secret@example.com", "no user and no password"),
        ("https://example.com:9000", "not among the hosts of [webhooks] allow"),
        ("hook", "Only http:// and https://"),
    ],
)
async def test_a_webhook_has_an_address_that_may_be_reached(api: httpx.AsyncClient, url: str, why: str) -> None:
    detail = is_problem(await api.post(ORDERS, json={"prompt": "x", "webhook_url": url}), 422)
    assert detail.startswith("webhook_url: ") and why in detail


async def test_values_in_the_query_of_a_webhook_are_not_shown(api: httpx.AsyncClient) -> None:
    url = "https://example.com/hook?token=abc"
    placed = (await api.post(ORDERS, json={"prompt": "x", "webhook_url": url})).json()
    again = (await api.get(f"{ORDERS}/{placed['id']}")).json()
    assert placed["webhook_url"] == again["webhook_url"] == "https://example.com/hook?token=…"


async def test_an_order_expires_after_it_may_begin(api: httpx.AsyncClient) -> None:
    later, soon = (now() + timedelta(hours=2)).isoformat(), (now() + timedelta(hours=1)).isoformat()
    is_problem(await api.post(ORDERS, json={"prompt": "x", "not_before": later, "expires_at": soon}), 422)
    accepted = await api.post(ORDERS, json={"prompt": "x", "not_before": soon, "expires_at": later})
    assert accepted.json()["status"] == "waiting"


@pytest.mark.parametrize(
    "workspace",
    [
        "work/app",
        "~/app",
        "{root}/../x",
        "{root}-evil/app",
        "/",
        "/etc",
        "{root}/a/../../b",
        "",
        "https://git.example/x",
    ],
)
async def test_a_workspace_outside_the_roots_is_refused(api: httpx.AsyncClient, tmp_path: Path, workspace: str) -> None:
    chosen = workspace.format(root=tmp_path / "work")
    assert "workspace" in is_problem(await api.post(ORDERS, json={"prompt": "x", "workspace": chosen}), 422)


async def test_a_refused_workspace_tells_the_roots_and_how_to_add_one(api: httpx.AsyncClient, tmp_path: Path) -> None:
    detail = is_problem(await api.post(ORDERS, json={"prompt": "x", "workspace": "/etc"}), 422)
    assert str(tmp_path / "work") in detail and "MCC_WORKSPACE_ROOTS" in detail


async def test_a_workspace_under_a_root_is_kept_in_its_plain_form(
    api: httpx.AsyncClient, store: Store, tmp_path: Path
) -> None:
    HandDrone(store, workspace_roots=("/srv/repos/",))
    own = await api.post(ORDERS, json={"prompt": "x", "workspace": f"{tmp_path}/work//a/./b/../c/"})
    assert own.json()["workspace"] == f"{tmp_path}/work/a/c"
    drones = await api.post(ORDERS, json={"prompt": "x", "workspace": "/srv/repos"})
    assert drones.json()["workspace"] == "/srv/repos"


async def test_an_unknown_agent_or_model_is_refused_with_the_nearest_once_a_drone_is_there(
    api: httpx.AsyncClient, store: Store
) -> None:
    assert (await api.post(ORDERS, json={"prompt": "x", "agent": "explor"})).status_code == 201
    HandDrone(store, agents=("master", "explore"), models=("offline", "fast"))
    assert '"explore"' in is_problem(await api.post(ORDERS, json={"prompt": "x", "agent": "explor"}), 422)
    assert '"fast"' in is_problem(await api.post(ORDERS, json={"prompt": "x", "model": "fasst"}), 422)
    assert (await api.post(ORDERS, json={"prompt": "x", "model": "anthropic/claude-x"})).status_code == 201
    is_problem(await api.post(ORDERS, json={"prompt": "x", "model": "nobody/model"}), 422)
    assert "openai/gpt-5?" in is_problem(await api.post(ORDERS, json={"prompt": "x", "model": "opneai/gpt-5"}), 422)


async def test_orders_are_listed_newest_first_by_filter_and_page(api: httpx.AsyncClient) -> None:
    placed = [(await api.post(ORDERS, json={"prompt": str(n), "labels": [f"l{n % 2}"]})).json()["id"] for n in range(5)]
    await api.post(f"{ORDERS}/{placed[0]}/cancel")
    first = (await api.get(ORDERS, params={"limit": 3})).json()
    rest = (await api.get(ORDERS, params={"limit": 3, "cursor": first["next_cursor"]})).json()
    assert [order["id"] for order in first["items"] + rest["items"]] == placed[::-1]
    assert rest["next_cursor"] is None
    cancelled = (await api.get(ORDERS, params={"status": "cancelled"})).json()["items"]
    assert [order["id"] for order in cancelled] == placed[:1]
    labelled = (await api.get(ORDERS, params={"label": "l1"})).json()["items"]
    assert [order["id"] for order in labelled] == [placed[3], placed[1]]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=0", 422),
        ("limit=-1", 422),
        ("limit=201", 422),
        ("limit=1e9", 422),
        ("status=gone", 422),
        ("session_id=x", 422),
        ("cursor=nonsense", 400),
        ("cursor=%00", 400),
    ],
)
async def test_a_bad_query_is_refused(api: httpx.AsyncClient, query: str, status: int) -> None:
    is_problem(await api.get(f"{ORDERS}?{query}"), status)


@pytest.mark.parametrize("order_id", [NOBODY, "1", "%2e%2e%2fetc", "%00", "x" * 5000, "%F0%9F%92%A9", "';DROP"])
@pytest.mark.parametrize("tail", ["", "/record", "/journal", "/events", "/controls"])
async def test_an_order_that_does_not_exist_is_not_found(api: httpx.AsyncClient, order_id: str, tail: str) -> None:
    is_problem(await api.get(f"{ORDERS}/{order_id}{tail}"), 404)


async def test_the_record_grows_while_the_order_runs_and_is_the_stored_one_after(
    api: httpx.AsyncClient, store: Store
) -> None:
    order_id = (await api.post(ORDERS, json={"prompt": "x"})).json()["id"]
    is_problem(await api.get(f"{ORDERS}/{order_id}/record"), 404)
    held = HandDrone(store).claim(order_id)
    held.start()
    first = (await api.get(f"{ORDERS}/{order_id}/record")).json()
    held.steps(700)
    second = (await api.get(f"{ORDERS}/{order_id}/record")).json()
    assert (first["status"], len(first["steps"]), len(second["steps"])) == ("running", 0, 700)
    held.finish("the answer")
    stored = store.orders.record(order_id)
    assert stored is not None
    assert (await api.get(f"{ORDERS}/{order_id}/record")).json() == stored.model_dump(mode="json")


async def test_the_setup_of_a_record_is_what_its_agent_kept(api: httpx.AsyncClient, store: Store) -> None:
    order_id = (await api.post(ORDERS, json={"prompt": "x"})).json()["id"]
    held = HandDrone(store).claim(order_id)
    kept: dict[str, Any] = {
        "system": "You look.",
        "tools": [{"name": "read_file", "parameters": {}}],
        "model": {},
        "limits": {},
    }
    kept |= {"definition": {"name": "master"}, "gate": None, "session": []}
    held.start(setup=to_json(kept).decode())
    path = f"{ORDERS}/{order_id}/records"
    answer = await api.get(f"{path}/{held.master.record_id}/setup")
    assert answer.json() == kept
    assert RecordSetup.model_validate(answer.json()).system == "You look."
    is_problem(await api.get(f"{path}/{NOBODY}/setup"), 404)
    is_problem(await api.get(f"{ORDERS}/{NOBODY}/records/{held.master.record_id}/setup"), 404)


async def test_an_artifact_is_shown_to_those_who_name_it_with_its_order(api: httpx.AsyncClient, store: Store) -> None:
    order_id, other = [(await api.post(ORDERS, json={"prompt": "x"})).json()["id"] for _ in range(2)]
    held = HandDrone(store).claim(order_id)
    held.start()
    artifact, secret = store.texts.keep("all of it \ud83d"), store.texts.keep("nobody's")
    held.write(
        ToolFinished(call_id="c", name="read_file", content="all…", is_error=False, artifact=artifact),
    )
    found = await api.get(f"{ORDERS}/{order_id}/artifacts/{artifact}")
    assert store.texts.kept(artifact) == "all of it \ud83d"
    assert found.json() == {"id": artifact, "content": "all of it \N{REPLACEMENT CHARACTER}"}
    for order, name in ((order_id, secret), (order_id, "no digest"), (other, artifact), (NOBODY, artifact)):
        is_problem(await api.get(f"{ORDERS}/{order}/artifacts/{name}"), 404)


async def test_the_journal_is_paged_by_number(api: httpx.AsyncClient, store: Store) -> None:
    order_id = (await api.post(ORDERS, json={"prompt": "x"})).json()["id"]
    HandDrone(store).claim(order_id).steps(10)
    path = f"{ORDERS}/{order_id}/journal"
    page = (await api.get(path, params={"after": 3, "limit": 4})).json()
    assert [entry["seq"] for entry in page["items"]] == [4, 5, 6, 7]
    rest = (await api.get(path, params={"cursor": page["next_cursor"]})).json()
    assert [entry["seq"] for entry in rest["items"]] == [8, 9, 10, 11, 12]
    assert rest["next_cursor"] is None
    assert set(page["items"][0]) >= {
        "order_id",
        "seq",
        "at",
        "kind",
        "record_id",
        "parent_id",
        "agent",
        "depth",
        "data",
    }
    is_problem(await api.get(path, params={"after": -1}), 422)
    is_problem(await api.get(path, params={"limit": 1001}), 422)


async def test_text_that_utf8_cannot_carry_is_kept_exactly_and_given_so_that_every_reader_takes_it(
    api: httpx.AsyncClient, store: Store
) -> None:
    order_id = (await api.post(ORDERS, json={"prompt": "x"})).json()["id"]
    held = HandDrone(store).claim(order_id)
    odd = "a\x00b\ud800c\u2028d"
    held.start(prompt=odd)
    held.finish(odd)
    record, given = store.orders.record(order_id), "a\x00b\N{REPLACEMENT CHARACTER}c\u2028d"
    assert record is not None and record.prompt == odd and store.orders.get(order_id).answer == odd
    for path, keys in (("/record", ("prompt",)), ("/journal", ("items", 2, "data", "prompt")), ("", ("answer",))):
        answered = await api.get(f"{ORDERS}/{order_id}{path}")
        assert functools.reduce(operator.getitem, keys, answered.json()) == given and b"\\ud8" not in answered.content
        assert len(answered.content) == int(answered.headers.get("content-length", len(answered.content)))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"limits": {"roundz": 1}}, "limits.roundz: Nothing of this name is known here"),
        ({"promt": "x"}, "promt: Nothing of this name is known here"),
        ({"rules": "true"}, "rules: Input should be a list"),
        ({"rules": [{"cel": "true"}] * 51}, "rules: List should have at most 50 items, not 51"),
        ({"session_id": "mine"}, "session_id: Input should be an id, such as 0190c9a2-"),
        ({"agent": "a b"}, "agent: Input should be a name: at most 64 letters"),
        ({"model": "a b"}, "model: Input should be at most 200 letters, digits and _ . : / @ + -"),
        ({"labels": ["a\nb"]}, "labels.0: Input should be 1 to 100 characters on one line"),
        ({"limits": []}, "limits: Input should be a JSON object, in braces"),
        ({"limits": {"rounds": "5"}}, "limits.rounds: Input should be a whole number, such as 5: no text"),
        ({"limits": {"cost_usd": True}}, "limits.cost_usd: Input should be a number, such as 2.5: no text"),
        ({"priority": True}, "priority: Input should be a whole number, such as 5: no text"),
        ({"not_before": "soon"}, "not_before: Input should be a time with its zone, such as 2026-01-31T12:00:00Z"),
        ({"prompt": 5}, "prompt: Input should be text, in quotation marks"),
    ],
)
async def test_a_mistake_is_told_in_words_that_need_no_knowledge_of_python(
    api: httpx.AsyncClient, sent: dict[str, object], said: str
) -> None:
    answer = await api.post("/api/v1/orders", json={"prompt": "x", **sent})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(said)


async def test_a_pruned_journal_is_410_with_where_the_record_is_and_a_fork_of_it_409(
    api: httpx.AsyncClient, store: Store
) -> None:
    order_id = (await api.post(ORDERS, json={"prompt": "x"})).json()["id"]
    held = HandDrone(store).claim(order_id)
    held.start(setup="{}")
    last = held.finish()
    record = (await api.get(f"{ORDERS}/{order_id}/record")).content
    for _ in store.retention.clear(store.database.clock.now()):
        pass
    paths = ("journal", "journal?limit=1", "journal?after=2", "events", f"records/{held.master.record_id}/setup")
    for path in (*paths, "artifacts/none"):
        found = await api.get(f"{ORDERS}/{order_id}/{path}")
        is_problem(found, 410)
        assert f"/api/v1/orders/{order_id}/record" in found.json()["detail"], path
    assert (await api.get(f"{ORDERS}/{order_id}/events?after={last}")).status_code == 204
    assert (await api.get(f"{ORDERS}/{order_id}/record")).content == record
    forked = await api.post(f"{ORDERS}/{order_id}/fork", json={"after": 2})
    is_problem(forked, 409)
    assert "retry it" in forked.json()["detail"]
    assert (await api.post(f"{ORDERS}/{order_id}/retry")).status_code == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"ref": "main"}, "ref"),
        ({"workspace": "https://git.example.org/team/shop"}, "workspace"),
        ({"workspace": "ssh://git.example.org/team/shop"}, "workspace"),
        ({"workspace": "git@git.example.org:team/shop"}, "workspace"),
    ],
)
async def test_a_git_address_is_taken_only_where_the_operator_allows_it(
    api: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    assert field in is_problem(await api.post(ORDERS, json={"prompt": "x", **body}), 422)
