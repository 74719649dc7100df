"""The tool `search_text`: its results are the same, in the same order, with or without ripgrep."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Literal

from pydantic import Field

from drone.sandbox.places.paths import PathDenied, PathError, PathMissing, Workspace
from drone.tools.files.glob import Glob
from drone.tools.files.listing import MAX_WHOLE_BYTES, with_nearest, workspace_of
from drone.tools.files.pattern import LinePattern, LinePatternError
from drone.tools.files.ripgrep import Ripgrep
from drone.tools.files.walk import Kind, Walk, WalkedEntry, normal, plural, read_up_to
from drone.tools.frame.display_text import display_path, strip_controls, word_after, word_before
from drone.tools.frame.tool import ToolContext, ToolFailed, tool
from mcc.contracts.shape import Text

SECONDS = 30.0
"""How long one search may take; the result then holds what was found so far, and says so."""

MAX_MATCHES = 2_000
_MAX_OUTPUT = 200_000
_LINE = 500
_BEFORE = 100
_SNIFFED = 8_192
_BOM = b"\xef\xbb\xbf"

Searcher = Callable[..., str]
Shape = Literal["lines", "files", "count"]


def search_tool(ripgrep: Ripgrep | None) -> Searcher:
    """The tool `search_text`. `ripgrep` narrows down the files to read; without it every file is read."""

    @tool(idempotent=True, seconds=90, effects="read")
    def search_text(
        context: ToolContext,
        pattern: Text,
        path: Text = ".",
        glob: Text | None = None,
        literal: bool = False,
        case_sensitive: bool = True,
        context_lines: Annotated[int, Field(ge=0, le=20)] = 0,
        limit: Annotated[int, Field(ge=1, le=MAX_MATCHES)] = 100,
        output: Shape = "lines",
    ) -> str:
        """Search the text of the workspace's files for a regular expression, line by line.

        Each file with a match, below it `line:text`; lines around as `line-text`. What .gitignore names and binary
        files are left out. Ask for files first where much may match.

        Args:
            pattern: RE2 syntax, for example `def \\w+_id\\(`; it sees one line.
            path: The directory or file to search.
            glob: Only such files, as `*.py` or `src/**/*.{ts,tsx}`; with a leading `!` only others.
            literal: Take the pattern as plain text.
            case_sensitive: False ignores case.
            context_lines: Lines before and after each match.
            limit: Lines, or files, at most.
            output: lines; files: their paths alone; count: matches in each.
        """
        workspace = workspace_of(context)
        try:
            compiled = LinePattern(pattern, literal=literal, case_sensitive=case_sensitive)
        except LinePatternError as error:
            raise ToolFailed(str(error)) from error
        scope = SearchScope.of(workspace, path, glob, context)
        return Search(workspace, compiled, scope, Display(output, context_lines, limit), ripgrep, context).report()

    return search_text


@dataclass(frozen=True, slots=True)
class Display:
    """How matches are shown; `limit` counts lines, or files unless `output` is `lines`."""

    output: Shape = "lines"
    context_lines: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The files to search, in byte order of their paths; `notes` are about those that are left out."""

    files: Sequence[WalkedEntry]
    shown: str
    notes: list[str]

    @classmethod
    def of(cls, workspace: Workspace, path: str, glob: str | None, context: ToolContext) -> "SearchScope":
        walk = Walk(workspace, path, None, context.stop)
        try:
            single = _single(workspace, path)
            found = _matching(walk, glob) if single is None else [single]
        except PathMissing as missing:
            raise with_nearest(workspace, missing, path) from missing
        files = [file for file in found if file.size <= MAX_WHOLE_BYTES]
        if len(files) < len(found):
            left_out = plural(len(found) - len(files), "file")
            walk.notes.append(f"Not searched, because larger than {MAX_WHOLE_BYTES:,} bytes: {left_out}.")
        return cls(files, display_path(path) + (f" with {display_path(glob)}" if glob else ""), walk.notes)


def _single(workspace: Workspace, path: str) -> WalkedEntry | None:
    """The file at `path`, None if that is a directory. Raises `PathDenied` and `PathMissing`."""
    try:
        with workspace.open_file(path) as file:
            return WalkedEntry(os.fsdecode(normal(workspace, path)), Kind.FILE, file.seek(0, os.SEEK_END))
    except (PathDenied, PathMissing):
        raise
    except PathError:
        return None


def _matching(walk: Walk, glob: str | None) -> list[WalkedEntry]:
    """The files of the walk that the glob matches, or does not match after an exclamation mark."""
    entries = list(walk.entries())
    if glob is None:
        return [entry for entry in entries if entry.kind is Kind.FILE]
    tested = Glob(glob.removeprefix("!"), walk.workspace)
    fitting = tested.files(entries, walk.stop)
    if glob.startswith("!"):
        left_out = {entry.path for entry in fitting}
        fitting = [entry for entry in entries if entry.kind is Kind.FILE and entry.path not in left_out]
    elif not fitting:
        walk.notes += tested.on_nothing(walk, entries)
    walk.notes += tested.notes
    return fitting


