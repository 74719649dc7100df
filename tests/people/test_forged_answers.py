"""What comes as a provider's answer counts only if the provider signed it, for this service, for this question, now."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc.jwk import ECKey, OctKey, RSAKey

from mcc.contracts.callers import Role
from mcc.oidc.identity import Identity
from mcc.oidc.provider import keys_of
from tests.people.asking import AT, BACK, BROWSER, ROLES, STATE, arrived, claim_refused, flow
from tests.people.forger import (
    ACCESS_TOKEN,
    CLIENT,
    Forger,
    SigningKey,
    challenge_of,
    ec_key,
    okp_key,
    public,
    question_in,
    rsa_key,
    signed,
)


async def test_whom_the_provider_vouches_for_is_known_by_issuer_and_subject(forger: Forger) -> None:
    forger.claims["sid"] = "session-1"
    identity = await arrived(flow(forger), forger)
    assert identity == Identity(forger.issuer, "ann", "session-1", "Ann", "ann@example.com", Role.MEMBER)


async def test_a_question_has_a_challenge_whose_answer_is_sent_with_the_code(forger: Forger) -> None:
    oidc = flow(forger)
    asked = question_in(await oidc.way_there(BROWSER, STATE, BACK))
    await arrived(oidc, forger)
    form, headers = forger.forms[0]
    assert asked["code_challenge_method"] == "S256" and asked["code_challenge"] == challenge_of(form["code_verifier"])
    assert (form["grant_type"], form["redirect_uri"], form["client_id"]) == ("authorization_code", BACK, CLIENT)
    assert "Authorization" not in headers and (asked["scope"], asked["redirect_uri"]) == (
        "openid profile email groups",
        BACK,
    )
    # The secrets of two questions of a browser, and of two browsers, have nothing in common.
    others = [question_in(await oidc.way_there(*who, BACK)) for who in ((BROWSER, "t" * 43), ("c" * 43, STATE))]
    for secret in ("nonce", "code_challenge"):
        assert len({asked[secret], *(other[secret] for other in others)}) == 3


@pytest.mark.parametrize(
    ("methods", "sent"),
    [
        (None, "basic"),
        (["client_secret_post", "client_secret_basic"], "basic"),
        (["client_secret_post"], "post"),
    ],
)
async def test_a_client_with_a_secret_proves_itself_as_the_provider_takes_it(
    forger: Forger, methods: list[str] | None, sent: str
) -> None:
    forger.facts["token_endpoint_auth_methods_supported"] = methods
    await arrived(flow(forger, "a secret:+/%é"), forger)
    form, headers = forger.forms[0]
    if sent == "post":
        assert (form["client_id"], form["client_secret"]) == (CLIENT, "a secret:+/%é")
        assert "Authorization" not in headers
    else:
        # Written as in a form first (RFC 6749, 2.3.1): what stands in a secret must not look like the colon.
        basic = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
        assert basic == "mcc+service:a+secret%3A%2B%2F%25%C3%A9" and "client_secret" not in form


ALGORITHMS: dict[str, Callable[[], SigningKey]] = {
    **{f"{family}{bits}": rsa_key for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ec_key,
    "EdDSA": okp_key,
}


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize("name", ALGORITHMS)
async def test_each_algorithm_with_two_halves_of_a_key_is_taken(forger: Forger, name: str) -> None:
    key = ALGORITHMS[name]()
    half = hashlib.new("sha512" if name == "EdDSA" else f"sha{name[2:]}", ACCESS_TOKEN.encode()).digest()
    half = half[: len(half) // 2]
    forger.claims["at_hash"] = base64.urlsafe_b64encode(half).rstrip(b"=").decode()
    forger.sign = lambda claims: signed(claims, {"alg": name, "kid": key.kid}, key)
    assert (await arrived(flow(forger), forger)).subject == "ann"


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"iss": "https://evil.example"}, "iss"),
        ({"iss": None}, "iss"),
        ({"aud": "another client"}, "aud"),
        ({"aud": []}, "aud"),
        ({"aud": None}, "aud"),
        ({"aud": [CLIENT, "another"]}, "azp"),
        ({"aud": [CLIENT, "another"], "azp": "another"}, "azp"),
        ({"azp": "another"}, "azp"),
        ({"nonce": "of another question"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"exp": None}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"iat": None}, "iat"),
        ({"at_hash": "x"}, "at_hash"),
        ({"at_hash": 7}, "at_hash"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "sub"),
        ({"sub": 7}, "sub"),
        ({"sub": "x" * 256}, "sub"),
        ({"sub": "ann\u202e"}, "sub"),
        ({"sub": "ann\0"}, "sub"),
        ({"sid": ["x"]}, "sid"),
    ],
    ids=str,
)
async def test_an_id_token_that_answers_no_question_of_ours_is_refused_by_its_claim(
    forger: Forger, changes: dict[str, Any], claim: str
) -> None:
    forger.claims |= changes
    assert await claim_refused(flow(forger), forger) == claim


async def test_several_audiences_need_ours_as_the_one_that_asked(forger: Forger) -> None:
    forger.claims |= {"aud": ["another", CLIENT], "azp": CLIENT}
    assert (await arrived(flow(forger), forger)).subject == "ann"


@pytest.mark.parametrize(
    ("claim", "seconds", "is_taken"),
    [("exp", -59, True), ("exp", -61, False), ("iat", 59, True), ("iat", 61, False), ("nbf", 61, False)],
)
async def test_the_clocks_may_differ_by_a_minute(forger: Forger, claim: str, seconds: int, is_taken: bool) -> None:
    oidc = flow(forger)
    forger.claims[claim] = int((AT + timedelta(seconds=seconds)).timestamp())
    if is_taken:
        assert (await arrived(oidc, forger)).subject == "ann"
    else:
        assert await claim_refused(oidc, forger) == claim


def encoded(part: object) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def by_hand(header: object, claims: object, sign: Callable[[bytes], bytes]) -> str:
    """For what no library signs."""
    text = f"{encoded(header)}.{encoded(claims)}"
    return f"{text}.{encoded(sign(text.encode()))}"


def by_rsa(text: bytes) -> bytes:
    key = rsa_key().private_key
    assert key is not None
    return key.sign(text, PKCS1v15(), SHA256())


def unsigned(claims: dict[str, Any], alg: str = "none") -> str:
    return by_hand({"alg": alg, "typ": "JWT", "kid": "rsa"}, claims, lambda _: b"")


def by_public_half(claims: dict[str, Any]) -> str:
    """The classic: the public key, which everybody has, as the secret of an HMAC."""
    secret = rsa_key().as_pem(private=False)
    return by_hand({"alg": "HS256", "kid": "rsa"}, claims, lambda text: hmac.digest(secret, text, "sha256"))


def by_a_stranger(claims: dict[str, Any]) -> str:
    return signed(claims, {"alg": "RS256", "kid": "rsa"}, RSAKey.generate_key(2048))


def changed_afterwards(claims: dict[str, Any]) -> str:
    head, _, signature = signed(claims).split(".")
    return f"{head}.{encoded({**claims, 'sub': 'root'})}.{signature}"


def with_its_own_key(claims: dict[str, Any]) -> str:
    key = ECKey.generate_key("P-256")
    return signed(claims, {"alg": "ES256", "jwk": key.as_dict(private=False), "kid": "ec"}, key)


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], str], str]] = {
    "alg none": (unsigned, "alg"),
    "alg NONE": (lambda claims: unsigned(claims, "NONE"), "alg"),
    "HS256 by the public key": (by_public_half, "alg"),
    "an unknown algorithm": (lambda claims: unsigned(claims, "RS1"), "alg"),
    "no signature": (lambda claims: unsigned(claims, "RS256"), "signature"),
    "another key": (by_a_stranger, "signature"),
    "changed afterwards": (changed_afterwards, "signature"),
    "a key in its own head": (with_its_own_key, "signature"),
    "another kind of key": (lambda claims: signed(claims, {"alg": "RS256", "kid": "ec"}), "signature"),
    "a critical header": (
        lambda claims: by_hand({"alg": "RS256", "kid": "rsa", "crit": ["x"], "x": 1}, claims, by_rsa),
        "signature",
    ),
    "an unknown kid": (lambda claims: signed(claims, {"alg": "RS256", "kid": "new"}), "kid"),
    "no kid": (lambda claims: signed(claims, {"alg": "RS256"}), "kid"),
    "no token": (lambda _: "x.y", "signature"),
    "a list": (lambda claims: by_hand({"alg": "RS256", "kid": "rsa"}, [claims], by_rsa), "signature"),
    "a list as its head": (lambda claims: by_hand([{"alg": "RS256", "kid": "rsa"}], claims, by_rsa), "alg"),
    "an algorithm that is a list": (
        lambda claims: by_hand({"alg": ["RS256"], "kid": "rsa"}, claims, by_rsa),
        "signature",
    ),
    "nested without end": (lambda _: by_hand({"alg": "RS256", "kid": "rsa"}, b"[" * 90_000, by_rsa), "signature"),
}


@pytest.mark.parametrize("name", FORGERIES)
async def test_what_the_provider_has_not_signed_is_refused(forger: Forger, name: str) -> None:
    forger.sign, claim = FORGERIES[name]
    assert await claim_refused(flow(forger), forger) == claim


async def test_a_shared_secret_among_the_keys_of_a_provider_is_none_of_them(forger: Forger) -> None:
    secret = OctKey.import_key("s" * 32, {"kid": "oct"})
    forger.keys.append(secret.as_dict())
    assert {key.kid for key in keys_of({"keys": forger.keys})} == {"rsa", "ec", "okp"}
    forger.sign = lambda claims: signed(claims, {"alg": "HS256", "kid": "oct"}, secret)
    assert await claim_refused(flow(forger), forger) == "alg"


async def test_a_key_for_other_purposes_signs_nothing(forger: Forger) -> None:
    forger.keys = [{**public(rsa_key()), "use": "enc"}, public(ec_key())]
    assert await claim_refused(flow(forger), forger) == "kid"


async def test_what_is_no_key_is_passed_over(forger: Forger) -> None:
    broken: list[Any] = [None, "x", {"kty": "PQC"}, {"kty": "RSA"}, {"kty": "EC", "crv": "P-0", "x": "", "y": ""}]
    forger.keys = [*broken, {"kty": ["RSA"]}, *forger.keys]
    assert (await arrived(flow(forger), forger)).subject == "ann"


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"iss": "https://evil.example"}, "iss"),
        ({"iss": None}, "iss"),
        ({"code": None}, "code"),
        ({"code": None, "error": "access_denied", "error_description": "<b>no</b>"}, "error"),
    ],
    ids=str,
)
async def test_an_answer_of_another_provider_or_without_a_code_is_not_exchanged(
    forger: Forger, changes: dict[str, str | None], claim: str
) -> None:
    assert await claim_refused(flow(forger), forger, **changes) == claim
    assert not forger.forms


async def test_a_provider_that_does_not_name_itself_in_answers_may_still_not_name_another(forger: Forger) -> None:
    forger.facts["authorization_response_iss_parameter_supported"] = False
    oidc = flow(forger)
    assert (await arrived(oidc, forger, iss=None)).subject == "ann"
    assert await claim_refused(oidc, forger, iss="https://evil.example") == "iss"


@pytest.mark.parametrize(
    ("claims", "settings", "role"),
    [
        ({"groups": ["x", "dev", "mcc-admins"]}, {}, Role.ADMIN),
        ({"groups": "dev"}, {}, Role.MEMBER),
        ({"groups": []}, {}, None),
        ({"groups": None}, {}, None),
        ({"groups": {"dev": True}}, {}, None),
        ({"groups": [["dev"], 7, None]}, {}, None),
        ({"groups": ["x"]}, {"roles": {**ROLES, "*": Role.VIEWER}}, Role.VIEWER),
        ({"groups": ["dev"]}, {"roles": {**ROLES, "*": Role.VIEWER}}, Role.MEMBER),
        ({"realm": {"roles": ["dev"]}}, {"groups_claim": "realm.roles"}, Role.MEMBER),
        ({"realm": "dev"}, {"groups_claim": "realm.roles"}, None),
        ({"https://x.example/groups": ["dev"]}, {"groups_claim": "https://x.example/groups"}, Role.MEMBER),
    ],
    ids=str,
)
async def test_the_strongest_role_of_all_groups_counts(
    forger: Forger, claims: dict[str, Any], settings: dict[str, Any], role: Role | None
) -> None:
    forger.claims |= claims
    assert (await arrived(flow(forger, **settings), forger)).role == role


async def test_groups_that_the_token_lacks_are_asked_for_as_the_same_person(forger: Forger) -> None:
    del forger.claims["groups"], forger.claims["name"]
    forger.userinfo |= {"groups": ["mcc-admins"], "name": "Ann from userinfo", "email": "other@example.com"}
    oidc = flow(forger)
    identity = await arrived(oidc, forger)
    assert (identity.role, identity.name, identity.email) == (Role.ADMIN, "Ann from userinfo", "ann@example.com")
    for said in ({"sub": "root", "groups": ["mcc-admins"]}, {"groups": ["mcc-admins"]}):
        forger.userinfo = said
        assert await claim_refused(oidc, forger) == "sub"


async def test_groups_of_a_token_count_before_those_of_userinfo(forger: Forger) -> None:
    forger.claims |= {"groups": ["dev"], "name": None}
    forger.userinfo |= {"groups": ["mcc-admins"]}
    assert (await arrived(flow(forger), forger)).role == Role.MEMBER


@pytest.mark.parametrize(
    "name", ["<img src=x>", "\u202egnp.exe", "שלום", "x" * 900_000, "\ud83d", "a\0b"], ids=range(6)
)
async def test_a_name_is_text_of_bounded_length(forger: Forger, name: str) -> None:
    forger.sign = lambda claims: signed({**claims, "name": None})
    forger.userinfo["name"] = name
    assert (await arrived(flow(forger), forger)).name == name[:200]


async def test_who_has_no_name_is_called_by_what_the_provider_calls_them(forger: Forger) -> None:
    forger.claims |= {"name": ["no text"], "email": None, "preferred_username": " "}
    assert (await arrived(flow(forger), forger)).name == "ann"


@pytest.mark.parametrize("name", ["operator", "Ｏperator", "You", "person:0197f000-0000-7000-8000-000000000000"])
async def test_nobody_is_called_as_a_principal_of_the_service_is(forger: Forger, name: str) -> None:
    forger.claims |= {"name": name, "preferred_username": "eve"}
    assert (await arrived(flow(forger), forger)).name == "eve"
    forger.claims |= {"preferred_username": name, "email": None, "sub": "operator"}
    assert (await arrived(flow(forger), forger)).name == "operator (sub)"
