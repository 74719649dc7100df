"""A command line that signs in: what it is told while it waits, who lets it in, and how codes are guessed in vain."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from mcc.api.access.credentials import Attempts
from mcc.api.access.polls import KEPT, Polls
from mcc.api.app import build_app
from mcc.api.problems import Refusal
from mcc.contracts.callers import OPERATOR
from mcc.contracts.login import USER_CODE_LETTERS, user_code_letters
from mcc.contracts.token_text import is_token
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from mcc.testing.served import TOKEN
from tests.mcc.api.people_scene import PEOPLE, TOKENS, added, browser_of, client_by
from tests.mcc.api.signing import ORIGIN, V1, Browser, another_process, browser_by
from tests.mcc.api.test_orders_over_http import is_problem

LOGIN, REDEEM, DECIDE = f"{V1}/login/device", f"{V1}/login/token", f"{V1}/device"


class Patience:
    """A clock that each question finds as far on as a patient command line would wait."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.step = 5.0

    def __call__(self) -> float:
        self.seconds += self.step
        return self.seconds


@pytest.fixture
def clock() -> Patience:
    return Patience()


@pytest.fixture
async def api(store: Store, settings: ServiceSettings, clock: Patience) -> AsyncIterator[httpx.AsyncClient]:
    app = build_app(settings, store, token=TOKEN, polls=Polls(monotonic=clock))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url=ORIGIN, headers={"Authorization": f"Bearer {TOKEN}"}
        ) as client,
    ):
        yield client


