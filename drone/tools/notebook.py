"""Notebooks as text: their cells with what they printed, without pictures; read aside of the drone."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from threading import Event
from typing import Any

from drone.sandbox.aside import Aside, CutOff
from drone.tools.tool import ToolFailed

SECONDS = 5.0
"""Processor time that reading one notebook may take."""

_OUTPUT = 2_000
"""Characters that are shown of what one output of a cell printed."""

_CELLS = 10_000


def is_notebook(path: str) -> bool:
    return path.endswith(".ipynb")


def cells_of(text: str, shown: str, stop: Event) -> tuple[str, int]:
    """The cells of the notebook as one text, and how many there are. Raises `ToolFailed`. Blocks."""
    try:
        with closing(Aside(telling, stop)) as aside:
            told, cells = aside.ask(text, SECONDS)
    except (CutOff, ValueError) as error:
        raise ToolFailed(f"{shown} cannot be read as a notebook: {error}; search_text finds text in it.") from error
    return str(told), int(cells)


def telling() -> Callable[[Any], object]:
    """Made in the process aside: answers a notebook's JSON with `[text, cells]`."""
    return lambda question: list(_told(str(question)))


def _told(text: str) -> tuple[str, int]:
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
