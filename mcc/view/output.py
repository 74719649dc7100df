"""Terminal output of both command lines: clean text for people, JSON for machines."""

import codecs
import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from mcc.contracts.invisible import (
    CLOSES,
    OPENS,
    escape_invisible,
    escape_invisible_json,
    escape_on_one_line,
)
from mcc.contracts.well_formed import well_formed

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

ELLIPSIS = "…"
_SEARCHED = 20
"""How many times longer than its line a text's beginning is in which the words for this line are looked for."""


def clean(text: str) -> str:
    """`text` as people read it on a terminal, which then obeys, hides and reorders nothing of it; nothing is left out.

    What would do so is written as its code point (`escape_invisible`); line feeds and tabs stay. Done once, by whoever
    prints: the rows, words and notes that this package makes for others to print hold the text as it is.
    """
    return escape_invisible(text)


def clean_json(made: bytes) -> bytes:
    """`made`, JSON, with the same value but for lone surrogates, which become U+FFFD: what `clean` escapes in text is a
    \\u escape."""
    return escape_invisible_json(well_formed(made))


def brief(text: str, width: int = 80) -> str:
    """The words of `text`, as they are, on one line of at most `width` characters, for somebody who prints it.

    Blanks between words count as one; an ellipsis stands for what is cut off.
    """
    beginning = text[: width * _SEARCHED]
    return _cut(_words(beginning), width, is_whole=len(beginning) == len(text))


def one_line(text: str, width: int = 80) -> str:
    """As `brief`, and `clean`."""
    beginning = text[: width * _SEARCHED]
    return _cut(_words(clean(beginning)), width, is_whole=len(beginning) == len(text))


def exact_line(text: str, width: int | None = None) -> str:
    """`text`, `clean`, on one line with every blank of it: what is judged, such as an argument of a call.

    Line feeds and tabs are escaped too. `width`: most characters, None = all; an ellipsis stands for what is cut off.
    """
    if width is None:
        return escape_on_one_line(text)
    beginning = text[: width + 1]
    return _cut(escape_on_one_line(beginning), width, is_whole=len(beginning) == len(text))


def _words(text: str) -> str:
    # Not `text.split()`, which takes control characters and the spaces of other scripts for blanks, and drops them.
    return " ".join(filter(None, text.replace("\n", " ").replace("\t", " ").split(" ")))


def _cut(line: str, width: int, *, is_whole: bool) -> str:
    if is_whole and len(line) <= width:
        return line
    kept = line[: width - 1]
    if kept.rfind(OPENS) > kept.rfind(CLOSES):
        kept = kept[: kept.rfind(OPENS)]  # No escape is cut in two.
    return kept.rstrip(" ") + ELLIPSIS


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


def listed_id(full_id: str) -> str:
    """An order's, session's, document's or item's id as lists show it: on a terminal short, as trees and hints do."""
    return full_id if window() is None else short_id(full_id)


def clock(moment: datetime | None) -> str:
    """A time in this machine's time zone; "" for None."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}" if moment else ""


def clock_beside(moment: datetime, at: datetime) -> str:
    """A time in this machine's time zone as somebody who looks at the time `at` needs it: of the same day the time, of
    the same year month, day and time, else the date."""
    local, reference = moment.astimezone(), at.astimezone()
    if local.date() == reference.date():
        return f"{local:%H:%M:%S}"
    return f"{local:%m-%d %H:%M}" if local.year == reference.year else f"{local:%Y-%m-%d}"


def say(sentence: str) -> None:
    """Print a sentence for people, made `clean` and wrapped to the terminal. To stderr, so that stdout holds only the
    command's result. Dropped without an error where stderr is a closed pipe."""
    show_wrapped(clean(sentence))


def show_wrapped(text: str) -> None:
    """As `say`, text that is clean already."""
    columns = window(stderr=True)
    show("\n".join(part for line in text.split("\n") for part in wrapped(line, columns, 0)))


def print_wrapped(text: str, indent: int = 2) -> None:
    """Print sentences for people to stdout, made `clean`; on a terminal wrapped at blanks, further lines indented."""
    columns = window()
    for line in clean(text).split("\n"):
        for part in wrapped(line, columns, indent):
            print(part)


def write_anything() -> None:
    """From now on, what the encoding of stdout or stderr lacks is written as `?` there. By default Python ends the
    program, after its work is done, where the answer should stand. Call at the start of a command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            whole = stream.encoding.lower().replace("-", "") == "utf8" and stream.errors == "surrogateescape"
            stream.reconfigure(errors="surrogateescape" if whole else "replace")


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


def print_pieces(pieces: Iterable[bytes]) -> None:
    """Print UTF-8 text that comes in pieces, `clean`, as it comes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        print(clean(decoder.decode(piece)), end="")
    print(clean(decoder.decode(b"", final=True)), end="", flush=True)


def print_markdown(text: str) -> None:
    """Print an answer: rendered on a terminal, else as it is; `clean`, and with all that Markdown would leave out."""
    safe = clean(text)
    if not sys.stdout.isatty():
        print(safe)
        return
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    # Code in the terminal's own colours: rich's default is a black background, which stands out in a light window.
    colours = Theme({"markdown.code": "bold cyan", "markdown.code_block": "cyan"})
    shown = Markdown(safe, hyperlinks=False, code_theme="ansi_light")
    shown.parsed = _everything_shown().parse(safe)
    Console(highlight=False, theme=colours).print(shown)


def _everything_shown() -> "MarkdownIt":
    """A parser for rich that leaves to be shown as text what would not be shown: HTML, the addresses of pictures,
    definitions of links, and character references, which could stand for what `clean` has just escaped."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    return parser.disable(["entity", "html_block", "html_inline", "image", "reference"])
