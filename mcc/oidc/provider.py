"""A provider of identities over HTTP: what it says of itself, its keys, and answers of its endpoints, all bounded."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet

from mcc.addresses import AddressRefused, is_loopback, url_of
from mcc.fetching import FetchLimits, FetchRequest, WebError, WebWire
from mcc.oidc.identity import ProviderAway, SigninRefused

T = TypeVar("T")

WELL_KNOWN = "/.well-known/openid-configuration"

LIMITS = FetchLimits(seconds=10.0, size=1_000_000)
"""Of each answer."""

KNOWN_SECONDS = 600.0
"""How long is believed what a provider says of itself, and which keys it has."""

PAUSE_SECONDS = 10.0
"""How soon it is asked again where it was away, or has no key of the name that is wanted."""

MOST_KEYS = 100
ASYMMETRIC = ("RSA", "EC", "OKP")
"""Kinds of keys of which a provider publishes one half. A shared secret in its list would be everybody's."""


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """What a provider says of itself. `names_itself`: in its answers to browsers too (RFC 9207). `auth_methods`: how
    clients may prove themselves."""

    authorization: str
    token: str
    keys: str
    userinfo: str | None
    end_session: str | None
    names_itself: bool
    auth_methods: tuple[str, ...]


class Remembered(Generic[T]):
    """An answer, which is believed for a while; so is that there was none, for `PAUSE_SECONDS`."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._asking = asyncio.Lock()
        self._known: tuple[float, T | SigninRefused] | None = None

    async def get(self, ask: Callable[[], Awaitable[T]], seconds: float = KNOWN_SECONDS) -> T:
        """What `ask` answers, at most so old; several callers wait for one question. Raises `SigninRefused`."""
        async with self._asking:
            known = self._known
            pause = PAUSE_SECONDS if known is not None and isinstance(known[1], SigninRefused) else seconds
            if known is None or self._monotonic() - known[0] >= pause:
                try:
                    known = (self._monotonic(), await ask())
                except SigninRefused as refused:
                    known = (self._monotonic(), refused)
                self._known = known
        if isinstance(known[1], SigninRefused):
            raise known[1].with_traceback(None)
        return known[1]


class IdentityProvider:
    """`monotonic` answers seconds; `limits` hold for each answer."""

    def __init__(
        self,
        issuer: str,
        wire: WebWire,
        *,
        limits: FetchLimits = LIMITS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.issuer = issuer
        self._wire = wire
        self._limits = limits
        self._facts = Remembered[ProviderFacts](monotonic)
        self._keys = Remembered[KeySet](monotonic)

    async def facts(self) -> ProviderFacts:
        """Raises `SigninRefused`."""
        address = self.issuer.rstrip("/") + WELL_KNOWN
        return await self._facts.get(lambda: self._read(address, lambda said: facts_of(said, self.issuer)))

    async def keys(self, seconds: float = KNOWN_SECONDS) -> KeySet:
        """Its keys, as it listed them at most so long ago. Raises `SigninRefused`."""
        facts = await self.facts()
        return await self._keys.get(lambda: self._read(facts.keys, keys_of), seconds)

    async def json(self, request: FetchRequest) -> Mapping[str, Any]:
        """The object that is the answer, of status 200; or of 400 or 401 where it says an `error`. Raises
        `ProviderAway`."""
        place = request.url.endpoint
        try:
            answer = await self._wire.fetch(request, self._limits)
            said = json.loads(answer.body)
        except (WebError, AddressRefused) as error:
            raise ProviderAway(str(error)) from error
        except (ValueError, RecursionError) as error:
            raise ProviderAway(f"what {place} answers is no JSON.") from error
        is_error = answer.status in (400, 401) and isinstance(said, dict) and isinstance(said.get("error"), str)
        if not isinstance(said, dict) or not (answer.status == 200 or is_error):
            raise ProviderAway(f"{place} answers {answer.status} and nothing that is of use.")
        return said

    async def _read(self, address: str, read: Callable[[Mapping[str, Any]], T]) -> T:
        return read(await self.json(FetchRequest(url_of(address))))


def facts_of(said: Mapping[str, Any], issuer: str) -> ProviderFacts:
    """Raises `SigninRefused` where they are those of another issuer, or lack what signing in needs."""
    if said.get("issuer") != issuer:
        raise SigninRefused(
            "issuer",
            f"The provider calls itself {_shown(said.get('issuer'))}, and mcc.toml says {_shown(issuer)}: "
            "correct `issuer` under [oidc].",
        )

    def needed(name: str) -> str:
        if (address := endpoint(said, name, issuer)) is None:
            raise SigninRefused(name, f"The provider says no usable {name}: it has to be an https address.")
        return address

    methods = said.get("token_endpoint_auth_methods_supported")
    return ProviderFacts(
        authorization=needed("authorization_endpoint"),
        token=needed("token_endpoint"),
        keys=needed("jwks_uri"),
        userinfo=endpoint(said, "userinfo_endpoint", issuer),
        end_session=endpoint(said, "end_session_endpoint", issuer),
        names_itself=said.get("authorization_response_iss_parameter_supported") is True,
        auth_methods=tuple(map(str, methods)) if isinstance(methods, list) else (),
    )


def endpoint(said: Mapping[str, Any], name: str, issuer: str) -> str | None:
    """The address of this name, None without a usable one: by http only a provider on this machine is asked."""
    address = said.get(name)
    if not isinstance(address, str) or not (address.isascii() and address.isprintable()):
        return None
    try:
        url, home = url_of(address), url_of(issuer)
    except AddressRefused:
        return None
    is_here = is_loopback(url.endpoint.host) and is_loopback(home.endpoint.host)
    return address if url.scheme == "https" or is_here else None


def keys_of(said: Mapping[str, Any]) -> KeySet:
    """Those that sign. Others, and what is no key, are passed over, as a provider may have some for other purposes.
    Raises `SigninRefused` where there is none."""
    listed = said.get("keys")
    keys: list[Key] = []
    for data in listed[:MOST_KEYS] if isinstance(listed, list) else ():
        if not isinstance(data, dict) or data.get("kty") not in ASYMMETRIC or data.get("use", "sig") != "sig":
            continue
        try:
            key = JWKRegistry.import_key(data)
            key.ensure_kid()
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        keys.append(key)
    if not keys:
        raise SigninRefused("jwks_uri", "The provider lists no key with which it signs: nothing of it can be checked.")
    return KeySet(keys)


def _shown(value: object) -> str:
    return ascii(value)[:200]
