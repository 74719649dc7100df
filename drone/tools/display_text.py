"""Text for display: without commands that a terminal would obey, cut between words so that no half secret is left."""

import json
import re
from collections.abc import Mapping, Sequence

_ESCAPES = re.compile(
    "(?:\x1b\\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)?"  # OSC: titles, links, clipboard
    "|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\\\|\x9c)?"  # DCS, SOS, PM, APC
    "|(?:\x1b\\[|\x9b)[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]?"  # CSI
    "|\x1b[\x20-\x2f]*[\x30-\x7e]?"  # the other escapes
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


_ANY = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_PICTURES: Mapping[str, str] = {
    **{chr(code): chr(0x2400 + code) for code in range(0x20)},
    "\x7f": "␡",
    **{chr(code): f"␛{chr(code - 0x40)}" for code in range(0x80, 0xA0)},
}
"""A C1 control is what ESC with a letter is, and is shown so."""

_BETWEEN_WORDS = frozenset(" \t\r\n\"'`,;:<>()[]{}|&")
_BETWEEN: frozenset[object] = _BETWEEN_WORDS | frozenset(map(ord, _BETWEEN_WORDS))
LONGEST_WORD = 16_384
"""A longer word is cut where it must be; no key is longer."""


def written(path: str) -> str:
    """`path` on one line: as it is, or as a JSON string when it holds what would not show (line ends, marks, bytes)."""
    return path if path.isprintable() and not path.startswith('"') else json.dumps(path)


def obedient(text: str) -> bool:
    """Whether a terminal would find anything to obey in `text`; tabs and line ends, `\\r\\n` too, are only layout."""
    return _ANY.search(text) is not None


def pictured(text: str) -> tuple[str, int]:
    """`text` with each control character shown as a picture, such as ␛ for ESC, and how many there were."""
    return _ANY.subn(lambda found: _PICTURES[found[0]], text)


def plain(text: str) -> str:
    """`text` without ECMA-48 sequences and control characters; tabs and line ends stay, lone `\\r` ends a line."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))


def word_after(line: bytes, at: int, last: int) -> int:
    """Where the first word begins that is whole from `at` on.

    What is one word up to `last` is cut where it must be.
    """
    if at == 0 or line[at - 1] in _BETWEEN:
        return at
    return next((here + 1 for here in range(at, last) if line[here] in _BETWEEN), _character(line, at))


def word_before(line: bytes, at: int, first: int = 0) -> int:
    """Where the last word ends that is whole up to `at`; the counterpart of `word_after`."""
    return _character(line, at) if (end := _end(line, at, first)) is None else end


def cut(text: str, characters: int) -> str:
    """The words that fit in so many characters."""
    if len(text) <= characters:
        return text
    return text[:characters] if (end := _end(text, characters, 0)) is None else text[:end].rstrip()


def _end(text: Sequence[object], at: int, first: int) -> int | None:
    if at == len(text) or text[at] in _BETWEEN:
        return at
    first = max(first, at - LONGEST_WORD)
    return next((here + 1 for here in range(at - 1, first, -1) if text[here] in _BETWEEN), None)


def _character(line: bytes, at: int) -> int:
    """The first byte of the character that `at` falls into."""
    while 0 < at < len(line) and line[at] & 0xC0 == 0x80:
        at -= 1
    return at
