"""Findings about how people sign in by a provider of identities."""

import asyncio
from collections.abc import Iterable, Iterator

from mcc import oidc
from mcc.addresses import is_loopback, look_up, services_in
from mcc.configuration.oidc import OidcSettings
from mcc.doctor.installation import Installation
from mcc.fetching import FetchLimits
from mcc.findings.finding import Finding
from mcc.settings import BadSettings, client_secret

WHAT = "sign-in"


def check_signin(installation: Installation) -> Iterable[Finding]:
    """Whether people can sign in by the provider of identities, where there is one."""
    settings = installation.settings
    if settings.oidc is None:
        yield Finding(WHAT, "ok", "people sign in by links")
        return
    if not oidc.is_installed():
        yield Finding(WHAT, "broken", f"the service does not start: {oidc.MISSING}", "pip install 'mcc[oidc]'")
        return
    try:
        client_secret(settings, installation.environment)
    except BadSettings as problem:
        # It may be set where the service runs.
        yield Finding(WHAT, "warning", str(problem).rstrip("."), "the service does not start without it")
    if settings.public_url is None and not is_loopback(settings.host):
        detail = "browsers reach this service from elsewhere, and public_url does not say by which address"
        yield Finding(WHAT, "warning", detail, "set public_url under [mcc]: the provider sends browsers back to it")
    yield from _provider(installation, settings.oidc)


def _provider(installation: Installation, configured: OidcSettings) -> Iterator[Finding]:
    """Whether the provider can be asked, and says what signing in needs."""
    from mcc.oidc.assembly import provider_of
    from mcc.oidc.identity import SigninRefused
    from mcc.oidc.provider import LIMITS

    services = services_in((installation.settings.database_url, installation.settings.redis_url))
    limits = FetchLimits(min(installation.seconds, LIMITS.seconds), LIMITS.size)

    async def look() -> int:
        provider = provider_of(configured, lambda host: asyncio.to_thread(look_up, host), services, limits)
        return len((await provider.keys()).keys)

    try:
        keys = asyncio.run(look())
    except SigninRefused as refused:
        why = refused.detail or str(refused)
        yield Finding(WHAT, "broken", why.rstrip("."), "docs/how-to/sign-in-with-a-provider.md")
    else:
        yield Finding(WHAT, "ok", f"{configured.issuer} answers, and signs with {keys} key{'' if keys == 1 else 's'}")
