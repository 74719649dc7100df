"""Text for display: terminal control sequences removed, and cuts made between words so that no half secret remains."""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from mcc.contracts.invisible import controls_in

_ESCAPES = re.compile(
    "(?:\x1b\\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)?"  # OSC: titles, links, clipboard
    "|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\\\|\x9c)?"  # DCS, SOS, PM, APC
    "|(?:\x1b\\[|\x9b)[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]?"  # CSI
    "|\x1b[\x20-\x2f]*[\x30-\x7e]?"  # the other escapes
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_VISIBLE_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_PICTURES: Mapping[str, str] = {
    **{chr(code): chr(0x2400 + code) for code in range(0x20)},
    "\x7f": "␡",
    **{chr(code): f"␛{chr(code - 0x40)}" for code in range(0x80, 0xA0)},
}
"""A picture for each control character; a C1 control is shown as its equivalent, ESC with a letter."""

_BETWEEN_WORDS = frozenset(" \t\r\n\"'`,;:<>()[]{}|&")
_BETWEEN: frozenset[object] = _BETWEEN_WORDS | frozenset(map(ord, _BETWEEN_WORDS))
LONGEST_WORD = 16_384
"""Characters; a longer word is cut inside. No secret key is longer."""


def display_path(path: str) -> str:
    """`path` on one line: unchanged, or as a JSON string if it holds unprintable characters or starts with a quote."""
    return path if path.isprintable() and not path.startswith('"') else json.dumps(path)


def has_controls(text: str) -> bool:
    """Whether `text` holds control characters; tabs and line ends, `\\r\\n` included, are layout and do not count."""
    return _VISIBLE_CONTROLS.search(text) is not None


def controls_refused(what: str, text: str) -> str | None:
    """Why a text that people judge and programs obey is not taken: it holds control characters other than line feed and
    tab. None where it holds none. `what`: what it is, as the beginning of the sentence."""
    codes = [f"U+{ord(character):04X}" for character in controls_in(text)]
    if not codes:
        return None
    more = ", …" if len(codes) > _NAMED_CONTROLS else ""
    return (
        f"{what} holds control characters ({', '.join(codes[:_NAMED_CONTROLS])}{more}), and only line feeds and tabs "
        "are taken: nothing was done. Leave them out; a program that needs one makes it, as printf '\\033' does."
    )


_NAMED_CONTROLS = 5


def show_controls(text: str) -> tuple[str, int]:
    """`text` with each control character replaced by a picture, such as ␛ for ESC, and the number of replacements."""
    return _VISIBLE_CONTROLS.subn(lambda found: _PICTURES[found[0]], text)


def strip_controls(text: str) -> str:
    """`text` without ECMA-48 sequences and control characters; tabs and line ends stay, a lone `\\r` becomes `\\n`."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))


def word_after(line: bytes, at: int, last: int) -> int:
    """The offset, at or after `at`, where the first complete word begins.

    A word that reaches from `at` to `last` is cut at the character boundary nearest to `at`.
    """
    if at == 0 or line[at - 1] in _BETWEEN:
        return at
    return next((here + 1 for here in range(at, last) if line[here] in _BETWEEN), _character_start(line, at))


def word_before(line: bytes, at: int, first: int = 0) -> int:
    """The offset, at or before `at`, where the last complete word ends; the counterpart of `word_after`."""
    return _character_start(line, at) if (end := _word_end(line, at, first)) is None else end


def cut(text: str, characters: int) -> str:
    """The beginning of `text`, in whole words, of at most so many characters."""
    if len(text) <= characters:
        return text
    return text[:characters] if (end := _word_end(text, characters, 0)) is None else text[:end].rstrip()


def _word_end(text: Sequence[object], at: int, first: int) -> int | None:
    if at == len(text) or text[at] in _BETWEEN:
        return at
    first = max(first, at - LONGEST_WORD)
    return next((here + 1 for here in range(at - 1, first, -1) if text[here] in _BETWEEN), None)


def _character_start(line: bytes, at: int) -> int:
    """The offset of the first byte of the UTF-8 character that holds byte `at`."""
    while 0 < at < len(line) and line[at] & 0xC0 == 0x80:
        at -= 1
    return at


_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})
"""Unicode categories: controls, marks that direct or hide (tags, zero widths, direction changes), no characters."""

_LAYOUT = "\n\t"
MOST_LEVELS = 60


def visible(text: str, most: int | None = None) -> str:
    """`text` without invisible characters, cut to `most` characters."""
    shown = "".join(char for char in text if char in _LAYOUT or unicodedata.category(char) not in _INVISIBLE)
    return shown if most is None or len(shown) <= most else f"{shown[: most - 1]}…"


def shortened(text: str, most: int) -> str:
    """`text` as it is, cut to `most` characters: what people are asked, where whatever they cannot see is shown."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def one_line(text: str, most: int) -> str:
    """`text` on one line, without invisible characters, cut to `most` characters."""
    return visible(" ".join(text.split()), most)


def both_ends(text: str, most: int) -> str:
    """As `one_line`, but where it is too long, its middle is left out: what went wrong stands at the beginning of an
    error's words, and at the end of a traceback, and what to do about it at the end of both."""
    line = one_line(text, len(text))
    if len(line) <= most:
        return line
    head = most // 4
    return f"{line[:head].rstrip()} … {line[head + 3 - most :].lstrip()}"


def visible_json(value: Any, levels: int = MOST_LEVELS) -> Any:
    """JSON with each text in it made `visible`. Raises ValueError if it is nested deeper than `levels`."""
    if levels == 0:
        raise ValueError(f"is nested deeper than {MOST_LEVELS} levels")
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(key)): visible_json(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [visible_json(item, levels - 1) for item in value]
    return value
