"""Markdown as nodes, without HTML: what looks like a tag is text, and pictures are links to them."""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from markdown_it import MarkdownIt
from markdown_it.token import Token

from mcc.rendering.code import highlighted
from mcc.rendering.nodes import Attributes, Node, Nodes, element, is_allowed_link, visible

LARGEST_HEADING, SMALLEST_HEADING = 3, 6
"""Headings of a text stand below those of the page, so `#` is the third level."""

_SIMPLE = {
    "paragraph": "p",
    "strong": "strong",
    "em": "em",
    "s": "del",
    "blockquote": "blockquote",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
    "link": "a",
}
"""Tags by the kind of token that opens them."""

_ALIGNED = "text-align:"


def reader() -> Callable[[str], Nodes]:
    """A function from Markdown to nodes."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    # Addresses that no link may have stay in the text as they were written.
    parser.validateLink = is_allowed_link  # type: ignore[method-assign,assignment]
    return lambda text: _Tree(parser.parse(text)).nodes()


class _Tree:
    """Nodes from a list of tokens, in which each element is opened and closed."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = iter(tokens)

    def nodes(self) -> Nodes:
        return list(self._until_closed())

    def _until_closed(self) -> Iterator[Node]:
        for token in self._tokens:
            if token.nesting < 0:
                return
            if token.nesting == 0:
                yield from _leaf(token)
                continue
            within = list(self._until_closed())
            if token.type == "paragraph_open" and token.hidden:
                yield from within
            else:
                yield element(_tag(token), within, _attributes(token))


def _tag(token: Token) -> str:
    kind = token.type.removesuffix("_open")
    if kind == "heading":
        return f"h{min(SMALLEST_HEADING, int(token.tag[1:]) + LARGEST_HEADING - 1)}"
    return _SIMPLE[kind]


def _attributes(token: Token) -> Attributes:
    if token.type == "link_open":
        return {"href": str(token.attrs["href"])}
    if token.type == "ordered_list_open" and "start" in token.attrs:
        return {"start": int(token.attrs["start"])}
    style = str(token.attrs.get("style", ""))
    return {"align": style.removeprefix(_ALIGNED)} if style.startswith(_ALIGNED) else {}


def _leaf(token: Token) -> Nodes:
    match token.type:
        case "inline":
            return _Tree(cast(Sequence[Token], token.children or ())).nodes()
        case "code_inline":
            return [element("code", visible(token.content))]
        case "fence":
            language = (token.info.split() or [""])[0]
            is_name = language.isascii() and language.isprintable() and len(language) <= 40
            code = element("code", highlighted(token.content, language))
            return [element("pre", [code], {"lang": language} if language and is_name else {})]
        case "code_block":
            return [element("pre", [element("code", visible(token.content))])]
        case "hr" | "hardbreak":
            return [element("br" if token.type == "hardbreak" else "hr", [])]
        case "softbreak":
            return ["\n"]
        case "image":
            label = visible(token.content) or visible(str(token.attrs["src"]))
            return [element("a", label, {"href": str(token.attrs["src"])})]
    return visible(token.content)
