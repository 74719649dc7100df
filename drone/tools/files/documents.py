"""Files that are no plain text: PDF files and notebooks as text, pictures by media type and size.

PDF files and notebooks are read in separate processes that load only this module, so it imports little.
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
"""Processor time for one file; after half of it no further page is begun."""

CHARACTERS = 2_000_000
PAGES = 2_000


def pdf_problem() -> str | None:
    """Why PDF files cannot be read here, None if they can."""
    return None if find_spec("pypdf") else "pypdf is not installed: pip install 'mcc[pdf]'"


def pdf_reader() -> Callable[[Any], object]:
    """The function that the separate process runs: from a PDF file as base64 to `[text, pages]`."""
    return lambda question: _pdf_text(base64.b64decode(str(question)))


def _pdf_text(data: bytes) -> tuple[str, int]:
    """Text and number of pages. Raises ValueError if the file cannot be read."""
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
        # Half of the time, because the page that is begun now may take the other half.
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
"""Characters shown of each output of a cell."""

_CELLS = 10_000


def is_notebook(path: str) -> bool:
    return path.endswith(".ipynb")


def notebook_reader() -> Callable[[Any], object]:
    """The function that the separate process runs: from a notebook's JSON to `[text, cells]`."""
    return lambda question: list(_notebook_text(str(question)))


def _notebook_text(text: str) -> tuple[str, int]:
    """Text and number of cells. Raises ValueError if this is no notebook."""
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
    by_type = data if isinstance(data, Mapping) else {}
    text = _joined(output.get("text")) or _joined(by_type.get("text/plain"))
    if output.get("output_type") == "error":
        text = f"{output.get('ename')}: {output.get('evalue')}"
    if text.strip():
        more = f"\n[{len(text) - _OUTPUT:,} more characters]" if len(text) > _OUTPUT else ""
        yield f"# output\n{text[:_OUTPUT].rstrip()}{more}"
    for kind, value in by_type.items():
        if not str(kind).startswith("text/"):
            yield f"# output: {str(kind)[:80]}, {len(_joined(value)):,} characters, not shown"


def _joined(value: object) -> str:
    """A text as notebooks store it: a string, or a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


LARGEST_PICTURE = 3_750_000
"""The largest picture in bytes: 5 MB as base64, the largest that all providers accept."""

LONGEST_SIDE = 8_000
"""The longest side of a picture in pixels that all providers accept."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})


class BadPicture(ValueError):
    """The message says what is wrong with the picture: a sentence without its subject."""


@dataclass(frozen=True, slots=True)
class Measured:
    media_type: str
    width: int
    height: int


def is_picture(start: bytes) -> bool:
    """Whether a file that begins with these 16 bytes is a picture of a media type that models can be shown."""
    return any(matches(start) for matches, _ in _KINDS.values())


def measured(data: bytes) -> Measured:
    """Media type and size in pixels. Raises `BadPicture`."""
    for media_type, (matches, size_of) in _KINDS.items():
        if matches(data):
            try:
                width, height = size_of(data)
            except IndexError as error:
                raise BadPicture("is cut off or damaged") from error
            if not (0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE):
                raise BadPicture(f"has {width:,} x {height:,} pixels; sides from 1 to {LONGEST_SIDE:,} are shown")
            return Measured(media_type, width, height)
    raise BadPicture("is of no known kind any more")


def _png_size(data: bytes) -> tuple[int, int]:
    """Width and height. Raises IndexError for a damaged file: the checksum after each chunk is verified."""
    at = len(_PNG)
    while data[at + 4 : at + 8] != b"IEND":
        end = at + 8 + _integer(data, at, 4)
        if zlib.crc32(memoryview(data)[at + 4 : end]) != _integer(data, end, 4):
            raise IndexError(at)
        at = end + 4
    if data[12:16] != b"IHDR" or len(data) < at + 12:
        raise IndexError(12)
    return _integer(data, 16, 4), _integer(data, 20, 4)


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Width and height. Raises IndexError for a damaged file.

    Reads the segments up to the one that holds the size. The end mark need not be last: some cameras write after it.
    """
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
            at += 2 + max(2, _integer(data, at + 2, 2))
    if data.rfind(b"\xff\xd9") < at:
        raise IndexError(len(data))
    return _integer(data, at + 7, 2), _integer(data, at + 5, 2)


def _gif_size(data: bytes) -> tuple[int, int]:
    if b"\x3b" not in data[13:]:
        raise IndexError(len(data))
    return _integer(data, 6, 2, "little"), _integer(data, 8, 2, "little")


def _webp_size(data: bytes) -> tuple[int, int]:
    if len(data) < 8 + _integer(data, 4, 4, "little"):
        raise IndexError(len(data))
    match data[12:16]:
        case b"VP8X":
            return _integer(data, 24, 3, "little") + 1, _integer(data, 27, 3, "little") + 1
        case b"VP8L":
            bits = _integer(data, 21, 4, "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _integer(data, 26, 2, "little") & 0x3FFF, _integer(data, 28, 2, "little") & 0x3FFF
    raise IndexError(12)


def _integer(data: bytes, at: int, size: int, order: str = "big") -> int:
    if at + size > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + size], "little" if order == "little" else "big")


_KINDS: Mapping[str, tuple[Callable[[bytes], bool], Callable[[bytes], tuple[int, int]]]] = {
    "image/png": (lambda data: data.startswith(_PNG), _png_size),
    "image/jpeg": (lambda data: data.startswith(b"\xff\xd8\xff"), _jpeg_size),
    "image/gif": (lambda data: data.startswith((b"GIF87a", b"GIF89a")), _gif_size),
    "image/webp": (lambda data: data[:4] == b"RIFF" and data[8:12] == b"WEBP", _webp_size),
}
