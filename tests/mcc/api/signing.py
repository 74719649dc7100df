"""A browser as tests play it: it signs in by a link, and sends its cookie and its origin."""

from dataclasses import dataclass
from pathlib import Path

import httpx

from mcc.api.app import build_app
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from mcc.testing.served import TOKEN

V1 = "/api/v1"
ORIGIN = "http://127.0.0.1:8420"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin", "Origin": ORIGIN}


@dataclass
class Browser:
    """`http` sends the cookie by itself; `csrf` is what the page would send with changes."""

    http: httpx.AsyncClient
    csrf: str

    @property
    def changing(self) -> dict[str, str]:
        return {**SAME_ORIGIN, "MCC-CSRF": self.csrf}


async def code_by(api: httpx.AsyncClient) -> str:
    """The code of a new link; `api` has the operator's token."""
    made = await api.post(f"{V1}/signin/links", json={})
    assert made.status_code == 201, made.text
    return str(made.json()["url"].partition("#")[2])


async def browser_by(api: httpx.AsyncClient) -> Browser:
    """A browser that has signed in by a link, on the same transport as `api`."""
    http = httpx.AsyncClient(transport=api._transport, base_url=api.base_url, headers={"User-Agent": "Browser/1"})
    signed = await http.post(f"{V1}/signin", json={"code": await code_by(api)}, headers=SAME_ORIGIN)
    assert signed.status_code == 200, signed.text
    return Browser(http, signed.json()["csrf"])


def another_process(store: Store, tmp_path: Path) -> httpx.AsyncClient:
    """A second service on the same database, with the operator's token."""
    app = build_app(ServiceSettings(data_dir=tmp_path / "data"), store, token=TOKEN)
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url=ORIGIN, headers={"Authorization": f"Bearer {TOKEN}"}
    )
