"""What both command lines write to a terminal: clean text for people, JSON for machines."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress

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


def wrapped(text: str, width: int | None, indent: int) -> Iterator[str]:
    """One line as lines of at most `width` columns (None = as it is), broken at blanks; all but the first are indented.
    A word that is longer stays whole."""
    from rich.cells import cell_len

    line, *words = text.split(" ")
    for word in words:
        if width is not None and line.strip() and cell_len(line) + 1 + cell_len(word) > width:
            yield line.rstrip()
            line = " " * indent + word
        else:
            line = f"{line} {word}"
    yield line


def window(*, stderr: bool = False) -> int | None:
    """How many columns there are on the terminal behind stdout, or stderr; None where there is no terminal."""
    if not (sys.stderr if stderr else sys.stdout).isatty():
        return None
    from rich.console import Console

    return Console(stderr=stderr).width


def short_id(whole: str) -> str:
    """The end of an id, which names it on the command line: it is random, while ids of one minute begin alike."""
    return whole[-12:]


def say(sentence: str) -> None:
    """A sentence for people, on stderr so that stdout holds only what was asked for; lost when nobody reads stderr."""
    columns = window(stderr=True)
    show("\n".join(part for line in clean(sentence).split("\n") for part in wrapped(line, columns, 0)))


def show(text: str) -> None:
    """Clean text for people on stderr, no line of which is broken."""
    # In `mcc up 2>&1 | tee log` a Ctrl-C ends tee first, and the family has still to stop.
    with suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)


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
