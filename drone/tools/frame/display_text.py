"""Text for display: terminal control sequences removed, and cuts made between words so that no half secret remains."""

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from mcc.contracts.invisible import controls_in
from mcc.contracts.plain_text import BETWEEN, word_end
from mcc.contracts.plain_text import LONGEST_WORD as LONGEST_WORD
from mcc.contracts.plain_text import cut as cut
from mcc.contracts.plain_text import strip_controls as strip_controls

_VISIBLE_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_PICTURES: Mapping[str, str] = {
    **{chr(code): chr(0x2400 + code) for code in range(0x20)},
    "\x7f": "␡",
    **{chr(code): f"␛{chr(code - 0x40)}" for code in range(0x80, 0xA0)},
}
"""A picture for each control character; a C1 control is shown as its equivalent, ESC with a letter."""


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


def word_after(line: bytes, at: int, last: int) -> int:
    """The offset, at or after `at`, where the first complete word begins.

    A word that reaches from `at` to `last` is cut at the character boundary nearest to `at`.
    """
    if at == 0 or line[at - 1] in BETWEEN:
        return at
    return next((here + 1 for here in range(at, last) if line[here] in BETWEEN), _character_start(line, at))


def word_before(line: bytes, at: int, first: int = 0) -> int:
    """The offset, at or before `at`, where the last complete word ends; the counterpart of `word_after`."""
    return _character_start(line, at) if (end := word_end(line, at, first)) is None else end


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
