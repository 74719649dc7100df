"""Retry, fork and rollback over HTTP: answers, notices, and refusals."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.order import PROMPT_CHARACTERS
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.api.test_orders_over_http import NOBODY, ORDERS, is_problem

RETRY, FORK, ROLLBACK = (f"{ORDERS}/{{order_id}}/{what}" for what in ("retry", "fork", "rollback"))


def running(store: Store, order_id: str) -> HeldOrder:
    held = HandDrone(store).claim(order_id)
    held.start()
    held.write(ModelStarted(round=1, attempt=1, model="offline"))
    return held


async def placed(api: httpx.AsyncClient, **fields: object) -> str:
    return str((await api.post(ORDERS, json={"prompt": "Explain this", **fields})).json()["id"])


async def test_a_retry_is_placed_nudged_and_says_what_it_was_made_from(
    api: httpx.AsyncClient, store: Store, nudges: Any, document: dict[str, Any]
) -> None:
    source = await placed(api, priority=2, labels=["a"])
    is_problem(await api.post(RETRY.format(order_id=source)), 409)
    running(store, source).finish()
    answer = await api.post(RETRY.format(order_id=source))
    check(document, answer, RETRY)
    order = answer.json()
    assert answer.status_code == 201
    assert answer.url.join(answer.headers["location"]).path == f"{ORDERS}/{order['id']}"
    assert (order["prompt"], order["priority"], order["labels"], order["session_seq"]) == ("Explain this", 2, ["a"], 2)
    assert order["origin"] == {"kind": "retry", "order_id": source, "after": None, "note": None, "overwrite": False}
    assert (await api.get(f"{ORDERS}/{order['id']}")).json()["status"] == "queued"
    assert (await nudges.until(2))[-1] == (order["id"], "default", 2)


async def test_a_fork_says_where_it_was_cut_and_begins_with_what_was_done(
    api: httpx.AsyncClient, store: Store, document: dict[str, Any]
) -> None:
    source = await placed(api)
    running(store, source)
    answer = await api.post(FORK.format(order_id=source), json={"after": 4, "prompt": "And the tests?"})
    check(document, answer, FORK)
    order = answer.json()
    assert answer.status_code == 201 and order["origin"]["kind"] == "fork" and order["origin"]["order_id"] == source
    assert order["origin"]["after"] == 3 and "Entry 4 lies within a model call of master" in order["origin"]["note"]
    journal = (await api.get(f"{ORDERS}/{order['id']}/journal")).json()["items"]
    assert [entry["kind"] for entry in journal] == ["order.queued", "agent.started", "control.applied"]
    assert journal[0]["data"]["forked"] == {"order_id": source, "after": 3, "until": 2}
    record = (await api.get(f"{ORDERS}/{order['id']}/record")).json()
    assert record["forked_from"] == (await api.get(f"{ORDERS}/{source}/record")).json()["id"]
    assert record["steps"][0]["message"] == "And the tests?"


@pytest.mark.parametrize("what", ["retry", "fork"])
async def test_the_same_key_gives_the_same_order_again(
    api: httpx.AsyncClient, store: Store, nudges: Any, what: str
) -> None:
    source = await placed(api)
    running(store, source).finish()
    key, body = {"Idempotency-Key": "k"}, {"after": 2} if what == "fork" else None
    first, second = [await api.post(f"{ORDERS}/{source}/{what}", json=body, headers=key) for _ in range(2)]
    assert (first.status_code, second.status_code) == (201, 200) and first.json()["id"] == second.json()["id"]
    is_problem(await api.post(f"{ORDERS}/{source}/fork", json={"after": 3}, headers=key), 409)
    assert [order_id for order_id, _, _ in await nudges.until(2)] == [source, first.json()["id"]]


WHOLE = "after: Input should be a whole number, such as 5: no text, no fraction, not true or false"
BLANK = "prompt: Input is blank: say what the master shall hear next, or leave it out"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "The body should be a JSON object, in braces"),
        ("null", "The body should be a JSON object, in braces"),
        ("[1]", "The body should be a JSON object, in braces"),
        ('{"after":', "The body is not JSON from character 9 on; correct it there"),
        ("{}", "after: Nothing is given here, and it is needed; add it"),
        ('{"after": null}', WHOLE),
        ('{"after": "5"}', WHOLE),
        ('{"after": "x"}', WHOLE),
        ('{"after": true}', WHOLE),
        ('{"after": 1.5}', WHOLE),
        ('{"after": NaN}', "In the body a number is NaN"),
        ('{"after": [1]}', WHOLE),
        ('{"after": 0}', "after: Input should be greater than or equal to 1"),
        ('{"after": -1}', "after: Input should be greater than or equal to 1"),
        ('{"after": 10000000000000000}', "after: Input should be less than or equal to 1000000000000000"),
        (
            '{"after": 99}',
            "order {source} has entries 1 to 1 so far: there is no entry 99 to fork after; choose",
        ),
        ('{"after": 1, "prompt": ""}', BLANK),
        ('{"after": 1, "prompt": " \\t\\n\\u00a0"}', BLANK),
        ('{"after": 1, "prompt": 7}', "prompt: Input should be text, in quotation marks"),
        ('{"after": 1, "prompt": "\\ud800"}', "prompt: Input holds half of a surrogate pair, which is no character;"),
        ('{"after": 1, "propmt": "x"}', 'propmt: Nothing of this name is known here (did you mean "prompt"?)'),
    ],
)
async def test_a_fork_that_cannot_be_made_is_refused_with_a_sentence(
    api: httpx.AsyncClient, store: Store, body: str, said: str
) -> None:
    source = await placed(api)
    answer = await api.post(FORK.format(order_id=source), content=body, headers={"Content-Type": "application/json"})
    assert is_problem(answer, 422).startswith(said.replace("{source}", source))
    assert len(store.orders.list().items) == 1


@pytest.mark.parametrize("prompt", ["x", "\x00", "x" * PROMPT_CHARACTERS])
async def test_a_fork_takes_the_prompts_that_an_order_takes(api: httpx.AsyncClient, prompt: str) -> None:
    source = await placed(api)
    fork = await api.post(FORK.format(order_id=source), json={"after": 1, "prompt": prompt})
    assert (fork.status_code, fork.json()["prompt"]) == (201, prompt)
    longer = {"after": 1, "prompt": "x" * (PROMPT_CHARACTERS + 1)}
    assert is_problem(await api.post(FORK.format(order_id=source), json=longer), 422) == (
        f"prompt: Text should have at most {PROMPT_CHARACTERS} characters"
    )


async def test_what_is_not_allowed_any_more_is_not_tried_again(
    api: httpx.AsyncClient, store: Store, tmp_path: Path
) -> None:
    drone = HandDrone(store, workspace_roots=("/srv/elsewhere",))
    source = await placed(api, workspace="/srv/elsewhere/x")
    drone.claim(source).finish_without_start()
    store.leases.leave(drone.incarnation)
    said = is_problem(await api.post(RETRY.format(order_id=source)), 422)
    assert "not under an allowed directory" in said
    is_problem(await api.post(FORK.format(order_id=source), json={"after": 1}), 422)


async def test_a_turn_is_rolled_back_once_it_has_ended_and_its_session_shows_it(
    api: httpx.AsyncClient, store: Store, document: dict[str, Any]
) -> None:
    source = await placed(api)
    assert "cancel it first" in is_problem(await api.post(ROLLBACK.format(order_id=source)), 409)
    running(store, source).finish()
    for _ in range(2):
        answer = await api.post(ROLLBACK.format(order_id=source))
        check(document, answer, ROLLBACK)
        assert answer.status_code == 200 and answer.json()["left_out"] is True
    session = (await api.get(f"/api/v1/sessions/{answer.json()['session_id']}")).json()
    assert [turn["left_out"] for turn in session["orders"]] == [True]
    assert [note.principal for note in store.audit.of_order(source)] == ["operator"]


@pytest.mark.parametrize("what", ["retry", "fork", "rollback"])
@pytest.mark.parametrize("order_id", [NOBODY, "nobody", "%00"])
async def test_an_order_that_does_not_exist_is_not_found(api: httpx.AsyncClient, what: str, order_id: str) -> None:
    is_problem(await api.post(f"{ORDERS}/{order_id}/{what}", json={"after": 1} if what == "fork" else None), 404)
