"""Escaping of document texts for HTML and Markdown, including invisible and direction-changing characters."""

from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby

from mcc.contracts.documents import ProvenanceView, SetByAgent, SetByPerson
from mcc.contracts.invisible import escape_invisible
from mcc.documents.templates import as_text

_SET_TYPE = "\u00a0\u2007\u2009\u200a\u202f\u200c\u200d\ufe0e\ufe0f"
"""What fine typography takes: spaces of other widths, the joiners that scripts and emoji need, and their two styles."""
_MARKS: Mapping[int, str] = {ord(mark): f"\\{mark}" for mark in "\\`*_{}[]()#!|<>~&$"}


def visible(text: str) -> str:
    """The text with line ends as newlines, and as its code point each character that nobody sees and that typography
    does not need."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    runs = groupby(plain, _SET_TYPE.__contains__)
    return "".join("".join(run) if is_type else escape_invisible("".join(run)) for is_type, run in runs)


def in_html(text: str) -> str:
    """Escaped for the content of an element or of a quoted attribute."""
    return escape(visible(text))


def in_markdown(text: str) -> str:
    """Escaped for use within a line; line ends become spaces."""
    return " ".join(visible(text).split("\n")).translate(_MARKS)


def lines_in_markdown(text: str) -> Iterator[str]:
    """The lines of the text, each escaped for the start of a Markdown line."""
    for line in visible(text).split("\n"):
        rest = line.lstrip(" \t")
        indent = "\u00a0" * (len(line) - len(rest))
        marked = rest.translate(_MARKS)
        number = len(marked) - len(marked.lstrip("0123456789"))
        begins_block = marked[number : number + 1] in (tuple(".)") if number else tuple("-+=:"))
        yield f"{indent}{marked[:number]}\\{marked[number:]}" if begins_block else f"{indent}{marked}"


def in_words(value: object) -> str:
    """A value other than a list, as text."""
    return as_text(value)


def set_by(known: ProvenanceView) -> str:
    """Who set a value, such as "agent, version 31"."""
    whose = ""
    if isinstance(known, SetByPerson) and known.principal:
        whose = f" {known.principal}"
    held = isinstance(known, SetByAgent | SetByPerson) and known.accepted is not None
    return f"{known.by.replace('_', ' ')}{whose}, version {known.version}{', held' if held else ''}"
