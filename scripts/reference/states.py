"""The page on the states of an order: the picture of the table, its moves and its reasons."""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from mcc.contracts.status import FINAL, MOVES, FailureReason, OrderStatus, WaitingReason


def page() -> Iterator[str]:
    yield "# The states of a work order"
    yield ""
    yield "The table stands in `mcc/contracts/status.py`."
    yield ""
    yield "```mermaid"
    yield from diagram()
    yield "```"
    yield ""
    yield f"Final: {_named(status for status in OrderStatus if status in FINAL)}. Nothing is written after them."
    yield "A request (cancel, pause, steer) is a row with a receipt, never a state."
    yield ""
    yield "| move | from | to | made by | journal entry |"
    yield "| --- | --- | --- | --- | --- |"
    for move in MOVES:
        source = move.source.value if move.source else "–"
        yield f"| {move.name} | {source} | {move.target.value} | {move.by} | `{move.entry}` |"
    yield ""
    yield f"A waiting order says why: {_named(WaitingReason)}."
    yield ""
    yield f"A failed order says why: {_named(FailureReason)}."


def diagram() -> Iterator[str]:
    """The table as a Mermaid state diagram."""
    yield "stateDiagram-v2"
    for move in MOVES:
        yield f"    {move.source.value if move.source else '[*]'} --> {move.target.value}: {move.name} ({move.by})"
    yield from (f"    {status.value} --> [*]" for status in OrderStatus if status in FINAL)


def _named(words: Iterable[StrEnum]) -> str:
    return ", ".join(f"`{word.value}`" for word in words)
