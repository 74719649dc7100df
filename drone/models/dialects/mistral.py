"""Mistral: ids of nine letters and digits, no user's message after a tool's result, no thinking back."""

import hashlib
import string
from functools import lru_cache

from drone.models.dialects.differences import THINKING_LEVELS, Differences, Levels

_LETTERS = string.ascii_letters + string.digits
_LETTERS_OF_AN_ID = 9
_LEVELS: Levels = {
    "off": {"reasoning_effort": "none"},
    **{level: {"reasoning_effort": "high"} for level in THINKING_LEVELS},
}


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
    return _LEVELS


MISTRAL = Differences(
    name="mistral",
    levels=_levels,
    stream_usage=False,
    call_id=short_id,
    thinking_back="",
    user_after_tool=False,
    leaks=False,
)
