"""A browser goes to the provider and comes back signed in, or learns why not; and is signed out again."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.requests import Request

from mcc.api.access.credentials import Attempts
from mcc.api.app import build_app
from mcc.api.problems import Refusal
from mcc.configuration.oidc import OidcSettings
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from mcc.testing.served import TOKEN
from tests.people.asking import ROLES
from tests.people.conftest import ORIGIN, Browsers
from tests.people.forger import CLIENT, Forger, question_in

WAY, V1 = "/signin/oidc", "/api/v1"
BACKCHANNEL = f"{WAY}/backchannel"
NAVIGATION = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}


async def come_back(
    browser: httpx.AsyncClient, forger: Forger, path: str = "", /, **changes: str | None
) -> httpx.Response:
    """The browser goes to the provider and brings its answer back."""
    sent = await browser.get(WAY, params={"next": path} if path else {})
    assert sent.status_code == 303, sent.text
    answer = forger.answer_to(sent.headers["location"], **changes)
    return await browser.get(f"{WAY}/callback", params=answer, headers=NAVIGATION)


async def signed_in(browser: httpx.AsyncClient, forger: Forger) -> dict[str, Any]:
    """What `me` says afterwards."""
    back = await come_back(browser, forger)
    assert back.status_code == 303, back.text
    return dict((await browser.get(f"{V1}/me")).json())


async def refused(operator: httpx.AsyncClient) -> list[dict[str, Any]]:
    """What the audit has of sign-ins that were refused, the newest first."""
    notes = (await operator.get(f"{V1}/audit", params={"kind": "signin.refused"})).json()["items"]
    return [note["detail"] for note in notes]


async def test_who_comes_back_from_the_provider_is_signed_in_where_they_wanted_to_go(
    browsers: Browsers, forger: Forger
) -> None:
    browser = browsers()
    back = await come_back(browser, forger, "/orders?status=running&label=a%20b#e17")
    assert (back.status_code, back.headers["location"]) == (303, "/orders?status=running&label=a%20b#e17")
    cookies = {cookie.name: cookie for cookie in browser.cookies.jar}
    assert (cookies["mcc-oidc"].path, cookies["mcc-8420"].path) == (WAY, "/")
    (session,) = (line for line in back.headers.get_list("set-cookie") if line.startswith("mcc-8420="))
    attributes = {each.lower() for each in session.split("; ")[1:]}
    assert attributes == {"httponly", "max-age=43200", "path=/", "samesite=strict"}
    me = (await browser.get(f"{V1}/me")).json()
    assert (me["kind"], me["role"], me["name"], me["email"]) == ("person", "member", "Ann", "ann@example.com")
    assert (me["signin"]["by"], me["oidc"], me["door"]) == ("oidc", {"name": "Company <b>"}, "page")


async def test_who_comes_from_where_one_signs_in_goes_to_the_first_page(browsers: Browsers, forger: Forger) -> None:
    assert (await come_back(browsers(), forger, "/signin?x=y")).headers["location"] == "/"


async def test_the_cookie_of_the_way_there_comes_along_from_another_site(browsers: Browsers) -> None:
    sent = await browsers().get(WAY)
    name, *attributes = sent.headers["set-cookie"].split("; ")
    assert name.startswith("mcc-oidc=")
    assert {each.lower() for each in attributes} == {"httponly", "max-age=600", f"path={WAY}", "samesite=lax"}


async def test_by_https_and_behind_a_prefix_all_addresses_are_those_of_browsers(
    store: Store, forger: Forger, tmp_path: Path
) -> None:
    oidc = OidcSettings(issuer=forger.issuer, client_id=CLIENT, roles=ROLES)
    settings = ServiceSettings(data_dir=tmp_path, oidc=oidc, public_url="https://mcc.example/agents/")
    transport = httpx.ASGITransport(app=build_app(settings, store, token=TOKEN))
    async with httpx.AsyncClient(transport=transport, base_url="https://mcc.example") as browser:
        sent = await browser.get(WAY, params={"next": "/orders"})
        assert (
            question_in(sent.headers["location"])["redirect_uri"] == "https://mcc.example/agents/signin/oidc/callback"
        )
        assert "; Path=/agents/signin/oidc;" in sent.headers["set-cookie"] and "; Secure" in sent.headers["set-cookie"]
        # A proxy takes the prefix away, so that a cookie for the path with it has to be brought here by hand.
        cookie = sent.headers["set-cookie"].partition(";")[0]
        answer = forger.answer_to(sent.headers["location"])
        back = await browser.get(f"{WAY}/callback", params=answer, headers={"Cookie": cookie})
        assert back.headers["location"] == "/agents/orders"
        assert back.headers["set-cookie"].startswith("__Host-mcc=") and "; Secure" in back.headers["set-cookie"]


async def test_the_page_has_the_button_of_the_provider_as_text(browsers: Browsers) -> None:
    shell = (await browsers().get("/signin")).text
    assert 'data-oidc="Company &lt;b&gt;"' in shell


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "\\\\evil.example",
        "javascript:alert(1)",
        "orders",
        "/api/v1/orders",
        "/signin/oidc",
        "/orders\r\nSet-Cookie: x=y",
        "/orders/é",
        "http://[",
        f"/orders?{'x' * 2_000}",
    ],
)
async def test_nobody_is_sent_elsewhere_by_signing_in(
    browsers: Browsers, operator: httpx.AsyncClient, forger: Forger, elsewhere: str
) -> None:
    answer = await browsers().get(f"{WAY}?next={quote(elsewhere, safe='')}")
    assert answer.status_code == 403 and "location" not in answer.headers and not forger.asked
    assert [note["claim"] for note in await refused(operator)] == ["next"]


async def test_an_answer_counts_once(browsers: Browsers, operator: httpx.AsyncClient, forger: Forger) -> None:
    browser = browsers()
    sent = await browser.get(WAY)
    answer = forger.answer_to(sent.headers["location"])
    statuses = [(await browser.get(f"{WAY}/callback", params=answer)).status_code for _ in range(2)]
    assert statuses == [303, 403] and len(forger.forms) == 1
    assert [note["claim"] for note in await refused(operator)] == ["state"]


@pytest.mark.parametrize("cookie", ["that of another question", "none", "no cookie of ours"])
async def test_an_answer_in_another_browser_signs_nobody_in(
    browsers: Browsers, operator: httpx.AsyncClient, forger: Forger, cookie: str
) -> None:
    there, here = browsers(), browsers()
    answer = forger.answer_to((await there.get(WAY)).headers["location"])
    if cookie == "that of another question":
        await here.get(WAY)
    elif cookie == "no cookie of ours":
        here.cookies.set("mcc-oidc", "x" * 44, domain="127.0.0.1", path=WAY)
    back = await here.get(f"{WAY}/callback", params=answer)
    assert back.status_code == 403 and "begun in another browser" in back.text and not forger.forms
    assert [note["claim"] for note in await refused(operator)] == ["state"]
    # Nor is it used up by that.
    assert (await there.get(f"{WAY}/callback", params=answer)).status_code == 303


@pytest.mark.parametrize("query", ["", "code=x", "state=", "state=x&code=y", "state=x&state=y&code=z", "state=%00"])
async def test_an_answer_to_no_question_is_refused(
    browsers: Browsers, operator: httpx.AsyncClient, forger: Forger, query: str
) -> None:
    browser = browsers()
    await browser.get(WAY)
    assert (await browser.get(f"{WAY}/callback?{query}")).status_code == 403
    assert [note["claim"] for note in await refused(operator)] == ["state"] and not forger.forms


async def test_a_browser_may_ask_twice_at_a_time(browsers: Browsers, forger: Forger) -> None:
    browser = browsers()
    answers = [forger.answer_to((await browser.get(WAY)).headers["location"]) for _ in range(2)]
    assert [(await browser.get(f"{WAY}/callback", params=answer)).status_code for answer in answers] == [303, 303]


async def test_a_refusal_is_a_sentence_with_an_id_under_which_the_audit_has_the_claim(
    browsers: Browsers, operator: httpx.AsyncClient, forger: Forger
) -> None:
    changes: dict[str, str | None] = {
        "code": None,
        "error": "access_denied",
        "error_description": "<script>\u202e</script>",
    }
    back = await come_back(browsers(), forger, **changes)
    (note,) = await refused(operator)
    assert back.status_code == 403 and back.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in back.headers["content-security-policy"]
    assert "access_denied: &lt;script&gt;" in back.text and "\u202e" not in back.text and "<script>" not in back.text
    assert note["id"] in back.text and (note["claim"], note["by"], note["address"]) == ("error", "oidc", "127.0.0.1")
    assert 'href="../../signin"' in back.text


async def test_a_provider_that_is_away_is_told_and_its_addresses_to_the_operator_alone(
    browsers: Browsers, operator: httpx.AsyncClient, forger: Forger
) -> None:
    forger.facts["jwks_uri"] = "http://127.0.0.1:1/keys"
    back = await come_back(browsers(), forger)
    (note,) = await refused(operator)
    assert back.status_code == 403 and "try again soon" in back.text and "127.0.0.1:1" not in back.text
    assert note["claim"] == "provider" and "127.0.0.1:1" in note["why"]


async def test_what_is_refused_without_end_fills_no_audit(browsers: Browsers, operator: httpx.AsyncClient) -> None:
    browser = browsers()
    answers = [await browser.get(f"{WAY}/callback") for _ in range(60)]
    # A minute may begin in between.
    assert {answer.status_code for answer in answers} == {403} and len(await refused(operator)) in range(20, 41)


async def test_questions_from_one_address_are_bounded() -> None:
    attempts, begun = Attempts(), 0
    request = Request({"type": "http", "client": ("10.1.2.3", 1), "headers": []})
    with pytest.raises(Refusal, match="Too many sign-ins"):
        while begun <= 1_200:
            attempts.begun(request)
            begun += 1
    assert begun in range(600, 1_201)


async def test_groups_that_change_change_the_role_of_the_next_sign_in_and_of_those_before(
    browsers: Browsers, operator: httpx.AsyncClient, forger: Forger
) -> None:
    before, now = browsers(), browsers()
    first = await signed_in(before, forger)
    forger.claims["groups"] = ["mcc-admins"]
    again = await signed_in(now, forger)
    assert (first["role"], again["role"], first["principal"]) == ("member", "admin", again["principal"])
    assert (await before.get(f"{V1}/me")).json()["role"] == "admin"
    person = f"{V1}/people/{again['principal'].removeprefix('person:')}"
    for way, body in (("PATCH", {"role": "viewer"}), ("POST", {})):
        address = person if way == "PATCH" else f"{person}/link"
        answer = await operator.request(way, address, json=body)
        assert answer.status_code == 409 and forger.issuer in answer.json()["detail"]


async def test_who_is_in_no_group_any_more_is_signed_out_everywhere(
    browsers: Browsers, operator: httpx.AsyncClient, forger: Forger
) -> None:
    before = browsers()
    me = await signed_in(before, forger)
    changing = {"Sec-Fetch-Site": "same-origin", "MCC-CSRF": me["csrf"]}
    made = await before.post(f"{V1}/tokens", json={"name": "laptop", "scopes": ["read"]}, headers=changing)
    token = {"Authorization": f"Bearer {made.json()['token']}"}
    forger.claims["groups"] = []
    back = await come_back(browsers(), forger)
    assert back.status_code == 403 and "None of your groups" in back.text
    assert (await before.get(f"{V1}/me")).status_code == 401
    assert (await browsers().get(f"{V1}/me", headers=token)).status_code == 401
    assert [note["claim"] for note in await refused(operator)] == ["groups"]


async def test_a_disabled_person_is_refused_as_a_person(
    browsers: Browsers, operator: httpx.AsyncClient, forger: Forger, store: Store
) -> None:
    me = await signed_in(browsers(), forger)
    await operator.patch(f"{V1}/people/{me['principal'].removeprefix('person:')}", json={"disabled": True})
    back = await come_back(browsers(), forger)
    assert back.status_code == 403 and "disabled" in back.text
    assert [note["claim"] for note in await refused(operator)] == ["sub"]


async def test_an_e_mail_address_makes_nobody_somebody_else(
    browsers: Browsers, forger: Forger, store: Store, operator: httpx.AsyncClient
) -> None:
    added = await operator.post(f"{V1}/people", json={"name": "Root", "role": "admin", "email": "ann@example.com"})
    me = await signed_in(browsers(), forger)
    assert me["principal"] != added.json()["principal"] and me["role"] == "member"


async def test_signing_out_leads_to_the_provider_that_signed_in(
    browsers: Browsers, operator: httpx.AsyncClient, forger: Forger
) -> None:
    browser = browsers()
    me = await signed_in(browser, forger)
    changing = {"Sec-Fetch-Site": "same-origin", "MCC-CSRF": me["csrf"]}
    left = (await browser.post(f"{V1}/signout", headers=changing)).json()["next"]
    assert left.startswith(f"{forger.issuer}/leave?")
    assert question_in(left)["post_logout_redirect_uri"] == f"{ORIGIN}/signin"
    # Who came by a link has nothing to do there.
    link = (await operator.post(f"{V1}/signin/links", json={})).json()["url"]
    other = browsers()
    csrf = (await other.post(f"{V1}/signin", json={"code": link.partition("#")[2]})).json()["csrf"]
    left = await other.post(f"{V1}/signout", headers={**changing, "MCC-CSRF": csrf})
    assert left.json() == {"next": "/signin"}


async def test_the_provider_signs_a_browser_out_once(browsers: Browsers, forger: Forger) -> None:
    browser, provider = browsers(), browsers()
    forger.claims["sid"] = "s"
    await signed_in(browser, forger)
    token = forger.logout_token(sid="s")
    done = await provider.post(BACKCHANNEL, data={"logout_token": token})
    assert (done.status_code, done.headers["cache-control"]) == (200, "no-store")
    assert (await browser.get(f"{V1}/me")).status_code == 401
    await signed_in(browser, forger)
    again = await provider.post(BACKCHANNEL, data={"logout_token": token})
    assert again.status_code == 400 and (await browser.get(f"{V1}/me")).status_code == 200


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ("", {}, 400),
        ("logout_token=", {}, 400),
        ("logout_token=x", {}, 400),
        ("logout_token=TOKEN&logout_token=TOKEN", {}, 400),
        ("other=TOKEN", {}, 400),
        ("&".join(f"a{number}=b" for number in range(50)), {}, 400),
        ("logout_token=%ff%00", {}, 400),
        (f"logout_token=TOKEN&x={'y' * 16_384}", {}, 413),
        ('{"logout_token": "TOKEN"}', {"Content-Type": "application/json"}, 415),
        ("logout_token=TOKEN", {"Content-Type": "text/plain"}, 415),
        ("logout_token=TOKEN", {"Origin": "https://id.example"}, 403),
        ("logout_token=TOKEN", {"Sec-Fetch-Site": "cross-site"}, 403),
    ],
    ids=range(12),
)
async def test_what_is_no_order_of_the_provider_signs_nobody_out(
    browsers: Browsers, forger: Forger, body: str, headers: dict[str, str], status: int
) -> None:
    browser = browsers()
    await signed_in(browser, forger)
    sent = body.replace("TOKEN", forger.logout_token())
    answer = await browsers().post(BACKCHANNEL, content=sent, headers={"Content-Type": FORM, **headers})
    assert answer.status_code == status
    assert (await browser.get(f"{V1}/me")).status_code == 200


@pytest.mark.parametrize("path", [WAY, f"{WAY}/callback", BACKCHANNEL])
async def test_without_a_provider_the_way_there_says_so(store: Store, tmp_path: Path, path: str) -> None:
    app = build_app(ServiceSettings(data_dir=tmp_path), store, token=TOKEN)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=ORIGIN) as browser:
        answer = await (browser.post(path, data={"logout_token": "x"}) if path == BACKCHANNEL else browser.get(path))
        assert answer.status_code == (400 if path == BACKCHANNEL else 403)
        assert "No provider of identities is configured" in answer.text
        assert "data-oidc" not in (await browser.get("/signin")).text
