"""Chat completions at OpenAI (strict about parameter names) and at Azure; thinking levels as OpenAI's efforts."""

from collections.abc import Collection, Set

from drone.models.dialects.differences import Differences, Levels, efforts

_STEPS = {
    "off": ("none", "minimal", "low", "medium", "high"),
    "minimal": ("minimal", "low", "medium", "high"),
    "low": ("low", "medium", "high"),
    "medium": ("medium", "high"),
    "high": ("high", "medium"),
    "xhigh": ("xhigh", "high", "medium"),
    "max": ("max", "xhigh", "high", "medium"),
}
"""Per level the efforts to try, nearest first; the model itself reports which it refuses."""

_REFUSED = "effort "
_OWN_WORDS = {"off": "none"}


def not_taken(levels: Collection[str]) -> frozenset[str]:
    """Marks of the efforts to treat as refused by a model that is known to accept only these levels; empty if no levels
    are known."""
    words = {_OWN_WORDS.get(level, level) for level in levels}
    return frozenset(_REFUSED + words_of[0] for words_of in _STEPS.values() if words and words_of[0] not in words)


def effort(thinking: str, without: Set[str]) -> str | None:
    """The level's nearest effort that was not refused; None: the request leaves effort out."""
    return next((word for word in _STEPS.get(thinking, ()) if _REFUSED + word not in without), None)


def effort_refused(sent: object, words: str) -> str | None:
    """The mark to add to the refused parameters if the provider's words complain about the effort that was sent, else
    None."""
    if not isinstance(sent, str) or f"'{sent}'" not in words:
        return None
    complains = "not supported" in words or "does not support" in words or "nsupported value" in words
    return _REFUSED + sent if complains or "nvalid value" in words else None


def replaced(thinking: str, without: Set[str]) -> str | None:
    """Phrase for what is sent instead of a refused level; None if nothing was refused."""
    wanted, word = effort(thinking, frozenset()), effort(thinking, without)
    if word == wanted:
        return None
    return f"effort {word}" if word else "no word on effort"


_LEVELS = efforts("none", "minimal", "low", "medium", "high", "xhigh", "max")


def levels(model: str) -> Levels:
    return _LEVELS


OPENAI = Differences(
    name="openai",
    levels=levels,
    output_cap="max_completion_tokens",
    no_effort="none",
    takes=frozenset(("service_tier", "prompt_cache_key")),
    thinking_back="",
    leaks=False,
)


AZURE = Differences(
    name="azure",
    key_header="api-key",
    levels=levels,
    output_cap="max_completion_tokens",
    no_effort="none",
    takes=frozenset(("service_tier", "prompt_cache_key")),
    thinking_back="",
    leaks=False,
)
