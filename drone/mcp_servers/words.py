"""Texts of a server as people and models may see them: nothing that cannot be seen, nothing without an end."""

import unicodedata
from collections.abc import Mapping
from typing import Any

_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})
"""Controls, marks that direct or hide (tags at U+E0000, zero widths, changes of direction), what is no character."""

_LAYOUT = "\n\t"
MOST_LEVELS = 60


def seen(text: str, most: int | None = None) -> str:
    """`text` without characters that nobody sees, cut to `most` characters."""
    shown = "".join(char for char in text if char in _LAYOUT or unicodedata.category(char) not in _UNSEEN)
    return shown if most is None or len(shown) <= most else f"{shown[: most - 1]}…"


def one_line(text: str, most: int) -> str:
    return seen(" ".join(text.split()), most)


def seen_in(value: Any, levels: int = MOST_LEVELS) -> Any:
    """JSON with each text in it `seen`. Raises ValueError where it is nested deeper than anybody follows."""
    if levels == 0:
        raise ValueError(f"is nested deeper than {MOST_LEVELS} levels")
    if isinstance(value, str):
        return seen(value)
    if isinstance(value, Mapping):
        return {seen(str(key)): seen_in(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [seen_in(item, levels - 1) for item in value]
    return value
