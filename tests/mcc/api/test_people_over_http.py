"""People and tokens over HTTP: who gets in, what they reach, and how it ends."""

import secrets
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from mcc.api.access.credentials import Credentials, digest_of
from mcc.contracts.callers import OPERATOR, AccessScope, Actor, Role
from mcc.contracts.people import NewApiToken, NewPerson, PersonChange
from mcc.contracts.shape import now
from mcc.contracts.token_text import new_token
from mcc.store.database.errors import SpentLink
from mcc.store.people.owners import Thing
from mcc.store.store import BoundedOffload, Store
from tests.mcc.api.people_scene import ORDERS, PEOPLE, TOKENS, added, browser_of, client_by, member, token_of
from tests.mcc.api.signing import V1, another_process, browser_by
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.api.test_inbox_of_orders_over_http import ready
from tests.mcc.api.test_orders_over_http import is_problem

AUDIT = f"{V1}/audit"


async def placed(http: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await http.post(ORDERS, json={"prompt": "x", **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def refused(answer: httpx.Response, needs: str) -> str:
    """The sentence of a refusal for want of this right."""
    sentence = is_problem(answer, 403)
    assert answer.json()["needs"] == needs
    return sentence


async def test_a_person_signs_in_by_a_link_makes_a_token_and_works_with_it(
    api: httpx.AsyncClient, document: dict[str, Any], store: Store
) -> None:
    person = await added(api, "Ann <b>", "member")
    browser = await browser_of(api, person)
    me = (await browser.http.get(f"{V1}/me")).json()
    assert (me["name"], me["kind"], me["role"], me["door"]) == ("Ann <b>", "person", "member", "page")
    assert me["scopes"] == ["read", "write"] and me["token"] is None
    made = await token_of(browser, "read", "write")
    ann = client_by(api, made["token"])
    me_by_token = await ann.get(f"{V1}/me")
    check(document, me_by_token, "/api/v1/me")
    assert (me_by_token.json()["door"], me_by_token.json()["token"]["id"]) == ("api", made["id"])
    order = await placed(ann)
    assert store.owners.owners(Thing.ORDER, [order["id"]]) == {order["id"]: person["principal"]}
    found = (await api.get(ORDERS, params={"who": person["principal"]})).json()["items"]
    assert [each["id"] for each in found] == [order["id"]]
    listed = await api.get(PEOPLE)
    check(document, listed, "/api/v1/people")
    assert listed.json()["items"][0]["principal"] == person["principal"]
    names = await ann.get(f"{V1}/principals", params={"ids": [person["principal"], "operator"]})
    assert [(each["name"], each["kind"]) for each in names.json()["items"]] == [
        ("Ann <b>", "person"),
        ("operator", "operator"),
    ]


async def test_a_member_reaches_own_things_and_is_told_what_others_need(api: httpx.AsyncClient) -> None:
    ann = await member(api)
    own, theirs = await placed(ann), await placed(api)
    assert (await ann.post(f"{ORDERS}/{own['id']}/pause", json={})).status_code == 202
    sentence = refused(await ann.post(f"{ORDERS}/{theirs['id']}/cancel", json={}), "operate")
    assert "This order is not yours" in sentence and "operators and admins have" in sentence
    assert (await ann.get(f"{ORDERS}/{theirs['id']}")).status_code == 200
    assert (await ann.post(f"{ORDERS}/0197f000-0000-7000-8000-000000000000/cancel", json={})).status_code == 404
    assert (await api.get(f"{ORDERS}/{theirs['id']}/controls")).json()["items"] == []


async def test_the_session_of_others_takes_no_order_of_a_member(api: httpx.AsyncClient) -> None:
    ann = await member(api)
    theirs = await placed(api)
    in_it = {"prompt": "x", "session_id": theirs["session_id"]}
    refused(await ann.post(ORDERS, json=in_it), "operate")
    batch = await ann.post(f"{ORDERS}:batch", json={"orders": [{"prompt": "x"}, in_it]})
    (mistake,) = batch.json()["errors"]
    assert (mistake["index"], mistake["status"]) == (1, 403)
    operator = await member(api, "Olga", "operator")
    assert (await operator.post(ORDERS, json=in_it)).status_code == 201
    # Neither of the refused ones was placed.
    assert len((await api.get(ORDERS)).json()["items"]) == 2


async def test_of_many_orders_a_member_reaches_the_own_ones(api: httpx.AsyncClient) -> None:
    ann = await member(api)
    own, other, theirs = await placed(ann), await placed(ann, labels=["a"]), await placed(api, labels=["a"])
    ids = [theirs["id"], own["id"]]
    bulk = (await ann.post(f"{ORDERS}:bulk", json={"action": "cancel", "ids": ids})).json()["items"]
    assert [(each["id"], each["status"]) for each in bulk] == [(theirs["id"], "queued"), (own["id"], "cancelled")]
    assert "not yours" in bulk[0]["problem"] and bulk[1]["problem"] is None
    for body in ({"label": "a"}, {"all": True}):
        cancelled = await ann.post(f"{ORDERS}:cancel", json=body)
        assert cancelled.status_code == 202
    assert (await api.get(f"{ORDERS}/{other['id']}")).json()["status"] == "cancelled"
    assert (await api.get(f"{ORDERS}/{theirs['id']}")).json()["status"] == "queued"


async def test_a_viewer_reads_and_changes_nothing(api: httpx.AsyncClient) -> None:
    viewer = await member(api, "Vi", "viewer")
    order = await placed(api)
    assert (await viewer.get(f"{ORDERS}/{order['id']}")).status_code == 200
    refused(await viewer.post(ORDERS, json={"prompt": "x"}), "write")
    refused(await viewer.post(f"{ORDERS}/{order['id']}/cancel", json={}), "write")
    refused(await viewer.get(PEOPLE), "admin")
    refused(await viewer.get(TOKENS, params={"all": True}), "admin")


async def test_an_idempotency_key_counts_per_person(api: httpx.AsyncClient) -> None:
    ann, bob = await member(api), await member(api, "Bob")
    key = {"Idempotency-Key": "the-same"}
    ids = [(await http.post(ORDERS, json={"prompt": "x"}, headers=key)).json()["id"] for http in (ann, bob, ann, api)]
    assert len(set(ids)) == 3 and ids[0] == ids[2]


async def test_the_inbox_of_a_member_is_theirs_and_an_operator_s_is_everybody_s(
    api: httpx.AsyncClient, store: Store
) -> None:
    ann, operator = await member(api), await member(api, "Olga", "operator")
    await ready(api, store)
    ask = {"kinds": "all"}
    shown = [len((await http.get(f"{V1}/inbox", params=ask)).json()["items"]) for http in (operator, ann)]
    assert shown == [1, 0]
    for scope, count in (("all", 1), ("mine", 0)):
        for http in (operator, ann):
            items = (await http.get(f"{V1}/inbox", params={**ask, "scope": scope})).json()["items"]
            assert len(items) == count


async def test_a_token_makes_neither_tokens_nor_links(api: httpx.AsyncClient) -> None:
    person = await added(api, "Ada", "admin")
    browser = await browser_of(api, person)
    admin = client_by(api, (await token_of(browser, "read", "write", "operate", "admin"))["token"])
    for path, body in (
        (TOKENS, {"name": "again", "scopes": ["read"]}),
        (f"{PEOPLE}/{person['id']}/link", {}),
        (f"{V1}/signin/links", {"principal": person["principal"]}),
        (f"{V1}/signin/links", {}),
    ):
        assert "token" in is_problem(await admin.post(path, json=body), 403), path
    # Signed in, an admin lets others in, but never as the operator.
    theirs = await browser.http.post(f"{PEOPLE}/{person['id']}/link", json={}, headers=browser.changing)
    assert theirs.status_code == 201
    refused(await browser.http.post(f"{V1}/signin/links", json={}, headers=browser.changing), "admin")


async def test_a_token_asks_for_no_more_than_its_maker_may(api: httpx.AsyncClient) -> None:
    browser = await browser_of(api, await added(api, "Ann", "member"))
    for asked, needs in (
        ({"name": "x", "scopes": ["read", "operate"]}, "operate"),
        ({"name": "x", "kind": "service", "role": "viewer", "scopes": ["read"]}, "admin"),
    ):
        refused(await browser.http.post(TOKENS, json=asked, headers=browser.changing), needs)
    for wrong in (
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["read"], "role": "admin"},
        {"name": "x", "scopes": ["read"], "expires_in_days": 366},
        {"name": "x", "scopes": ["read"], "expires_in_days": None},
        {"name": "x", "kind": "service", "scopes": ["read"]},
        {"name": "x", "kind": "service", "role": "viewer", "scopes": ["write"]},
        {"name": "x" * 201, "scopes": ["read"]},
    ):
        is_problem(await api.post(TOKENS, json=wrong), 422)
    assert (await api.get(TOKENS, params={"all": True})).json()["items"] == []


async def test_a_service_token_is_nobodys_and_has_a_role(api: httpx.AsyncClient) -> None:
    asked = {"name": "deploy", "kind": "service", "role": "member", "scopes": ["write"], "expires_in_days": None}
    made = await api.post(TOKENS, json=asked)
    assert made.status_code == 201
    assert made.json()["token"].startswith("mccs_") and made.json()["principal"] == f"service:{made.json()['id']}"
    deploy = client_by(api, made.json()["token"])
    assert (await deploy.post(ORDERS, json={"prompt": "x"})).status_code == 201
    refused(await deploy.get(ORDERS), "read")
    assert "token" not in (await api.get(TOKENS, params={"all": True})).json()["items"][0]


@pytest.mark.parametrize("end", ["revoked", "disabled", "removed"])
async def test_a_right_ends_at_once_here_and_says_why(api: httpx.AsyncClient, end: str) -> None:
    person = await added(api, "Ann", "member")
    browser = await browser_of(api, person)
    made = await token_of(browser, "read")
    ann = client_by(api, made["token"])
    assert (await ann.get(ORDERS)).status_code == 200 == (await browser.http.get(ORDERS)).status_code
    if end == "revoked":
        assert (await api.delete(f"{TOKENS}/{made['id']}")).status_code == 204
    elif end == "disabled":
        assert (await api.patch(f"{PEOPLE}/{person['id']}", json={"disabled": True})).status_code == 200
    else:
        assert (await api.delete(f"{PEOPLE}/{person['id']}")).status_code == 204
    why = is_problem(await ann.get(ORDERS), 401)
    assert end in why if end != "removed" else why == "This token was revoked: `mcc login` gets another."
    assert (await browser.http.get(ORDERS)).status_code == (200 if end == "revoked" else 401)


async def test_another_role_counts_from_the_next_request_on(api: httpx.AsyncClient) -> None:
    person = await added(api, "Ann", "operator")
    ann = client_by(api, (await token_of(await browser_of(api, person), "read", "write", "operate"))["token"])
    theirs = await placed(api)
    assert (await ann.post(f"{ORDERS}/{theirs['id']}/pause", json={})).status_code == 202
    await api.patch(f"{PEOPLE}/{person['id']}", json={"role": "viewer"})
    refused(await ann.post(f"{ORDERS}/{theirs['id']}/resume", json={}), "write")


async def test_in_another_process_it_has_ended_when_it_is_looked_up_again(
    api: httpx.AsyncClient, store: Store, tmp_path: Any
) -> None:
    made = await token_of(await browser_of(api, await added(api, "Ann", "member")), "read")
    other = client_by(another_process(store, tmp_path), made["token"])
    assert (await other.get(ORDERS)).status_code == 200
    await api.delete(f"{TOKENS}/{made['id']}")
    # What it read is believed for two seconds: a third process, which has read nothing, knows at once.
    third = client_by(another_process(store, tmp_path), made["token"])
    assert is_problem(await third.get(ORDERS), 401) == "This token was revoked: `mcc login` gets another."


async def test_what_is_not_spelled_as_a_token_is_refused_without_asking_the_database(
    api: httpx.AsyncClient, store: Store
) -> None:
    said: list[str] = []
    sa.event.listen(store.database.engine, "before_cursor_execute", lambda *sent: said.append(sent[2]))
    secret = new_token("personal")
    mistyped = secret[:-1] + ("a" if secret[-1] != "a" else "b")
    for wrong in (mistyped, "mccp_", secret + "a", "\xff"):
        answer = await api.get(ORDERS, headers={b"Authorization": f"Bearer {wrong}".encode("latin-1")})
        assert is_problem(answer, 401).startswith("This token is not the right one")
    assert said == []
    is_problem(await api.get(ORDERS, headers={"Authorization": f"Bearer {secret}"}), 401)
    assert said != []


async def test_wrong_tokens_of_the_right_shape_are_counted_too(api: httpx.AsyncClient) -> None:
    answers = [
        (await api.get(ORDERS, headers={"Authorization": f"Bearer {new_token('service')}"})).status_code
        for _ in range(21)
    ]
    assert answers == [401] * 20 + [429]
    assert (await api.get(ORDERS)).status_code == 200


async def test_after_too_many_wrong_ones_an_unknown_secret_is_not_looked_up_and_a_known_one_never_kept_out(
    api: httpx.AsyncClient, store: Store
) -> None:
    ann = await browser_of(api, await added(api, "Ann", "admin"))
    program = client_by(api, (await token_of(ann, "read"))["token"])
    elsewhere, new = new_token("personal"), NewApiToken(name="made elsewhere", scopes=(AccessScope.READ,))
    store.tokens.make(elsewhere, digest_of(elsewhere), new, by=Actor(OPERATOR))
    assert (await program.get(ORDERS)).status_code == 200
    said: list[str] = []
    sa.event.listen(store.database.engine, "before_cursor_execute", lambda *sent: said.append(sent[2]))
    for _ in range(40):
        await api.get(ORDERS, headers={"Authorization": f"Bearer {new_token('personal')}"})
        await api.get(ORDERS, headers={"Authorization": "", "Cookie": f"mcc-8420={secrets.token_urlsafe(32)}"})
    assert len([statement for statement in said if "FROM api_tokens" in statement]) == 20
    assert (await client_by(api, elsewhere).get(ORDERS)).status_code == 429
    # What was made here is known here from the beginning.
    assert (await client_by(api, (await token_of(ann, "read"))["token"]).get(ORDERS)).status_code == 200
    # Known ones are looked up as before, also when something about them has changed, or they are long unused.
    await api.patch(f"{PEOPLE}/{(await ann.http.get(f'{V1}/me')).json()['principal'][7:]}", json={"role": "viewer"})
    refused(await ann.http.post(ORDERS, json={"prompt": "x"}, headers=ann.changing), "write")
    assert (await program.get(ORDERS)).status_code == 200


async def test_a_link_of_a_removed_or_disabled_person_signs_nobody_in(api: httpx.AsyncClient) -> None:
    person = await added(api, "Ann", "member")
    link = (await api.post(f"{PEOPLE}/{person['id']}/link", json={})).json()
    assert 23 < (datetime.fromisoformat(link["expires_at"]) - now()).total_seconds() / 3_600 < 24.1
    await api.patch(f"{PEOPLE}/{person['id']}", json={"disabled": True})
    code = {"code": link["url"].partition("#")[2]}
    assert (await api.post(f"{V1}/signin", json=code)).status_code == 410
    await api.delete(f"{PEOPLE}/{person['id']}")
    is_problem(await api.post(f"{PEOPLE}/{person['id']}/link", json={}), 404)
    is_problem(await api.patch(f"{PEOPLE}/{person['id']}", json={"disabled": False}), 404)


async def test_the_audit_shows_own_notes_to_everybody_and_all_to_operators(
    api: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    ann, operator = await member(api), await member(api, "Olga", "operator")
    theirs = await placed(ann)
    await operator.post(f"{ORDERS}/{theirs['id']}/cancel", json={})
    own = (await ann.get(AUDIT)).json()["items"]
    assert [note["kind"] for note in own] == ["token.made", "signin.ok"]
    everything = await operator.get(AUDIT)
    check(document, everything, "/api/v1/audit")
    kinds = [note["kind"] for note in everything.json()["items"]]
    assert kinds[0] == "control" and {"person.added", "person.linked", "token.made", "signin.ok"} < set(kinds)
    (note,) = (await operator.get(AUDIT, params={"order_id": theirs["id"]})).json()["items"]
    assert note["detail"]["kind"] == "cancel"
    refused(await ann.get(AUDIT, params={"who": note["principal"]}), "operate")
    assert (await ann.get(AUDIT, params={"order_id": theirs["id"]})).json()["items"] == []
    assert is_problem(await ann.get(AUDIT, params={"cursor": "x"}), 400)


async def test_names_and_mails_that_are_secrets_or_huge_are_not_kept(api: httpx.AsyncClient) -> None:
    secret = new_token("personal")
    person = await added(api, f"Ann {secret}", "member")
    assert person["name"] == "Ann [redacted]"
    for name, role in (("", "member"), ("x" * 10**6, "member"), ("x", "god")):
        is_problem(await api.post(PEOPLE, json={"name": name, "role": role}), 422)


async def test_remembering_for_a_workspace_and_sharing_need_an_operator(api: httpx.AsyncClient, store: Store) -> None:
    browser = await browser_by(api)
    assert (await browser.http.get(f"{V1}/me")).json()["role"] == "admin"
    ann = await member(api)
    refused(await ann.put(f"{V1}/views/x", json={"query": {}, "shared": True}), "operate")
    decision = {"decision": "approve", "remember": "workspace"}
    sentence = refused(await ann.post(f"{V1}/approvals/unknown", json=decision), "operate")
    assert "workspace" in sentence
    is_problem(await ann.post(f"{V1}/approvals/unknown", json={"decision": "approve"}), 404)


@pytest.mark.parametrize("nobody", ["nobody", "%00", "0197f000-0000-7000-8000-000000000000"])
async def test_nobody_has_no_sign_ins(api: httpx.AsyncClient, nobody: str) -> None:
    for method in ("GET", "DELETE"):
        is_problem(await api.request(method, f"{PEOPLE}/{nobody}/signins"), 404)
    is_problem(await api.get(f"{PEOPLE}/{nobody}"), 404)


async def test_a_sign_in_that_ends_while_it_begins_is_a_spent_link(store: Store) -> None:
    signing = BoundedOffload(1, "signing")
    credentials = Credentials(store.rights, signing, token="")
    person = store.people.add(NewPerson(name="Ann", role=Role.MEMBER), by=Actor(OPERATOR))
    store.signins.offer("link", person.principal, seconds=60)
    store.signins.redeem("link", digest_of("cookie"), hours=1, agent="", address="")
    store.people.change(person.id, PersonChange(disabled=True), by=Actor(OPERATOR))
    with pytest.raises(SpentLink, match="has ended"):
        await credentials.signed_in("cookie")
    signing.close()


async def test_who_was_an_admin_changes_nothing_more_in_another_process(
    api: httpx.AsyncClient, store: Store, tmp_path: Path
) -> None:
    other = another_process(store, tmp_path)
    person = await added(other, "Ann", "admin")
    browser = await browser_of(other, person)
    assert (await browser.http.get(PEOPLE)).status_code == 200
    itself, again = f"{PEOPLE}/{person['id']}", {"role": "admin"}
    assert (await api.patch(itself, json={"role": "viewer"})).status_code == 200
    # What the other process has read within the last seconds does for looking, not for changes.
    refused(await browser.http.patch(itself, json=again, headers=browser.changing), "admin")
    assert (await api.patch(itself, json={"disabled": True})).status_code == 200
    is_problem(await browser.http.patch(itself, json={"disabled": False}, headers=browser.changing), 401)
    assert (await api.get(itself)).json()["disabled"]
