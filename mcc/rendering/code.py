"""Source text with the classes of Pygments, and terminal output with those of its colours, as nodes."""

from collections.abc import Iterable

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from mcc.rendering.nodes import Nodes, element, visible
from mcc.rules.patterns import Pattern

_COLOURS = Pattern("\x1b\\[([0-9;]{0,60})m")
_SHOWN = frozenset({1, 3, 4, 9, *range(30, 38), *range(40, 48), *range(90, 98), *range(100, 108)})
"""SGR codes that become classes: bold, italic, underlined, struck out, and 16 colours of text and background."""


def highlighted(text: str, language: str) -> Nodes:
    """`text` coloured as this language; just visible where there is no such language."""
    return [node for part, kind in pieces(text, language) for node in _of_class(part, kind)]


def pieces(text: str, language: str = "", name: str = "") -> Iterable[tuple[str, str]]:
    """Pairs of a part of `text` and its class in Pygments, "" for none; together the parts are `text`.

    The language has this name in Pygments, or is that of files with this `name`.
    """
    lexer = _lexer(language, name)
    # Not `get_tokens`, which changes line ends, tabs and the end of the text.
    tokens = () if lexer is None else lexer.get_tokens_unprocessed(text)
    parts = [(part, STANDARD_TYPES.get(kind, "")) for _, kind, part in tokens]
    # Some lexers leave out or add characters, and what is shown must be what is there.
    return parts if "".join(part for part, _ in parts) == text else [(text, "")]


def _lexer(language: str, name: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language) if language else get_lexer_for_filename(name) if name else None
    except ClassNotFound:
        return None


def _of_class(text: str, kind: str) -> Nodes:
    return [element("span", visible(text), {"class": kind})] if kind and text else visible(text)


def terminal_output(text: str) -> Nodes:
    """`text` as it is, in the colours that its escape sequences ask for; other sequences stay visible."""
    nodes: Nodes = []
    classes: list[int] = []
    place = 0
    for sequence in _COLOURS.finditer(text):
        nodes += _of_class(text[place : sequence.start()], _named(classes))
        classes, place = _after(classes, sequence[1]), sequence.end()
    nodes += _of_class(text[place:], _named(classes))
    return [element("pre", nodes)]


def _named(classes: Iterable[int]) -> str:
    return " ".join(f"a{code}" for code in classes)


def _after(classes: list[int], sequence: str) -> list[int]:
    """The classes that hold after an SGR sequence with these codes."""
    codes = iter(int(code or 0) for code in sequence.split(";"))
    for code in codes:
        if code in (38, 48):
            # A colour out of 256, or of three parts: what follows are its figures, not codes.
            for _ in range(1 if next(codes, 0) == 5 else 3):
                next(codes, None)
        elif code == 0:
            classes = []
        elif code in _SHOWN:
            classes = [*(kept for kept in classes if _place(kept) != _place(code)), code]
        elif code in (22, 39, 49):
            ended = {22: -1, 39: 3, 49: 4}[code]
            classes = [kept for kept in classes if _place(kept) != ended]
    return classes


def _place(code: int) -> int:
    """What a code sets: 3 the colour of text, 4 that of the background, else the code itself."""
    if code in range(30, 38) or code in range(90, 98):
        return 3
    return 4 if code in range(40, 48) or code in range(100, 108) else -code
