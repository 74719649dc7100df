"""What was read of files, as rules ask for it: lines and words, under paths that are spelled in several ways."""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from mcc.rules.errors import alike
from mcc.rules.patterns import Pattern

READS = "@reads"
"""The variable that `quoted`, `read_lines` and `same_path` are about; no expression can name it."""

_NAMED = 200
_LISTED = 5
_PIECES = 50
_GAP = Pattern(r"\.{3,}|…|\*{3,}")
"""What stands in a quote for what was left out of it."""

_NUMBER = Pattern(r"^[ \t]*\d+(?:\t|:|[ ]?\|)", lines=True)
_MARKS = "`\"'“”‘’«» \t\r\n"


@dataclass(frozen=True, slots=True)
class Passage:
    """Some lines of a file as they were shown, the first of them with number `first` (0: they have no numbers); `path`
    as the tool spelled it."""

    path: str
    first: int
    lines: tuple[str, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def holds(self, line: int) -> bool:
        return 0 < self.first <= line <= self.last


class Reads:
    """Everything that was read. `roots`: how the directory that paths are relative to is spelled, from `/` on."""

    def __init__(self, passages: Iterable[Passage] = (), roots: Sequence[str] = ()) -> None:
        self._roots = tuple(posixpath.normpath(root).rstrip("/") + "/" for root in roots if root)
        read: dict[str, list[Passage]] = {}
        for passage in passages:
            read.setdefault(self.plain(passage.path), []).append(passage)
        self._files = {path: _File(tuple(parts)) for path, parts in read.items()}

    def plain(self, path: str) -> str:
        """The path without `./` and the like, relative where it lies beneath a root."""
        normal = posixpath.normpath(path)
        inside = next((normal[len(root) :] for root in self._roots if normal.startswith(root)), None)
        return inside or ("." if f"{normal}/" in self._roots else normal)

    def same(self, one: str, other: str) -> bool:
        return self.plain(one) == self.plain(other)

    def size(self, path: str) -> int:
        """Characters that were read of a file."""
        found = self._files.get(self.plain(path))
        return 0 if found is None else found.size

    def without_line(self, path: str, line: int) -> str:
        """Why this line of the file was not read; empty when it was."""
        found = self._files.get(self.plain(path))
        if found is None:
            return self._unread(path)
        if any(part.holds(line) for part in found.parts):
            return ""
        runs = found.runs
        if len(runs) == 1 and runs[0].first == 1:
            return f"line {line}: {_short(path)} was read to line {runs[0].last} only"
        spans = [f"{run.first}-{run.last}" for run in runs[:_LISTED]] + ["others"][: len(runs) > _LISTED]
        return f"line {line}: of {_short(path)} only lines {' and '.join(spans)} were read"

    def without_quote(self, path: str, quote: str) -> str:
        """Why this is no quote of what was read of the file; empty when it is one.

        White space may differ, `…` and `...` stand for what was left out, and line numbers may stand before the lines.
        """
        found = self._files.get(self.plain(path))
        if found is None:
            return self._unread(path)
        bare = quote.strip(_MARKS)
        for wording in dict.fromkeys((bare, _NUMBER.sub("", bare))):
            pieces = [piece for piece in map(_words, _GAP.split(wording)) if piece]
            if pieces and len(pieces) <= _PIECES and any(_in_order(pieces, text) for text in found.texts):
                return ""
        if not bare:
            return "there is no text to look for"
        return f"the text “{_short(_words(quote), 60)}” is not in what you read of {_short(path)}"

    def _unread(self, path: str) -> str:
        name = posixpath.basename(path)
        near = [known for known in self._files if posixpath.basename(known) == name] or alike(path, self._files)
        meant = f"; did you mean {_short(near[0])}?" if near else ""
        return f"you read nothing of {_short(path)}{meant}"


@dataclass(frozen=True)
class _File:
    """What was read of one file, in the order in which it was."""

    parts: tuple[Passage, ...]

    @cached_property
    def size(self) -> int:
        return sum(len(line) + 1 for part in self.parts for line in part.lines)

    @cached_property
    def runs(self) -> tuple[Passage, ...]:
        """All lines with a number, those that follow one another together; what was read last counts."""
        known: dict[int, str] = {}
        for part in self.parts:
            known.update(enumerate(part.lines, part.first) if part.first else ())
        return tuple(_runs(self.parts[0].path, known))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The words of each run, and of each part by itself."""
        parts = () if len(self.parts) == 1 and self.parts[0].first else self.parts
        return tuple(dict.fromkeys(_words(one.text) for one in (*self.runs, *parts)))


def _runs(path: str, known: dict[int, str]) -> Iterator[Passage]:
    first, lines = 0, list[str]()
    for number in sorted(known):
        if lines and number != first + len(lines):
            yield Passage(path, first, tuple(lines))
            lines = []
        first = first if lines else number
        lines.append(known[number])
    if lines:
        yield Passage(path, first, tuple(lines))


def _in_order(pieces: Iterable[str], text: str) -> bool:
    at = 0
    for piece in pieces:
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _words(text: str) -> str:
    return " ".join(text.split())


def _short(text: str, most: int = _NAMED) -> str:
    plain = _words(text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"
