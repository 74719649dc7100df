"""The tool `read_file`: numbered lines of texts, notebooks and PDFs, and pictures; several files in one call."""

import base64
import codecs
import io
import os
import posixpath
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from threading import Event
from typing import Annotated, BinaryIO

from pydantic import Field

from drone.agent.ports.receipts import cut_mark, head, numbered
from drone.agent.turns.toolset import Output
from drone.sandbox.places.paths import PathError, PathMissing, Workspace
from drone.tools.files.documents import (
    NOTEBOOK_SECONDS,
    PDF_SECONDS,
    is_notebook,
    notebook_reader,
    pdf_problem,
    pdf_reader,
)
from drone.tools.files.listing import MAX_WHOLE_BYTES, LineNumber, with_nearest, workspace_of
from drone.tools.files.rendition import LARGEST_PICTURE, Renderer
from drone.tools.files.walk import read_up_to
from drone.tools.frame.display_text import cut, display_path, show_controls
from drone.tools.frame.tool import ToolContext, ToolFailed, threads_of, tool
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.media import BadPicture, is_picture
from mcc.contracts.shape import Text
from mcc.side_process import CutOff, SideProcess

LINES = 500
"""Lines shown of each file when the call names no `end_line`."""

CHARACTERS = 40_000
"""Characters shown by a call without `end_line`, over all its files."""

MOST_CHARACTERS = 100_000
"""Characters shown by a call with `end_line`, over all its files."""

LONGEST_LINE = 1_000
MOST_FILES = 10

_SCAN_BYTES = 256_000_000
_PIECE = 65_536
_SNIFFED = 8_192
_PDF = b"%PDF-"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@tool(idempotent=True, seconds=60, effects="read")
async def read_file(
    context: ToolContext,
    path: Text | None = None,
    paths: Annotated[list[Text], Field(min_length=1, max_length=MOST_FILES)] | None = None,
    start_line: LineNumber | None = None,
    end_line: LineNumber | None = None,
) -> Output:
    """Read a text file, notebook, PDF or picture of the workspace, some lines of it, or several files at once.

    The head says where to go on; lines come as number, tab, text, cut after 1,000 characters. Without end_line at most
    500 lines, 40,000 characters in all.

    Args:
        path: The file, relative to the workspace.
        paths: Up to 10 files, instead of path.
        start_line: First line, from 1.
        end_line: Last line, included.
    """
    workspace = workspace_of(context)
    if (path is None) is (paths is None):
        raise ToolFailed("Give either path or paths.")
    if start_line and end_line and end_line < start_line:
        raise ToolFailed(f"end_line ({end_line}) is before start_line ({start_line}).")
    wanted = _Range(start_line, end_line, CHARACTERS if end_line is None else MOST_CHARACTERS)
    contents = _Found()
    try:
        text = await threads_of(context).tool(_read_all, workspace, path, paths, wanted, context.stop, contents)
    finally:
        context.stop.set()
    if context.artifacts is None:
        return Output(text, files=contents.files)
    images = tuple([await context.artifacts.image(picture.data, picture.block) for picture in contents.pictures])
    return Output(text, images=images, files=contents.files)


@dataclass(frozen=True, slots=True)
class _Picture:
    """A picture as it is shown; `block` does not name its artifact yet. `file`: the bytes that were read, `told` what
    is said of them."""

    data: bytes
    block: ImageBlock
    file: bytes
    told: str


@dataclass(frozen=True, slots=True)
class _Found:
    """What one call read besides text: `pictures`, and the SHA-256 (hex) of the whole files, by path."""

    pictures: list[_Picture] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    def note(self, workspace: Workspace, path: str, data: bytes) -> None:
        name = posixpath.normpath(os.fsdecode(workspace.relative(path)))
        self.files[name] = sha256(data).hexdigest()


