"""Provider errors: a sentence without secrets, and whether and when to retry."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from drone.agent.ports.model import BadReply, ModelError
from drone.models.json_text import read, write
from drone.models.overflow import overflow_of
from mcc.rules.patterns import Pattern

LONGEST_RETRY_AFTER = 366 * 86_400.0
SOON_SECONDS = 60.0
"""A provider that mentions a daily limit but a shorter wait than this has named the time of another limit."""

EPOCH_SECONDS, EPOCH_MILLISECONDS = 1e9, 1e12
"""Numbers from here on are points in time, in seconds or milliseconds since 1970."""

_NUMBER = Pattern(r"\s*\d{1,9}(\.\d{1,9})?\s*")
_MOMENT = Pattern(r"\s*\d{10,13}(\.\d{1,9})?\s*")
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)"
_PART = Pattern(rf"(?i)(\d{{1,9}}(?:\.\d{{1,9}})?)\s{{0,2}}({_UNIT})")
_DURATION = Pattern(rf"(?i)\s*(?:\d{{1,9}}(?:\.\d{{1,9}})?\s{{0,2}}{_UNIT}\s{{0,2}})+")
_WORDED = Pattern(
    r"(?i)(?:try(?: your request)? again|retry|retrying|reset|resets|available|wait)"
    r"(?: again)?(?: in| after| for)?(?: about| approximately)?\s"
    rf"((?:\d{{1,9}}(?:\.\d{{1,9}})?\s{{0,2}}{_UNIT}(?:[\s,]| and){{0,2}})+)(?:[^a-z0-9]|$)"
)
_DELAY = Pattern(r'"retryDelay"\s*:\s*"(\d{1,9}(?:\.\d{1,9})?s)"')
_LONG_LIMIT = Pattern(
    r"(?i)\bper[ -_]?(?:day|month)\b|PerDay|\b(?:daily|monthly)\b|\b[RT]PD\b|for today|"
    r"check your plan and billing|credit balance is too low|out of credits"
)
_IN_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def header_seconds(headers: Mapping[str, str], now: float, *, limited: bool = True) -> float | None:
    """Seconds to wait according to the headers; None if they say nothing intelligible. `now`: seconds since the epoch.
    `limited`: the answer reports a rate limit, so the reset times of rate limits count too."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after", "").strip()
    seconds = _number(header)
    if seconds is not None:
        return seconds
    if header and (date := _date(header, now)) is not None:
        return date
    return _until_reset(headers, now) if limited else None


def worded_seconds(words: str) -> float | None:
    """Seconds to wait according to a sentence such as "try again in 1m6.5s"; None if there is none."""
    if (found := _DELAY.search(words)) is not None:
        return _duration(str(found[1]))
    if (found := _WORDED.search(words)) is not None:
        return _duration(str(found[1]))
    return None


def is_quota_exhausted(words: str, retry_after: float | None) -> bool:
    """Whether a quota of a day or more, or the account's balance, is used up and the provider named no time worth
    waiting for."""
    if retry_after is not None and retry_after >= SOON_SECONDS:
        return False
    found = [match.group() for match in _LONG_LIMIT.finditer(words)]
    # Some providers mention plan and billing with every limit: together with a time, those words mean nothing.
    return any("billing" not in one.lower() for one in found) if retry_after is not None else bool(found)


def _until_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until all exhausted limits have room again; if none is reported as exhausted, until the nearest reset."""
    limits = list(_limits(headers, now))
    used = [seconds for seconds, is_used in limits if is_used]
    return max(used) if used else min((seconds for seconds, _ in limits), default=None)


def _limits(headers: Mapping[str, str], now: float) -> Iterator[tuple[float, bool]]:
    """The limits in the headers: seconds until the reset, and whether the limit is reported as exhausted."""
    for name, value in headers.items():
        name = name.lower()
        if "ratelimit" not in name or "reset" not in name:
            continue
        seconds = _until(value, now)
        if seconds is not None:
            yield seconds, headers.get(name.replace("reset", "remaining"), "").strip() in ("0", "0.0")


def _until(text: str, now: float) -> float | None:
    """Seconds from `now` for "6m0s", "12", a point in time since the epoch or an ISO 8601 date."""
    if _MOMENT.fullmatch(text):
        moment = float(text)
        return _future(moment / 1000 if moment >= EPOCH_MILLISECONDS else moment, now)
    seconds = _number(text)
    if seconds is not None:
        return _future(seconds, now) if seconds >= EPOCH_SECONDS else seconds
    if _DURATION.fullmatch(text):
        return _duration(text)
    try:
        date = datetime.fromisoformat(text.strip())
        return _future((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp(), now)
    except (ValueError, OverflowError):
        return None


def _future(moment: float, now: float) -> float | None:
    left = max(0.0, moment - now)
    return left if left <= LONGEST_RETRY_AFTER else None


def _duration(text: str) -> float:
    return sum(float(found[1]) * _unit_seconds(str(found[2]).lower()) for found in _PART.finditer(text))


def _unit_seconds(unit: str) -> float:
    return 0.001 if unit == "ms" or unit.startswith("milli") else _IN_SECONDS[unit[0]]


def _date(text: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


MAX_WORDS = 400
"""Characters of a provider's own words that are passed on."""

