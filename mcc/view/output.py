"""Terminal output of both command lines: clean text for people, JSON for machines."""

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
"""Direction marks and overrides, line separators, tags and other zero-width characters: they can hide text or show it
in another order. The joiner of emoji and the variation selectors are left alone."""
_HIDDEN = re.compile(f"[{_UNSEEN}]")
_NOT_IN_JSON = re.compile(f"[\x7f-\x9f{_UNSEEN}]")
_SURROGATES = re.compile("[\ud800-\udfff]")

ELLIPSIS = "…"


def clean(text: str) -> str:
    """`text` made safe for a terminal: line breaks and tabs stay; escape sequences, other controls, and characters that
    hide or reorder text are removed; lone surrogates become U+FFFD."""
    text = _SEQUENCES.sub("", text.replace("\r\n", "\n"))
    text = _HIDDEN.sub("", _CONTROLS.sub("", text))
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


def clean_json(made: bytes) -> bytes:
    """`made`, JSON, made safe for a terminal and equal when parsed: what `clean` removes is written as \\u escapes."""
    return _NOT_IN_JSON.sub(_escaped, made.decode()).encode()


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def one_line(text: str, width: int = 80) -> str:
    """`text` on one line of at most `width` characters."""
    flat = " ".join(clean(text[: width * 20]).split())
    return flat if len(flat) <= width else flat[: width - 1].rstrip() + ELLIPSIS


def wrapped(text: str, width: int | None, indent: int) -> Iterator[str]:
    """Wrap one line at blanks to at most `width` columns (None = do not wrap); all lines but the first are indented.
    A word longer than that stays whole."""
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
    """Columns of the terminal at stdout, or at stderr; None where that is not a terminal."""
    if not (sys.stderr if stderr else sys.stdout).isatty():
        return None
    from rich.console import Console

    return Console(stderr=stderr).width


def can_draw() -> bool:
    """Whether stderr is a terminal on which a live tree can be drawn."""
    if not sys.stderr.isatty():
        return False
    from rich.console import Console

    return not Console(stderr=True).is_dumb_terminal


def short_id(full_id: str) -> str:
    """The last 12 characters of an id, enough to name it on the command line: they are random, while ids made in the
    same minute begin alike (UUIDv7)."""
    return full_id[-12:]


def say(sentence: str) -> None:
    """Print a sentence for people, wrapped to the terminal. To stderr, so that stdout holds only the command's result.
    Dropped without an error where stderr is a closed pipe."""
    columns = window(stderr=True)
    show("\n".join(part for line in clean(sentence).split("\n") for part in wrapped(line, columns, 0)))


def show(text: str) -> None:
    """Print text that is clean already to stderr, without wrapping it."""
    # In `mcc up 2>&1 | tee log` a Ctrl-C ends tee first; `mcc up` must still stop its children.
    with suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)


def print_json(value: object, *, type: str = "", indented: bool = False) -> None:
    """Print `value` (contracts included) as one line of JSON, with escapes for what a terminal would obey or hide.

    `type`, if given, becomes the first key; `value` must then be an object with at least one key. `indented`: print
    on several lines.
    """
    from mcc.contracts.shape import to_json

    made = to_json(value)
    if type:
        made = b'{"type":"%b",%b' % (type.encode(), made[1:])
    if indented:
        made = json.dumps(json.loads(made), indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
    sys.stdout.buffer.write(clean_json(made) + b"\n")
    sys.stdout.buffer.flush()
