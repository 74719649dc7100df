"""Plain text of others: without what terminals obey, and cut between words, so that no half secret remains."""

import re
from collections.abc import Sequence

_ESCAPES = re.compile(
    "(?:\x1b\\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)?"  # OSC: titles, links, clipboard
    "|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\\\|\x9c)?"  # DCS, SOS, PM, APC
    "|(?:\x1b\\[|\x9b)[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]?"  # CSI
    "|\x1b[\x20-\x2f]*[\x30-\x7e]?"  # the other escapes
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_BETWEEN_WORDS = frozenset(" \t\r\n\"'`,;:<>()[]{}|&")
BETWEEN: frozenset[object] = _BETWEEN_WORDS | frozenset(map(ord, _BETWEEN_WORDS))
LONGEST_WORD = 16_384
"""Characters; a longer word is cut inside. No secret key is longer."""


def strip_controls(text: str) -> str:
    """`text` without ECMA-48 sequences and control characters; tabs and line ends stay, a lone `\\r` becomes `\\n`."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))


def cut(text: str, characters: int) -> str:
    """The beginning of `text`, in whole words, of at most so many characters."""
    if len(text) <= characters:
        return text
    return text[:characters] if (end := word_end(text, characters, 0)) is None else text[:end].rstrip()


def word_end(text: Sequence[object], at: int, first: int) -> int | None:
    """Where the last complete word of `text` ends, at or before `at`; None for one that is too long."""
    if at == len(text) or text[at] in BETWEEN:
        return at
    first = max(first, at - LONGEST_WORD)
    return next((here + 1 for here in range(at - 1, first, -1) if text[here] in BETWEEN), None)
