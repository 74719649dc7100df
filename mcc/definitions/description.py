"""Descriptions of a workspace's agents as models are shown them: cut, on one line, marked as a stranger's words."""

import unicodedata

CHARACTERS = 120
"""Of a description that a workspace wrote."""

_READ = 4_000
_ENDS = (". ", "! ", "? ")
_EXCHANGED = str.maketrans({'"': "'", "“": "'", "”": "'", "„": "'", "`": "'", "<": "‹", ">": "›"})
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u2800\u3164\uffa0")
"""Letters and marks that show nothing."""


def in_its_words(description: str) -> str:
    """What stands for a workspace's agent in prompts and schemas: that it is one, and the first sentence it says."""
    said = " ".join("".join(map(_shown, description[:_READ])).split()).translate(_EXCHANGED)
    end = min((found + 1 for mark in _ENDS if (found := said.find(mark)) >= 0), default=len(said))
    said = said[:end] if end <= CHARACTERS else f"{said[:CHARACTERS].rstrip()}…"
    return f"agent of this workspace, which says of itself: “{said}”" if said else "agent of this workspace"


def _shown(character: str) -> str:
    """Nothing for what controls, hides or reorders text; a space for everything that separates."""
    category = unicodedata.category(character)
    if character.isspace() or category[0] == "Z":
        return " "
    is_selector = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return "" if category[0] == "C" or is_selector or character in _BLANK else character
