"""`mcc people`, `mcc tokens`, `mcc me`, `mcc audit`: what a second person may do, as they see it."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from typer.testing import Result

from mcc.cli.main import app
from mcc.contracts.token_text import is_token
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN, Served
from tests.mcc.cli.in_process import CliRunner
from tests.waiting import until

Mcc = Callable[..., Result]
V1 = "/api/v1"
REVOKED = "This token was revoked: an admin makes another."


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    store = temporary_store()
    with Served(store, tmp_path) as served:
        yield served
    store.close()


@pytest.fixture
def mcc(served: Served) -> Mcc:
    """`mcc` with the operator's token, or with `token`."""

    def run(*words: str, token: str = TOKEN) -> Result:
        return CliRunner().invoke(app, words, env={"MCC_URL": served.url, "MCC_TOKEN": token})

    return run


def token_by(link: str, *scopes: str) -> str:
    """A token of who signs in by this link, as the page would make it."""
    base, _, code = link.strip().partition("/signin#")
    with httpx.Client(base_url=base, headers={"Sec-Fetch-Site": "same-origin"}) as browser:
        signed = browser.post(f"{V1}/signin", json={"code": code})
        browser.headers["MCC-CSRF"] = signed.json()["csrf"]
        return str(browser.post(f"{V1}/tokens", json={"name": "laptop", "scopes": scopes}).json()["token"])


def placed(served: Served, token: str = TOKEN) -> str:
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{served.url}{V1}/orders", json={"prompt": "x"}, headers=headers)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_a_member_works_on_own_orders_and_is_told_what_others_need(mcc: Mcc, served: Served) -> None:
    added = mcc("people", "add", "Ann Lee", "--role", "member", "--email", "ann@example.com")
    assert added.exit_code == 0 and "Ann Lee, member" in added.stderr
    ann = token_by(added.stdout, "read", "write")
    me = mcc("me", token=ann)
    assert "Ann Lee" in me.stdout and "member" in me.stdout and "'laptop'" in me.stdout
    own, theirs = placed(served, ann), placed(served)
    assert mcc("orders", "cancel", own, token=ann).exit_code == 0
    refused = mcc("orders", "cancel", theirs, token=ann)
    assert refused.exit_code == 1
    assert refused.stderr == (
        "mcc: This order is not yours: that needs the right 'operate', which operators and admins have.\n"
    )
    assert "Ann Lee" in mcc("people").stdout
    assert "which admins have" in mcc("people", token=ann).stderr
    assert "A token cannot make tokens" in mcc("tokens", "create", "again", token=ann).stderr


def test_a_viewer_reads_alone(mcc: Mcc, served: Served) -> None:
    viewer = token_by(mcc("people", "add", "Vi", "--role", "viewer").stdout, "read")
    order = placed(served)
    assert mcc("orders", "show", order, token=viewer).exit_code == 0
    for words in (("orders", "cancel", order), ("orders", "pause", order)):
        assert "needs the right 'write'" in mcc(*words, token=viewer).stderr


def test_people_are_named_by_name_address_or_id_and_changed(mcc: Mcc) -> None:
    mcc("people", "add", "Ann Lee", "--email", "ann@example.com")
    (person,) = json.loads(mcc("people", "list", "--json").stdout)["items"]
    assert "is operator" in mcc("people", "role", "ann@example.com", "operator").stderr
    assert "is disabled" in mcc("people", "disable", "Ann Lee").stderr
    assert "disabled" in mcc("people").stdout
    assert "is enabled" in mcc("people", "enable", person["id"]).stderr
    assert "/signin#" in mcc("people", "link", person["id"][-8:]).stdout
    nobody = mcc("people", "disable", "Eve")
    assert (nobody.exit_code, nobody.stderr.count("no people are called 'Eve'")) == (2, 1)
    mcc("people", "add", "Ann Lee")
    assert "2 people are called" in mcc("people", "remove", "Ann Lee").stderr
    assert "removed: Ann Lee" in mcc("people", "remove", person["id"]).stderr
    assert len(json.loads(mcc("people", "list", "--json").stdout)["items"]) == 1


def test_a_service_token_is_printed_once_used_and_revoked(mcc: Mcc) -> None:
    made = mcc("tokens", "create", "deploy", "--service", "viewer", "--days", "0")
    token = made.stdout.strip()
    assert is_token(token) and "ends never" in made.stderr
    assert "viewer" in mcc("me", token=token).stdout
    listed = mcc("tokens", "list", "--all").stdout
    assert "deploy" in listed and token[:9] in listed and token[9:20] not in listed
    (kept,) = json.loads(mcc("tokens", "list", "--all", "--json").stdout)["items"]
    assert "revoked: deploy" in mcc("tokens", "revoke", kept["id"][-8:]).stderr
    ended = mcc("me", token=token)
    assert (ended.exit_code, ended.stderr) == (1, f"mcc: {REVOKED}\n")
    assert "revoked" in mcc("tokens", "list", "--all").stdout


