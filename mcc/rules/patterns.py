"""Regular expressions over text that somebody else wrote: RE2, whose time is linear in the text, never backtracking."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol

import re2


class Found(Protocol):
    """One match: its groups by number or name, and where they stand; None and -1 for one that took no part."""

    def __getitem__(self, group: int | str) -> Any: ...

    def group(self) -> str: ...

    def groups(self) -> tuple[str, ...]: ...

    def groupdict(self) -> dict[str, str]: ...

    def start(self, group: int = 0) -> int: ...

    def end(self, group: int = 0) -> int: ...


class PatternError(ValueError):
    """What was to be a pattern is none."""


class Pattern:
    """A compiled expression; `\\w` and `\\s` are about all scripts, `\\d` and `\\b` about ASCII.

    A lone surrogate, which UTF-8 does not have, is taken for a question mark.
    """

    __slots__ = ("_compiled", "source")

    def __init__(self, source: str, *, ignore_case: bool = False, lines: bool = False, across: bool = False) -> None:
        """`lines`: `^` and `$` stand at every line; `across`: a dot takes in a line's end. Raises `PatternError`."""
        flags = f"{'i' if ignore_case else ''}{'m' if lines else ''}{'s' if across else ''}"
        self.source = f"(?{flags}){_worded(source)}" if flags else _worded(source)
        options = re2.Options()
        options.log_errors = False
        try:
            self._compiled: Any = re2.compile(self.source, options)
        except (re2.error, UnicodeEncodeError) as error:
            raise PatternError(f"{source[:200]!r} is no regular expression that RE2 knows") from error

    def search(self, text: str, start: int = 0) -> Found | None:
        found: Found | None = self._compiled.search(_encodable(text), start)
        return found

    def match(self, text: str, start: int = 0) -> Found | None:
        found: Found | None = self._compiled.match(_encodable(text), start)
        return found

    def fullmatch(self, text: str) -> Found | None:
        found: Found | None = self._compiled.fullmatch(_encodable(text))
        return found

    def finditer(self, text: str) -> Iterator[Found]:
        yield from self._compiled.finditer(_encodable(text))

    def findall(self, text: str) -> list[str]:
        """The first group of each match, or all of it when the expression has none."""
        return [found[1] or "" if self._compiled.groups else found[0] for found in self.finditer(text)]

    def sub(self, instead: str | Callable[[Found], str], text: str, most: int = 0) -> str:
        """`text` with `instead`, taken as it is or made of each match, in the place of the first `most` (0 = all)."""
        pieces, at = list[str](), 0
        for found in islice(self.finditer(text), most or None):
            pieces += (text[at : found.start()], instead if isinstance(instead, str) else instead(found))
            at = found.end()
        return "".join((*pieces, text[at:]))

    def split(self, text: str, most: int = 0) -> list[str]:
        pieces: list[str] = self._compiled.split(_encodable(text), most)
        return pieces


def _encodable(text: str) -> str:
    """Characters stand where they stood, so that places in one text are places in the other."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


_SPACES = r"\s\v\x{1c}-\x{1f}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_WITHIN: Mapping[str, str] = {"w": r"\pL\pN_", "s": _SPACES}
_ALONE: Mapping[str, str] = {
    "w": r"[\pL\pN_]",
    "W": r"[^\pL\pN_]",
    "s": f"[{_SPACES}]",
    "S": f"[^{_SPACES}]",
}


def _worded(source: str) -> str:
    """The expression with its classes of words and spaces spelled out."""
    written, within = [], False
    characters = iter(source)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            written.append((_WITHIN if within else _ALONE).get(following, character + following))
            continue
        within = character == "[" or (within and character != "]")
        written.append(character)
    return "".join(written)
