"""PDF files as text, page by page, by pypdf in a process aside of the drone.

That process loads this module alone, so it imports little.
"""

import base64
import io
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

SECONDS = 10.0
"""Processor time that reading one file may take, the half of it for all pages but the one that is being read."""

CHARACTERS = 2_000_000
PAGES = 2_000


def problem() -> str | None:
    return None if find_spec("pypdf") else "pypdf is not installed: pip install 'mcc[pdf]'"


def reading() -> Callable[[Any], object]:
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
        return "".join(_told(reader, pages)), pages
    except (PyPdfError, RecursionError) as error:
        raise ValueError(f"it is damaged ({type(error).__name__})") from error


def _told(reader: Any, pages: int) -> Iterator[str]:
    length = 0
    for number in range(min(pages, PAGES)):
        if length > CHARACTERS or time.process_time() > SECONDS / 2:
            yield f"[pages {number + 1} to {pages} are not read: the file is too large]\n"
            return
        text = reader.pages[number].extract_text()[:CHARACTERS].strip()
        length += len(text)
        yield f"# page {number + 1}\n{text or '[no text: it may be a picture]'}\n"
    if pages > PAGES:
        yield f"[pages {PAGES + 1} to {pages} are not read: there are too many]\n"
