"""Signing in by a link: the cookie, what it opens, what it does not, and how it ends."""

import asyncio
import base64
import hashlib
import hmac
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request

from mcc.api.access.credentials import Credentials, digest_of
from mcc.api.app import build_app
from mcc.api.problems import Refusal
from mcc.console.files import installed
from mcc.contracts.callers import Actor
from mcc.settings import ServiceSettings
from mcc.store.store import Offload, Store
from mcc.testing.served import TOKEN
from tests.mcc.api.signing import ORIGIN, SAME_ORIGIN, V1, another_process, browser_by, code_by
from tests.mcc.api.test_orders_over_http import is_problem

ORDERS = f"{V1}/orders"


async def test_a_link_signs_a_browser_in_and_its_cookie_is_all_that_it_needs_to_read(api: httpx.AsyncClient) -> None:
    made = (await api.post(f"{V1}/signin/links", json={})).json()
    assert made["url"].startswith(f"{ORIGIN}/signin#") and len(made["url"].partition("#")[2]) == 43
    browser = await browser_by(api)
    (cookie,) = browser.http.cookies.jar
    assert (cookie.name, cookie.path, cookie.secure) == ("mcc-8420", "/", False)
    assert (await browser.http.get(ORDERS)).status_code == 200
    me = (await browser.http.get(f"{V1}/me")).json()
    assert (me["principal"], me["door"], me["build"]) == ("operator", "page", installed().build)
    proof = hmac.digest(str(cookie.value).encode(), b"mcc-csrf", "sha256")
    assert me["csrf"] == browser.csrf == base64.urlsafe_b64encode(proof).decode()[:32]
    assert set(me["scopes"]) == {"read", "write", "operate", "admin", "metrics"}


async def test_the_cookie_is_for_the_page_of_this_service_alone(api: httpx.AsyncClient, store: Store) -> None:
    signed = await api.post(f"{V1}/signin", json={"code": await code_by(api)}, headers=SAME_ORIGIN)
    name, *attributes = signed.headers["set-cookie"].split("; ")
    assert {each.lower() for each in attributes} == {"httponly", "max-age=2592000", "path=/", "samesite=strict"}
    # Nothing of it is stored but its digest.
    cookie = name.partition("=")[2]
    right = store.rights.find(hashlib.sha256(cookie.encode()).hexdigest())
    signin = right and right.signin
    assert signin is not None and signin.id == signed.json()["signin"]["id"]


async def test_by_https_the_cookie_is_secure_and_bound_to_the_host(store: Store, tmp_path: Path) -> None:
    settings = ServiceSettings(data_dir=tmp_path, public_url="https://mcc.example/agents/")
    app = build_app(settings, store, token=TOKEN)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="https://mcc.example") as http:
        made = await http.post(f"{V1}/signin/links", json={}, headers={"Authorization": f"Bearer {TOKEN}"})
        url = made.json()["url"]
        assert url.startswith("https://mcc.example/agents/signin#")
        origin = {"Sec-Fetch-Site": "same-origin", "Origin": "https://mcc.example"}
        signed = await http.post(f"{V1}/signin", json={"code": url.partition("#")[2]}, headers=origin)
        assert signed.headers["set-cookie"].startswith("__Host-mcc=") and "; Secure" in signed.headers["set-cookie"]
        assert (await http.get(ORDERS)).status_code == 200
        assert not signed.json()["insecure"]


@pytest.mark.parametrize(
    "url", ["mcc.example", "ftp://mcc.example", "https://", "https://a:b@mcc.example", "http://x/?y"]
)
def test_an_address_that_no_browser_can_use_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match="an address begins with https"):
        ServiceSettings(data_dir=tmp_path, public_url=url)


async def test_a_link_counts_once(api: httpx.AsyncClient) -> None:
    code = await code_by(api)
    statuses = [
        (await api.post(f"{V1}/signin", json={"code": code}, headers=SAME_ORIGIN)).status_code for _ in range(2)
    ]
    assert statuses == [200, 410]


async def test_codes_are_guessed_as_slowly_as_tokens_and_the_right_one_is_never_kept_out(
    api: httpx.AsyncClient,
) -> None:
    code = await code_by(api)
    wrong = [(await api.post(f"{V1}/signin", json={"code": "x" * 43})).status_code for _ in range(25)]
    assert wrong[:20] == [410] * 20 and set(wrong[20:]) == {429}
    assert (await api.get(ORDERS, headers={"Authorization": "Bearer wrong"})).status_code == 429
    assert (await api.get(ORDERS, headers={"Authorization": "", "Cookie": f"mcc-8420={'y' * 43}"})).status_code == 429
    assert (await api.post(f"{V1}/signin", json={"code": code})).status_code == 200


