"""People with tokens and browsers of their own, as tests play them."""

from typing import Any

import httpx

from tests.mcc.api.signing import SAME_ORIGIN, V1, Browser

PEOPLE, TOKENS, ORDERS = f"{V1}/people", f"{V1}/tokens", f"{V1}/orders"


async def added(api: httpx.AsyncClient, name: str, role: str) -> dict[str, Any]:
    """The person; `api` has the operator's token."""
    made = await api.post(PEOPLE, json={"name": name, "role": role})
    assert made.status_code == 201, made.text
    return dict(made.json())


async def browser_of(api: httpx.AsyncClient, person: dict[str, Any]) -> Browser:
    """A browser that has signed in as this person."""
    link = await api.post(f"{PEOPLE}/{person['id']}/link", json={})
    assert link.status_code == 201, link.text
    http = httpx.AsyncClient(transport=api._transport, base_url=api.base_url)
    code = link.json()["url"].partition("#")[2]
    signed = await http.post(f"{V1}/signin", json={"code": code}, headers=SAME_ORIGIN)
    assert signed.status_code == 200, signed.text
    return Browser(http, signed.json()["csrf"])


async def token_of(browser: Browser, *scopes: str) -> dict[str, Any]:
    asked = {"name": "laptop", "scopes": scopes}
    made = await browser.http.post(TOKENS, json=asked, headers=browser.changing)
    assert made.status_code == 201, made.text
    return dict(made.json())


def client_by(api: httpx.AsyncClient, token: str) -> httpx.AsyncClient:
    """A program with this token."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(transport=api._transport, base_url=api.base_url, headers=headers)


async def member(api: httpx.AsyncClient, name: str = "Ann", role: str = "member") -> httpx.AsyncClient:
    """A program with a token of a new person, with all scopes of the role but `admin`."""
    browser = await browser_of(api, await added(api, name, role))
    scopes = (await browser.http.get(f"{V1}/me")).json()["scopes"]
    made = await token_of(browser, *(scope for scope in scopes if scope != "admin"))
    return client_by(api, made["token"])
