"""Signatures of Standard Webhooks."""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime

from mcc.contracts.token_text import WEBHOOK_SECRET_PREFIX


def headers_of(message_id: str, at: datetime, body: bytes, secrets: Sequence[str]) -> Mapping[str, str]:
    """The headers by which a receiver knows whom this body is from: a signature by each secret. `at`: of this try."""
    seconds = str(int(at.timestamp()))
    signed = b".".join((message_id.encode(), seconds.encode(), body))
    keys = [base64.b64decode(secret.removeprefix(WEBHOOK_SECRET_PREFIX)) for secret in secrets]
    signatures = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
