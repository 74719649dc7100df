"""Regular expressions and globs over untrusted text. RE2 takes time linear in the text and never backtracks."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol

import re2


class PatternMatch(Protocol):
    """One match: its groups by number or name, and their positions. A group that did not take part is None, at -1."""

    def __getitem__(self, group: int | str) -> Any: ...

    def group(self) -> str: ...

    def groups(self) -> tuple[str, ...]: ...

    def groupdict(self) -> dict[str, str]: ...

    def start(self, group: int = 0) -> int: ...

    def end(self, group: int = 0) -> int: ...


class PatternError(ValueError):
    """The text is not a regular expression of RE2."""


class Pattern:
    """An expression, compiled at its first use. `\\w` and `\\s` cover all scripts, `\\d` and `\\b` only ASCII.

    Each method raises `PatternError` if the expression is none. A lone surrogate, which UTF-8 cannot encode, is treated
    as a question mark.
    """

    __slots__ = ("_compiled", "_written", "source")

    def __init__(self, source: str, *, ignore_case: bool = False, lines: bool = False, across: bool = False) -> None:
        """`lines`: `^` and `$` match at every line; `across`: a dot matches line ends too."""
        flags = f"{'i' if ignore_case else ''}{'m' if lines else ''}{'s' if across else ''}"
        self._written = source
        self.source = f"(?{flags}){_with_unicode_classes(source)}" if flags else _with_unicode_classes(source)

    def __getattr__(self, name: str) -> Any:
        # Called where a slot is empty. Most expressions of an import are never used, and large ones take milliseconds.
        if name != "_compiled":
            raise AttributeError(name)
        options = re2.Options()
        options.log_errors = False
        try:
            self._compiled: Any = re2.compile(self.source, options)
        except (re2.error, UnicodeEncodeError) as error:
            raise PatternError(f"{self._written[:200]!r} is no regular expression that RE2 knows") from error
        return self._compiled

    def search(self, text: str, start: int = 0) -> PatternMatch | None:
        found: PatternMatch | None = self._compiled.search(_encodable(text), start)
        return found

    def match(self, text: str, start: int = 0) -> PatternMatch | None:
        found: PatternMatch | None = self._compiled.match(_encodable(text), start)
        return found

    def fullmatch(self, text: str) -> PatternMatch | None:
        found: PatternMatch | None = self._compiled.fullmatch(_encodable(text))
        return found

    def finditer(self, text: str) -> Iterator[PatternMatch]:
        yield from self._compiled.finditer(_encodable(text))

    def findall(self, text: str) -> list[str]:
        """The first group of each match, or the whole match when the expression has no group."""
        return [found[1] or "" if self._compiled.groups else found[0] for found in self.finditer(text)]

    def sub(self, replacement: str | Callable[[PatternMatch], str], text: str, most: int = 0) -> str:
        """`text` with the first `most` matches replaced (0 = all). A string is inserted as it is, without escapes."""
        pieces, at = list[str](), 0
        for found in islice(self.finditer(text), most or None):
            pieces += (text[at : found.start()], replacement if isinstance(replacement, str) else replacement(found))
            at = found.end()
        return "".join((*pieces, text[at:]))

    def split(self, text: str, most: int = 0) -> list[str]:
        pieces: list[str] = self._compiled.split(_encodable(text), most)
        return pieces


def _encodable(text: str) -> str:
    """`text` with lone surrogates replaced one for one, so that positions stay the same."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


_SPACES = r"\s\v\x{1c}-\x{1f}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_INSIDE_BRACKETS: Mapping[str, str] = {"w": r"\pL\pN_", "s": _SPACES}
_OUTSIDE_BRACKETS: Mapping[str, str] = {
    "w": r"[\pL\pN_]",
    "W": r"[^\pL\pN_]",
    "s": f"[{_SPACES}]",
    "S": f"[^{_SPACES}]",
}


def _with_unicode_classes(source: str) -> str:
    """The expression with `\\w`, `\\W`, `\\s` and `\\S`, which are ASCII in RE2, replaced by their Unicode classes."""
    written, in_brackets = [], False
    characters = iter(source)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            classes = _INSIDE_BRACKETS if in_brackets else _OUTSIDE_BRACKETS
            written.append(classes.get(following, character + following))
            continue
        in_brackets = character == "[" or (in_brackets and character != "]")
        written.append(character)
    return "".join(written)


def matches_glob(name: str, glob: str) -> bool:
    """Whether the name matches the glob: `*` stands for any characters, `?` for one, everything else for itself.

    `name` may itself be a glob; its `*` and `?` then match only what covers all that they stand for.
    """
    if "*" not in glob and "?" not in glob:
        return name == glob
    return _glob_pattern(glob).fullmatch(name) is not None


_GLOB_MARKS = {"*": ".*", "?": "."}


@lru_cache(maxsize=1024)
def _glob_pattern(glob: str) -> Pattern:
    parts = (_GLOB_MARKS.get(char) or (char if char.isalnum() or char == "_" else f"\\{char}") for char in glob)
    return Pattern("".join(parts), across=True)
