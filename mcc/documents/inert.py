"""Escaping of document texts for HTML and Markdown, including invisible and direction-changing characters."""

from collections.abc import Iterator, Mapping
from html import escape

from mcc.contracts.documents import ProvenanceView, SetByAgent, SetByPerson
from mcc.documents.templates import as_text

_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
"""Invisible characters that change the direction of the text after them."""

_SHOWN: Mapping[int, str] = {
    **dict.fromkeys((*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF), "\ufffd"),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
    **{code: f"[U+{code:04X}]" for code in _TURNING},
    ord("\n"): "\n",
    ord("\t"): "\t",
}
_MARKS: Mapping[int, str] = {ord(mark): f"\\{mark}" for mark in "\\`*_{}[]()#!|<>~&$"}


def visible(text: str) -> str:
    """The text with line ends as newlines, and invisible characters replaced by visible ones."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_SHOWN)


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
