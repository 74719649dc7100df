"""A provider of identities that says whatever a test wants: a real one signs no forgeries.

It signs with joserfc and answers on a port of its own, so that what the product sends and reads is HTTP.
"""

import base64
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from mcc.contracts.shape import now
from mcc.oidc.signed import LOGOUT_EVENT

CLIENT = "mcc service"
ACCESS_TOKEN = "an-access-token"

Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
SigningKey: TypeAlias = RSAKey | ECKey | OKPKey


@cache
def rsa_key(kid: str = "rsa") -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


@cache
def ec_key(kid: str = "ec") -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


@cache
def okp_key(kid: str = "okp") -> OKPKey:
    return OKPKey.generate_key("Ed25519", {"kid": kid, "use": "sig"})


class Forger:
    """`facts`, `keys`, `tokens` and `userinfo` are what it answers; `claims` are those of the next ID token. `asked`:
    the paths of requests; `forms`: what was sent to its token endpoint, with the headers."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.at: Callable[[], datetime] = now
        self.facts: dict[str, Any] = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/keys",
            "userinfo_endpoint": f"{issuer}/userinfo",
            "end_session_endpoint": f"{issuer}/leave",
            "authorization_response_iss_parameter_supported": True,
        }
        self.keys: list[Mapping[str, Any]] = [public(rsa_key()), public(ec_key()), public(okp_key())]
        self.claims: dict[str, Any] = {"sub": "ann", "name": "Ann", "email": "ann@example.com", "groups": ["dev"]}
        self.tokens: dict[str, Any] = {"access_token": ACCESS_TOKEN, "token_type": "Bearer"}
        self.userinfo: dict[str, Any] = {"sub": "ann"}
        self.asked: list[str] = []
        self.forms: list[tuple[Mapping[str, str], Mapping[str, str]]] = []
        self.instead: dict[str, Answering] = {}
        self.sign: Callable[[dict[str, Any]], str] = signed

    def id_token(self, nonce: str | None, **changes: Any) -> str:
        """An ID token as it should be, but for `changes`; None leaves a claim out."""
        at = int(self.at().timestamp())
        stated = {"iss": self.issuer, "aud": CLIENT, "iat": at, "exp": at + 300, "nonce": nonce}
        claims = {**stated, **self.claims, **changes}
        return self.sign({claim: value for claim, value in claims.items() if value is not None})

    def logout_token(self, **changes: Any) -> str:
        """A logout token as it should be, but for `changes`; None leaves a claim out."""
        at = int(self.at().timestamp())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": at,
            "exp": at + 120,
            "jti": f"order-{len(self.asked)}-{at}",
            "sub": "ann",
            "events": {LOGOUT_EVENT: {}},
            **changes,
        }
        return self.sign({claim: value for claim, value in claims.items() if value is not None})

    def answer_to(self, address: str, **changes: str | None) -> dict[str, str]:
        """The query with which a browser comes back that was sent to `address`, but for `changes`. The code holds the
        question's nonce, so that the forger need not remember it."""
        asked = question_in(address)
        answer = {"code": asked["nonce"], "state": asked["state"], "iss": self.issuer, **changes}
        return {name: value for name, value in answer.items() if value is not None}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path in self.instead:
            return await self.instead[request.path](request)
        match request.path:
            case "/.well-known/openid-configuration":
                return web.json_response(self.facts)
            case "/keys":
                return web.json_response({"keys": self.keys})
            case "/token":
                form = {name: values[0] for name, values in parse_qs(await request.text()).items()}
                self.forms.append((form, dict(request.headers)))
                return web.json_response({"id_token": self.id_token(form.get("code")), **self.tokens})
            case "/userinfo":
                return web.json_response(self.userinfo)
        return web.Response(status=404)


@asynccontextmanager
async def forging() -> AsyncIterator[Forger]:
    """A forger that answers on a free port of this machine."""
    forgers: list[Forger] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return await forgers[0].answer(request)

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    forgers.append(Forger(f"http://127.0.0.1:{runner.addresses[0][1]}"))
    yield forgers[0]
    await runner.cleanup()


def public(key: SigningKey) -> Mapping[str, Any]:
    return key.as_dict(private=False)


def signed(claims: dict[str, Any], header: Mapping[str, Any] = {"alg": "RS256", "kid": "rsa"}, key: Any = None) -> str:
    """A token with these claims, signed as `header` says."""
    registry = JWSRegistry(algorithms=list(JWSRegistry.algorithms), strict_check_header=False)
    return jwt.encode(dict(header), claims, rsa_key() if key is None else key, registry=registry)


def question_in(address: str) -> dict[str, str]:
    """The parameters with which a browser is sent to the provider."""
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
