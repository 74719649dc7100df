"""The tools that find again what is not shown any more of a session: by words, and entry by entry."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from drone.agent.ports.history import FoundEntry, HistoryPort, HistoryRefused
from drone.agent.turns.toolset import Output
from drone.tools.artifacts import DEFAULT_LENGTH, MAX_LENGTH, read_piece
from drone.tools.frame.display_text import one_line, show_controls
from drone.tools.frame.tool import ToolContext, ToolFailed, tool
from mcc.contracts.history import FoundLimit
from mcc.contracts.shape import Text

_NUMBERS = 20
"""Most turns that a sentence lists."""

_LINE = 400
"""Characters of a name and of an excerpt in a line."""


@tool(idempotent=True, effects="read")
async def history_search(
    context: ToolContext,
    query: Text,
    turn: Annotated[int, Field(ge=1)] | None = None,
    limit: FoundLimit = 10,
) -> Output:
    """Find by words what was said in this conversation, also what you are not shown any more.

    Args:
        query: Words that stand there.
        turn: Only in this turn.
    """
    try:
        answer = await _history(context).search(query, turn, limit)
    except HistoryRefused as refused:
        raise ToolFailed(f"{refused}.") from refused
    notes = [
        *_listed("Not searched, as there was no time: {}; search again.", answer.not_searched),
        *_listed("Only prompt and answer are left of {}.", answer.pruned),
    ]
    if not answer.entries:
        return Output("\n".join(["Nothing in this conversation has any of these words.", *notes]), untrusted=False)
    return Output("\n".join([*map(line_of, answer.entries), *notes]), tainted=_is_tainted(context))


@tool(idempotent=True, effects="read")
async def history_read(
    context: ToolContext,
    turn: Annotated[int, Field(ge=1)] | None = None,
    entry: Text | None = None,
    artifact: Text | None = None,
    start: Annotated[int, Field(ge=0)] = 0,
    length: Annotated[int, Field(ge=1)] = DEFAULT_LENGTH,
) -> Output:
    """Read a whole turn of this conversation, one entry as history_search names it ("300/17"), or a text by its handle.

    Name exactly one of the three.
    """
    if (turn, entry, artifact).count(None) != 2:
        raise ToolFailed("Name exactly one of turn, entry and artifact.")
    history = _history(context)
    if artifact is not None:
        return replace(await read_piece(context, artifact, start, length), tainted=_is_tainted(context))
    try:
        piece = await history.read(entry if entry is not None else str(turn), start, min(length, MAX_LENGTH))
    except HistoryRefused as refused:
        raise ToolFailed(f"{refused}.") from refused
    more = f"go on with start {piece.end}" if piece.more else "this is the end"
    note = f"\n{piece.note}" if piece.note else ""
    shown = f"characters {piece.start} to {piece.end}; {more}{note}\n{show_controls(piece.text)[0]}"
    return Output(shown, tainted=_is_tainted(context))


HISTORY_TOOLS: tuple[Callable[..., object], ...] = (history_search, history_read)


def _is_tainted(context: ToolContext) -> bool:
    """Whether some agent of the turn was shown text from outside: what it said of it may be read here."""
    return context.turn is not None and context.turn.tree.is_tainted(*context.turn.tree.records)


def _history(context: ToolContext) -> HistoryPort:
    if context.artifacts is None or context.artifacts.history is None:
        raise ToolFailed("There is no history here: an order of a service has one.")
    return context.artifacts.history


def line_of(entry: FoundEntry) -> str:
    """As models are shown it."""
    joint = " " if entry.kind in ("tool", "call") else ": "
    said = f"{one_line(entry.who or 'person', _LINE)} {entry.kind}{joint}{one_line(entry.excerpt, _LINE)}"
    return f"turn {entry.place} {entry.at:%Y-%m-%d %H:%M} {said}"


def _listed(sentence: str, turns: Sequence[str]) -> Sequence[str]:
    if not turns:
        return ()
    shown = ", ".join(turns[:_NUMBERS])
    more = f" and {len(turns) - _NUMBERS} others" if len(turns) > _NUMBERS else ""
    return (sentence.format(f"turns {shown}{more}" if len(turns) > 1 else f"turn {shown}"),)
