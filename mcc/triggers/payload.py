"""What a delivery says: its payload, its event, its id, whether it tells of ourselves. All of it is untrusted text."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from mcc.configuration.triggers import TriggerScheme
from mcc.rules.patterns import Pattern

REPLY_MARK = "<!-- mcc-reply:"
"""Begins what this service has written at a forge. A delivery that holds it starts nothing."""

MADE_BY_US = "mcc_reply"
"""The type of the metadata of our messages in Slack; the rest of it is the id of the order."""

_MARK_KEPT = Pattern(r"mcc-reply:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What is left of the mark where a tracker writes comments in its own way."""

LINEAR_LATE_SECONDS = 60
FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 1_000

_EVENT = {
    "github": "x-github-event",
    "gitlab": "x-gitlab-event",
    "gitea": "x-gitea-event",
    "linear": "linear-event",
}
_DELIVERY = {
    "github": ("x-github-delivery",),
    "gitlab": ("idempotency-key",),
    "gitea": ("x-forgejo-delivery", "x-gitea-delivery"),
    "linear": ("linear-delivery",),
    "standard": ("webhook-id",),
}


class UnreadableBody(ValueError):
    """A body that is not what its scheme sends. The message is a sentence."""


@dataclass(frozen=True, slots=True)
class ReadDelivery:
    """What a delivery says. `id` None: it has none. `challenge`: what the sender wants to hear before it sends more."""

    payload: Any
    event: str
    id: str | None
    challenge: str | None = None


def read_payload(scheme: TriggerScheme, headers: Mapping[str, str], body: str) -> ReadDelivery:
    """Read the body of a delivery. Raises `UnreadableBody`."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        payload = _form(body) if scheme == "slack" and kind == FORM else _json(body)
    except UnreadableBody as problem:
        # As GitHub sends it, unless told otherwise.
        advice = " It is a form: let the webhook send application/json." if scheme != "slack" and kind == FORM else ""
        raise UnreadableBody(f"{problem}{advice}") from problem
    if scheme == "slack":
        return _of_slack(payload)
    event = headers.get(_EVENT.get(scheme, ""), "")
    if scheme == "standard":
        event = _text_at(payload, "type") or ""
    named = (headers.get(header) for header in _DELIVERY.get(scheme, ()))
    return ReadDelivery(payload, event, next(filter(None, named), None))


def is_late(scheme: TriggerScheme, payload: Any, at: float) -> bool:
    """Whether the payload itself, which is signed, says that it was sent too long ago."""
    if scheme != "linear":
        return False
    sent = payload.get("webhookTimestamp") if isinstance(payload, Mapping) else None
    if not isinstance(sent, int | float):
        return True
    # Compared, not subtracted: an integer may be larger than any float.
    return not (at - LINEAR_LATE_SECONDS) * 1_000 <= sent <= (at + LINEAR_LATE_SECONDS) * 1_000


def is_own(scheme: TriggerScheme, payload: Any) -> bool:
    """Whether it tells of something that this service has written itself."""
    return (scheme == "slack" and _is_own_bot(payload)) or any(
        REPLY_MARK in text or ("mcc-reply:" in text and _MARK_KEPT.search(text)) for text in _texts(payload)
    )


def _is_own_bot(payload: Any) -> bool:
    event = payload.get("event") if isinstance(payload, Mapping) else None
    if not isinstance(event, Mapping):
        return False
    # One that is changed, as by the preview of a link in it, stands within the event.
    for message in (event, event.get("message"), event.get("previous_message")):
        metadata = message.get("metadata") if isinstance(message, Mapping) else None
        if isinstance(metadata, Mapping) and metadata.get("event_type") == MADE_BY_US:
            # Another installation's, too: two that answer each other would never end.
            return True
        if isinstance(message, Mapping) and message.get("bot_id"):
            # The app that it is sent to, and the app that wrote the message, where Slack tells it.
            profile = message.get("bot_profile")
            writer = message.get("app_id") or (profile.get("app_id") if isinstance(profile, Mapping) else None)
            if writer is None or writer == payload.get("api_app_id"):
                return True
    return False


def _of_slack(payload: Any) -> ReadDelivery:
    if _text_at(payload, "type") == "url_verification":
        return ReadDelivery(payload, "url_verification", None, _text_at(payload, "challenge") or "")
    event = payload.get("event") if isinstance(payload, Mapping) else None
    named = _text_at(event, "type") or _text_at(payload, "command") or ""
    return ReadDelivery(payload, named, _text_at(payload, "event_id") or _text_at(payload, "trigger_id"))


def _text_at(payload: Any, key: str) -> str | None:
    value = payload.get(key) if isinstance(payload, Mapping) else None
    return value if isinstance(value, str) and value else None


def _json(body: str) -> Any:
    try:
        # By int, which refuses them: NaN and Infinity are no JSON.
        return json.loads(body, parse_constant=int)
    except RecursionError as error:
        raise UnreadableBody("The body is nested too deeply.") from error
    except ValueError as error:
        raise UnreadableBody("The body is not JSON.") from error


def _form(body: str) -> Mapping[str, str]:
    try:
        fields = parse_qsl(body, keep_blank_values=True, strict_parsing=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise UnreadableBody("The body is no form.") from error
    named = dict(fields)
    if len(named) != len(fields):
        raise UnreadableBody("The form has a field twice.")
    return named


def _texts(payload: Any) -> Iterator[str]:
    """All texts in it, but for the names of keys."""
    left = [payload]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            left += value.values()
        elif isinstance(value, list):
            left += value
