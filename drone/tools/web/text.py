"""The text of a web page: charset and extraction, which runs in a separate process because pages are untrusted."""

import codecs
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.util import find_spec
from typing import Any

CHARSETS = frozenset(
    (
        *("big5", "cp866", "cp874", "euc_jp", "euc_kr", "gb18030", "gb2312", "gbk", "iso2022_jp", "koi8-r", "koi8-u"),
        *("macintosh", "mac-roman", "mac-cyrillic", "shift_jis", "utf-8", "utf-16", "utf-16-be", "utf-16-le", "ascii"),
        *(f"cp{number}" for number in range(1250, 1259)),
        *(f"iso8859-{number}" for number in range(1, 17)),
    )
)
"""The charsets that a page may name; pages with any other are read as UTF-8 (some Python codecs are no charsets)."""

_META_BYTES = 2_048
_UNSEEN = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "object"})
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset", "figcaption"),
        *("figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol"),
        *("p", "pre", "section", "table", "tr", "ul"),
    )
)


def charset_of(body: bytes, header: str) -> str:
    """The page's charset: by its byte order mark, by the server's `header`, by the page itself, else UTF-8."""
    for mark, name in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if body.startswith(mark):
            return name
    return _python_name(header) or _python_name(_meta_charset(body[:_META_BYTES])) or "utf-8"


def decoded(body: bytes, header: str) -> str:
    """The page's text; invalid bytes are replaced. `header` is the charset that the server named."""
    return body.decode(charset_of(body, header), "replace").removeprefix("\ufeff")


def text_extractor() -> Callable[[Any], object]:
    """The function that the separate process runs: from a page's HTML to its title and text."""
    extract = _article_extractor() if find_spec("trafilatura") else None

    def answer(html: str) -> object:
        title, words = words_of(html)
        # trafilatura extracts articles; for other pages it may return nothing.
        found = extract(html) if extract is not None else None
        return {"title": title, "text": found or words}

    return answer


def words_of(html: str) -> tuple[str, str]:
    """The title, and all visible words of a page, block by block."""
    page = _Page()
    page.feed(html)
    page.close()
    return page.title, page.text


def _article_extractor() -> Callable[[str], str | None]:
    import trafilatura

    def extract(html: str) -> str | None:
        found = trafilatura.extract(html, output_format="markdown", include_links=True, favor_recall=True)
        return found if isinstance(found, str) and found.strip() else None

    return extract


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._title: list[str] = []
        self._in_title = False
        self._unseen = 0

    @property
    def title(self) -> str:
        return " ".join("".join(self._title).split())[:300]

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._parts).splitlines())
        return "\n".join(line for line in lines if line)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = True
        elif tag == "body":
            # A <head> that is never closed must not hide the page.
            self._unseen = 0
        elif tag in _UNSEEN:
            self._unseen += 1
        elif tag in _BLOCKS:
            self._parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in _UNSEEN:
            self._unseen = max(0, self._unseen - 1)
        elif tag in _BLOCKS:
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self._title.append(data)
        elif not self._unseen:
            self._parts.append(data)


def _python_name(name: str) -> str:
    """Python's name of a permitted charset, else an empty text."""
    try:
        found = codecs.lookup(name.strip().strip("\"'")[:40]).name if name else ""
    except (LookupError, ValueError):
        return ""
    # Like browsers: Latin-1 and ASCII stand for their superset Windows-1252.
    return {"iso8859-1": "cp1252", "ascii": "cp1252"}.get(found, found) if found in CHARSETS else ""


def _meta_charset(beginning: bytes) -> str:
    """The value after `charset=` in the page's first bytes."""
    _, found, rest = beginning.lower().partition(b"charset=")
    end = next((at for at, byte in enumerate(rest) if byte in b" \"'/>;" and at), len(rest))
    return rest[:end].decode("ascii", "ignore") if found else ""