RETRYABLE = frozenset({408, 409, 425, 429})
NOT_RETRYABLE = frozenset({501, 505})
"""Server errors that a later try cannot change."""

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
    "invalid_prompt": 400,
    "data_residency_mismatch": 400,
    "bio_policy": 400,
    "misalignment_policy_violation": 400,
    "content_policy_violation": 400,
}
_NO_BALANCE = frozenset({"insufficient_quota", "billing_error", "insufficient_balance", "exceeded_current_quota_error"})
_LIMITED = frozenset({429, 503, 529})
"""Statuses with which rate-limit headers say when to try again."""

_TRANSIENT_CODES = frozenset({"tool_use_failed"})
"""The model wrote a call that its server could not parse; another try may produce a valid one."""

_ADVICE = {
    402: "Check the account's balance",
    403: "The key may not be allowed to use this model",
    404: "Check the model's name and the base_url",
    405: "Check the base_url",
    413: "The conversation is too large for this server",
    501: "Check the base_url",
}
_PAGE = "That is a page and no reply of a model: check base_url, which often ends with /v1"
_NO_STREAM = Pattern(r"(?i)stream[^.]{0,60}(?:not |un)support|(?:not |un)support[^.]{0,60}stream")
_SECRET = Pattern(
    r"\b(?:sk|pk|rk|key|gsk|xai)[-_][\w*.-]{6,}|\bAIza[\w-]{6,}|\b(?:AQ|ya29)\.[\w.-]{6,}|(?i:bearer)\s+[\w.~+/=*-]{6,}"
)
_UNSEEN = Pattern(r"[\x00-\x20\x7f-\x{9f}\x{2028}\x{2029}]+")

_LOOKED_AT = 8_192
_LONGEST_KEY = 512
"""Longest key looked for, in characters. This many characters at the end of words that were cut may be part of a
key."""


def parsed(name: str, raw: bytes) -> object:
    """The JSON that a provider sent. Raises `BadReply`."""
    try:
        return read(raw)
    except ValueError as error:
        raise BadReply(f"{name} sent something that is not JSON.") from error


@dataclass(frozen=True, slots=True)
class UsedKey:
    """The key of a call: "" where none was sent. `name`: the variable that should hold it, or "key_command".
    `withheld`: a variable that is set and whose key goes to its provider's own address only."""

    key: str = field(default="", repr=False)
    name: str = ""
    withheld: str = ""

    def advice(self) -> str:
        """What to do about an answer that asks for a key, or for another one."""
        if self.key:
            return f"Check the key in {self.name}" if self.name else "Check the key of this provider"
        if self.name:
            return f"Set {self.name} to a key of this provider"
        withheld = f": that in {self.withheld} goes to its provider's own address only" if self.withheld else ""
        return f'No key was sent{withheld}. Name the variable that holds one in mcc.toml: api_key_env = "VARIABLE"'


_NO_KEY = UsedKey()


def refused(
    name: str, status: int, headers: Mapping[str, str], body: bytes, *, now: float, key: UsedKey = _NO_KEY
) -> ModelError:
    """The error for an answer whose status is not 200. `now`: seconds since the epoch, for dates in Retry-After."""
    if 300 <= status < 400:
        return ModelError(
            f"{name} answered with a redirect ({status}), which is not followed because it would carry the key along; "
            "set base_url to the final address.",
            status=status,
        )
    parsed = _json_in(body)
    words, kinds = (_plain_words(body), frozenset[str]()) if parsed is None else _words_of(parsed)
    advice = key.advice() if status == 401 else _advice(status, words)
    said = " ".join(
        part for part in (f"{name} answered {status}{_quoted(words, key.key)}", advice and f"{advice}.") if part
    )
    if (overflow := overflow_of(said, words, kinds, status, body.decode("utf-8", "replace"))) is not None:
        return overflow
    if kinds & _TRANSIENT_CODES:
        return BadReply(said, status=status)
    asked_for = header_seconds(headers, now, limited=status in _LIMITED)
    raw = body[:_LOOKED_AT].decode("utf-8", "replace")
    wait = worded_seconds(raw) if asked_for is None else asked_for
    return ModelError(
        said,
        retryable=_is_transient(status)
        and not kinds & _NO_BALANCE
        and not (status == 429 and is_quota_exhausted(raw, wait)),
        retry_after=wait,
        status=status,
    )