@dataclass
class Search:
    """The state of one search."""

    workspace: Workspace
    pattern: LinePattern
    scope: SearchScope
    display: Display
    ripgrep: Ripgrep | None
    context: ToolContext
    matches: int = 0
    matching_files: int = 0
    lines: list[str] = field(default_factory=list)
    _size: int = 0
    _cut: str = ""

    def report(self) -> str:
        until = time.monotonic() + SECONDS
        candidates: Sequence[str] = [file.path for file in self.scope.files]
        if self.ripgrep is not None:
            candidates = self.ripgrep.candidates(self.pattern, self.workspace, candidates, self.context.stop, until)
        for path in candidates:
            if self.context.stop.is_set() or time.monotonic() > until:
                self._cut = f"Stopped after {SECONDS:g} s; search a smaller part."
            if self._cut:
                break
            self._search(path)
        notes = [f"[{note}]" for note in (self._cut, *self.scope.notes) if note]
        return "\n".join([self._head(), *self.lines, *notes])

    def _head(self) -> str:
        searched = f"{plural(len(self.scope.files), 'file')} in {self.scope.shown}"
        if not self.matches:
            return f"No match in {searched}."
        first = "the first " if self._cut else ""
        files = plural(self.matching_files, "file")
        if self.display.output == "files":
            return f"{first}{files} with a match, of {searched}"
        counted = f"{plural(self.matches, 'matching line')} in {files}"
        return f"{first}{counted}, of {searched}"

    def _search(self, path: str) -> None:
        data = self._text(path)
        if data is None:
            return
        if self.display.output != "lines":
            self._count(path, data)
            return
        places: list[tuple[int, int, int]] = []
        number, counted = 1, 0
        for start, match in self.pattern.lines(data):
            if self.matches == self.display.limit:
                self._stop_at("matching lines")
                break
            number += data.count(b"\n", counted, start)
            counted = start
            self.matches += 1
            places.append((number, start, match))
        self.matching_files += bool(places)
        if places:
            # A name that begins with a number would look like a line of the file before it.
            name = f"./{path}" if path[:1].isdecimal() else path
            self._show(name, _numbered_lines(data, places, self.display.context_lines))

    def _count(self, path: str, data: bytes) -> None:
        """Show the file's path, with its number of matches where that is asked for, if anything in it matches."""
        lines = self.pattern.lines(data)
        count = sum(1 for _ in (islice(lines, 1) if self.display.output == "files" else lines))
        if not count:
            return
        if self.matching_files == self.display.limit:
            self._stop_at("files")
            return
        self.matches += count
        self.matching_files += 1
        self._show(path, (), f": {count:,}" if self.display.output == "count" else "")

    def _stop_at(self, counted: str) -> None:
        self._cut = f"Cut at {self.display.limit:,} {counted}; narrow the pattern, path or glob, or raise limit."

    def _show(self, path: str, lines: Iterable[str], counted: str = "") -> None:
        for line in (display_path(path) + counted, *lines):
            self._size += len(line.encode("utf-8", "replace"))
            if self._size > _MAX_OUTPUT:
                self._cut = f"Cut after {_MAX_OUTPUT:,} bytes; narrow the pattern, path or glob."
                break
            self.lines.append(line)

    def _text(self, path: str) -> bytes | None:
        """The file's content with `\\n` line ends; None when it is binary or can no longer be read."""
        try:
            with self.workspace.open_file(path) as file:
                data = read_up_to(file.fileno(), MAX_WHOLE_BYTES)
        except (PathError, OSError):
            self.scope.notes.append(f"{display_path(path)} could not be read.")
            return None
        if b"\0" in data[:_SNIFFED]:
            return None
        return data.removeprefix(_BOM).replace(b"\r\n", b"\n")


def _numbered_lines(data: bytes, places: Sequence[tuple[int, int, int]], around: int) -> Iterator[str]:
    """`number:text` for each place (line number, offset of the line, offset of its match), with lines around it."""
    if not around:
        for number, start, match in places:
            end = data.find(b"\n", start)
            yield f"{number}:{_window(data[start:] if end < 0 else data[start:end], match - start)}"
        return
    all_lines = data.split(b"\n")
    if not all_lines[-1]:
        all_lines.pop()
    matching = {number: match - start for number, start, match in places}
    previous = 0
    for number in _with_context(matching, around, len(all_lines)):
        if previous and number > previous + 1:
            yield "--"
        mark = ":" if number in matching else "-"
        yield f"{number}{mark}{_window(all_lines[number - 1], matching.get(number, 0))}"
        previous = number


def _with_context(matching: Iterable[int], around: int, last: int) -> Iterator[int]:
    """The matching line numbers and `around` more on each side, up to `last`, each once, ascending."""
    done = 0
    for number in matching:
        for shown in range(max(done + 1, number - around), min(last, number + around) + 1):
            yield shown
            done = shown


def _window(line: bytes, match: int) -> str:
    """A line for display; of a long one only the part around its match."""
    if len(line) <= _LINE:
        return _one_line(line)
    begin = max(0, min(match - _BEFORE, len(line) - _LINE))
    end = min(len(line), begin + _LINE)
    begin, end = word_after(line, begin, match), word_before(line, end, match)
    before, after = ("…" if begin else ""), ("…" if end < len(line) else "")
    return f"{before}{_one_line(line[begin:end])}{after}"


def _one_line(line: bytes) -> str:
    return strip_controls(line.decode("utf-8", "replace")).replace("\n", "␍")
