"""Signatures of deliveries: each scheme right, wrong, missing and, where it tells a time, too old."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from mcc.configuration.triggers import TriggerTable
from mcc.triggers.signatures import Received, is_signed, secret_problem
from tests.mcc.triggers.signing import AT, SECRET, STANDARD, gitea, github, hex_of, linear, slack, standard

BODY = b'{"a": 1}'
HMAC = {"header": "X-Sum", "prefix": "mac ", "encoding": "base64"}


def table(scheme: str, **fields: Any) -> TriggerTable:
    given = {"path": "a", "scheme": scheme, "secret_env": ["A"], "order": {"prompt": "x"}, **fields}
    return TriggerTable.model_validate(given)


def signed(
    scheme: str, headers: Mapping[str, str], body: bytes = BODY, *secrets: str, at: float = AT, **fields: Any
) -> bool:
    lowered = {name.lower(): value for name, value in headers.items()}
    return is_signed(table(scheme, **fields), secrets or (SECRET, STANDARD), Received(lowered, body, at))


def by_hmac(body: bytes) -> Mapping[str, str]:
    mac = hmac.new(SECRET.encode(), body, hashlib.sha256).digest()
    return {"X-Sum": "mac " + base64.b64encode(mac).decode()}


SIGNED: list[tuple[str, Mapping[str, str], dict[str, Any]]] = [
    ("github", github(BODY), {}),
    ("gitlab", {"X-Gitlab-Token": SECRET}, {}),
    ("gitlab", standard(BODY), {}),
    ("gitea", gitea(BODY), {}),
    ("gitea", gitea(BODY, "Forgejo"), {}),
    ("slack", slack(BODY), {}),
    ("linear", linear(BODY), {}),
    ("standard", standard(BODY), {}),
    ("hmac", by_hmac(BODY), HMAC),
    ("hmac", {"X-Sum": hex_of(BODY)}, {"header": "x-sum"}),
]


@pytest.mark.parametrize(("scheme", "headers", "fields"), SIGNED)
def test_who_has_the_secret_is_heard_and_nobody_else(
    scheme: str, headers: Mapping[str, str], fields: dict[str, Any]
) -> None:
    assert signed(scheme, headers, **fields)
    assert not signed(scheme, headers, BODY, "another-secret-of-a-hook", **fields)
    assert signed(scheme, headers, BODY, "another-secret-of-a-hook", SECRET, STANDARD, **fields)
    assert not signed(scheme, {}, **fields)
    assert not signed(scheme, dict.fromkeys(headers, ""), **fields)
    assert not signed(scheme, dict.fromkeys(headers, "é"), **fields)
    if "X-Gitlab-Token" not in headers:
        assert not signed(scheme, headers, BODY + b" ", **fields)


@pytest.mark.parametrize("sign", [slack, standard])
@pytest.mark.parametrize(("late", "counts"), [(300, True), (301, False), (-300, True), (-301, False)])
def test_what_was_signed_too_long_ago_or_too_far_ahead_is_not_heard(sign: Any, late: int, counts: bool) -> None:
    scheme = "slack" if sign is slack else "standard"
    assert signed(scheme, sign(BODY), at=AT + late) is counts


@pytest.mark.parametrize("stamp", ["", "x", "-1", "1e9", "٣", "9" * 400])
def test_a_timestamp_that_is_no_number_is_not_heard(stamp: str) -> None:
    assert not signed("slack", {**slack(BODY), "X-Slack-Request-Timestamp": stamp})
    assert not signed("standard", {**standard(BODY), "webhook-timestamp": stamp})


def test_the_id_of_standard_webhooks_is_signed_too() -> None:
    assert not signed("standard", {**standard(BODY), "webhook-id": "msg_2"})


def test_the_token_of_gitlab_does_not_stand_in_for_a_wrong_signature() -> None:
    wrong = {**standard(BODY), "webhook-signature": "v1,AAAA"}
    assert not signed("gitlab", {**wrong, "X-Gitlab-Token": SECRET})


def test_a_secret_of_standard_webhooks_has_to_be_one() -> None:
    assert secret_problem(table("standard"), STANDARD) is None
    assert "base64" in str(secret_problem(table("standard"), "whsec_not base64"))
    assert secret_problem(table("github"), "whsec_not base64") is None


@pytest.mark.parametrize(
    "fields",
    [
        {"scheme": "hmac"},
        {"scheme": "github", "header": "X-Sum"},
        {"scheme": "gitlab", "id": "payload.id"},
        {"path": "/a"},
        {"path": "a//b"},
        {"path": "a/../b"},
        {"secret_env": []},
        {"secret_env": ["A", "B", "C"]},
        {"max_body_mb": 26},
        {"max_body_mb": 0},
        {"turns_an_hour": 0},
        {"principal": "trigger:x"},
        {"order": None},
        {"wen": "true"},
    ],
)
def test_a_table_that_cannot_be_so_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        table(**{"scheme": "github", **fields})
