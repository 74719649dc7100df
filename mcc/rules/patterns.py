"""Regular expressions over text that somebody else wrote: RE2, whose time is linear in the text, never backtracking."""

from collections.abc import Iterator
from typing import Any, Protocol

import re2


class Found(Protocol):
    """One match: its groups by number or name, None for one that took no part, and where they stand."""

    def __getitem__(self, group: int | str) -> Any: ...

    def start(self, group: int = 0) -> int: ...

    def end(self, group: int = 0) -> int: ...


class Pattern:
    """A compiled expression; `\\w` takes in letters and digits of all scripts, `\\s`, `\\d` and `\\b` are about ASCII.

    A lone surrogate, which UTF-8 does not have, is taken for a question mark.
    """

    __slots__ = ("_compiled", "source")

    def __init__(self, source: str, *, ignore_case: bool = False, lines: bool = False, across: bool = False) -> None:
        """`lines`: `^` and `$` stand at every line; `across`: a dot takes in the end of a line."""
        flags = f"{'i' if ignore_case else ''}{'m' if lines else ''}{'s' if across else ''}"
        self.source = f"(?{flags}){_worded(source)}" if flags else _worded(source)
        options = re2.Options()
        options.log_errors = False
        self._compiled: Any = re2.compile(self.source, options)

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

    def sub(self, instead: str, text: str) -> str:
        """`text` with `instead`, taken as it is, in the place of each match."""
        changed: str = self._compiled.sub(lambda _: instead, _encodable(text))
        return changed

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


def _worded(source: str) -> str:
    """The expression with `\\w` spelled out."""
    written, within = [], False
    characters = iter(source)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            if following == "w":
                written.append(r"\pL\pN_" if within else r"[\pL\pN_]")
            else:
                written.append(character + following)
            continue
        within = character == "[" or (within and character != "]")
        written.append(character)
    return "".join(written)