def test_whoever_follows_an_order_is_told_that_the_token_has_ended(mcc: Mcc, served: Served) -> None:
    token = mcc("tokens", "create", "watch", "--service", "viewer").stdout.strip()
    (kept,) = json.loads(mcc("tokens", "list", "--all", "--json").stdout)["items"]
    order = placed(served)

    def revoke() -> None:
        until(lambda: served.viewers, "somebody follows the order")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        httpx.delete(f"{served.url}{V1}/tokens/{kept['id']}", headers=headers).raise_for_status()

    with ThreadPoolExecutor(1) as thread:
        revoked = thread.submit(revoke)
        watched = mcc("orders", "watch", order, token=token)
        revoked.result()
    assert watched.exit_code == 1 and watched.stderr.endswith(f"mcc: {REVOKED}\n")


def test_the_audit_tells_who_did_what(mcc: Mcc) -> None:
    mcc("people", "add", "Ann Lee")
    told = mcc("audit", "--kind", "person.added").stdout
    assert "operator" in told and "person.added" in told and "role=member" in told
    assert "Nothing yet." in mcc("audit", "--who", "Ann Lee").stderr + mcc("audit", "--who", "Ann Lee").stdout


def test_a_person_who_is_called_operator_does_not_look_like_the_operator(mcc: Mcc) -> None:
    link = mcc("people", "add", "operator", "--role", "admin").stdout
    token_by(link, "read")
    lines = mcc("audit").stdout.splitlines()
    (made,) = [line for line in lines if "token.made" in line]
    assert "operator" in made and " person " in made
    assert all(" operator " in line for line in lines if "person.added" in line)
    (listed,) = [line for line in mcc("tokens", "list", "--all").stdout.splitlines() if "laptop" in line]
    assert " person " in listed


def test_a_service_token_outlives_who_made_it_and_that_is_shown(mcc: Mcc, served: Served) -> None:
    base, _, code = mcc("people", "add", "Ann Lee", "--role", "admin").stdout.strip().partition("/signin#")
    asked = {"name": "nightly", "kind": "service", "role": "viewer", "scopes": ["read"]}
    with httpx.Client(base_url=base, headers={"Sec-Fetch-Site": "same-origin"}) as browser:
        browser.headers["MCC-CSRF"] = browser.post(f"{V1}/signin", json={"code": code}).json()["csrf"]
        token = str(browser.post(f"{V1}/tokens", json=asked).json()["token"])
    assert "Ann Lee" in mcc("tokens", "list", "--all").stdout
    assert mcc("people", "remove", "Ann Lee").exit_code == 0
    assert "viewer" in mcc("me", token=token).stdout
    (listed,) = [line for line in mcc("tokens", "list", "--all").stdout.splitlines() if "nightly" in line]
    assert "(gone)" in listed and "person:" in listed


def test_people_and_tokens_beyond_the_first_page_are_listed_and_named(mcc: Mcc, served: Served) -> None:
    operator = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=f"{served.url}{V1}", headers=operator) as http:
        for number in range(201):
            http.post("/people", json={"name": f"Person {number}", "role": "viewer"}).raise_for_status()
    assert len(json.loads(mcc("people", "list", "--json").stdout)["items"]) == 201
    assert "is member" in mcc("people", "role", "Person 200", "member").stderr


def test_what_somebody_may_spend_a_day_is_said_shown_and_held_to(mcc: Mcc, served: Served) -> None:
    ann = token_by(mcc("people", "add", "Ann").stdout, "read", "write")
    assert mcc("people", "budget", "Ann").stderr.endswith("Ann: as everybody a day\n")
    said = mcc("people", "budget", "Ann", "--usd", "1", "--orders", "2", "--order-usd", "0.4")
    assert "1 US dollars, 2 orders, 0.4 US dollars for each order a day" in said.stderr
    placed(served, ann)
    assert "0.6 of 1 US dollars, 1 of 2 orders, until" in " ".join(mcc("me", token=ann).stdout.split())
    assert "any amount a day" in mcc("people", "budget", "Ann", "--unlimited").stderr
    assert "as everybody" in mcc("people", "budget", "Ann", "--usual").stderr
    assert "any amount" in mcc("me", token=ann).stdout
    assert mcc("people", "budget", "Ann", "--usd", "1", "--usual").exit_code == 2
    assert mcc("people", "budget", "Ann", "--order-usd", "1").exit_code == 2


def test_a_token_is_made_with_a_budget(mcc: Mcc, served: Served) -> None:
    made = mcc("tokens", "create", "nightly", "--service", "member", "--orders", "1")
    token = made.stdout.strip()
    placed(served, token)
    headers = {"Authorization": f"Bearer {token}"}
    refused = httpx.post(f"{served.url}{V1}/orders", json={"prompt": "x"}, headers=headers)
    assert refused.status_code == 429 and refused.json()["budget"]["orders"] == {"limit": 1, "used": 1}
