"""The tool `outline`: the symbols of a source file with their lines, folded to a limited length."""

from contextlib import closing
from threading import Event

from drone.sandbox.places.paths import PathMissing
from drone.tools.files.listing import with_nearest, workspace_of
from drone.tools.files.reading import as_utf8, refuse_binary
from drone.tools.files.symbols import DEEPEST, MOST, SUFFIXES, Symbol, Symbols, language_of, symbol_finder
from drone.tools.files.walk import plural, read_up_to
from drone.tools.frame.display_text import display_path, show_controls
from drone.tools.frame.tool import ToolContext, ToolFailed, tool
from mcc.contracts.shape import Text
from mcc.side_process import CutOff, SideProcess

LARGEST = 2_000_000
"""Bytes of the largest file that is parsed."""

LINES = 300
"""Symbols that a result shows."""

SECONDS = 5.0
"""Processor time that parsing one file may take."""


@tool(idempotent=True, seconds=60, effects="read")
def outline(context: ToolContext, path: Text) -> str:
    """List what a source file declares (classes, functions, methods), nested: `first-last`, tab, kind and name.

    Args:
        path: The file.
    """
    workspace, shown = workspace_of(context), display_path(path)
    if (language := language_of(path)) is None:
        raise ToolFailed(f"{shown} has no outline: no grammar is known for its suffix; known are {' '.join(SUFFIXES)}.")
    try:
        file = workspace.open_file(path)
    except PathMissing as missing:
        raise with_nearest(workspace, missing, path) from missing
    with file:
        data = read_up_to(file.fileno(), LARGEST + 1)
    if len(data) > LARGEST:
        raise ToolFailed(f"{shown} has more than {LARGEST:,} bytes and is not parsed; search_text finds places in it.")
    source, _ = as_utf8(data)
    refuse_binary(source, shown, len(data))
    symbols = symbols_of(source.decode("utf-8", "replace"), language, shown, context.stop)
    parts = [f"{shown}, {language}", plural(len(symbols.found), "symbol")]
    if not symbols.is_whole:
        too_many = len(symbols.found) == MOST
        parts.append("more are not looked at" if too_many else "parts of it could not be parsed")
    return ", ".join(parts) + "\n" + "".join(folded(symbols.found, LINES))


def symbols_of(text: str, language: str, shown: str, stop: Event, seconds: float = SECONDS) -> Symbols:
    """The symbols that a source text declares, found in a separate process. Raises `ToolFailed`. Blocks."""
    try:
        with closing(SideProcess(symbol_finder, stop)) as aside:
            answer = aside.ask([language, text], seconds)
    except (CutOff, ValueError) as error:
        raise ToolFailed(f"{shown} has no outline: {error}; search_text and read_file show what is in it.") from error
    return Symbols(tuple(Symbol(*fields) for fields in answer["found"]), bool(answer["is_whole"]))


def folded(symbols: tuple[Symbol, ...], most: int) -> list[str]:
    """At most `most` lines for symbols, and one that counts the rest.

    Shows the levels, from the outermost, that fit as a whole; symbols inside the last are counted behind it.
    """
    depth = next((depth for depth in range(DEEPEST, 0, -1) if sum(s.depth <= depth for s in symbols) <= most), 0)
    lines: list[str] = []
    for index, symbol in enumerate(symbols):
        if symbol.depth > depth:
            continue
        inner = 0
        if symbol.depth == depth:
            rest = range(index + 1, len(symbols))
            inner = next((at for at in rest if symbols[at].depth <= depth), len(symbols)) - index - 1
        lines.append(_line(symbol, inner))
    if (more := len(lines) - most) > 0:
        after = symbols[[index for index, symbol in enumerate(symbols) if symbol.depth <= depth][most]].first
        return [*lines[:most], f"[{more:,} more from line {after} on are not shown; search_text finds them by name.]\n"]
    return lines


def _line(symbol: Symbol, inner: int) -> str:
    name = show_controls(symbol.name)[0]
    holds = f" ({plural(inner, 'symbol')})" if inner else ""
    return f"{symbol.first}-{symbol.last}\t{'  ' * symbol.depth}{symbol.kind} {name}{holds}\n"
