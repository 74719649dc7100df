"""Sessions over HTTP: defaults of their turns, pages, export, deletion."""

import json
from typing import Any

import httpx
import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.ids import fresh_id
from mcc.settings import ServiceSettings
from mcc.store.store import Store

SESSIONS = "/api/v1/sessions"
ORDERS = "/api/v1/orders"


async def opened(api: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await api.post(SESSIONS, json=fields)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def placed(api: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await api.post(ORDERS, json={"prompt": "go on", **fields})


async def test_turns_get_what_their_orders_leave_out(api: httpx.AsyncClient, settings: ServiceSettings) -> None:
    workspace = str(settings.workspace_roots[0])
    session = await opened(
        api, agent="review", mode="plan", workspace=f"{workspace}/./a", limits={"rounds": 5, "cost_usd": 0.5}
    )
    assert (session["workspace"], session["limits"]) == (f"{workspace}/a", {"rounds": 5, "cost_usd": 0.5})
    assert (session["tokens"], session["window"], session["cached_share"]) == (None, None, None)
    order = (await placed(api, session_id=session["id"], limits={"rounds": 7})).json()
    assert (order["agent"], order["mode"], order["workspace"]) == ("review", "plan", f"{workspace}/a")
    assert (order["limits"]["rounds"], order["limits"]["cost_usd"]) == (7, 0.5)
    own = (await placed(api, session_id=session["id"], agent="master", mode="develop")).json()
    assert (own["agent"], own["mode"]) == ("master", "develop")
    batch = await api.post(
        "/api/v1/orders:batch", json={"orders": [{"prompt": "a", "session_id": session["id"]}, {"prompt": "b"}]}
    )
    first, second = [(await api.get(f"{ORDERS}/{one['id']}")).json()["agent"] for one in batch.json()["items"]]
    assert (first, second) == ("review", "master")


async def test_a_repeated_request_is_known_whatever_became_of_the_defaults(api: httpx.AsyncClient) -> None:
    session = await opened(api, agent="review")
    asked = {"json": {"prompt": "x", "session_id": session["id"]}, "headers": {"Idempotency-Key": "k"}}
    first = await api.post(ORDERS, **asked)  # type: ignore[arg-type]
    await api.patch(f"{SESSIONS}/{session['id']}", json={"agent": "explore", "limits": {"rounds": 3}})
    again = await api.post(ORDERS, **asked)  # type: ignore[arg-type]
    assert (first.status_code, again.status_code, again.json()["id"]) == (201, 200, first.json()["id"])
    assert again.json()["agent"] == "review"


@pytest.mark.parametrize(
    "fields", [{"workspace": "/etc"}, {"agent": "no such name!"}, {"limits": {"rounds": 0}}, {"context": "half"}]
)
async def test_defaults_that_no_order_may_have_are_refused(api: httpx.AsyncClient, fields: dict[str, Any]) -> None:
    assert (await api.post(SESSIONS, json=fields)).status_code == 422
    session = await opened(api)
    assert (await api.patch(f"{SESSIONS}/{session['id']}", json=fields)).status_code == 422


async def test_a_session_is_changed_archived_and_found(api: httpx.AsyncClient) -> None:
    session = await opened(api, title="Talk")
    path = f"{SESSIONS}/{session['id']}"
    changed = (await api.patch(path, json={"title": "Other", "context": "answers"})).json()
    assert (changed["title"], changed["context"]) == ("Other", "answers")
    await placed(api, session_id=session["id"])
    assert (await api.patch(path, json={"context": None})).status_code == 409
    assert (await api.patch(path, json={"archived": True})).json()["archived"] is True
    listed = [(await api.get(SESSIONS, params=query)).json()["items"] for query in ({}, {"archived": "true"})]
    assert [[one["id"] for one in page] for page in listed] == [[], [session["id"]]]
    found = (await api.get(SESSIONS, params={"part": session["id"][:8]})).json()["items"]
    assert [one["id"] for one in found] == [session["id"]]
    assert (await api.get(SESSIONS, params={"text": "OTHER", "archived": "true"})).json()["items"] != []


async def test_pages_of_turns_marks_and_usage(api: httpx.AsyncClient) -> None:
    session = await opened(api)
    orders = [(await placed(api, session_id=session["id"])).json()["id"] for _ in range(3)]
    path = f"{SESSIONS}/{session['id']}"
    page = (await api.get(path, params={"limit": 2})).json()
    assert ([one["id"] for one in page["orders"]], page["next_before"], page["unread"]) == (orders[:0:-1], 2, 3)
    rest = (await api.get(path, params={"before": page["next_before"]})).json()
    assert ([one["id"] for one in rest["orders"]], rest["next_before"]) == (orders[:1], None)
    for turn in (2, 1):
        assert (await api.post(f"{path}/read", json={"turn": turn})).status_code == 204
    assert (await api.get(path)).json()["unread"] == 1
    assert (await api.post(f"{path}/read", json={"turn": 4})).status_code == 422
    used = (await api.get(f"{path}/usage")).json()["items"]
    assert [(one["turn"], one["order_id"], one["cached_share"]) for one in used] == [
        (turn, order, None) for turn, order in enumerate(orders, start=1)
    ]


async def test_a_session_is_forked_at_a_turn_that_has_ended(api: httpx.AsyncClient, store: Store) -> None:
    session = await opened(api, title="Talk")
    order = (await placed(api, session_id=session["id"])).json()
    path = f"{SESSIONS}/{session['id']}/fork"
    assert (await api.post(path, json={"turn": 1})).status_code == 409
    store.controls.request(order["id"], ControlKind.CANCEL, NewControl(), by=Actor("p"))
    forked = await api.post(path, json={"turn": 1, "title": "Mine"})
    assert (forked.status_code, forked.json()["title"]) == (201, "Mine")
    assert forked.json()["forked_from"] == {"session_id": session["id"], "turn": 1, "order_id": order["id"]}
    assert (await api.post(path, json={"turn": 2})).status_code == 422


async def test_an_export_holds_every_turn_and_no_text_looks_like_a_part_of_it(
    api: httpx.AsyncClient, store: Store
) -> None:
    session = await opened(api, title="Ta*lk\u202e")
    for prompt in ("one\n## Turn 9\u202e", "two"):
        await api.post(ORDERS, json={"prompt": prompt, "session_id": session["id"]})
    path = f"{SESSIONS}/{session['id']}/export"
    text = (await api.get(path)).text
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        text.splitlines()[0],
        "## Turn 1",
        "## Turn 2",
    ]
    assert "> ## Turn 9" in text and "\u202e" not in text and "Ta\\*lk" in text
    answer = await api.get(path, params={"format": "jsonl"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    head, first, second = map(json.loads, answer.text.splitlines())
    assert head["session"]["id"] == session["id"]
    assert (first["order"]["prompt"], first["record"]) == ("one\n## Turn 9\u202e", None)
    assert second["order"]["session_seq"] == 2
    assert (await api.get(f"{SESSIONS}/{fresh_id()}/export")).status_code == 404


async def test_a_session_is_searched_by_words(api: httpx.AsyncClient, store: Store) -> None:
    session = await opened(api)
    for prompt in ("The pelican rests\u202e at the pier", "two herons", "a pelican again"):
        await api.post(ORDERS, json={"prompt": prompt, "session_id": session["id"]})
    await api.post(ORDERS, json={"prompt": "pelican of another session"})
    path = f"{SESSIONS}/{session['id']}/search"
    answer = await api.get(path, params={"q": "pelicans pier"})
    assert answer.status_code == 200 and "\u202e" not in answer.text
    body = answer.json()
    assert [(item["turn"], item["seq"], item["kind"], item["left_out"]) for item in body["items"]] == [
        (1, 1, "prompt", False),
        (3, 1, "prompt", False),
    ]
    assert set(body["items"][0]) == {
        *("turn", "order_id", "seq", "record_id", "agent", "kind", "at", "excerpt", "left_out", "back"),
    }
    assert (body["not_searched"], body["pruned"]) == ([], [])
    only = (await api.get(path, params={"q": "pelican", "turn": 3, "limit": 1})).json()
    assert [item["turn"] for item in only["items"]] == [3]
    for question in ("'; DROP TABLE orders --", '"* OR NEAR(', "\x00", "%"):
        assert (await api.get(path, params={"q": question})).json()["items"] == []


@pytest.mark.parametrize("wanted", [{}, {"q": ""}, {"q": "x" * 10_001}, {"q": "x", "limit": 51}, {"q": "x", "turn": 0}])
async def test_a_search_that_cannot_be_is_refused(api: httpx.AsyncClient, wanted: dict[str, str]) -> None:
    session = await opened(api)
    assert (await api.get(f"{SESSIONS}/{session['id']}/search", params=wanted)).status_code == 422


async def test_a_deleted_session_is_unknown_from_then_on(api: httpx.AsyncClient, store: Store) -> None:
    session = await opened(api)
    orders = [(await placed(api, session_id=session["id"])).json()["id"] for _ in range(2)]
    path = f"{SESSIONS}/{session['id']}"
    answer = await api.delete(path)
    assert (answer.status_code, answer.json()["requested"], answer.json()["ended"]) == (202, 2, 2)
    reads = (api.get(f"{path}/{what}") for what in ("usage", "export", "search?q=x"))
    for request in (api.get(path), api.delete(path), *reads):
        assert (await request).status_code == 404
    assert (await placed(api, session_id=session["id"])).status_code == 404
    assert (await api.get(SESSIONS)).json()["items"] == []
    store.removal.advance()
    assert [(await api.get(f"{ORDERS}/{order}")).status_code for order in orders] == [404, 404]


async def test_the_session_of_a_document_is_kept_with_it(api: httpx.AsyncClient) -> None:
    order = (
        await api.post(
            ORDERS,
            json={"kind": "generate", "blueprint": "course", "generation": {"metadata": {"topic": "Photosynthesis"}}},
        )
    ).json()
    assert (await api.delete(f"{SESSIONS}/{order['session_id']}")).status_code == 409
    assert (await api.post(f"{SESSIONS}/{order['session_id']}/fork", json={"turn": 1})).status_code == 422
