"""Signs deliveries as their senders document it, by lines of its own."""

import base64
import hashlib
import hmac
from collections.abc import Mapping

SECRET = "a-secret-of-the-hook"
STANDARD = "whsec_" + base64.b64encode(b"k" * 24).decode()
AT = 1_800_000_000


def hex_of(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def github(body: bytes, event: str = "issues", delivery: str = "d-1", secret: str = SECRET) -> Mapping[str, str]:
    return {
        "X-Hub-Signature-256": "sha256=" + hex_of(body, secret),
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery,
        "Content-Type": "application/json",
    }


def gitea(body: bytes, brand: str = "Gitea") -> Mapping[str, str]:
    return {f"X-{brand}-Signature": hex_of(body), f"X-{brand}-Delivery": "d-1", "X-Gitea-Event": "issues"}


def linear(body: bytes) -> Mapping[str, str]:
    return {"Linear-Signature": hex_of(body), "Linear-Delivery": "d-1", "Linear-Event": "Issue"}


def slack(body: bytes, at: int = AT, kind: str = "application/json") -> Mapping[str, str]:
    signed = hex_of(b"v0:%d:%b" % (at, body))
    return {"X-Slack-Signature": f"v0={signed}", "X-Slack-Request-Timestamp": str(at), "Content-Type": kind}


def standard(body: bytes, at: int = AT, delivery: str = "msg_1", secret: str = STANDARD) -> Mapping[str, str]:
    key = base64.b64decode(secret[len("whsec_") :])
    mac = hmac.new(key, b"%b.%d.%b" % (delivery.encode(), at, body), hashlib.sha256).digest()
    return {
        "webhook-id": delivery,
        "webhook-timestamp": str(at),
        "webhook-signature": "v1,c3VyZWx5IG5vdA== v1," + base64.b64encode(mac).decode(),
    }
