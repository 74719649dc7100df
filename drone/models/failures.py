"""What providers say when they fail: a sentence without secrets, and whether trying again may help."""

from collections.abc import Mapping

from drone.agent.model import BadReply, ModelError
from drone.models.json_text import read, write
from drone.models.overflow import overflow_of
from drone.models.wait_told import header_seconds, spent_for_long, worded_seconds
from mcc.rules.patterns import Pattern

MAX_WORDS = 400
"""Characters of a provider's own words that are passed on."""

RETRYABLE = frozenset({408, 409, 425, 429})
NEVER = frozenset({501, 505})
"""What a server cannot do now it cannot do later either."""

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
_EMPTY_PURSE = frozenset(
    {"insufficient_quota", "billing_error", "insufficient_balance", "exceeded_current_quota_error"}
)
_LIMITED = frozenset({429, 503, 529})
"""Where the headers of rate limits say when there is room again."""

_BY_CHANCE = frozenset({"tool_use_failed"})
"""The model wrote a call that its server could not read; the next time it may write another."""

_ADVICE = {
    401: "Check the key of this provider",
    402: "Check the account's balance",
    403: "The key may not be allowed to use this model",
    404: "Check the model's name and the base_url",
    413: "The conversation is too large for this server",
}
_SECRET = Pattern(
    r"\b(?:sk|pk|rk|key|gsk|xai)[-_][\w*.-]{6,}|\bAIza[\w-]{6,}|\b(?:AQ|ya29)\.[\w.-]{6,}|(?i:bearer)\s+[\w.~+/=*-]{6,}"
)
_UNSEEN = Pattern(r"[\x00-\x20\x7f-\x{9f}\x{2028}\x{2029}]+")

_LOOKED_AT = 8_192
_LONGEST_KEY = 512
"""Characters of a provider's words that are looked at; of words that are cut, as many at the end may be half a key."""


def parsed(name: str, raw: bytes) -> object:
    """The JSON that a provider sent. Raises `BadReply`."""
    try:
        return read(raw)
    except ValueError as error:
        raise BadReply(f"{name} sent something that is not JSON.") from error


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
    told = _json_in(body)
    words, kinds = (_plain_words(body), frozenset[str]()) if told is None else _words_of(told)
    advice = _ADVICE.get(status, "")
    if status == 401 and key_name:
        advice = f"Check the key in {key_name}" if key else f"Set {key_name} to a key of this provider"
    said = " ".join(
        part for part in (f"{name} answered {status}{_quoted(words, key)}", advice and f"{advice}.") if part
    )
    if (overflow := overflow_of(said, words, kinds, status, body.decode("utf-8", "replace"))) is not None:
        return overflow
    if kinds & _BY_CHANCE:
        return BadReply(said, status=status)
    asked_for = header_seconds(headers, now, limited=status in _LIMITED)
    raw = body[:_LOOKED_AT].decode("utf-8", "replace")
    wait = worded_seconds(raw) if asked_for is None else asked_for
    return ModelError(
        said,
        retryable=_may_help(status) and not kinds & _EMPTY_PURSE and not (status == 429 and spent_for_long(raw, wait)),
        retry_after=wait,
        status=status,
    )


def told_inside(name: str, value: object) -> ModelError:
    """The error that came inside an answer of status 200. Without a known code it counts as passing."""
    words, kinds = _words_of(value)
    status = next((int(kind) for kind in kinds if kind.isdigit() and 400 <= int(kind) < 600), None)
    if status is None:
        status = next((_STATUS_BY_TYPE[kind] for kind in sorted(kinds) if kind in _STATUS_BY_TYPE), None)
    said = f"{name} broke off with an error{_quoted(words, '')}"
    if (overflow := overflow_of(said, words, kinds, status)) is not None:
        return overflow
    passing = status is None or _may_help(status)
    asked = write(value)[:_LOOKED_AT].decode("utf-8", "replace")
    wait = worded_seconds(asked)
    return ModelError(
        said,
        retryable=passing and not kinds & _EMPTY_PURSE and not (status == 429 and spent_for_long(asked, wait)),
        retry_after=wait,
        status=status,
    )


def _may_help(status: int) -> bool:
    return status in RETRYABLE or (500 <= status < 600 and status not in NEVER)


def _quoted(words: str, key: str) -> str:
    """The provider's words on one line, shortened, keys blotted out."""
    line = _UNSEEN.sub(" ", _whole_words(words, len(words))).strip()
    if len(key) >= 6:
        line = line.replace(key, "[key]")
    line = _SECRET.sub("[key]", line)
    if len(line) > MAX_WORDS:
        line = line[:MAX_WORDS].rstrip() + "…"
    return f": {line}" + ("" if line.endswith((".", "!", "?", "…")) else ".") if line else "."


def _whole_words(words: str, size: int) -> str:
    """Words of `size` as they are or, when they are or were cut, without the end that may hold half a key."""
    return words if size < _LOOKED_AT else words[: _LOOKED_AT - _LONGEST_KEY]


def _json_in(body: bytes) -> object:
    """The JSON of an error's body; None where it is none."""
    try:
        return read(body)
    except ValueError:
        return None


def _plain_words(body: bytes) -> str:
    """What an error's body says that is no JSON."""
    return _page(_whole_words(body.decode("utf-8", "replace"), len(body)))


def _page(text: str) -> str:
    """A page of HTML is told by its title; other text as it is."""
    if "<" not in text:
        return text
    lower = text.lower() if text.isascii() else text
    _, opened, rest = lower.partition("<title")
    begin = len(text) - len(rest) + rest.find(">") + 1
    end = lower.find("</title>", begin)
    return _without_tags(text[begin:end] if opened and ">" in rest and end >= 0 else text)


def _without_tags(text: str) -> str:
    """The text between the tags of a page; what a tag that is never closed hides is left out."""
    said: list[str] = []
    lower, at = text.lower() if text.isascii() else text, 0
    while (tag := text.find("<", at)) >= 0:
        said.append(text[at:tag])
        close = next((f"</{name}>" for name in ("script", "style") if lower.startswith(name, tag + 1)), ">")
        end = lower.find(close, tag)
        at = len(text) if end < 0 else end + len(close)
    return " ".join([*said, text[at:]])


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
                return " ".join(filter(None, (words, _passed_on(value)))), kinds | deeper
            kinds |= deeper
    return "", kinds


def _passed_on(error: Mapping[str, object]) -> str:
    """The words of the provider behind a router, which says itself no more than that there was an error."""
    beside = error.get("metadata")
    raw = beside.get("raw") if isinstance(beside, Mapping) else None
    return raw if isinstance(raw, str) else ""
