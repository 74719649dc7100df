"""This room is for text from models and tools on its way to a terminal, which would obey what is hidden in it."""

import re

_SEQUENCES = re.compile(
    r"""
      (?:\x1b\[|\x9b) [0-?]* [ -/]* [@-~]?                # CSI: colours, cursor moves
    | (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])               # OSC, DCS, SOS, PM, APC,
      (?: [^\x07\x1b\x80-\x9f]* (?:\x07|\x1b\\|\x9c) )?  # with what they carry, if they end at all
    | \x1b [ -/]* [0-~]?                                 # other escapes
    """,
    re.VERBOSE,
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HIDDEN = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_SURROGATES = re.compile("[\ud800-\udfff]")

ELLIPSIS = "…"


def clean(text: str) -> str:
    """`text` as a terminal may print it: line breaks and tabs stay; escape sequences, other controls, characters that
    hide or reorder text, and lone surrogates do not."""
    text = _SEQUENCES.sub("", text.replace("\r\n", "\n"))
    text = _HIDDEN.sub("", _CONTROLS.sub("", text))
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, width: int = 80) -> str:
    """`text` on one line of at most `width` characters."""
    flat = " ".join(clean(text[: width * 20]).split())
    return flat if len(flat) <= width else flat[: width - 1].rstrip() + ELLIPSIS
