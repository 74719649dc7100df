"""What differs between servers that speak chat completions, and what is the same for most of them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from drone.models.remote import Endpoint
from mcc.rules.patterns import Pattern

Parameters: TypeAlias = Mapping[str, object]
Levels: TypeAlias = Mapping[str, Parameters]
"""How much a model is to think, to the parameters that ask for it; a level that is missing cannot be asked for."""

NOTHING: Parameters = {}
ABOVE = "max_tokens above "
"""Stands before the most tokens of output that a server gives, among what its requests leave out."""

_MOST = (
    Pattern(r"max_tokens: \d{1,9} > (\d{1,9})"),
    Pattern(r"supports at most (\d{1,9}) completion tokens"),
    Pattern(r"max_(?:output_|completion_)?tokens'?: integer above maximum value\. Expected a value <= (\d{1,9})"),
    Pattern(r"max_(?:completion_)?tokens`? must be less than or equal to `?(\d{1,9})"),
    Pattern(r"valid range of max_tokens is \[1, ?(\d{1,9})\]"),
)
_BELOW = Pattern(r"(?i)max_?output_?tokens[^.]{0,100} to (\d{1,9}) \(exclusive\)")
LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
THINKING_LEVELS = LEVELS[1:]


def efforts(*words: str) -> Levels:
    """`reasoning_effort` in a server's words for `off` to `max`; an empty word is a level that it does not have."""
    return {level: {"reasoning_effort": word} for level, word in zip(LEVELS, words, strict=True) if word}


def for_all(levels: Levels) -> Callable[[str], Levels]:
    """These levels, whatever the model."""
    return lambda model: levels


COMMON = for_all(efforts("none", "minimal", "low", "medium", "high", "xhigh", "xhigh"))
OPEN_WEIGHTS = efforts("", "low", "low", "medium", "high", "high", "high")
"""Of gpt-oss, which always thinks."""


def within_cap(most: int | None, without: frozenset[str]) -> int | None:
    """The cap on output that a request asks for: never above what the server said that it gives."""
    limits = (int(name.removeprefix(ABOVE)) for name in without if name.startswith(ABOVE))
    return None if most is None else min((most, *limits))


def cap_refused(most: int | None, words: str) -> str | None:
    """What requests leave out from now on where a server refuses an output of `most` tokens in these words."""
    found = next(filter(None, (pattern.search(words) for pattern in _MOST)), None)
    below = _BELOW.search(words)
    named = int(found[1]) if found else int(below[1]) - 1 if below else 0
    return f"{ABOVE}{named}" if most and 0 < named < most else None


def cap_not_sent(name: str, most: int | None, without: frozenset[str], caps: Collection[str]) -> Iterator[str]:
    """Sentences for people whose cap of `most` tokens is more than the server gives, or is told under none of `caps`,
    the names that its form has for it."""
    if most is None:
        return
    if without.issuperset(caps):
        yield f"{name} does not take a cap on its output; it is not sent."
    elif (given := within_cap(most, without)) is not None and given < most:
        yield f"{name} gives at most {given:,} tokens of output, and more was asked for."


def as_it_is(call_id: str) -> str:
    return call_id


def never(model: str) -> bool:
    return False


def unsigned(model: str) -> Parameters:
    return NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """One server's way to speak chat completions; what is said here is what most servers do.

    `name` tells bytes of one server from those of another. `levels`, `caches` and `unsigned_call` go by the model's
    name: how much it can be asked to think, whether it wants marks for its prompt cache, and what goes back with the
    first call of a reply that another model gave.

    `always` are parameters of every request, `output_cap` the one that caps the output; `stream_usage`: the usage of a
    stream has to be asked for. `no_effort` is what `reasoning_effort` says where it is refused beside tools, empty
    where leaving it out is enough. `takes`: the knobs that are told under their own names.

    `call_id` makes an id that the server takes of one of ours. `thinking_back` is the field in which thinking goes back
    with the calls that it led to, empty: it does not; `always_thought`: calls of a model that did not think are refused
    without that field too. `user_after_tool`: a user's message may follow a tool's result.

    `leaks`: the server may leave in the text what a template of the model's makers put there, thinking and calls.
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
        """The header with the key. A token of an identity provider, three parts with dots, is a bearer's everywhere."""
        if not key:
            return {}
        token = key.startswith("eyJ") and key.count(".") == 2
        return {"api-key": key} if self.key_header == "api-key" and not token else {"authorization": f"Bearer {key}"}


def address(endpoint: Endpoint, path: str) -> str:
    """The address of `path` at a server whose base_url may end in a query (an api-version)."""
    parts = urlsplit(endpoint.base_url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}"))