@pytest.fixture
def nobody(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """A command line without a token."""
    return httpx.AsyncClient(transport=api._transport, base_url=ORIGIN)


async def begun(nobody: httpx.AsyncClient, client: str = "mcc on a laptop") -> dict[str, Any]:
    answer = await nobody.post(LOGIN, json={"client": client})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def polled(nobody: httpx.AsyncClient, login: dict[str, Any]) -> str:
    """The word of RFC 8628 that it is answered with."""
    answer = await nobody.post(REDEEM, json={"device_code": login["device_code"]})
    is_problem(answer, 400)
    return str(answer.json()["error"])


async def typed(browser: Browser, code: str, decision: str | None = None) -> httpx.Response:
    return await browser.http.post(DECIDE, json={"user_code": code, "decision": decision}, headers=browser.changing)


async def test_a_command_line_is_let_in_at_the_page_and_gets_a_token_of_who_did(
    api: httpx.AsyncClient, nobody: httpx.AsyncClient
) -> None:
    ann = await browser_of(api, await added(api, "Ann", "admin"))
    login = await begun(nobody)
    assert (login["expires_in"], login["interval"], login["verification_uri"]) == (600, 5, f"{ORIGIN}/device")
    assert len(login["user_code"]) == 9 and login["user_code"][4] == "-"
    assert not set(login["user_code"]) - set(USER_CODE_LETTERS) - {"-"}
    assert await polled(nobody, login) == "authorization_pending"
    question = (await typed(ann, f" {login['user_code'].lower().replace('-', ' ')} ")).json()
    assert (question["client"], question["address"], question["state"]) == ("mcc on a laptop", "127.0.0.1", "pending")
    assert (await typed(ann, login["user_code"], "approve")).json()["state"] == "approved"
    got = (await nobody.post(REDEEM, json={"device_code": login["device_code"]})).json()
    assert is_token(got["access_token"]) and got["access_token"].startswith("mccp_")
    assert (got["token_type"], got["expires_in"], got["scope"]) == ("Bearer", 90 * 86_400, "metrics operate read write")
    me = (await client_by(api, got["access_token"]).get(f"{V1}/me")).json()
    assert (me["name"], me["principal"], me["token"]["name"]) == ("Ann", got["principal"], "mcc on a laptop")
    assert await polled(nobody, login) == "expired_token"
    notes = (await api.get(f"{V1}/audit?kind=token.approved")).json()["items"]
    assert [(note["principal"], note["detail"]["address"]) for note in notes] == [(me["principal"], "127.0.0.1")]


async def test_the_operators_link_lets_in_as_the_operator(api: httpx.AsyncClient, nobody: httpx.AsyncClient) -> None:
    login = await begun(nobody)
    await typed(await browser_by(api), login["user_code"], "approve")
    got = (await nobody.post(REDEEM, json={"device_code": login["device_code"]})).json()
    assert (got["principal"], got["scope"]) == (OPERATOR, "metrics operate read write")


async def test_no_token_lets_a_command_line_in(api: httpx.AsyncClient, nobody: httpx.AsyncClient) -> None:
    login = await begun(nobody)
    ann = await browser_of(api, await added(api, "Ann", "admin"))
    made = await ann.http.post(TOKENS, json={"name": "x", "scopes": ["read", "admin"]}, headers=ann.changing)
    for client in (api, client_by(api, made.json()["token"])):
        refused = await client.post(DECIDE, json={"user_code": login["user_code"], "decision": "approve"})
        assert "signed in" in is_problem(refused, 403)
    assert (await nobody.post(DECIDE, json={"user_code": login["user_code"]})).status_code == 401
    assert await polled(nobody, login) == "authorization_pending"


async def test_who_is_refused_is_told_so(api: httpx.AsyncClient, nobody: httpx.AsyncClient) -> None:
    login, browser = await begun(nobody), await browser_by(api)
    assert (await typed(browser, login["user_code"], "deny")).json()["state"] == "denied"
    assert await polled(nobody, login) == "access_denied"
    is_problem(await typed(browser, login["user_code"], "approve"), 410)


async def test_who_lets_in_and_is_disabled_before_the_token_is_fetched_has_let_nobody_in(
    api: httpx.AsyncClient, nobody: httpx.AsyncClient
) -> None:
    login, person = await begun(nobody), await added(api, "Ann", "member")
    await typed(await browser_of(api, person), login["user_code"], "approve")
    await api.patch(f"{PEOPLE}/{person['id']}", json={"disabled": True})
    assert await polled(nobody, login) == "access_denied"


async def test_who_asks_too_often_is_told_to_slow_down_and_costs_no_question_to_the_database(
    api: httpx.AsyncClient, nobody: httpx.AsyncClient, store: Store, clock: Patience
) -> None:
    login = await begun(nobody)
    clock.step = 3.9
    said: list[str] = []
    sa.event.listen(store.database.engine, "before_cursor_execute", lambda *sent: said.append(sent[2]))
    assert [await polled(nobody, login) for _ in range(3)] == ["slow_down"] * 3 and said == []
    # Each time it has to wait 5 seconds longer: 20 by now.
    clock.step = 18.9
    assert await polled(nobody, login) == "slow_down"
    clock.step = 24.0
    assert await polled(nobody, login) == "authorization_pending"


async def test_another_process_answers_a_command_line_that_began_here(
    api: httpx.AsyncClient, nobody: httpx.AsyncClient, store: Store, tmp_path: Any
) -> None:
    login = await begun(nobody)
    await typed(await browser_by(api), login["user_code"], "approve")
    elsewhere = another_process(store, tmp_path)
    assert (await elsewhere.post(REDEEM, json={"device_code": login["device_code"]})).status_code == 200


async def test_codes_are_guessed_twenty_times_a_minute_and_then_a_right_one_is_not_taken_either(
    api: httpx.AsyncClient, nobody: httpx.AsyncClient, store: Store
) -> None:
    login, browser, another = await begun(nobody), await browser_by(api), await browser_by(api)
    said: list[str] = []
    guesses = [f"{letter}BCDFGHJ" for letter in USER_CODE_LETTERS]
    assert {(await typed(browser, guess, "approve")).status_code for guess in guesses} == {410}
    sa.event.listen(store.database.engine, "before_cursor_execute", lambda *sent: said.append(sent[2]))
    assert {(await typed(browser, guess, "approve")).status_code for guess in guesses} == {429}
    assert (await typed(browser, login["user_code"], "approve")).status_code == 429
    # Another sign-in at the same address does not guess on.
    assert (await typed(another, login["user_code"])).status_code == 429
    assert not [statement for statement in said if "one_time" in statement]


async def test_a_sign_in_types_twenty_codes_a_minute_whatever_its_addresses(
    api: httpx.AsyncClient, nobody: httpx.AsyncClient
) -> None:
    login, browser = await begun(nobody), await browser_by(api)
    transport: Any = api._transport
    statuses = []
    for host in range(25):
        transport.client = (f"10.0.0.{host}", 1)
        statuses.append((await typed(browser, "BBBB-BBBB")).status_code)
    assert statuses == [410] * 20 + [429] * 5
    assert (await typed(browser, login["user_code"])).status_code == 429
    # Another sign-in is not kept out.
    assert (await typed(await browser_by(api), login["user_code"])).status_code == 200


def test_of_ten_thousand_guesses_in_a_minute_twenty_are_looked_at() -> None:
    attempts, looked = Attempts(), 0
    for _ in range(10_000):
        with suppress(Refusal):
            attempts.login("sign-in")
            looked += 1
    assert looked == 20


async def test_secrets_of_command_lines_are_guessed_as_slowly_as_tokens(
    nobody: httpx.AsyncClient, store: Store
) -> None:
    said: list[str] = []
    sa.event.listen(store.database.engine, "before_cursor_execute", lambda *sent: said.append(sent[2]))
    for number in range(60):
        await nobody.post(REDEEM, json={"device_code": f"{number:043d}"})
    assert len([statement for statement in said if "one_time" in statement]) == 20


async def test_one_address_asks_twenty_times_a_minute(nobody: httpx.AsyncClient) -> None:
    statuses = [(await nobody.post(LOGIN, json={"client": "x"})).status_code for _ in range(22)]
    assert statuses == [200] * 20 + [429] * 2


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (LOGIN, {"client": ""}, 422),
        (LOGIN, {"client": "x" * 201}, 422),
        (LOGIN, {"client": "x" * 1_000_000}, 422),
        (LOGIN, {}, 422),
        (REDEEM, {"device_code": ""}, 422),
        (REDEEM, {"device_code": "\0"}, 400),
        (REDEEM, {"device_code": "x", "grant_type": "device_code"}, 422),
    ],
)
async def test_what_no_command_line_sends_is_refused(
    nobody: httpx.AsyncClient, path: str, body: dict[str, Any], status: int
) -> None:
    is_problem(await nobody.post(path, json=body), status)


