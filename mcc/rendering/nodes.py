"""Nodes: rendered text as JSON, which whoever shows it sets as text; no text is ever parsed as HTML.

A node is a text, or a list `[tag, attributes, …nodes]`; a rendered text is a list of nodes.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mcc.contracts.invisible import parted_at_invisible
from mcc.rules.patterns import Pattern

Attributes: TypeAlias = Mapping[str, str | int]
Node: TypeAlias = "str | list[str | Attributes | Node]"
Nodes: TypeAlias = list[Node]

TAGS = frozenset(
    {
        *("p", "br", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h3", "h4", "h5", "h6"),
        *("table", "thead", "tbody", "tr", "th", "td", "a", "hr", "span"),
    }
)
"""Every tag that a node may have."""

ATTRIBUTES = frozenset({"href", "start", "align", "lang", "class"})
"""Every attribute that a node may have."""

INVISIBLE = "ctl"
"""Class of a character that nobody sees or a terminal obeys; the text within is its code point, such as `U+202E`."""

_ALLOWED_LINK = Pattern(r"(?i)(?:https?://|mailto:)[^\x00-\x20\x7f]+|#e[0-9]{1,15}")


def is_allowed_link(address: str) -> bool:
    """Whether a link may lead there: by http, https or mail, or to an entry of the order's journal (`#e17`)."""
    return _ALLOWED_LINK.fullmatch(address) is not None


def element(tag: str, nodes: Sequence[Node], attributes: Attributes | None = None) -> Node:
    return [tag, attributes or {}, *nodes]


def visible(text: str) -> Nodes:
    """`text` as nodes, with each invisible character as an element of its own."""
    return [
        element("span", [f"U+{ord(part):04X}"], {"class": INVISIBLE}) if invisible else part
        for part, invisible in parted_at_invisible(text)
    ]


def plain(text: str) -> Nodes:
    """`text` as it is, its line ends and spaces included."""
    return [element("pre", visible(text))]


def visible_pieces(text: str, kind: str = "") -> list[tuple[str | None, str]]:
    """A part of a line as pairs of a class (None: of no class) and text, invisible characters by themselves."""
    return [
        (INVISIBLE, f"U+{ord(part):04X}") if invisible else (kind or None, part)
        for part, invisible in parted_at_invisible(text)
    ]
