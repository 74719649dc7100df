"""Mistral: ids of nine letters and digits, no user's message after a tool's result, no thinking back."""

import hashlib
import string
from dataclasses import replace
from functools import lru_cache

from drone.models.dialects.differences import THINKING_LEVELS, Differences, Levels, efforts

_LETTERS = string.ascii_letters + string.digits
_LETTERS_OF_AN_ID = 9
_FAMILIES = ("mistral", "ministral", "mixtral", "magistral", "devstral", "codestral", "pixtral")
_LEVELS: Levels = {
    "off": {"reasoning_effort": "none"},
    **{level: {"reasoning_effort": "high"} for level in THINKING_LEVELS},
}
_OF_LARGE = efforts("none", "low", "low", "medium", "high", "high", "high")


@lru_cache(maxsize=4096)
def short_id(call_id: str) -> str:
    """Nine letters and digits, the same for the same id of ours in every process."""
    number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).digest()[:12], "big")
    letters = []
    for _ in range(_LETTERS_OF_AN_ID):
        number, rest = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)


def _levels(model: str) -> Levels:
    """Large thinks by degrees, the others think or do not."""
    return _OF_LARGE if "mistral-large" in model else _LEVELS


def is_of_mistral(model: str) -> bool:
    """Whether its template and tokenizer are Mistral's, which judge ids and roles wherever they run."""
    return any(family in model.lower() for family in _FAMILIES)


def mistral_at(server: Differences) -> Differences:
    """A model of Mistral at another server: that server's parameters, Mistral's messages."""
    return replace(server, name=f"{server.name}+mistral", call_id=short_id, thinking_back="", user_after_tool=False)


MISTRAL = Differences(
    name="mistral",
    levels=_levels,
    stream_usage=False,
    call_id=short_id,
    thinking_back="",
    user_after_tool=False,
    leaks=False,
)
