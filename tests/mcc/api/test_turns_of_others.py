"""An own order in the session of somebody else: no token without `operate` adds turns there, or lets more pass."""

import httpx
import pytest

from mcc.contracts.inbox_facts import ApprovalRequested, QuestionAsked
from mcc.contracts.permission import SavedRule
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.mcc.api.people_scene import ORDERS, added, browser_of, client_by, token_of
from tests.mcc.api.signing import V1
from tests.mcc.api.test_people_over_http import placed, refused


async def both(api: httpx.AsyncClient) -> tuple[httpx.AsyncClient, httpx.AsyncClient]:
    """Two programs of one operator: with all that an operator may, and without the right `operate`."""
    browser = await browser_of(api, await added(api, "Olga", "operator"))
    tokens = [await token_of(browser, *scopes) for scopes in (("read", "write", "operate"), ("read", "write"))]
    strong, weak = (client_by(api, token["token"]) for token in tokens)
    return strong, weak


async def test_no_turn_comes_into_the_session_of_others_by_an_own_order(api: httpx.AsyncClient) -> None:
    strong, weak = await both(api)
    theirs = await placed(api)
    order = await placed(strong, session_id=theirs["session_id"])
    assert (await weak.post(f"{ORDERS}/{order['id']}/cancel", json={})).status_code == 202
    refused(await weak.post(f"{ORDERS}/{order['id']}/retry"), "operate")
    refused(await weak.post(f"{ORDERS}/{order['id']}/review", json={"comments": [], "note": "Go on"}), "operate")
    again = await weak.post(f"{ORDERS}:bulk", json={"action": "retry", "ids": [order["id"]]})
    (item,) = again.json()["items"]
    assert item["order_id"] is None and "its session" in item["problem"]
    assert (await api.get(f"{V1}/sessions/{theirs['session_id']}")).json()["turns"] == 2
    assert (await strong.post(f"{ORDERS}/{order['id']}/retry")).status_code == 201
    own = await placed(weak)
    await weak.post(f"{ORDERS}/{own['id']}/cancel", json={})
    assert (await weak.post(f"{ORDERS}/{own['id']}/retry")).status_code == 201


async def test_for_the_session_of_others_nothing_is_remembered(api: httpx.AsyncClient, store: Store) -> None:
    strong, weak = await both(api)
    order = await placed(strong, session_id=(await placed(api))["session_id"], on_ask="wait")
    await api.post(f"{ORDERS}:cancel", json={"session_id": order["session_id"]})
    order = await placed(strong, session_id=order["session_id"], on_ask="wait")
    held = HandDrone(store).claim(order["id"])
    held.start()
    rule = SavedRule(key="git_commit")
    held.write(
        ApprovalRequested(approval_id="a1", call_id="call", tool="git_commit", digest="sha256:1", would_save=rule)
    )
    decision = {"decision": "approve", "remember": "session"}
    sentence = refused(await weak.post(f"{V1}/approvals/a1", json=decision), "operate")
    assert "session" in sentence
    assert (await api.get(f"{V1}/grants")).json()["items"] == []
    assert (await weak.post(f"{V1}/approvals/a1", json={**decision, "remember": "order"})).status_code == 200


async def test_files_of_others_are_removed_with_the_right_to_alone(api: httpx.AsyncClient) -> None:
    strong, weak = await both(api)
    made = await api.post(f"{V1}/tokens", json={"name": "ci", "scopes": ["read", "write"]})
    file = await api.post(f"{V1}/artifacts", content=b"text", headers={"Content-Type": "text/plain"})
    theirs = await weak.post(f"{V1}/artifacts", content=b"other", headers={"Content-Type": "text/plain"})
    for http, id in ((weak, file.json()["id"]), (client_by(api, made.json()["token"]), theirs.json()["id"])):
        assert (await http.delete(f"{V1}/artifacts/{id}")).status_code == 404
    assert (await strong.delete(f"{V1}/artifacts/{file.json()['id']}")).status_code == 204
    assert (await weak.delete(f"{V1}/artifacts/{theirs.json()['id']}")).status_code == 204