async def test_who_is_signed_in_makes_no_further_ways_in(api: httpx.AsyncClient) -> None:
    browser = await browser_by(api)
    refused = await browser.http.post(f"{V1}/signin/links", json={}, headers=browser.changing)
    assert (refused.status_code, refused.json()["needs"]) == (403, "admin")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": ORIGIN}, 201),
        ({}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "none", "Origin": ORIGIN}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:9"}, 403),
        ({"Origin": "http://127.0.0.1:9"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_with_a_cookie_only_the_own_page_makes_changes(
    api: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    browser = await browser_by(api)
    placed = await browser.http.post(ORDERS, json={"prompt": "x"}, headers={**headers, "MCC-CSRF": browser.csrf})
    assert placed.status_code == status
    assert len((await api.get(ORDERS)).json()["items"]) == (status == 201)


@pytest.mark.parametrize("csrf", [None, "", "x" * 32, "é"])
async def test_a_change_without_the_proof_of_the_own_page_is_refused(api: httpx.AsyncClient, csrf: str | None) -> None:
    browser = await browser_by(api)
    proof = {} if csrf is None else {b"MCC-CSRF": csrf.encode()}
    sent = {**{name.encode(): value.encode() for name, value in SAME_ORIGIN.items()}, **proof}
    refused = await browser.http.post(ORDERS, json={"prompt": "x"}, headers=sent)
    assert refused.status_code == 403 and "MCC-CSRF" in refused.json()["detail"]


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}]
)
@pytest.mark.parametrize("path", [ORDERS, f"{V1}/me", f"{V1}/me/signins"])
async def test_what_another_site_asks_for_is_asked_without_the_cookie(
    api: httpx.AsyncClient, path: str, headers: dict[str, str]
) -> None:
    browser = await browser_by(api)
    assert (await browser.http.get(path, headers=headers)).status_code == 401
    assert (await browser.http.get(path)).status_code == 200


