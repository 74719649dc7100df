"""What both command lines write to a terminal: clean text, tables for people, JSON for machines, checks of models."""

import functools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcc.contracts.answers import ModelCheck, Offer
    from mcc.contracts.drones import Capability
    from mcc.contracts.usage import Usage

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


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Rows under headings; `empty` is said when there are none. Wide cells are cut only on a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    if not rows:
        print(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(one_line(str(cell), 200)) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=1_000)
    console.print(table)


def print_json(value: object, *, type: str = "") -> None:
    """`value` (contracts included) as one line of JSON, with escapes for what a terminal would obey or hide.

    `type`, where it is given, becomes the first key of an object that has others.
    """
    from mcc.contracts.shape import to_json

    made = to_json(value)
    if type:
        made = b'{"type":"%b",%b' % (type.encode(), made[1:])
    sys.stdout.buffer.write(clean_json(made) + b"\n")
    sys.stdout.buffer.flush()


def print_offers(
    columns: Sequence[str], rows: Sequence[tuple["Offer | Capability", Sequence[object]]], *, empty: str
) -> None:
    """A row of name, state and these cells for each of what drones have; below them what is wrong with some."""
    states = [("problem" if one.problem else "ok, default" if one.default else "ok") for one, _ in rows]
    cells = [(one.name, state, *more) for (one, more), state in zip(rows, states, strict=True)]
    print_table(columns, cells, empty=empty)
    for one in (one for one, _ in rows if one.problem):
        print(f"\n{clean(one.name)}: {clean(one.problem or '')}")


_WINDOW_FROM = {"configuration": "mcc.toml", "table": "the table of models", "server": "its server"}

CHECKED = ("NAME", "STATE", "KEY", "WINDOW", "TOOLS", "STREAM", "THINK", "CACHE", "TIME", "MODEL", "DRONE")


def print_checks(checks: Sequence["ModelCheck"]) -> None:
    """A row per model, below them what is wrong and what else is worth knowing, at the end what it cost."""
    from mcc.view import figures

    print_table(CHECKED, map(_cells, checks), empty="No model: is there a drone? mcc drones says.")
    for said in (f"{one.name}: {sentence}" for one in checks for sentence in _sentences(one)):
        print(f"\n{clean(said)}")
    if spent := total(checks):
        print(f"\n{figures.spent(spent)}")


def total(checks: Iterable["ModelCheck"]) -> "Usage | None":
    """What all of the calls spent, None where none said anything of that."""
    spent = [one.usage for one in checks if one.usage is not None]
    return functools.reduce(lambda one, other: one.plus(other), spent) if spent else None


def _cells(one: "ModelCheck") -> Sequence[str]:
    from mcc.view import figures

    window = "?" if one.context_tokens is None else f"{one.context_tokens:,}"
    seconds = "" if one.seconds is None else figures.seconds(one.seconds)
    found = map(_word, (one.tools, one.streaming, one.thinking))
    state = "ok" if one.problem is None else "problem"
    return (one.name, state, one.key, window, *found, one.caching or "?", seconds, one.model, one.drone)


def _word(found: bool | None) -> str:
    return "?" if found is None else "yes" if found else "no"


def _sentences(one: "ModelCheck") -> Iterator[str]:
    if one.problem is not None:
        yield one.problem
    if one.window_from:
        yield f"the window is what {_WINDOW_FROM[one.window_from]} says"
    yield from one.notes