async def test_a_late_answer_tells_the_session_of_others_nothing(api: httpx.AsyncClient, store: Store) -> None:
    strong, weak = await both(api)
    theirs = await placed(api)
    await api.post(f"{ORDERS}/{theirs['id']}/cancel", json={})
    for number, (http, session_id, status) in enumerate(
        ((weak, theirs["session_id"], 410), (strong, theirs["session_id"], 202), (weak, None, 202))
    ):
        order = await placed(strong, session_id=session_id, on_ask="wait")
        held = HandDrone(store).claim(order["id"])
        held.start()
        held.write(QuestionAsked(question_id=f"q{number}", call_id=f"c{number}", question="Which?"))
        held.finish()
        said = await http.post(f"{V1}/questions/q{number}", json={"answer": "This"})
        assert said.status_code == status, said.text


async def test_a_fork_of_an_order_of_others_does_not_write_to_their_webhook(api: httpx.AsyncClient) -> None:
    _, weak = await both(api)
    url = "https://hooks.example.com/in?token=secret"
    theirs, own = [await placed(http, webhook_url=url) for http in (api, weak)]
    forks = [(await weak.post(f"{ORDERS}/{order['id']}/fork", json={"after": 1})).json() for order in (theirs, own)]
    assert [fork["webhook_url"] for fork in forks] == [None, "https://hooks.example.com/in?token=…"]


@pytest.mark.parametrize("when_busy", ["steer", "interrupt", "rollback"])
async def test_no_turn_of_others_is_controlled_by_a_new_one_in_an_own_session(
    api: httpx.AsyncClient, store: Store, when_busy: str
) -> None:
    strong, weak = await both(api)
    session_id = (own := await placed(weak))["session_id"]
    await weak.post(f"{ORDERS}/{own['id']}/cancel", json={})
    theirs = await placed(api, session_id=session_id)
    HandDrone(store).claim(theirs["id"]).start()
    asked = {"prompt": "Instead", "session_id": session_id, "when_busy": when_busy}
    refused(await weak.post(ORDERS, json=asked), "operate")
    together = await weak.post(f"{ORDERS}:batch", json={"orders": [asked]})
    assert [each["status"] for each in together.json()["errors"]] == [403]
    assert (await api.get(f"{ORDERS}/{theirs['id']}/controls")).json()["items"] == []
    assert (await strong.post(ORDERS, json=asked)).status_code in (200, 201)
    (control,) = (await api.get(f"{ORDERS}/{theirs['id']}/controls")).json()["items"]
    assert control["kind"] == ("steer" if when_busy == "steer" else "cancel")


async def test_a_late_answer_steers_no_turn_of_others_in_an_own_session(api: httpx.AsyncClient, store: Store) -> None:
    strong, weak = await both(api)
    order = await placed(weak, on_ask="wait")
    held = HandDrone(store).claim(order["id"])
    held.start()
    for item in ("q1", "q2"):
        held.write(QuestionAsked(question_id=item, call_id=item, question="Which?"))
    held.finish()
    theirs = await placed(api, session_id=order["session_id"])
    for http, item, became in ((weak, "q1", "next_turn"), (strong, "q2", "steer")):
        said = await http.post(f"{V1}/questions/{item}", json={"answer": "This"})
        assert (said.status_code, said.json()["became"]) == (202, became)
    assert len((await api.get(f"{ORDERS}/{theirs['id']}/controls")).json()["items"]) == 1


async def test_no_order_made_from_another_works_on_the_document_of_others(api: httpx.AsyncClient) -> None:
    strong, weak = await both(api)
    document_id = (await api.post(f"{V1}/documents", json={"blueprint": "course"})).json()["id"]
    theirs, own = [await placed(http, document_id=document_id) for http in (api, strong)]
    await weak.post(f"{ORDERS}/{own['id']}/cancel", json={})
    refused(await weak.post(f"{ORDERS}/{theirs['id']}/fork", json={"after": 1}), "operate")
    refused(await weak.post(f"{ORDERS}/{own['id']}/retry"), "operate")
    refused(await weak.post(f"{ORDERS}/{own['id']}/review", json={"comments": [], "note": "Go on"}), "operate")
    again = await weak.post(f"{ORDERS}:bulk", json={"action": "retry", "ids": [own["id"]]})
    assert "This document is not yours" in again.json()["items"][0]["problem"]
    assert len((await api.get(ORDERS)).json()["items"]) == 2
    assert (await strong.post(f"{ORDERS}/{theirs['id']}/fork", json={"after": 1})).status_code == 201
