"""Files that are no plain text: PDF files and notebooks as text, pictures by kind and size.

The processes aside that read the first two load this module alone, so it imports little.
"""

import base64
import io
import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

PDF_SECONDS = 10.0
"""Processor time that reading one file may take, the half of it for all pages but the one that is being read."""

CHARACTERS = 2_000_000
PAGES = 2_000


def pdf_problem() -> str | None:
    return None if find_spec("pypdf") else "pypdf is not installed: pip install 'mcc[pdf]'"


def pdf_reading() -> Callable[[Any], object]:
    """Made in the process aside: answers a file as base64 with `[text, pages]`."""
    return lambda question: _read(base64.b64decode(str(question)))


def _read(data: bytes) -> tuple[str, int]:
    """Raises ValueError: it cannot be read."""
    import logging

    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.disable()
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ValueError("it asks for a password")
        pages = len(reader.pages)
        return "".join(_page_texts(reader, pages)), pages
    except (PyPdfError, RecursionError) as error:
        raise ValueError(f"it is damaged ({type(error).__name__})") from error


def _page_texts(reader: Any, pages: int) -> Iterator[str]:
    length = 0
    for number in range(min(pages, PAGES)):
        if length > CHARACTERS or time.process_time() > PDF_SECONDS / 2:
            yield f"[pages {number + 1} to {pages} are not read: the file is too large]\n"
            return
        text = reader.pages[number].extract_text()[:CHARACTERS].strip()
        length += len(text)
        yield f"# page {number + 1}\n{text or '[no text: it may be a picture]'}\n"
    if pages > PAGES:
        yield f"[pages {PAGES + 1} to {pages} are not read: there are too many]\n"


NOTEBOOK_SECONDS = 5.0
"""Processor time that reading one notebook may take."""

_OUTPUT = 2_000
"""Characters that are shown of what one output of a cell printed."""

_CELLS = 10_000


def is_notebook(path: str) -> bool:
    return path.endswith(".ipynb")


def cells_reading() -> Callable[[Any], object]:
    """Made in the process aside: answers a notebook's JSON with `[text, cells]`."""
    return lambda question: list(_cells_text(str(question)))


def _cells_text(text: str) -> tuple[str, int]:
    """Raises ValueError: this is no notebook."""
    notebook = json.loads(text)
    cells = notebook.get("cells") if isinstance(notebook, Mapping) else None
    if not isinstance(cells, list) or len(cells) > _CELLS:
        raise ValueError("it has no list of cells, or too many")
    parts = [part for number, cell in enumerate(cells, 1) if isinstance(cell, Mapping) for part in _cell(number, cell)]
    return "\n".join(parts) + "\n", len(cells)


def _cell(number: int, cell: Mapping[str, Any]) -> Iterator[str]:
    yield f"# cell {number}, {str(cell.get('cell_type'))[:20]}"
    yield _joined(cell.get("source")).rstrip("\n")
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, Mapping):
            yield from _output(output)


def _output(output: Mapping[str, Any]) -> Iterator[str]:
    data = output.get("data")
    shown = data if isinstance(data, Mapping) else {}
    said = _joined(output.get("text")) or _joined(shown.get("text/plain"))
    if output.get("output_type") == "error":
        said = f"{output.get('ename')}: {output.get('evalue')}"
    if said.strip():
        more = f"\n[{len(said) - _OUTPUT:,} more characters]" if len(said) > _OUTPUT else ""
        yield f"# output\n{said[:_OUTPUT].rstrip()}{more}"
    for kind, value in shown.items():
        if not str(kind).startswith("text/"):
            yield f"# output: {str(kind)[:80]}, {len(_joined(value)):,} characters, not shown"


def _joined(value: object) -> str:
    """A text of a notebook: one text, or a list of its lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


LARGEST_PICTURE = 3_750_000
"""Bytes of a picture: 5 MB as base64, the most that all providers take."""

LONGEST_SIDE = 8_000
"""Pixels, the most that all providers take."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})


class BadPicture(ValueError):
    """A sentence without its subject: what is wrong with the picture."""


@dataclass(frozen=True, slots=True)
class Measured:
    media_type: str
    width: int
    height: int


def is_picture(start: bytes) -> bool:
    """Whether a file that begins with these 16 bytes is a picture of a kind that models are shown."""
    return any(is_such(start) for is_such, _ in _KINDS.values())


def measured(data: bytes) -> Measured:
    """Kind and size in pixels. Raises `BadPicture`."""
    for media_type, (is_such, size_of) in _KINDS.items():
        if is_such(data):
            try:
                width, height = size_of(data)
            except IndexError as error:
                raise BadPicture("is cut off or damaged") from error
            if not (0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE):
                raise BadPicture(f"has {width:,} x {height:,} pixels; sides from 1 to {LONGEST_SIDE:,} are shown")
            return Measured(media_type, width, height)
    raise BadPicture("is of no known kind any more")


def _png(data: bytes) -> tuple[int, int]:
    """Each chunk is followed by its checksum."""
    at = len(_PNG)
    while data[at + 4 : at + 8] != b"IEND":
        end = at + 8 + _number(data, at, 4)
        if zlib.crc32(memoryview(data)[at + 4 : end]) != _number(data, end, 4):
            raise IndexError(at)
        at = end + 4
    if data[12:16] != b"IHDR" or len(data) < at + 12:
        raise IndexError(12)
    return _number(data, 16, 4), _number(data, 20, 4)


def _jpeg(data: bytes) -> tuple[int, int]:
    """Segments up to the one that says the size; the end mark stands near the end, some cameras write behind it."""
    at = 2
    while True:
        if data[at] != 0xFF:
            raise IndexError(at)
        mark = data[at + 1]
        if mark == 0xFF:
            at += 1
        elif mark in _JPEG_ALONE:
            at += 2
        elif mark in _JPEG_SIZES:
            break
        else:
            at += 2 + max(2, _number(data, at + 2, 2))
    if data.rfind(b"\xff\xd9") < at:
        raise IndexError(len(data))
    return _number(data, at + 7, 2), _number(data, at + 5, 2)


def _gif(data: bytes) -> tuple[int, int]:
    if b"\x3b" not in data[13:]:
        raise IndexError(len(data))
    return _number(data, 6, 2, "little"), _number(data, 8, 2, "little")


def _webp(data: bytes) -> tuple[int, int]:
    if len(data) < 8 + _number(data, 4, 4, "little"):
        raise IndexError(len(data))
    match data[12:16]:
        case b"VP8X":
            return _number(data, 24, 3, "little") + 1, _number(data, 27, 3, "little") + 1
        case b"VP8L":
            bits = _number(data, 21, 4, "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _number(data, 26, 2, "little") & 0x3FFF, _number(data, 28, 2, "little") & 0x3FFF
    raise IndexError(12)


def _number(data: bytes, at: int, size: int, order: str = "big") -> int:
    if at + size > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + size], "little" if order == "little" else "big")


_KINDS: Mapping[str, tuple[Callable[[bytes], bool], Callable[[bytes], tuple[int, int]]]] = {
    "image/png": (lambda data: data.startswith(_PNG), _png),
    "image/jpeg": (lambda data: data.startswith(b"\xff\xd8\xff"), _jpeg),
    "image/gif": (lambda data: data.startswith((b"GIF87a", b"GIF89a")), _gif),
    "image/webp": (lambda data: data[:4] == b"RIFF" and data[8:12] == b"WEBP", _webp),
}
