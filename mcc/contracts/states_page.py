"""The page on an order's states: `python -m mcc.contracts.states_page > docs/states.md` writes it."""

import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum

from mcc.contracts.status import FINAL, MOVES, FailureReason, OrderStatus, WaitingReason, state_diagram


def page() -> str:
    """`docs/states.md`, out of the table in `mcc.contracts.status`."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The states of a work order"
    yield ""
    yield "Written by `python -m mcc.contracts.states_page` from the table in `mcc/contracts/status.py`."
    yield ""
    yield "```mermaid"
    yield state_diagram().rstrip("\n")
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


def _named(words: Iterable[StrEnum]) -> str:
    return ", ".join(f"`{word.value}`" for word in words)


if __name__ == "__main__":
    sys.stdout.write(page())
