"""Fixtures of sign-ins by a provider of identities."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcc.api.app import build_app
from mcc.configuration.oidc import OidcSettings
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN
from tests.people.asking import ROLES
from tests.people.forger import CLIENT, Forger, forging

ORIGIN = "http://127.0.0.1:8420"

Browsers = Callable[[], httpx.AsyncClient]
"""Makes a browser: a client with cookies of its own, which follows nothing by itself."""


@pytest.fixture
async def forger() -> AsyncIterator[Forger]:
    async with forging() as provider:
        yield provider


@pytest.fixture
def store() -> Iterator[Store]:
    opened = temporary_store()
    yield opened
    opened.close()


@pytest.fixture
def settings(forger: Forger, tmp_path: Path) -> ServiceSettings:
    oidc = OidcSettings(name="Company <b>", issuer=forger.issuer, client_id=CLIENT, roles=ROLES)
    return ServiceSettings(data_dir=tmp_path / "data", oidc=oidc)


@pytest.fixture
async def browsers(store: Store, settings: ServiceSettings) -> AsyncIterator[Browsers]:
    app = build_app(settings, store, token=TOKEN)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)

    def made(**options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers={"User-Agent": "Browser/1"})

    async with app.router.lifespan_context(app):
        yield made


@pytest.fixture
def operator(browsers: Browsers) -> httpx.AsyncClient:
    """A program with the operator's token."""
    program = browsers()
    program.headers["Authorization"] = f"Bearer {TOKEN}"
    return program
