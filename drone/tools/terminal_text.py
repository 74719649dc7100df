"""This room is for text on its way to a model or a page: without terminal commands."""

import re

_ESCAPES = re.compile(
    "(?:\x1b\\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)?"  # OSC: titles, links, clipboard
    "|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\\\|\x9c)?"  # DCS, SOS, PM, APC
    "|(?:\x1b\\[|\x9b)[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]?"  # CSI
    "|\x1b[\x20-\x2f]*[\x30-\x7e]?"  # the other escapes
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """`text` without ECMA-48 sequences and control characters; tabs and line ends stay, lone `\\r` ends a line."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))
