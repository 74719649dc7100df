"""What both command lines write to a terminal: clean text for people, JSON for machines."""

import json
import re
import sys

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
_UNSEEN = "\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
"""Marks and overrides of direction, separators, tags and other characters of no width: text can be hidden in them, or
shown in another order than it has. The joiner of emoji and the variation selectors of scripts are not among them."""
_HIDDEN = re.compile(f"[{_UNSEEN}]")
_NOT_IN_JSON = re.compile(f"[\x7f-\x9f{_UNSEEN}]")
_SURROGATES = re.compile("[\ud800-\udfff]")

ELLIPSIS = "…"


def clean(text: str) -> str:
    """`text` as a terminal may print it: line breaks and tabs stay; escape sequences, other controls, characters that
    hide or reorder text, and lone surrogates do not."""
    text = _SEQUENCES.sub("", text.replace("\r\n", "\n"))
    text = _HIDDEN.sub("", _CONTROLS.sub("", text))
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


def clean_json(made: bytes) -> bytes:
    """JSON as a terminal may print it, and equal to `made` for whoever reads it: escapes take the place of what `clean`
    takes out."""
    return _NOT_IN_JSON.sub(_escaped, made.decode()).encode()


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def one_line(text: str, width: int = 80) -> str:
    """`text` on one line of at most `width` characters."""
    flat = " ".join(clean(text[: width * 20]).split())
    return flat if len(flat) <= width else flat[: width - 1].rstrip() + ELLIPSIS


def short_id(whole: str) -> str:
    """The end of an id, which names it on the command line: it is random, while ids of one minute begin alike."""
    return whole[-12:]


def print_json(value: object, *, type: str = "", indented: bool = False) -> None:
    """`value` (contracts included) as one line of JSON, with escapes for what a terminal would obey or hide.

    `type`, where it is given, becomes the first key of an object that has others. `indented`: on many lines.
    """
    from mcc.contracts.shape import to_json

    made = to_json(value)
    if type:
        made = b'{"type":"%b",%b' % (type.encode(), made[1:])
    if indented:
        made = json.dumps(json.loads(made), indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
    sys.stdout.buffer.write(clean_json(made) + b"\n")
    sys.stdout.buffer.flush()
