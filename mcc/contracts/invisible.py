"""Characters that nobody sees, or that a terminal obeys: counted, written so that everybody sees them, and read back.

What is stored keeps them as they are. They are escaped once, where people read: `escape_invisible` for text,
`escape_invisible_json` for JSON.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

_RUN = re.compile("[^\n\t -~]+")
"""Everything but ASCII's own visible characters and layout: few texts hold much of it, so few are looked at closely."""

_DRAWN_AS_NOTHING = re.compile(
    "["
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
    "\u2800\U00016fe4\U0001d159"
    "\u27e6"
    "]"
)
"""Letters, marks and symbols that are drawn as nothing. First those that Unicode calls Default_Ignorable_Code_Point
(DerivedCoreProperties.txt) and that are no format characters: a joiner, Hangul and Khmer fillers, variation selectors.
Then three that are blank though Unicode does not call them ignorable: an empty Braille cell, a Khitan filler, an empty
notehead. Last ⟦, which begins an escape and so is never shown as itself."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
KNOWN = 4_096
"""Of how many characters it is remembered what they are: a text of a million that nobody sees has few different ones.
"""

OPENS, CLOSES = "\u27e6", "\u27e7"
_ESCAPE = re.compile(f"{OPENS}U\\+([0-9A-F]{{4,6}}){CLOSES}")


def escape_invisible(text: str) -> str:
    """`text` with each character that nobody sees as its code point, such as ⟦U+202E⟧; line feeds and tabs stay.

    Those are what Unicode calls controls, format characters, surrogates, private use, unassigned, separators other than
    the space (Cc, Cf, Cs, Co, Cn, Zl, Zp, Zs), what is drawn as nothing, and ⟦ itself. Different texts stay different:
    `unescape_invisible` is the inverse.
    """
    return _RUN.sub(lambda run: _each(run[0], _as_code_point), text)


def escape_on_one_line(text: str) -> str:
    """As `escape_invisible`, with line feeds and tabs escaped too."""
    return escape_invisible(text).replace("\n", _as_code_point("\n")).replace("\t", _as_code_point("\t"))


def unescape_invisible(text: str) -> str:
    """The text of which `escape_invisible`, or `escape_on_one_line`, made `text`."""
    return _ESCAPE.sub(lambda found: chr(code) if (code := int(found[1], 16)) <= 0x10FFFF else found[0], text)


def escape_invisible_json(made: bytes) -> bytes:
    """JSON in UTF-8 with the same value, in which these characters are \\uXXXX (two of them beyond U+FFFF)."""
    if made.isascii() and b"\x7f" not in made:
        return made
    return _RUN.sub(lambda run: _each(run[0], _as_json), made.decode()).encode()


def count_invisible(text: str) -> int:
    """How many characters of `text` `escape_invisible` escapes."""
    return sum(sum(map(_is_invisible, run)) for run in _RUN.findall(text) if not _is_seen(run))


def parted_at_invisible(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of `text`, in order, each with whether it is a character that `escape_invisible` escapes, by itself."""
    start = 0
    for run in _RUN.finditer(text):
        if _is_seen(run[0]):
            continue
        for place, letter in enumerate(run[0], run.start()):
            if _is_invisible(letter):
                if start < place:
                    yield text[start:place], False
                yield letter, True
                start = place + 1
    if start < len(text):
        yield text[start:], False


def controls_in(text: str) -> str:
    """The control characters (Cc) of `text` other than line feed and tab: each once, in the order of the text."""
    return "".join(dict.fromkeys(_CONTROL.findall(text)))


def _each(run: str, write: Callable[[str], str]) -> str:
    return run if _is_seen(run) else "".join(write(one) if _is_invisible(one) else one for one in run)


def _is_seen(run: str) -> bool:
    # Not printable are, by Python's definition, the categories Cc, Cf, Cs, Co, Cn, Zl, Zp, and Zs but the space.
    return run.isprintable() and not _DRAWN_AS_NOTHING.search(run)


@lru_cache(maxsize=KNOWN)
def _is_invisible(one: str) -> bool:
    return not one.isprintable() or _DRAWN_AS_NOTHING.match(one) is not None


def _as_code_point(one: str) -> str:
    return f"{OPENS}U+{ord(one):04X}{CLOSES}"


@lru_cache(maxsize=KNOWN)
def _as_json(one: str) -> str:
    units = one.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
