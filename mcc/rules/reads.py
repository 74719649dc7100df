"""Text that an agent has read from files, for rules that check line numbers and quotes."""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from mcc.contracts.similar import close_matches
from mcc.rules.patterns import Pattern

READS = "@reads"
"""The variable that `quoted`, `read_lines` and `same_path` look at; `@` keeps expressions from naming it."""

_MAX_SHOWN = 200
"""Characters of a path or text in a message."""
_MAX_SPANS = 5
"""Line ranges in a message."""
_MAX_PIECES = 50
"""Pieces of a quote between omission marks."""
_OMISSION = Pattern(r"\.{3,}|…|\*{3,}")
"""The marks in a quote for text that it leaves out."""

_LINE_NUMBER = Pattern(r"^[ \t]*\d+(?:\t|:|[ ]?\|)", lines=True)
_QUOTE_MARKS = "`\"'“”‘’«» \t\r\n"


@dataclass(frozen=True, slots=True)
class Passage:
    """Consecutive lines of a file as a tool showed them. `first` is the number of the first line (0: unknown); `path`
    is spelled as by the tool."""

    path: str
    first: int
    lines: tuple[str, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def has_line(self, line: int) -> bool:
        return 0 < self.first <= line <= self.last


class Reads:
    """Everything that was read. `roots`: the absolute spellings of the directory that paths are relative to."""

    def __init__(self, passages: Iterable[Passage] = (), roots: Sequence[str] = ()) -> None:
        self._roots = tuple(posixpath.normpath(root).rstrip("/") + "/" for root in roots if root)
        by_path: dict[str, list[Passage]] = {}
        for passage in passages:
            by_path.setdefault(self.normalized(passage.path), []).append(passage)
        self._files = {path: _File(tuple(passages)) for path, passages in by_path.items()}

    def normalized(self, path: str) -> str:
        """The path without `./` and the like, and relative if it lies beneath a root."""
        normal = posixpath.normpath(path)
        inside = next((normal[len(root) :] for root in self._roots if normal.startswith(root)), None)
        return inside or ("." if f"{normal}/" in self._roots else normal)

    def same(self, one: str, other: str) -> bool:
        return self.normalized(one) == self.normalized(other)

    def size(self, path: str) -> int:
        """Number of characters read from the file."""
        found = self._files.get(self.normalized(path))
        return 0 if found is None else found.size

    def line_problem(self, path: str, line: int) -> str:
        """Why this line of the file counts as not read; "" when it was read."""
        reads = self._files.get(self.normalized(path))
        if reads is None:
            return self._unread(path)
        if any(passage.has_line(line) for passage in reads.passages):
            return ""
        runs = reads.runs
        if len(runs) == 1 and runs[0].first == 1:
            return f"line {line}: {_short(path)} was read to line {runs[0].last} only"
        spans = [f"{run.first}-{run.last}" for run in runs[:_MAX_SPANS]] + ["others"][: len(runs) > _MAX_SPANS]
        return f"line {line}: of {_short(path)} only lines {' and '.join(spans)} were read"

    def quote_problem(self, path: str, quote: str) -> str:
        """Why `quote` is not a quote of the text read from the file; "" when it is one.

        White space may differ, `…` and `...` mark omissions, and each line may begin with its number.
        """
        reads = self._files.get(self.normalized(path))
        if reads is None:
            return self._unread(path)
        bare = quote.strip(_QUOTE_MARKS)
        for wording in dict.fromkeys((bare, _LINE_NUMBER.sub("", bare))):
            pieces = [piece for piece in map(_single_spaced, _OMISSION.split(wording)) if piece]
            if pieces and len(pieces) <= _MAX_PIECES and any(_in_order(pieces, text) for text in reads.texts):
                return ""
        if not bare:
            return "there is no text to look for"
        return f"the text “{_short(_single_spaced(quote), 60)}” is not in what you read of {_short(path)}"

    def _unread(self, path: str) -> str:
        name = posixpath.basename(path)
        near = [known for known in self._files if posixpath.basename(known) == name] or close_matches(path, self._files)
        hint = f"; did you mean {_short(near[0])}?" if near else ""
        return f"you read nothing of {_short(path)}{hint}"


@dataclass(frozen=True)
class _File:
    """The passages read from one file, oldest first."""

    passages: tuple[Passage, ...]

    @cached_property
    def size(self) -> int:
        return sum(len(line) + 1 for passage in self.passages for line in passage.lines)

    @cached_property
    def runs(self) -> tuple[Passage, ...]:
        """All numbered lines, with consecutive ones joined. A line that was read twice has its later text."""
        by_number: dict[int, str] = {}
        for passage in self.passages:
            by_number.update(enumerate(passage.lines, passage.first) if passage.first else ())
        return tuple(_runs(self.passages[0].path, by_number))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The texts to search for quotes, single-spaced: each run, and each passage by itself."""
        passages = () if len(self.passages) == 1 and self.passages[0].first else self.passages
        return tuple(dict.fromkeys(_single_spaced(one.text) for one in (*self.runs, *passages)))


def _runs(path: str, by_number: dict[int, str]) -> Iterator[Passage]:
    first, lines = 0, list[str]()
    for number in sorted(by_number):
        if lines and number != first + len(lines):
            yield Passage(path, first, tuple(lines))
            lines = []
        first = first if lines else number
        lines.append(by_number[number])
    if lines:
        yield Passage(path, first, tuple(lines))


def _in_order(pieces: Iterable[str], text: str) -> bool:
    """Whether `text` contains all pieces one after another."""
    at = 0
    for piece in pieces:
        start = text.find(piece, at)
        if start < 0:
            return False
        at = start + len(piece)
    return True


def _single_spaced(text: str) -> str:
    return " ".join(text.split())


def _short(text: str, most: int = _MAX_SHOWN) -> str:
    flat = _single_spaced(text)
    return flat if len(flat) <= most else flat[: most - 1] + "…"
