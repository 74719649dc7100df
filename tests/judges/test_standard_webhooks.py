"""The judge `standardwebhooks`: it verifies what we sign, and what it signs or refuses, our triggers take or refuse."""

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from mcc.configuration.triggers import TriggerTable
from mcc.contracts.token_text import new_webhook_secret
from mcc.triggers.signatures import LATE_SECONDS, Received, is_signed
from mcc.webhooks.signing import headers_of

JUDGE = "standardwebhooks"

BODIES = {
    "empty object": b"{}",
    "of many scripts": '{"text": "Übergröße 測試 🙂 \\u202e"}'.encode(),
    "with points, as the signed text has": b'{"a": "1.2.3"}',
    "long": b'{"text": "' + b"x" * 200_000 + b'"}',
}
SCHEMES = ("standard", "gitlab")
"""The schemes of triggers whose senders sign in this way."""

EARLY, LATE = timedelta(seconds=LATE_SECONDS + 60), timedelta(seconds=-LATE_SECONDS - 60)


def now() -> datetime:
    """By the clock of this machine, which is the one that the judge looks at."""
    return datetime.now(UTC)


def table(scheme: str) -> TriggerTable:
    said = {"path": "x", "scheme": scheme, "secret_env": ["A"], "order": {"prompt": "x"}}
    return TriggerTable.model_validate(said)


def taken(scheme: str, secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a trigger of ours takes it."""
    return is_signed(table(scheme), (secret,), Received(headers, body, now().timestamp()))


def verified(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the judge takes it."""
    try:
        Webhook(secret).verify(body.decode(), dict(headers))
    except WebhookVerificationError:
        return False
    return True


def signed(secret: str, body: bytes, *, message_id: str = "msg_1", at: datetime | None = None) -> dict[str, str]:
    """By the judge."""
    moment = at or now()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, moment, body.decode()),
    }


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_we_sign_is_verified(body: bytes) -> None:
    secret = new_webhook_secret()
    assert verified(secret, headers_of("msg_1", now(), body, [secret]), body)


def test_while_a_secret_is_changed_either_one_verifies_what_we_sign() -> None:
    newer, former, neither = new_webhook_secret(), new_webhook_secret(), new_webhook_secret()
    headers = headers_of("msg_1", now(), b"{}", [newer, former])
    assert [verified(secret, headers, b"{}") for secret in (newer, former, neither)] == [True, True, False]


@pytest.mark.parametrize("at", [EARLY, LATE], ids=["from the future", "from the past"])
def test_what_we_signed_at_another_time_is_refused(at: timedelta) -> None:
    secret = new_webhook_secret()
    assert not verified(secret, headers_of("msg_1", now() + at, b"{}", [secret]), b"{}")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_the_judge_signs_is_taken(body: bytes, scheme: str) -> None:
    secret = new_webhook_secret()
    assert taken(scheme, secret, signed(secret, body), body)


Forge = Callable[[dict[str, str]], tuple[dict[str, str], bytes]]

FORGED: Mapping[str, Forge] = {
    "another body": lambda headers: (headers, b'{"a": 2}'),
    "another id": lambda headers: (headers | {"webhook-id": "msg_2"}, b'{"a": 1}'),
    "no id": lambda headers: (headers | {"webhook-id": ""}, b'{"a": 1}'),
    "another time": lambda headers: (headers | {"webhook-timestamp": str(int(now().timestamp()) - 7)}, b'{"a": 1}'),
    "no time": lambda headers: (headers | {"webhook-timestamp": ""}, b'{"a": 1}'),
    "a time that is none": lambda headers: (headers | {"webhook-timestamp": "now"}, b'{"a": 1}'),
    "no signature": lambda headers: (headers | {"webhook-signature": ""}, b'{"a": 1}'),
    "another version": lambda headers: (
        headers | {"webhook-signature": headers["webhook-signature"].replace("v1,", "v2,")},
        b'{"a": 1}',
    ),
    "a signature without its version": lambda headers: (
        headers | {"webhook-signature": headers["webhook-signature"].removeprefix("v1,")},
        b'{"a": 1}',
    ),
    "half of a signature": lambda headers: (
        headers | {"webhook-signature": headers["webhook-signature"][:20]},
        b'{"a": 1}',
    ),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_what_the_judge_refuses_our_triggers_refuse(forge: Forge, scheme: str) -> None:
    secret, body = new_webhook_secret(), b'{"a": 1}'
    good = signed(secret, body)
    assert verified(secret, good, body) and taken(scheme, secret, good, body), "as it was signed, both take it"
    headers, forged = forge(dict(good))
    try:
        is_verified = verified(secret, headers, forged)
    except ValueError:
        is_verified = False  # The judge expects that a signature names its version.
    assert not is_verified and not taken(scheme, secret, headers, forged)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("at", [EARLY, LATE], ids=["from the future", "from the past"])
def test_what_the_judge_signed_at_another_time_our_triggers_refuse_as_it_does(at: timedelta, scheme: str) -> None:
    secret = new_webhook_secret()
    headers = signed(secret, b"{}", at=now() + at)
    assert not verified(secret, headers, b"{}") and not taken(scheme, secret, headers, b"{}")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_good_signature_among_others_is_enough_for_both(scheme: str) -> None:
    secret = new_webhook_secret()
    headers = signed(secret, b"{}")
    other = base64.b64encode(b"x" * 32).decode()
    headers["webhook-signature"] = f"v1a,{other} v1,{other} {headers['webhook-signature']}"
    assert verified(secret, headers, b"{}") and taken(scheme, secret, headers, b"{}")