def _read_all(
    workspace: Workspace,
    path: str | None,
    paths: Sequence[str] | None,
    wanted: "_Range",
    stop: Event,
    found: _Found,
) -> str:
    if path is not None:
        return _read(workspace, path, wanted, stop, found)
    parts: list[str] = []
    left = wanted.characters
    for index, name in enumerate(paths or ()):
        share = replace(wanted, characters=left // (len(paths or ()) - index))
        try:
            text = _read(workspace, name, share, stop, found)
        except (ToolFailed, PathError) as error:
            text = f"{display_path(name)}: {error}\n"
        parts.append(text)
        left = max(0, left - len(text))
    return "\n".join(parts)


def _read(workspace: Workspace, path: str, wanted: "_Range", stop: Event, found: _Found) -> str:
    try:
        file = workspace.open_file(path)
    except PathMissing as missing:
        raise with_nearest(workspace, missing, path) from missing
    with file:
        if (picture := _picture(path, file.fileno(), stop)) is not None:
            found.pictures.append(picture)
            found.note(workspace, path, picture.file)
            return f"{display_path(path)}, {picture.told}\n"
        return _Reading(path, file, wanted, stop, lambda data: found.note(workspace, path, data)).text()


def _picture(path: str, fd: int, stop: Event) -> _Picture | None:
    """The file as a picture, None if it is none. Raises `ToolFailed` for a picture that models cannot be shown."""
    start = os.pread(fd, 16, 0)
    try:
        if not is_picture(start):
            return None
        data = read_up_to(fd, LARGEST_PICTURE + 1)
        with closing(Renderer(stop)) as renderer:
            made = renderer.rendition(data)
    except BadPicture as error:
        raise ToolFailed(f"{display_path(path)} is a picture that cannot be shown: it {error}.") from error
    name = path.rpartition("/")[2]
    source = made.source
    told = f"{source.media_type}, {source.width} x {source.height} pixels, {len(data):,} bytes"
    if (made.width, made.height) != (source.width, source.height):
        told += f"; shown as {made.width} x {made.height}"
    return _Picture(made.data, made.block(name), data, told)


@dataclass(frozen=True, slots=True)
class _Range:
    """The part of a file to show: `start_line` and `end_line` as in the call, and at most so many `characters`."""

    start_line: int | None
    end_line: int | None
    characters: int

    @property
    def first(self) -> int:
        return self.start_line or 1

    @property
    def last(self) -> int:
        return self.end_line or self.first + LINES - 1


@dataclass(slots=True)
class _Reading:
    """The reading of one open file; `whole` is called with its bytes if the file is read whole."""

    path: str
    file: BinaryIO
    wanted: _Range
    stop: Event
    whole: Callable[[bytes], None]
    notes: list[str] = field(default_factory=list)
    _controls: int = 0
    _cut: int = 0
    _is_utf8: bool = True
    _has_crlf: bool = False

    def text(self) -> str:
        size = self.file.seek(0, io.SEEK_END)
        self.file.seek(0)
        ranged = self.wanted.start_line is not None or self.wanted.end_line is not None
        if size > MAX_WHOLE_BYTES and (not ranged or os.pread(self.file.fileno(), len(_PDF), 0) == _PDF):
            raise ToolFailed(
                f"{display_path(self.path)} has {size:,} bytes, more than is read whole ({MAX_WHOLE_BYTES:,}); "
                "find the place with search_text or read some lines with start_line and end_line."
            )
        total, source = None, self.file
        if size <= MAX_WHOLE_BYTES:
            data = read_up_to(self.file.fileno(), MAX_WHOLE_BYTES)
            self.whole(data)
            data = self._as_utf8_text(data)
            total, source = data.count(b"\n") + (bool(data) and not data.endswith(b"\n")), io.BytesIO(data)
        start = source.read(_SNIFFED)
        source.seek(0)
        refuse_binary(start, display_path(self.path), size)
        if not size:
            return f"{display_path(self.path)}, empty (0 bytes)\n"
        return self._excerpt(source, size, total)

    def _as_utf8_text(self, data: bytes) -> bytes:
        """The text as UTF-8 without a byte order mark; of a notebook its cells, of a PDF its pages."""
        data, is_wide = as_utf8(data)
        if is_wide:
            self.notes.append("UTF-16")
        if data.startswith(_PDF):
            return self._pages(data)
        if is_notebook(self.path) and data.strip():
            return self._cells(data.decode("utf-8", "replace"))
        return data

    def _cells(self, text: str) -> bytes:
        shown = display_path(self.path)
        try:
            with closing(SideProcess(notebook_reader, self.stop)) as aside:
                shown_text, cells = aside.ask(text, NOTEBOOK_SECONDS)
        except (CutOff, ValueError) as error:
            raise ToolFailed(f"{shown} cannot be read as a notebook: {error}; search_text finds text in it.") from error
        self.notes.append(f"a notebook of {cells} cells, whose lines are counted as shown here")
        return str(shown_text).encode("utf-8", "replace")

    def _pages(self, data: bytes) -> bytes:
        shown = display_path(self.path)
        if problem := pdf_problem():
            raise ToolFailed(f"{shown} is a PDF, and its text cannot be read here: {problem}.")
        try:
            with closing(SideProcess(pdf_reader, self.stop)) as aside:
                text, pages = aside.ask(base64.b64encode(data).decode(), PDF_SECONDS)
        except (CutOff, ValueError) as error:
            raise ToolFailed(f"{shown} cannot be read as a PDF: {error}.") from error
        self.notes.append(f"the text of a PDF of {pages} pages, whose lines are counted as shown here")
        return str(text).encode("utf-8", "replace")

    def _excerpt(self, source: BinaryIO, size: int, total: int | None) -> str:
        first = number = self.wanted.first
        shown: list[str] = []
        length = seen = 0
        for number, line, missing in self._lines(source):
            seen = number
            if number < first:
                continue
            text = numbered(number, self._line(line, missing))
            if number > self.wanted.last or (shown and length + len(text) > self.wanted.characters):
                if self.wanted.end_line is None or number <= self.wanted.end_line:
                    self.notes.append(f"go on with start_line={number}")
                break
            shown.append(text)
            length += len(text)
            if number == self.wanted.end_line:
                break
        if not shown:
            lines = f"{seen:,} line{'' if seen == 1 else 's'}"
            raise ToolFailed(f"{display_path(self.path)} has {lines}, so there is no line {first}.")
        # Only ASCII: one other character in the head would make Python store the whole text in two bytes a character,
        # and keep a UTF-8 copy beside it once it was sent.
        heading = head(display_path(self.path), first, first + len(shown) - 1, total, size, self._notices())
        return heading + "".join(shown)

    def _lines(self, source: BinaryIO) -> Iterator[tuple[int, bytes, int]]:
        """Of each line its number, its beginning, and the number of bytes left out after that."""
        number, scanned, kept, missing = 1, 0, b"", 0
        while piece := source.readline(_PIECE):
            scanned += len(piece)
            if self.stop.is_set() or scanned > _SCAN_BYTES:
                place = f"Line {self.wanted.first} of {display_path(self.path)}"
                raise ToolFailed(f"{place} is too far into it; search_text may find it.")
            ended = piece.endswith(b"\n")
            line = piece[:-1] if ended else piece
            if not kept:
                kept = line
            else:
                missing += len(line)
            if ended:
                yield number, kept, missing
                number, kept, missing = number + 1, b"", 0
        if kept:
            yield number, kept, missing

    def _line(self, line: bytes, missing: int) -> str:
        if line.endswith(b"\r") and not missing:
            line, self._has_crlf = line[:-1], True
        text = line.decode("utf-8", "surrogateescape")
        kept = cut(text, LONGEST_LINE)
        data = kept.encode("utf-8", "surrogateescape")
        shown, controls = show_controls(data.decode("utf-8", "replace"))
        self._is_utf8 = self._is_utf8 and not _has_surrogates(kept)
        self._controls += controls
        missing += len(line) - len(data)
        self._cut += bool(missing)
        return shown + cut_mark(missing) if missing else shown

    def _notices(self) -> list[str]:
        notes = list(self.notes)
        if self._has_crlf:
            notes.append("line ends are CRLF")
        if self._cut:
            notes.append(f"{self._cut:,} line{'' if self._cut == 1 else 's'} cut at {LONGEST_LINE:,} characters")
        if not self._is_utf8:
            notes.append("not all of it is UTF-8, and what is not is shown as U+FFFD")
        if self._controls:
            many = "" if self._controls == 1 else "s"
            notes.append(f"{self._controls:,} control character{many} shown as pictures")
        return notes


def as_utf8(data: bytes) -> tuple[bytes, bool]:
    """`data` as UTF-8 without a byte order mark, and whether it was UTF-16."""
    if (wide := _UTF16.get(data[:2])) is not None:
        return data[2:].decode(wide, "replace").encode("utf-8", "replace"), True
    return data.removeprefix(codecs.BOM_UTF8), False


def refuse_binary(data: bytes, shown: str, size: int) -> None:
    """Raise `ToolFailed` if a file of `size` bytes that begins with `data` is binary; `shown` is its path."""
    if (at := data.find(0, 0, _SNIFFED)) >= 0:
        raise ToolFailed(f"{shown} is binary ({size:,} bytes, a NUL at byte {at:,}) and cannot be shown as text.")


def _has_surrogates(text: str) -> bool:
    """Whether decoding with `surrogateescape` met bytes that are not UTF-8."""
    return not text.isascii() and any("\udc80" <= character <= "\udcff" for character in text)