async def test_the_name_of_a_command_line_is_told_as_it_is_without_secrets(
    api: httpx.AsyncClient, nobody: httpx.AsyncClient
) -> None:
    browser = await browser_by(api)
    login = await begun(nobody, f"<img src=x> \u202e {TOKEN}")
    answer = await typed(browser, login["user_code"])
    assert "\\u202e" in answer.text
    assert answer.json()["client"].startswith("<img src=x> \u202e ")


async def test_another_site_neither_begins_nor_decides(api: httpx.AsyncClient, nobody: httpx.AsyncClient) -> None:
    login, browser = await begun(nobody), await browser_by(api)
    evil = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    assert (await nobody.post(LOGIN, json={"client": "x"}, headers=evil)).status_code == 403
    body = {"user_code": login["user_code"], "decision": "approve"}
    for headers in (evil, {**browser.changing, "MCC-CSRF": "x"}):
        assert (await browser.http.post(DECIDE, json=body, headers=headers)).status_code in (401, 403)
    assert await polled(nobody, login) == "authorization_pending"


@pytest.mark.parametrize("no_code", ["", "BCDFGHJ", "BCDFGHJKL", "ACDFGHJK", "BCDF-GHJ\u212a", "BCDF\0GHJ"])
def test_what_cannot_be_a_code_is_not_looked_up(no_code: str) -> None:
    assert user_code_letters(no_code) is None


def test_of_very_many_command_lines_the_oldest_is_forgotten_first() -> None:
    polls = Polls()
    for number in range(KEPT + 1):
        polls.begin(str(number))
    assert [polls.knows(str(number)) for number in (0, 1, KEPT)] == [False, True, True]
