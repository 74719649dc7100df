"""Differences between servers that speak chat completions, with defaults that fit most of them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from drone.models.remote import ModelEndpoint
from mcc.rules.patterns import Pattern

Parameters: TypeAlias = Mapping[str, object]
Levels: TypeAlias = Mapping[str, Parameters]
"""From thinking level to the parameters that request it; a missing level cannot be requested."""

NOTHING: Parameters = {}
CAP_PREFIX = "max_tokens above "
"""Prefix, in `without`, of the server's maximum of output tokens."""

_STATED_CAP = (
    Pattern(r"max_tokens: \d{1,9} > (\d{1,9})"),
    Pattern(r"supports at most (\d{1,9}) completion tokens"),
    Pattern(r"max_(?:output_|completion_)?tokens'?: integer above maximum value\. Expected a value <= (\d{1,9})"),
    Pattern(r"max_(?:completion_)?tokens`? must be less than or equal to `?(\d{1,9})"),
    Pattern(r"valid range of max_tokens is \[1, ?(\d{1,9})\]"),
)
_STATED_BOUND = Pattern(r"(?i)max_?output_?tokens[^.]{0,100} to (\d{1,9}) \(exclusive\)")
LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
THINKING_LEVELS = LEVELS[1:]


def efforts(*words: str) -> Levels:
    """`reasoning_effort` in a server's words for `off` to `max`; an empty word stands for a level it lacks."""
    return {level: {"reasoning_effort": word} for level, word in zip(LEVELS, words, strict=True) if word}


def for_all(levels: Levels) -> Callable[[str], Levels]:
    """These levels for every model."""
    return lambda model: levels


COMMON = for_all(efforts("none", "minimal", "low", "medium", "high", "xhigh", "xhigh"))
OPEN_WEIGHTS = efforts("", "low", "low", "medium", "high", "high", "high")
"""Levels of gpt-oss, which always thinks."""


def within_cap(most: int | None, without: frozenset[str]) -> int | None:
    """The output cap for a request, limited to the maximum that the server stated."""
    limits = (int(name.removeprefix(CAP_PREFIX)) for name in without if name.startswith(CAP_PREFIX))
    return None if most is None else min((most, *limits))


def cap_refused(most: int | None, words: str) -> str | None:
    """The mark to add to `without` if a server refuses `most` output tokens in these words and states its maximum, else
    None."""
    found = next(filter(None, (pattern.search(words) for pattern in _STATED_CAP)), None)
    below = _STATED_BOUND.search(words)
    named = int(found[1]) if found else int(below[1]) - 1 if below else 0
    return f"{CAP_PREFIX}{named}" if most and 0 < named < most else None


def cap_not_sent(name: str, most: int | None, without: frozenset[str], caps: Collection[str]) -> Iterator[str]:
    """Sentences for people if the cap of `most` tokens exceeds the server's maximum, or cannot be sent under any of
    `caps`, the names that the wire format has for it."""
    if most is None:
        return
    if without.issuperset(caps):
        yield f"{name} does not take a cap on its output; it is not sent."
    elif (lowered := within_cap(most, without)) is not None and lowered < most:
        yield f"{name} gives at most {lowered:,} tokens of output, and more was asked for."


_EFFORTS = {
    "off": ("none", "minimal", "low", "medium", "high"),
    "minimal": ("minimal", "low", "medium", "high"),
    "low": ("low", "medium", "high"),
    "medium": ("medium", "high"),
    "high": ("high", "medium"),
    "xhigh": ("xhigh", "high", "medium"),
    "max": ("max", "xhigh", "high", "medium"),
}
"""Per level the efforts to try, nearest first; the model itself reports which it refuses."""

_REFUSED_EFFORT = "effort "
_OWN_WORDS = {"off": "none"}


def unsupported_efforts(levels: Collection[str]) -> frozenset[str]:
    """Marks of the efforts to treat as refused by a model that is known to accept only these levels; empty if no levels
    are known."""
    words = {_OWN_WORDS.get(level, level) for level in levels}
    return frozenset(
        _REFUSED_EFFORT + efforts_of[0] for efforts_of in _EFFORTS.values() if words and efforts_of[0] not in words
    )


def effort(thinking: str, without: Set[str]) -> str | None:
    """The level's nearest effort that was not refused; None: the request leaves effort out."""
    return next((word for word in _EFFORTS.get(thinking, ()) if _REFUSED_EFFORT + word not in without), None)


def effort_refused(sent: object, words: str) -> str | None:
    """The mark to add to the refused parameters if the provider's words complain about the effort that was sent, else
    None."""
    if not isinstance(sent, str) or f"'{sent}'" not in words:
        return None
    complains = "not supported" in words or "does not support" in words or "nsupported value" in words
    return _REFUSED_EFFORT + sent if complains or "nvalid value" in words else None


def replacement_for(thinking: str, without: Set[str]) -> str | None:
    """Phrase for what is sent instead of a refused level; None if nothing was refused."""
    wanted, word = effort(thinking, frozenset()), effort(thinking, without)
    if word == wanted:
        return None
    return f"effort {word}" if word else "no word on effort"


def as_it_is(call_id: str) -> str:
    return call_id


def never(model: str) -> bool:
    return False


def unsigned(model: str) -> Parameters:
    return NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """How one server speaks chat completions; the defaults fit most servers.

    `name` keeps encoded messages of different servers apart. `levels`, `caches` and `unsigned_call` take the model's
    name: the thinking levels it offers, whether it needs prompt cache marks, and what is sent with the first call of a
    reply by another model.

    `always`: parameters of every request. `output_cap`: the parameter that caps the output. `stream_usage`: usage of a
    stream must be requested. `no_effort`: the value of `reasoning_effort` for models that refuse effort together with
    tools; empty if omitting it is enough. `takes`: settings sent under their own names.

    `call_id` converts our call ids to ids that the server accepts. `thinking_back`: the field that returns thinking
    together with the calls it led to, empty for none; `always_thought`: the field is required even for replies without
    thinking. `user_after_tool`: a user's message may follow a tool's result.

    `leaks`: the server may leave thinking and calls in the text, in the syntax of the model's chat template.
    """

    name: str = "chat"
    levels: Callable[[str], Levels] = COMMON
    output_cap: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    always: Parameters = field(default_factory=dict)
    stream_usage: bool = True
    no_effort: str = ""
    takes: frozenset[Literal["service_tier", "prompt_cache_key"]] = frozenset()
    key_header: Literal["authorization", "api-key"] = "authorization"
    call_id: Callable[[str], str] = as_it_is
    thinking_back: Literal["", "reasoning_content", "reasoning"] = "reasoning_content"
    always_thought: bool = False
    user_after_tool: bool = True
    caches: Callable[[str], bool] = never
    unsigned_call: Callable[[str], Parameters] = unsigned
    leaks: bool = True

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The header with the key. A token of an identity provider (three parts with dots) is always a bearer token."""
        if not key:
            return {}
        token = key.startswith("eyJ") and key.count(".") == 2
        return {"api-key": key} if self.key_header == "api-key" and not token else {"authorization": f"Bearer {key}"}


def address(endpoint: ModelEndpoint, path: str) -> str:
    """The URL of `path` at a server whose base_url may end in a query (an api-version)."""
    parts = urlsplit(endpoint.base_url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}"))
