"""Logout tokens: who is signed out by one, and what is none."""

from datetime import timedelta
from typing import Any

import pytest

from mcc.oidc.identity import SigninRefused
from mcc.oidc.signed import LOGOUT_EVENT, LogoutOrder
from tests.people.asking import AT, flow
from tests.people.forger import Forger, signed


@pytest.mark.parametrize(
    ("changes", "subject", "sid"),
    [
        ({}, "ann", None),
        ({"sid": "s"}, "ann", "s"),
        ({"sub": None, "sid": "s"}, None, "s"),
        ({"exp": None}, "ann", None),
        ({"events": {LOGOUT_EVENT: {"x": 1}, "other": []}}, "ann", None),
        ({"aud": ["another", "mcc service"]}, "ann", None),
    ],
    ids=str,
)
async def test_a_logout_token_says_who_is_signed_out(
    forger: Forger, changes: dict[str, Any], subject: str | None, sid: str | None
) -> None:
    oidc = flow(forger)
    order = await oidc.signed_out(forger.logout_token(jti="1", **changes))
    assert order == LogoutOrder(forger.issuer, "1", subject, sid)


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"nonce": "n"}, "nonce"),
        ({"nonce": ""}, "nonce"),
        ({"events": None}, "events"),
        ({"events": {}}, "events"),
        ({"events": {LOGOUT_EVENT: None}}, "events"),
        ({"events": [LOGOUT_EVENT]}, "events"),
        ({"sub": None}, "sub"),
        ({"sub": 7}, "sub"),
        ({"sid": ""}, "sid"),
        ({"jti": None}, "jti"),
        ({"jti": 7}, "jti"),
        ({"iss": "https://evil.example"}, "iss"),
        ({"aud": "another"}, "aud"),
        ({"iat": None}, "iat"),
        ({"iat": "now"}, "iat"),
    ],
    ids=str,
)
async def test_what_is_no_logout_token_signs_nobody_out(forger: Forger, changes: dict[str, Any], claim: str) -> None:
    oidc = flow(forger)
    with pytest.raises(SigninRefused) as refused:
        await oidc.signed_out(forger.logout_token(**changes))
    assert refused.value.claim == claim


@pytest.mark.parametrize(
    ("claim", "seconds", "is_taken"),
    [
        ("iat", -300, True),
        ("iat", -301, False),
        ("iat", 59, True),
        ("iat", 61, False),
        ("exp", -59, True),
        ("exp", -61, False),
    ],
)
async def test_a_logout_token_counts_for_five_minutes(forger: Forger, claim: str, seconds: int, is_taken: bool) -> None:
    oidc = flow(forger)
    token = forger.logout_token(**{claim: int((AT + timedelta(seconds=seconds)).timestamp())})
    if is_taken:
        assert (await oidc.signed_out(token)).subject == "ann"
    else:
        with pytest.raises(SigninRefused) as refused:
            await oidc.signed_out(token)
        assert refused.value.claim == claim


async def test_an_id_token_signs_nobody_out(forger: Forger) -> None:
    oidc = flow(forger)
    with pytest.raises(SigninRefused):
        await oidc.signed_out(forger.id_token("n"))


@pytest.mark.parametrize(("kind", "is_taken"), [("logout+jwt", True), ("JWT", True), ("at+jwt", False)])
async def test_a_token_of_another_kind_signs_nobody_out(forger: Forger, kind: str, is_taken: bool) -> None:
    oidc = flow(forger)
    forger.sign = lambda claims: signed(claims, {"alg": "RS256", "kid": "rsa", "typ": kind})
    if is_taken:
        assert (await oidc.signed_out(forger.logout_token())).subject == "ann"
    else:
        with pytest.raises(SigninRefused) as refused:
            await oidc.signed_out(forger.logout_token())
        assert refused.value.claim == "typ"
