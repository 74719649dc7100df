"""What a provider has signed: for whom, when, and all that an ID token and a logout token have to say."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from authlib.oidc.core.util import create_half_hash
from joserfc import jwt
from joserfc.errors import (
    ClaimError,
    InvalidKeyIdError,
    JoseError,
    MissingAlgorithmError,
    UnsupportedAlgorithmError,
)
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry
from joserfc.jwt import ClaimsOption, JWTClaimsRegistry

from mcc.oidc.identity import SigninRefused, identifier
from mcc.oidc.provider import PAUSE_SECONDS, IdentityProvider

ALGORITHMS = (
    *(f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in (256, 384, 512)),
    "EdDSA",
)
"""Those with two halves of a key. With HS256 whoever knows the public half could sign, with `none` anybody."""

LEEWAY_SECONDS = 60
"""By how much the clocks of provider and service may differ."""

LOGOUT_SECONDS = 300
"""How old a logout token may be."""

LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
LOGOUT_TYPES = ("logout+jwt", "jwt", "application/logout+jwt")

NOT_SIGNED = "What came as the provider's was not signed by it as it has to be"


@dataclass(frozen=True, slots=True)
class Expected:
    """For whom a token has to be, `at` which time. `nonce`: of an ID token, which answers one question."""

    issuer: str
    client_id: str
    at: datetime
    nonce: str | None = None


@dataclass(frozen=True, slots=True)
class LogoutOrder:
    """Who is signed out: all of `subject`, or the session `sid`; with both, the one of the other. `jti` names the
    order, which counts once."""

    issuer: str
    jti: str
    subject: str | None
    sid: str | None


class _Asymmetric(JWSRegistry):
    """Takes `ALGORITHMS` alone, and headers that it does not know, unless they are critical. (The parent would warn of
    EdDSA for its name, which RFC 9864 replaces by that of a curve.)"""

    def __init__(self) -> None:
        super().__init__(algorithms=ALGORITHMS, strict_check_header=False)

    def get_alg(self, name: str) -> Any:
        if name not in ALGORITHMS:
            raise UnsupportedAlgorithmError(f"{name!r} is not taken")
        return self.algorithms[name]


async def verified(token: object, provider: IdentityProvider) -> jwt.Token:
    """The token, which the provider has signed. Raises `SigninRefused`."""
    if not isinstance(token, str):
        raise SigninRefused("id_token", "The provider answers without a signed token: ask it for the scope openid.")
    try:
        return _decoded(token, await provider.keys())
    except InvalidKeyIdError:
        # Providers replace their keys from time to time.
        newer = await provider.keys(PAUSE_SECONDS)
    try:
        return _decoded(token, newer)
    except InvalidKeyIdError as error:
        raise SigninRefused("kid", f"{NOT_SIGNED}: it lists no key of this name.") from error


def _decoded(token: str, keys: KeySet) -> jwt.Token:
    """Raises `SigninRefused`, and `InvalidKeyIdError` where none of the keys has the name that the token says."""
    try:
        return jwt.decode(token, keys, registry=_Asymmetric())
    except InvalidKeyIdError:
        raise
    except (UnsupportedAlgorithmError, MissingAlgorithmError) as error:
        raise SigninRefused("alg", f"{NOT_SIGNED}: it names an algorithm that is not taken.") from error
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise SigninRefused("signature", f"{NOT_SIGNED}.") from error


def checked_id_token(token: jwt.Token, expected: Expected, access_token: object) -> Mapping[str, Any]:
    """The claims of an ID token that answers exactly this question. Raises `SigninRefused`."""
    claims = token.claims
    _check(claims, expected, exp={"essential": True}, nonce={"essential": True, "value": str(expected.nonce)})
    audience = claims["aud"]
    if "azp" in claims or (isinstance(audience, list) and len(audience) > 1):
        _require(claims.get("azp") == expected.client_id, "azp")
    if "at_hash" in claims:
        half = create_half_hash(str(access_token), token.header["alg"]) or b""
        _require(hmac.compare_digest(str(claims["at_hash"]).encode(), half), "at_hash")
    return claims


def checked_logout_token(token: jwt.Token, expected: Expected) -> LogoutOrder:
    """Whom a logout token signs out. Raises `SigninRefused`."""
    claims = token.claims
    _require(str(token.header.get("typ", "JWT")).lower() in LOGOUT_TYPES, "typ")
    _check(claims, expected, jti={"essential": True})
    _require(claims["iat"] >= expected.at.timestamp() - LOGOUT_SECONDS, "iat")
    events = claims.get("events")
    _require(isinstance(events, dict) and isinstance(events.get(LOGOUT_EVENT), dict), "events")
    # An ID token has one: it must not sign out whom it signed in.
    _require("nonce" not in claims, "nonce")
    _require("sub" in claims or "sid" in claims, "sub")
    subject, sid = (identifier(claims, claim) if claim in claims else None for claim in ("sub", "sid"))
    return LogoutOrder(expected.issuer, identifier(claims, "jti"), subject, sid)


def _check(claims: Mapping[str, Any], expected: Expected, **further: ClaimsOption) -> None:
    """Raises `SigninRefused` for a token of another issuer, for somebody else, or out of its time."""
    registry = JWTClaimsRegistry(
        now=int(expected.at.timestamp()),
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": expected.issuer},
        aud={"essential": True, "value": expected.client_id},
        iat={"essential": True},
        **further,
    )
    try:
        registry.validate(dict(claims))
    except ClaimError as error:
        raise _misfit(error.claim) from error


def _require(fits: bool, claim: str) -> None:
    if not fits:
        raise _misfit(claim)


def _misfit(claim: str) -> SigninRefused:
    more = " The clocks of the provider and of this service may differ." if claim in ("exp", "iat", "nbf") else ""
    return SigninRefused(claim, f"What the provider signed does not fit this question, by its claim {claim!r}.{more}")
