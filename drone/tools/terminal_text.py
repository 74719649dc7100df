"""Text on its way to a model, a record or a page: without commands that a terminal would obey."""

import re
from collections.abc import Mapping

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


def obedient(text: str) -> bool:
    """Whether a terminal would find anything to obey in `text`; tabs and line ends, `\\r\\n` too, are only layout."""
    return _ANY.search(text) is not None


def pictured(text: str) -> tuple[str, int]:
    """`text` with each control character shown as a picture, such as ␛ for ESC, and how many there were."""
    return _ANY.subn(lambda found: _PICTURES[found[0]], text)


def plain(text: str) -> str:
    """`text` without ECMA-48 sequences and control characters; tabs and line ends stay, lone `\\r` ends a line."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))
