"""Looking at a workspace: what is there, what it is called, and what stands in a file."""

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Annotated, Any, BinaryIO

import re2
from pydantic import Field

from drone.sandbox.paths import PathError, PathMissing, Workspace
from drone.tools.display_text import pictured, word_before, written
from drone.tools.glob import GlobError, expression
from drone.tools.tool import ToolContext, ToolFailed, tool
from drone.tools.walk import Found, Kind, Walk, read_up_to
from mcc.contracts.shape import Text
from mcc.rules.errors import alike

MAX_LISTED = 2_000
MAX_WHOLE_BYTES = 10_000_000
"""The largest file that is read without a range."""

MAX_TEXT_BYTES = 200_000
"""What one read gives back at most; the header says how to go on."""

_SCAN_BYTES = 256_000_000
_PIECE = 65_536
_SNIFFED = 8_192

LineNumber = Annotated[int, Field(ge=1)]


@tool(group="workspace_read", idempotent=True, seconds=60, effects="read")
def list_files(context: ToolContext, path: Text = ".", depth: Annotated[int, Field(ge=1, le=50)] = 2) -> str:
    """Show what is in a directory of the workspace, as a first look at a project or a part of it.

    The first line counts directories and files, then comes one path per line in byte order, relative to the workspace;
    directories end in a slash. What .gitignore names is left out, dot files are shown. Use find_files when you know a
    part of the name, search_text when you know what stands in the file.

    Args:
        path: The directory, relative to the workspace; the whole workspace when left out.
        depth: How many levels to go down; 1 shows only the directory's own entries. At most 2,000 entries are shown.
    """
    walk = Walk(workspace_of(context), path, depth, context.stop)
    found = _entries(walk)
    counts = f"{_count(found, Kind.DIRECTORY, 'directory')}, {_count(found, Kind.FILE, 'file')}"
    lines = [f"{counts} in {written(path)} (depth {depth})", *(_line(one) for one in found[:MAX_LISTED])]
    return _with_notes(lines, len(found), walk.notes, "Name a directory below, or a smaller depth, to see the rest.")


@tool(group="workspace_read", idempotent=True, seconds=60, effects="read")
def find_files(context: ToolContext, pattern: Text, path: Text = ".") -> str:
    """Find files of the workspace by their name, with a glob.

    A pattern without a slash is looked for in every directory (`*.py`, `Dockerfile`); one with a slash is held against
    the whole path (`src/**/*.ts`, `**/test_*.py`). `*` and `?` stay within a name, `**` spans directories, `[a-z]` and
    `{ts,tsx}` work. Case counts. The first line says how many match, then comes one path per line in byte order. What
    .gitignore names is left out.

    Args:
        pattern: The glob; relative to `path` or to the workspace.
        path: The directory to look in, relative to the workspace; the whole workspace when left out.
    """
    fits = matcher(pattern)
    walk = Walk(workspace_of(context), path, None, context.stop)
    entries = [one for one in _entries(walk) if one.kind is Kind.FILE]
    found = [one for one in entries if not context.stop.is_set() and (fits(one.path) or fits(one.below))]
    head = f"{_plural(len(found), 'file')} of {len(entries):,} in {written(path)} match {written(pattern)}"
    lines = [head, *(written(one.path) for one in found[:MAX_LISTED])]
    return _with_notes(lines, len(found), walk.notes, "Narrow the pattern or name a path to see the rest.")


@tool(group="workspace_read", idempotent=True, seconds=60, effects="read")
def read_file(
    context: ToolContext, path: Text, start_line: LineNumber | None = None, end_line: LineNumber | None = None
) -> str:
    """Read a text file of the workspace, or some lines of it.

    The first line of the result says which lines of how many follow; from the second line on it is the file's own text,
    exactly, without line numbers; control characters are shown as pictures, such as ␛. At most 200,000 bytes come at
    once; the first line then says where to go on. Read the whole file when it is small; for a large one, find the place
    with search_text and read around it.

    Args:
        path: The file, relative to the workspace.
        start_line: The first line to read, counted from 1.
        end_line: The last line to read, included.
    """
    workspace = workspace_of(context)
    try:
        file = workspace.open_file(path)
    except PathMissing as missing:
        raise with_nearest(workspace, missing, path) from missing
    with file:
        return _Reading(path, file, start_line, end_line, context.stop).text()


FILE_TOOLS = (list_files, find_files, read_file)


