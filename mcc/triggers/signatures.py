"""Whether a delivery is signed by who shares the trigger's secret: over raw bytes, in constant time."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from mcc.configuration.triggers import TriggerTable

STANDARD_SECRET = "whsec_"
"""How a secret of Standard Webhooks begins; base64 of the key follows."""

LATE_SECONDS = 300
"""How far the timestamp of a signed one may be from now."""

MOST_SIGNATURES = 10
"""In one header of Standard Webhooks; further ones are not looked at."""

SIGNING = frozenset(
    {
        "authorization",
        "cookie",
        "linear-signature",
        "proxy-authorization",
        "webhook-signature",
        "x-forgejo-signature",
        "x-gitea-signature",
        "x-gitlab-token",
        "x-gogs-signature",
        "x-hub-signature",
        "x-hub-signature-256",
        "x-slack-signature",
    }
)
"""Headers, in lower case, that expressions do not see."""


@dataclass(frozen=True, slots=True)
class Received:
    """A delivery as it came. `headers`: by their names in lower case. `at`: seconds since 1970."""

    headers: Mapping[str, str]
    body: bytes
    at: float

    def header(self, name: str) -> str:
        return self.headers.get(name.lower(), "")


def secret_problem(table: TriggerTable, secret: str) -> str | None:
    """Why this cannot be a secret of the trigger's scheme."""
    if table.scheme == "standard" and _standard_key(secret) is None:
        return "a secret of Standard Webhooks is base64, with or without whsec_ before it"
    return None


def is_signed(table: TriggerTable, secrets: Sequence[str], received: Received) -> bool:
    """Whether one of the secrets has signed it, and not too long ago where the signature tells when. The scheme linear
    tells it in the body, which is not looked at here."""
    return any(_fits(table, secret, received) for secret in secrets)


def _fits(table: TriggerTable, secret: str, received: Received) -> bool:
    key, body = secret.encode(), received.body
    match table.scheme:
        case "github":
            return _same(received.header("X-Hub-Signature-256"), "sha256=" + _mac(key, body).hex())
        case "gitea":
            told = received.header("X-Forgejo-Signature") or received.header("X-Gitea-Signature")
            return _same(told, _mac(key, body).hex())
        case "linear":
            return _same(received.header("Linear-Signature"), _mac(key, body).hex())
        case "slack":
            stamp = received.header("X-Slack-Request-Timestamp")
            signed = _mac(key, b"v0:" + stamp.encode() + b":" + body)
            return _same(received.header("X-Slack-Signature"), "v0=" + signed.hex()) and _is_recent(stamp, received.at)
        case "gitlab":
            # Whoever leaves the signature away has to know the secret itself.
            if "webhook-signature" in received.headers:
                return secret.startswith(STANDARD_SECRET) and _is_standard(secret, received)
            return _same(received.header("X-Gitlab-Token"), secret)
        case "standard":
            return _is_standard(secret, received)
        case "hmac":
            mac = _mac(key, body)
            written = mac.hex() if table.encoding == "hex" else base64.b64encode(mac).decode()
            return _same(received.header(table.header or ""), table.prefix + written)
        case _:
            assert_never(table.scheme)


def _is_standard(secret: str, received: Received) -> bool:
    key, stamp = _standard_key(secret), received.header("webhook-timestamp")
    delivery = received.header("webhook-id")
    if key is None or not delivery or not _is_recent(stamp, received.at):
        return False
    signed = _mac(key, f"{delivery}.{stamp}.".encode() + received.body)
    expected = "v1," + base64.b64encode(signed).decode()
    told = received.header("webhook-signature").split(" ")[:MOST_SIGNATURES]
    return any(_same(each, expected) for each in told)


def _standard_key(secret: str) -> bytes | None:
    try:
        return base64.b64decode(secret.removeprefix(STANDARD_SECRET), validate=True)
    except (binascii.Error, ValueError):
        return None


def _is_recent(stamp: str, at: float) -> bool:
    return stamp.isascii() and stamp.isdecimal() and len(stamp) < 16 and abs(at - int(stamp)) <= LATE_SECONDS


def _mac(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, hashlib.sha256)


def _same(told: str, expected: str) -> bool:
    return hmac.compare_digest(told.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass"))
