"""This room is for what a turn of a session goes on from: the earlier ones, as far as they fit."""

from collections.abc import Iterable, Sequence

from mcc.contracts.order import EarlierTurn, WorkOrder


def newest(turns: Iterable[EarlierTurn], characters: int) -> Sequence[EarlierTurn]:
    """Of turns that begin with the newest: those in a row that fit, the oldest first."""
    found: list[EarlierTurn] = []
    for turn in turns:
        characters -= turn.characters
        if characters < 0:
            break
        found.append(turn)
    return found[::-1]


def repeated_by(order: WorkOrder) -> str:
    """The id of the order that this one is a retry of; nothing for others."""
    return order.origin.order_id if order.origin is not None and order.origin.kind == "retry" else ""
