"""Globs over names of tools: `*` stands for any characters, `?` for one, everything else for itself."""

from functools import lru_cache

from mcc.rules.patterns import Pattern

_MARKS = {"*": ".*", "?": "."}


def fits(name: str, glob: str) -> bool:
    """Whether the name fits the glob; a name that holds marks itself stands for all that these may stand for."""
    if "*" not in glob and "?" not in glob:
        return name == glob
    return _expression(glob).fullmatch(name) is not None


@lru_cache(maxsize=1024)
def _expression(glob: str) -> Pattern:
    parts = (_MARKS.get(char) or (char if char.isalnum() or char == "_" else f"\\{char}") for char in glob)
    return Pattern("".join(parts), across=True)