def workspace_of(context: ToolContext) -> Workspace:
    if context.workspace is None:
        raise ToolFailed("This order has no workspace, so there are no files to look at.")
    return context.workspace


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reading one open file."""

    path: str
    file: BinaryIO
    start_line: int | None
    end_line: int | None
    stop: Event

    def text(self) -> str:
        size = self.file.seek(0, io.SEEK_END)
        self.file.seek(0)
        first, last = self.start_line or 1, self.end_line
        if last is not None and last < first:
            raise ToolFailed(f"end_line ({last}) is before start_line ({first}).")
        if size > MAX_WHOLE_BYTES and self.start_line is None and last is None:
            raise ToolFailed(
                f"{written(self.path)} has {size:,} bytes, more than is read whole ({MAX_WHOLE_BYTES:,}); "
                "find the place with search_text or read some lines with start_line and end_line."
            )
        return self._shown(size, first, last)

    def _shown(self, size: int, first: int, last: int | None) -> str:
        total, source = None, self.file
        if size <= MAX_WHOLE_BYTES:
            data = read_up_to(self.file.fileno(), MAX_WHOLE_BYTES)
            total, size, source = _lines(data), len(data), io.BytesIO(data)
        self._refuse_binary(source, size)
        taken, final, whole = self._taken(source, first, last)
        if not size:
            return f"{written(self.path)}, empty (0 bytes)\n"
        if final < first:
            raise ToolFailed(f"{written(self.path)} has {_plural(final, 'line')}, so there is no line {first}.")
        text, notes = _decoded(taken)
        of = f" of {total:,}" if total is not None else ""
        head = (written(self.path), f"lines {first}-{final}{of}", f"{size:,} bytes", *notes, *whole)
        # No sign beyond ASCII: one in the head makes Python hold two bytes for each character of the whole text, and a
        # copy of it as UTF-8 beside them once it was sent.
        return f"{', '.join(head)}\n{text}"

    def _refuse_binary(self, source: BinaryIO, size: int) -> None:
        head = source.read(_SNIFFED)
        source.seek(0)
        if b"\0" in head:
            raise ToolFailed(
                f"{written(self.path)} is binary ({size:,} bytes, a NUL at byte {head.index(0):,}) "
                "and cannot be shown as text."
            )

    def _taken(self, source: BinaryIO, first: int, last: int | None) -> tuple[bytes, int, list[str]]:
        """The bytes of the lines, the number of the last one, and what to say when not all could be given."""
        pieces: list[bytes] = []
        number, size, scanned, ended = 1, 0, 0, True
        while (last is None or number <= last) and (piece := source.readline(_PIECE)):
            scanned += len(piece)
            if self.stop.is_set() or scanned > _SCAN_BYTES:
                raise ToolFailed(
                    f"Line {first} of {written(self.path)} is too far into the file; search_text may find it."
                )
            if number >= first:
                if size + len(piece) > MAX_TEXT_BYTES:
                    return _cut(b"".join(pieces), piece, number)
                pieces.append(piece)
                size += len(piece)
            ended = piece.endswith(b"\n")
            number += ended
        return b"".join(pieces), number - ended, []


def _cut(data: bytes, more: bytes, number: int) -> tuple[bytes, int, list[str]]:
    """What fits before `more` of line `number`: whole lines if there are any, else the beginning of that line."""
    whole_lines = data.rfind(b"\n") + 1
    if whole_lines:
        return data[:whole_lines], number - 1, [f"go on with start_line={number}"]
    end = word_before(data + more[:1], len(data))
    return data[:end], number, [f"line {number} is cut after {end:,} bytes"]


def _lines(data: bytes) -> int:
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


def _decoded(data: bytes) -> tuple[str, list[str]]:
    """The text of the bytes, and what had to be shown in another way."""
    notes: list[str] = []
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        notes.append("not all of it is UTF-8; the bytes that are not are shown as �")
    text, controls = pictured(text)
    if controls:
        notes.append(f"{_plural(controls, 'control character')} shown as pictures, such as ␀ and ␛")
    return text, notes


def _entries(walk: Walk) -> list[Found]:
    try:
        return list(walk.entries())
    except PathMissing as missing:
        raise with_nearest(walk.workspace, missing, walk.start) from missing


def _line(found: Found) -> str:
    if found.kind is Kind.DIRECTORY:
        return written(found.path + "/")
    mark = {Kind.LINK: " (symbolic link)", Kind.OTHER: " (not a regular file)"}.get(found.kind, "")
    return written(found.path) + mark


def _count(found: list[Found], kind: Kind, word: str) -> str:
    return _plural(sum(one.kind is kind for one in found), word)


def _plural(number: int, word: str) -> str:
    many = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{number:,} {word if number == 1 else many}"


def _with_notes(lines: list[str], total: int, notes: list[str], narrow: str) -> str:
    if total > MAX_LISTED:
        lines.append(f"[{total - MAX_LISTED:,} more are not shown. {narrow}]")
    lines.extend(f"[{note}]" for note in notes)
    return "\n".join(lines)


def matcher(glob: str) -> Callable[[str], bool]:
    """Whether a path fits the glob: one without a slash is about the last name, any other about the whole path.

    Raises `ToolFailed`.
    """
    bare = glob.removeprefix("./")
    try:
        bare.encode()
        source = ("" if "/" in bare else "(?s:.*/)?") + expression(bare, braces=True)
        options = re2.Options()
        options.log_errors = False
        compiled: Any = re2.compile(source, options)
    except (GlobError, UnicodeEncodeError, re2.error) as error:
        said = error if isinstance(error, GlobError) else "it cannot be read."
        raise ToolFailed(f"The glob {glob[:200]!r} cannot be used: {said}") from error
    return lambda path: compiled.fullmatch(os.fsencode(path)) is not None


def with_nearest(workspace: Workspace, missing: PathMissing, path: str) -> ToolFailed:
    """The sentence of `missing`, with names of the same directory that look like the one that was asked for."""
    parent, _, name = path.rstrip("/").rpartition("/")
    try:
        fd = workspace.open_directory(parent or ("/" if path.startswith("/") else "."))
    except PathError:
        return ToolFailed(
            f"{missing} Its directory does not exist either; list_files and find_files show what is there."
        )
    try:
        siblings = sorted(entry.name for entry in workspace.entries(fd))
        near = alike(name, siblings, n=3)
    finally:
        os.close(fd)
    there = ", ".join(written(f"{parent}/{other}" if parent else other) for other in near)
    return ToolFailed(f"{missing} There is {there}." if near else f"{missing} find_files finds a file by its name.")
