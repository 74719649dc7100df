"""What the rendering process does: many texts at once, each to nodes as JSON."""

from collections.abc import Callable, Sequence
from typing import Any

from mcc.contracts.shape import to_json
from mcc.rendering.code import pieces, terminal_output
from mcc.rendering.markdown import reader
from mcc.rendering.nodes import plain, visible_pieces


def rendering() -> Callable[[Any], object]:
    """A function from a list of `Source.asked` to the list of what they become, each as a JSON text."""
    from_markdown = reader()

    def render(form: str, text: str) -> object:
        match form:
            case "markdown":
                return from_markdown(text)
            case "output":
                return terminal_output(text)
            case "plain":
                return plain(text)
        return _coloured(text, form.removeprefix("/"))

    return lambda question: [to_json(render(form, text)).decode() for form, text in question]


def _coloured(text: str, name: str) -> Sequence[Sequence[tuple[str | None, str]]]:
    """The lines of a file with this name, each as pairs of a class and a part of the line."""
    lines: list[list[tuple[str | None, str]]] = [[]]
    for part, kind in pieces(text, name=name):
        for number, line in enumerate(part.split("\n")):
            if number:
                lines.append([])
            lines[-1] += visible_pieces(line, kind)
    return lines
