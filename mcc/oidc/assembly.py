"""Puts the parts of a sign-in by OpenID Connect together."""

from collections.abc import Iterable

from mcc.addresses import AddressRule, Endpoint, Resolve, url_of
from mcc.configuration.oidc import OidcSettings
from mcc.fetching import FetchLimits, WebWire
from mcc.oidc.flow import OidcFlow
from mcc.oidc.provider import LIMITS, IdentityProvider


def provider_of(
    settings: OidcSettings, resolve: Resolve, own: Iterable[Endpoint] = (), limits: FetchLimits = LIMITS
) -> IdentityProvider:
    """The provider that the operator names, whose address may be a private one; all others that it leads to are public.
    `own`: the services of this installation, which it leads nobody to."""
    rule = AddressRule(resolve, own=own, allow_private=[url_of(settings.issuer).endpoint])
    return IdentityProvider(settings.issuer, WebWire(rule, agent="mcc"), limits=limits)


def flow_of(settings: OidcSettings, secret: str | None, resolve: Resolve, own: Iterable[Endpoint] = ()) -> OidcFlow:
    """`secret`: the client's, None for a public one."""
    return OidcFlow(settings, secret, provider_of(settings, resolve, own))
