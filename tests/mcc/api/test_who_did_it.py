"""Who did something, by which door and with which token: in answers, in the journal and in the audit."""

from typing import Any

import httpx
import pytest

from mcc.contracts.inbox_facts import QuestionAnswered, QuestionAsked
from mcc.contracts.journal import ControlApplied
from mcc.contracts.order_facts import OrderQueued
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.mcc.api.people_scene import ORDERS, added, browser_of, client_by, token_of
from tests.mcc.api.signing import V1, Browser
from tests.mcc.api.test_documents_over_http import COURSE


def who(thing: Any) -> tuple[str, str, str | None]:
    return thing["principal"], thing["door"], thing["token"]


@pytest.fixture
async def ann(api: httpx.AsyncClient) -> tuple[str, Browser, httpx.AsyncClient]:
    """The principal of an operator, her browser, and a program with her token, which is called "laptop"."""
    person = await added(api, "Ann", "operator")
    browser = await browser_of(api, person)
    made = await token_of(browser, "read", "write", "operate")
    return person["principal"], browser, client_by(api, made["token"])


Ann = tuple[str, Browser, httpx.AsyncClient]


async def test_an_order_and_its_session_tell_who_placed_it_and_how_it_came(
    api: httpx.AsyncClient, ann: Ann, store: Store
) -> None:
    principal, browser, program = ann
    cli = {"User-Agent": "mcc-cli/1"}
    placed = [
        await browser.http.post(ORDERS, json={"prompt": "page"}, headers=browser.changing),
        await program.post(ORDERS, json={"prompt": "api"}),
        await program.post(ORDERS, json={"prompt": "cli"}, headers=cli),
        await api.post(ORDERS, json={"prompt": "operator"}),
    ]
    ways = [
        (principal, "page", None),
        (principal, "api", "laptop"),
        (principal, "cli", "laptop"),
        ("operator", "api", None),
    ]
    assert [who(each.json()) for each in placed] == ways
    for answer, way in zip(placed, ways, strict=True):
        order = answer.json()
        assert who((await api.get(f"{ORDERS}/{order['id']}")).json()) == way
        assert who((await api.get(f"{V1}/sessions/{order['session_id']}")).json()) == way
        [queued] = store.journal.read(order["id"])
        assert isinstance(queued.data, OrderQueued)
        assert (queued.data.principal, queued.data.door, queued.data.token) == way
    listed = (await api.get(ORDERS, params={"view": "summary"})).json()["items"]
    assert [who(each) for each in listed] == [*reversed(ways)]


async def test_orders_of_a_batch_and_those_made_of_others_tell_it_too(ann: Ann, store: Store) -> None:
    principal, browser, program = ann
    batch = await program.post(f"{ORDERS}:batch", json={"orders": [{"prompt": "x"}]})
    first = batch.json()["items"][0]["id"]
    assert who((await program.get(f"{ORDERS}/{first}")).json()) == (principal, "batch", "laptop")
    held = HandDrone(store).claim(first)
    held.start("x")
    held.finish()
    for action, asked in (("retry", {}), ("fork", {"after": 2})):
        made = await browser.http.post(f"{ORDERS}/{first}/{action}", json=asked, headers=browser.changing)
        assert made.status_code == 201, made.text
        assert who(made.json()) == (principal, "page", None), action


async def test_a_control_and_its_effect_in_the_journal_name_who_asked(ann: Ann, api: httpx.AsyncClient) -> None:
    principal, browser, program = ann
    order = (await api.post(ORDERS, json={"prompt": "x"})).json()
    await program.post(f"{ORDERS}/{order['id']}/pause", json={})
    await browser.http.post(f"{ORDERS}/{order['id']}/cancel", json={"reason": "no"}, headers=browser.changing)
    pause, cancel = (await api.get(f"{ORDERS}/{order['id']}/controls")).json()["items"]
    assert who(pause) == (principal, "api", "laptop")
    assert who(cancel) == (principal, "page", None)
    journal = (await api.get(f"{ORDERS}/{order['id']}/journal")).json()["items"]
    applied = {each["data"]["control"]: each["data"] for each in journal if each["kind"] == ControlApplied.kind}
    assert (applied["cancel"]["by"], applied["cancel"]["door"]) == (principal, "page")
    notes = (await api.get(f"{V1}/audit", params={"kind": "control"})).json()["items"]
    assert [who(each) for each in notes] == [who(cancel), who(pause)]


async def test_an_answer_names_who_gave_it(ann: Ann, api: httpx.AsyncClient, store: Store) -> None:
    principal, _, program = ann
    order = (await api.post(ORDERS, json={"prompt": "x"})).json()
    held = HandDrone(store).claim(order["id"])
    held.start("ask")
    held.write(QuestionAsked(question_id="question", call_id="call", question="Which?"))
    await program.post(f"{V1}/questions/question", json={"answer": "this"})
    [item] = (await api.get(f"{V1}/inbox", params={"status": "answered"})).json()["items"]
    assert who(item) == (principal, "api", "laptop") and item["by"] == principal
    [decide] = store.controls.of_order(order["id"])
    assert decide.said is not None and (decide.said.by, decide.said.door) == (principal, "api")
    assert who(decide.model_dump()) == (principal, "api", "laptop")
    assert QuestionAnswered.model_fields["door"].default is None  # of journals before it was told


async def test_a_document_and_each_of_its_changes_tell_who_made_them(ann: Ann, api: httpx.AsyncClient) -> None:
    principal, browser, program = ann
    blueprint = await api.post(f"{V1}/blueprints", json={"text": COURSE})
    new = {
        "blueprint": f"{blueprint.json()['name']}:{blueprint.json()['digest'][7:19]}",
        "metadata": {"topic": "Light"},
    }
    made = (await program.post(f"{V1}/documents", json=new)).json()
    assert who(made) == (principal, "api", "laptop")
    change = {"commands": [{"command": "set_value", "node": "/", "values": {"title": "A title"}}]}
    done = await browser.http.post(f"{V1}/documents/{made['id']}/commands", json=change, headers=browser.changing)
    assert done.status_code == 200, done.text
    newest, *_ = (await api.get(f"{V1}/documents/{made['id']}/history")).json()["items"]
    assert (newest["principal"], newest["door"]) == (principal, "page")


async def test_who_used_a_token_is_still_told_when_the_token_is_gone(ann: Ann, api: httpx.AsyncClient) -> None:
    principal, browser, program = ann
    order = (await program.post(ORDERS, json={"prompt": "x"})).json()
    [token] = (await browser.http.get(f"{V1}/tokens")).json()["items"]
    await browser.http.delete(f"{V1}/tokens/{token['id']}", headers=browser.changing)
    assert who((await api.get(f"{ORDERS}/{order['id']}")).json()) == (principal, "api", "laptop")
    [made, revoked] = reversed((await api.get(f"{V1}/audit", params={"who": principal})).json()["items"][:2])
    assert (made["kind"], revoked["kind"]) == ("token.made", "token.revoked")
    assert who(revoked) == (principal, "page", None)
