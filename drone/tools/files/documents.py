"""Files that are no plain text: PDF files and notebooks as text.

PDF files and notebooks are read in separate processes that load only this module, so it imports little.
"""

import base64
import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
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
    import pypdf  # noqa: F401 - before the first question, while what is compiled of it can still be kept

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
