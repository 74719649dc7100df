"""The table [oidc] of mcc.toml: a provider of identities by which people sign in, and what its groups may do here."""

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from mcc.addresses import AddressRefused, is_loopback, url_of
from mcc.configuration.network import VariableName
from mcc.contracts.callers import Role
from mcc.contracts.shape import Closed

EVERYBODY = "*"
"""The group in which everybody is whom the provider vouches for."""

_STRENGTH = {role: strength for strength, role in enumerate(Role)}


def _issuer(issuer: str) -> str:
    try:
        url = url_of(issuer)
    except AddressRefused as refused:
        raise ValueError(str(refused).rstrip(".")) from None
    if url.scheme != "https" and not is_loopback(url.endpoint.host):
        raise ValueError("begins with https://; http:// is for a provider on this machine alone")
    if "?" in issuer or "#" in issuer:
        raise ValueError('has neither "?" nor "#" in it: write what the provider calls its issuer')
    return issuer


class OidcSettings(Closed):
    """A provider that speaks OpenID Connect. `name`: what its button is called.

    `issuer`: exactly what the provider calls itself. `client_secret_env` names the variable with the client's secret;
    None: a public client. `groups_claim`: where a person's groups stand; dots lead into objects, unless a claim has the
    name as it is. `roles`: what each group may do here, of which the strongest counts; who has none is refused.
    `session_hours`: how long a browser stays signed in.
    """

    name: Annotated[str, StringConstraints(min_length=1, max_length=60)] = "OpenID Connect"
    issuer: Annotated[str, StringConstraints(max_length=2_000), AfterValidator(_issuer)]
    client_id: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    client_secret_env: VariableName | None = None
    scopes: tuple[Annotated[str, StringConstraints(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]{1,200}$")], ...] = (
        "openid",
        "profile",
        "email",
        "groups",
    )
    groups_claim: Annotated[str, StringConstraints(min_length=1, max_length=200)] = "groups"
    roles: Annotated[Mapping[str, Role], Field(min_length=1)]
    session_hours: Annotated[float, Field(gt=0, le=8_784, allow_inf_nan=False)] = 12.0

    def role_of(self, groups: Iterable[str]) -> Role | None:
        """The strongest role of somebody in these groups; None where nobody has said what they may do."""
        roles = (self.roles[group] for group in {EVERYBODY, *groups} if group in self.roles)
        return max(roles, key=_STRENGTH.__getitem__, default=None)
