"""A provider that is away, slow, or answers what nobody can use: told, bounded, and not asked all the time."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from mcc.addresses import AddressRule, url_of
from mcc.configuration.oidc import OidcSettings
from mcc.fetching import FetchLimits, WebWire
from mcc.oidc.flow import OidcFlow
from mcc.oidc.identity import ProviderAway, SigninRefused
from mcc.oidc.provider import LIMITS, IdentityProvider, endpoint
from tests.people.asking import BACK, BROWSER, ROLES, STATE, arrived, claim_refused, flow, nowhere
from tests.people.forger import CLIENT, Forger, public, rsa_key, signed

DISCOVERY = "/.well-known/openid-configuration"


async def begun(oidc: OidcFlow) -> str:
    return await oidc.way_there(BROWSER, STATE, BACK)


async def test_a_provider_that_is_away_is_told_by_its_address() -> None:
    settings = OidcSettings(issuer="http://127.0.0.1:1/realm", client_id=CLIENT, roles=ROLES)
    rule = AddressRule(nowhere, allow_private=[url_of(settings.issuer).endpoint])
    with pytest.raises(ProviderAway) as away:
        await begun(OidcFlow(settings, None, IdentityProvider(settings.issuer, WebWire(rule))))
    # To the operator alone: who wants to sign in has no use for addresses.
    assert "127.0.0.1:1 cannot be read: Connect" in away.value.detail and "127" not in str(away.value)


async def endless(request: web.BaseRequest) -> web.StreamResponse:
    """A gigabyte, unless somebody hangs up."""
    answer = web.StreamResponse(headers={"Content-Length": str(10**9)})
    await answer.prepare(request)
    for _ in range(1_000):
        await answer.write(b" " * 1_000_000)
    return answer


async def moved(_: web.BaseRequest) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:1/elsewhere")


async def broken(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="<html>", status=200)


async def refusing(_: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"message": "no"}, status=500)


async def a_list(_: web.BaseRequest) -> web.StreamResponse:
    return web.json_response([])


async def nested(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="[" * 500_000)


@pytest.mark.parametrize("answering", [endless, moved, broken, refusing, a_list, nested])
@pytest.mark.parametrize("path", [DISCOVERY, "/keys", "/token"])
async def test_what_nobody_can_use_is_read_within_a_bound_and_signs_nobody_in(
    forger: Forger, path: str, answering: Any
) -> None:
    forger.instead[path] = answering
    assert await claim_refused(flow(forger), forger) == "provider"


async def test_a_provider_that_says_nothing_is_waited_for_as_long_as_is_said(forger: Forger) -> None:
    assert LIMITS.seconds == 10

    async def silent(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    forger.instead["/token"] = silent
    oidc = flow(forger, limits=FetchLimits(0.2, LIMITS.size))
    assert await claim_refused(oidc, forger) == "provider"


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ({"issuer": "https://evil.example"}, "issuer"),
        ({"issuer": None}, "issuer"),
        ({"authorization_endpoint": None}, "authorization_endpoint"),
        ({"token_endpoint": "ftp://127.0.0.1/token"}, "token_endpoint"),
        ({"token_endpoint": "http://id.example/token"}, "token_endpoint"),
        ({"jwks_uri": ["https://id.example"]}, "jwks_uri"),
        ({"jwks_uri": "https://id.example/\r\nx: y"}, "jwks_uri"),
        # Private addresses other than its own are none that it leads to.
        ({"jwks_uri": "https://127.0.0.1:9/keys"}, "provider"),
        ({"jwks_uri": "https://169.254.169.254/latest"}, "provider"),
    ],
    ids=str,
)
async def test_what_it_says_of_itself_has_to_be_its_own_and_of_use(
    forger: Forger, said: dict[str, Any], claim: str
) -> None:
    forger.facts |= said
    assert await claim_refused(flow(forger), forger) == claim


def test_by_http_only_a_provider_on_this_machine_is_asked() -> None:
    said = {"plain": "http://id.example/x", "here": "http://127.0.0.1:9/x", "secure": "https://id.example/x"}
    for issuer, usable in (("https://id.example", {"secure"}), ("http://localhost:9", {"here", "secure"})):
        assert {name for name in said if endpoint(said, name, issuer)} == usable


async def test_a_provider_without_keys_that_sign_is_of_no_use(forger: Forger) -> None:
    forger.keys = [{**public(rsa_key()), "use": "enc"}]
    assert await claim_refused(flow(forger), forger) == "jwks_uri"


async def test_keys_are_asked_for_again_when_one_is_new_but_not_all_the_time(forger: Forger) -> None:
    at = [0.0]
    oidc = flow(forger, monotonic=lambda: at[0])
    await arrived(oidc, forger)
    new = rsa_key("new")
    forger.sign = lambda claims: signed(claims, {"alg": "RS256", "kid": "new"}, new)
    for at[0] in (9.0, 10.0, 15.0, 19.0):
        assert await claim_refused(oidc, forger) == "kid"
    assert forger.asked.count("/keys") == 2
    forger.keys.append(public(new))
    at[0] = 20.0
    assert (await arrived(oidc, forger)).subject == "ann"
    await arrived(oidc, forger)
    assert (forger.asked.count("/keys"), forger.asked.count(DISCOVERY)) == (3, 1)
    at[0] = 620.0
    await arrived(oidc, forger)
    assert (forger.asked.count("/keys"), forger.asked.count(DISCOVERY)) == (4, 2)


async def test_who_comes_while_a_provider_is_away_does_not_ask_it_again_for_a_while(forger: Forger) -> None:
    at = [0.0]
    oidc = flow(forger, monotonic=lambda: at[0])
    forger.instead[DISCOVERY] = refusing
    answers = await asyncio.gather(*(begun(oidc) for _ in range(20)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {ProviderAway} and len(forger.asked) == 1
    del forger.instead[DISCOVERY]
    at[0] = 9.0
    with pytest.raises(SigninRefused):
        await begun(oidc)
    at[0] = 10.0
    assert (await begun(oidc)).startswith(forger.issuer)


async def test_a_code_that_the_provider_does_not_know_is_refused_with_its_reason(forger: Forger) -> None:
    async def unknown(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"error": "invalid_grant", "error_description": "<b>"}, status=400)

    forger.instead["/token"] = unknown
    oidc = flow(forger)
    with pytest.raises(SigninRefused, match="invalid_grant") as refused:
        await arrived(oidc, forger)
    assert refused.value.claim == "code"


async def test_userinfo_that_refuses_is_no_other_person(forger: Forger) -> None:
    async def refused(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"error": "invalid_token"}, status=401)

    del forger.claims["groups"]
    forger.instead["/userinfo"] = refused
    assert await claim_refused(flow(forger), forger) == "provider"


@pytest.mark.parametrize("said", [{"id_token": None}, {"id_token": 7}, {"id_token": ""}])
async def test_an_answer_without_an_id_token_signs_nobody_in(forger: Forger, said: dict[str, Any]) -> None:
    forger.tokens |= said
    assert await claim_refused(flow(forger), forger) in ("id_token", "signature")


async def test_where_a_browser_signs_out_is_where_the_provider_says(forger: Forger) -> None:
    forger.facts["end_session_endpoint"] += "?x=1"
    back = "https://mcc.example/signin"
    leave = await flow(forger).way_out(back)
    assert leave == f"{forger.issuer}/leave?x=1&client_id=mcc+service&post_logout_redirect_uri=https%3A%2F%2F" + (
        "mcc.example%2Fsignin"
    )
    del forger.facts["end_session_endpoint"]
    assert await flow(forger).way_out(back) is None
    forger.instead[DISCOVERY] = broken
    assert await flow(forger).way_out(back) is None