def _advice(status: int, words: str) -> str:
    if status == 200:
        return _PAGE
    if status in (400, 405, 415, 422, 501) and _NO_STREAM.search(words[:_LOOKED_AT]):
        return "Set stream = false for this model in mcc.toml"
    return _ADVICE.get(status, "")


def error_inside(name: str, value: object) -> ModelError:
    """The error inside an answer of status 200. Without a known code it counts as transient."""
    words, kinds = _words_of(value)
    status = next((int(kind) for kind in kinds if kind.isdigit() and 400 <= int(kind) < 600), None)
    if status is None:
        status = next((_STATUS_BY_TYPE[kind] for kind in sorted(kinds) if kind in _STATUS_BY_TYPE), None)
    said = f"{name} broke off with an error{_quoted(words, '')}"
    if (overflow := overflow_of(said, words, kinds, status)) is not None:
        return overflow
    passing = status is None or _is_transient(status)
    asked = write(value)[:_LOOKED_AT].decode("utf-8", "replace")
    wait = worded_seconds(asked)
    return ModelError(
        said,
        retryable=passing and not kinds & _NO_BALANCE and not (status == 429 and is_quota_exhausted(asked, wait)),
        retry_after=wait,
        status=status,
    )


def _is_transient(status: int) -> bool:
    return status in RETRYABLE or (500 <= status < 600 and status not in NOT_RETRYABLE)


def _quoted(words: str, key: str) -> str:
    """The provider's words on one line, shortened, with keys blotted out."""
    line = _UNSEEN.sub(" ", _whole_words(words, len(words))).strip()
    if len(key) >= 6:
        line = line.replace(key, "[key]")
    line = _SECRET.sub("[key]", line)
    if len(line) > MAX_WORDS:
        line = line[:MAX_WORDS].rstrip() + "…"
    return f": {line}" + ("" if line.endswith((".", "!", "?", "…")) else ".") if line else "."


def _whole_words(words: str, size: int) -> str:
    """`words` without the end that may hold part of a key, if they exceed `size` or were cut; else unchanged."""
    return words if size < _LOOKED_AT else words[: _LOOKED_AT - _LONGEST_KEY]


def _json_in(body: bytes) -> object:
    """The JSON of an error's body; None if it is not JSON."""
    try:
        return read(body)
    except ValueError:
        return None


def _plain_words(body: bytes) -> str:
    """The text of an error's body that is not JSON."""
    return _page(_whole_words(body.decode("utf-8", "replace"), len(body)))


def _page(text: str) -> str:
    """The title of an HTML page; other text unchanged."""
    if "<" not in text:
        return text
    lower = text.lower() if text.isascii() else text
    _, opened, rest = lower.partition("<title")
    begin = len(text) - len(rest) + rest.find(">") + 1
    end = lower.find("</title>", begin)
    return _without_tags(text[begin:end] if opened and ">" in rest and end >= 0 else text)


def _without_tags(text: str) -> str:
    """The text between the tags of a page, without anything hidden by an unclosed tag."""
    pieces: list[str] = []
    lower, at = text.lower() if text.isascii() else text, 0
    while (tag := text.find("<", at)) >= 0:
        pieces.append(text[at:tag])
        close = next((f"</{name}>" for name in ("script", "style") if lower.startswith(name, tag + 1)), ">")
        end = lower.find(close, tag)
        at = len(text) if end < 0 else end + len(close)
    return " ".join([*pieces, text[at:]])


_KINDS = ("type", "code", "Code", "error_code", "status", "status_code", "finish_reason")
_WORDS = (
    *("error", "Error", "errors", "message", "Message", "detail", "error_msg", "error_message", "errorMessage", "msg"),
    *("base_resp", "status_msg", "Response", "header", "fault", "faultstring", "reason", "description", "details"),
    "title",
)


def _words_of(value: object) -> tuple[str, frozenset[str]]:
    """The message of an error body, and its types and codes, in any of the shapes that providers use."""
    if isinstance(value, list):
        return _words_of(value[0]) if value else ("", frozenset())
    if not isinstance(value, dict):
        return (value, frozenset()) if isinstance(value, str) else ("", frozenset())
    kinds = frozenset(str(value[name]) for name in _KINDS if value.get(name))
    for name in _WORDS:
        if inner := value.get(name):
            words, deeper = _words_of(inner)
            if words:
                return " ".join(filter(None, (words, _upstream_words(value)))), kinds | deeper
            kinds |= deeper
    return "", kinds


def _upstream_words(error: Mapping[str, object]) -> str:
    """The words of the provider behind a router, whose own message says only that there was an error."""
    beside = error.get("metadata")
    raw = beside.get("raw") if isinstance(beside, Mapping) else None
    return raw if isinstance(raw, str) else ""
