"""This room is for what providers say when they fail: a sentence without secrets, and whether trying again may help."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from drone.agent.ports import ModelError
from drone.models.json_text import read

MAX_WORDS = 400
"""Characters of a provider's own words that are passed on."""

RETRYABLE = frozenset({408, 409, 425, 429, 529})

_STATUS_BY_TYPE = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
}
_EMPTY_PURSE = frozenset({"insufficient_quota", "billing_error", "insufficient_balance"})
_ADVICE = {
    401: "Check the key of this provider",
    402: "Check the account's balance",
    403: "The key may not be allowed to use this model",
    404: "Check the model's name and the base_url",
    413: "The conversation is too large for this server",
}
_SECRET = re.compile(r"\b(?:sk|pk|rk|key|gsk|xai|AIza)[-_][\w*.-]{6,}|(?i:bearer)\s+[\w.~+/=*-]{6,}")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def parsed(name: str, raw: bytes) -> object:
    """The JSON that a provider sent. Raises `ModelError`."""
    try:
        return read(raw)
    except ValueError as error:
        raise ModelError(f"{name} sent something that is not JSON.", retryable=True) from error


def refused(
    name: str, status: int, headers: Mapping[str, str], body: bytes, *, now: float, key: str = "", key_name: str = ""
) -> ModelError:
    """The error of an answer whose status is not 200. `now` is in seconds since the epoch, for dates in Retry-After."""
    if 300 <= status < 400:
        return ModelError(
            f"{name} answered with a redirect ({status}), which is not followed because it would carry the key along; "
            "set base_url to the final address.",
            status=status,
        )
    words, kinds = _words(body)
    advice = _ADVICE.get(status, "")
    if status == 401 and key_name:
        advice = f"Check the key in {key_name}" if key else f"Set {key_name} to a key of this provider"
    return ModelError(
        " ".join(part for part in (f"{name} answered {status}{_quoted(words, key)}", advice and f"{advice}.") if part),
        retryable=_may_help(status) and not kinds & _EMPTY_PURSE,
        retry_after=retry_after(headers, now),
        status=status,
    )


def told_inside(name: str, value: object) -> ModelError:
    """The error that came inside an answer of status 200. Without a known code it counts as passing."""
    words, kinds = _words_of(value)
    status = next((int(kind) for kind in kinds if kind.isdigit() and 400 <= int(kind) < 600), None)
    if status is None:
        status = next((_STATUS_BY_TYPE[kind] for kind in sorted(kinds) if kind in _STATUS_BY_TYPE), None)
    passing = status is None or _may_help(status)
    return ModelError(
        f"{name} broke off with an error{_quoted(words, '')}",
        retryable=passing and not kinds & _EMPTY_PURSE,
        status=status,
    )


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the provider asks to wait; None when it says nothing that can be understood."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    said = headers.get("retry-after", "").strip()
    seconds = _number(said)
    if seconds is not None or not said:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _number(said: str) -> float | None:
    return float(said) if re.fullmatch(r"\s*\d{1,9}(\.\d{1,9})?\s*", said) else None


def _may_help(status: int) -> bool:
    return status in RETRYABLE or 500 <= status < 600


def _quoted(words: str, key: str) -> str:
    """The provider's words on one line, shortened, keys blotted out."""
    line = _UNSEEN.sub(" ", words).strip()
    if len(key) >= 6:
        line = line.replace(key, "[key]")
    line = _SECRET.sub("[key]", line)
    if len(line) > MAX_WORDS:
        line = line[:MAX_WORDS].rstrip() + "…"
    return f": {line}" + ("" if line.endswith((".", "!", "?", "…")) else ".") if line else "."


def _words(body: bytes) -> tuple[str, frozenset[str]]:
    try:
        return _words_of(read(body))
    except ValueError:
        return _page(body.decode("utf-8", "replace")), frozenset()


def _page(text: str) -> str:
    """A page of HTML is told by its title; other text as it is."""
    if "<" not in text:
        return text
    title = _TITLE.search(text)
    return _TAG.sub(" ", title[1] if title else text)


def _words_of(value: object) -> tuple[str, frozenset[str]]:
    """What an error body says, and its types and codes, for the shapes that providers use."""
    if isinstance(value, list):
        return _words_of(value[0]) if value else ("", frozenset())
    if not isinstance(value, dict):
        return (value, frozenset()) if isinstance(value, str) else ("", frozenset())
    kinds = frozenset(str(value[name]) for name in ("type", "code", "status", "finish_reason") if value.get(name))
    for name in ("error", "errors", "message", "detail", "error_msg", "msg", "title"):
        if inner := value.get(name):
            words, deeper = _words_of(inner)
            if words:
                return words, kinds | deeper
            kinds |= deeper
    return "", kinds
