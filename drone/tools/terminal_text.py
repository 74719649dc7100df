"""This room is for text on its way to a model or a page: without terminal commands, and never longer than agreed."""

import re

MAX_BYTES = 256_000
"""What one tool result may hold."""

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


def clipped(text: str, max_bytes: int = MAX_BYTES) -> str:
    """Head and tail of `text` when its UTF-8 is longer than `max_bytes`, with how many bytes lie between."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= max_bytes:
        return text
    half = max_bytes // 2
    head, tail = data[: _start(data, half)], data[_start(data, len(data) - half) :]
    left_out = len(data) - len(head) - len(tail)
    return f"{_text(head)}\n[… {left_out:,} bytes left out here; ask for a smaller part to see them …]\n{_text(tail)}"


def _start(data: bytes, at: int) -> int:
    """The first byte of the character that `at` falls into."""
    while 0 < at < len(data) and data[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