async def test_a_token_counts_before_a_cookie(api: httpx.AsyncClient) -> None:
    browser = await browser_by(api)
    assert (await browser.http.get(ORDERS, headers={"Authorization": "Bearer wrong"})).status_code == 401
    me = await browser.http.get(f"{V1}/me", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (me.json()["door"], me.json()["csrf"], me.json()["signin"]) == ("api", None, None)


async def test_the_password_of_a_proxy_neither_hides_the_cookie_nor_counts_as_a_guess(api: httpx.AsyncClient) -> None:
    browser = await browser_by(api)
    proxy = {"Authorization": "Basic b3BlcmF0b3I6eA=="}
    assert (await browser.http.get(ORDERS, headers=proxy)).status_code == 200
    placed = await browser.http.post(ORDERS, json={"prompt": "x"}, headers={**proxy, **browser.changing})
    assert placed.status_code == 201
    # What a browser sends by itself proves nothing: the cookie counts by its own rules.
    for headers in (SAME_ORIGIN, {**browser.changing, "Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        refused = await browser.http.post(ORDERS, json={"prompt": "x"}, headers={**proxy, **headers})
        assert refused.status_code == 403
    assert (await browser.http.get(ORDERS, headers={**proxy, "Sec-Fetch-Site": "cross-site"})).status_code == 401
    assert {(await api.get(ORDERS, headers=proxy)).status_code for _ in range(30)} == {401}
    assert (await api.get(ORDERS, headers={"Authorization": "Bearer wrong"})).status_code == 401


async def test_a_link_that_is_used_by_many_at_once_signs_one_in(api: httpx.AsyncClient) -> None:
    code = await code_by(api)
    answers = await asyncio.gather(
        *(api.post(f"{V1}/signin", json={"code": code}, headers=SAME_ORIGIN) for _ in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [410] * 7


async def test_the_command_line_is_told_apart_by_what_it_calls_itself(api: httpx.AsyncClient) -> None:
    assert (await api.get(f"{V1}/me", headers={"User-Agent": "mcc-cli/1.0"})).json()["door"] == "cli"


@pytest.mark.parametrize(
    "cookie", ["mcc-8420=", "mcc-8420=short", f"mcc-8421={'x' * 43}", f"mcc-8420={'é' * 43}", "mcc-8420", ";;=;", "\0"]
)
async def test_a_cookie_that_is_none_is_no_credential(api: httpx.AsyncClient, cookie: str) -> None:
    sent = {b"Authorization": b"", b"Cookie": cookie.encode()}
    assert (await api.get(ORDERS, headers=sent)).status_code == 401


async def test_signing_out_ends_the_cookie_at_once(api: httpx.AsyncClient) -> None:
    browser = await browser_by(api)
    cookie = dict(browser.http.cookies)
    assert (await browser.http.get(ORDERS)).status_code == 200
    left = await browser.http.post(f"{V1}/signout", headers=browser.changing)
    assert left.json() == {"next": "/signin"} and "Max-Age=0" in left.headers["set-cookie"]
    assert not browser.http.cookies
    browser.http.cookies.update(cookie)
    assert (await browser.http.get(ORDERS)).status_code == 401


async def test_signing_out_twice_is_no_fault(api: httpx.AsyncClient, store: Store) -> None:
    browser = await browser_by(api)
    leaving = (browser.http.post(f"{V1}/signout", headers=browser.changing) for _ in range(2))
    statuses = [left.status_code for left in await asyncio.gather(*leaving)]
    # The second tab is told that there is nothing to end, unless it came in between.
    assert 200 in statuses and set(statuses) <= {200, 401}


async def test_a_sign_in_that_another_process_ended_changes_nothing(api: httpx.AsyncClient, store: Store) -> None:
    browser = await browser_by(api)
    signin = (await browser.http.get(f"{V1}/me")).json()["signin"]["id"]
    # As another process would, of which this one does not hear at once.
    store.signins.end(signin, by=Actor("operator"))
    assert (await browser.http.get(ORDERS)).status_code == 200
    is_problem(await browser.http.post(ORDERS, json={"prompt": "x"}, headers=browser.changing), 401)


async def test_one_browser_signs_another_one_out(api: httpx.AsyncClient) -> None:
    here, there = await browser_by(api), await browser_by(api)
    signins = (await here.http.get(f"{V1}/me/signins")).json()["items"]
    assert [(each["current"], each["agent"]) for each in signins] == [(False, "Browser/1"), (True, "Browser/1")]
    assert (await there.http.get(ORDERS)).status_code == 200
    gone = await here.http.delete(f"{V1}/me/signins/{signins[0]['id']}", headers=here.changing)
    assert gone.status_code == 204
    assert (await there.http.get(ORDERS)).status_code == 401 and (await here.http.get(ORDERS)).status_code == 200
    for unknown in (signins[0]["id"], "x", "%00"):
        again = await here.http.delete(f"{V1}/me/signins/{unknown}", headers=here.changing)
        assert again.status_code == 404


async def test_a_sign_in_counts_in_every_process_of_the_service(
    api: httpx.AsyncClient, store: Store, tmp_path: Path
) -> None:
    browser = await browser_by(api)
    async with another_process(store, tmp_path) as other:
        sent = {"Authorization": "", "Cookie": "; ".join(f"{n}={v}" for n, v in browser.http.cookies.items())}
        assert (await other.get(ORDERS, headers=sent)).status_code == 200


async def test_a_sign_in_that_another_process_ended_counts_here_for_two_seconds_at_most(
    store: Store, settings: ServiceSettings
) -> None:
    at = [0.0]
    secret = "c" * 43
    store.signins.offer(digest_of("a link"), "operator", seconds=60)
    signin = store.signins.redeem(digest_of("a link"), digest_of(secret), hours=1, agent="", address="")
    here = Credentials(store.rights, Offload(1), token=TOKEN, monotonic=lambda: at[0])
    headers = [(b"host", b"localhost:1"), (b"cookie", f"mcc-1={secret}".encode())]
    request = Request({"type": "http", "method": "GET", "path": ORDERS, "query_string": b"", "headers": headers})
    assert (await here.caller(request)).signin == signin
    store.signins.end(signin.id, by=Actor("operator"))
    at[0] = 2.0
    with pytest.raises(Refusal) as refused:
        await here.caller(request)
    assert refused.value.status == 401


async def test_preferences_are_remembered_within_bounds(api: httpx.AsyncClient) -> None:
    browser = await browser_by(api)
    changed = await browser.http.patch(f"{V1}/me", json={"preferences": {"theme": "dark"}}, headers=browser.changing)
    assert changed.json()["preferences"] == {"theme": "dark"}
    large = {"preferences": {"theme": "x" * 4_096}}
    assert (await browser.http.patch(f"{V1}/me", json=large, headers=browser.changing)).status_code == 422
    assert (await api.get(f"{V1}/me")).json()["preferences"] == {"theme": "dark"}
