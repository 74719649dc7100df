"""Questions to a provider of identities, as tests ask them: always at the same time, from the same browser."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from mcc.addresses import AddressRule, url_of
from mcc.configuration.oidc import OidcSettings
from mcc.contracts.callers import Role
from mcc.fetching import FetchLimits, WebWire
from mcc.oidc.flow import OidcFlow
from mcc.oidc.identity import Identity, SigninRefused
from mcc.oidc.provider import LIMITS, IdentityProvider
from tests.people.forger import CLIENT, Forger

AT = datetime(2026, 11, 28, 12, tzinfo=UTC)
BROWSER, STATE, BACK = "b" * 43, "s" * 43, "http://127.0.0.1:8420/signin/oidc/callback"
ROLES = {"mcc-admins": Role.ADMIN, "dev": Role.MEMBER}


async def nowhere(_: str) -> tuple[str, ...]:
    return ()


def flow(
    forger: Forger,
    secret: str | None = None,
    *,
    limits: FetchLimits = LIMITS,
    monotonic: Callable[[], float] = time.monotonic,
    **settings: Any,
) -> OidcFlow:
    forger.at = lambda: AT
    configured = OidcSettings(issuer=forger.issuer, client_id=CLIENT, **{"roles": ROLES, **settings})
    rule = AddressRule(nowhere, allow_private=[url_of(forger.issuer).endpoint])
    provider = IdentityProvider(forger.issuer, WebWire(rule), limits=limits, monotonic=monotonic)
    return OidcFlow(configured, secret, provider, clock=lambda: AT)


async def arrived(oidc: OidcFlow, forger: Forger, **changes: str | None) -> Identity:
    address = await oidc.way_there(BROWSER, STATE, BACK)
    return await oidc.arrived(BROWSER, forger.answer_to(address, **changes), BACK)


async def claim_refused(oidc: OidcFlow, forger: Forger, **changes: str | None) -> str:
    with pytest.raises(SigninRefused) as refused:
        await arrived(oidc, forger, **changes)
    return refused.value.claim
