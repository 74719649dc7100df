"""This room is for what a turn of a session goes on from: the earlier ones, as far as they fit."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from mcc.contracts.order import EarlierTurn, OrderOrigin, WorkOrder

MOST_TURNS = 200
"""However short they are."""

LEFT_OUT = "\n[… {} characters are left out …]\n"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an order stands in its session, and what it was made of."""

    session_id: str
    session_seq: int
    origin: OrderOrigin | None


class History(Protocol):
    """The orders that a store has."""

    def place(self, order_id: str) -> Place: ...

    def first(self, session_id: str) -> Place: ...

    def before(self, place: Place) -> Iterator[EarlierTurn]:
        """Of the same session, the newest first: those that have ended and were not rolled back."""


def context(order: WorkOrder, history: History, characters: int) -> Sequence[EarlierTurn]:
    """See `mcc.store.ports.Sessions.context`."""
    place = Place(order.session_id, order.session_seq, order.origin)
    return newest(_backwards(place, history), characters)


def newest(turns: Iterable[EarlierTurn], characters: int) -> Sequence[EarlierTurn]:
    """Of turns that begin with the newest: those in a row that fit, `MOST_TURNS` at most, the oldest first.

    The very newest is shortened if it has to be.
    """
    found: list[EarlierTurn] = []
    for turn in islice(turns, MOST_TURNS):
        if not found and turn.characters > characters:
            return [_shortened(turn, characters)]
        characters -= turn.characters
        if characters < 0:
            break
        found.append(turn)
    return found[::-1]


def as_asked(prompt: str, heard: Iterable[str]) -> str:
    """What a turn's master was asked: its prompt, and what people told it later."""
    return "\n\n".join((prompt, *heard))


def _backwards(place: Place, history: History) -> Iterator[EarlierTurn]:
    """A session that a fork opened goes on from what its source went on from. A retry does not see what it repeats."""
    repeated = frozenset(_repeated(place, history))
    while True:
        yield from (turn for turn in history.before(place) if turn.order_id not in repeated)
        origin = history.first(place.session_id).origin
        if origin is None or origin.kind != "fork":
            return
        place = history.place(origin.order_id)


def _repeated(place: Place, history: History) -> Iterator[str]:
    while place.origin is not None and place.origin.kind == "retry":
        yield place.origin.order_id
        place = history.place(place.origin.order_id)


def _shortened(turn: EarlierTurn, characters: int) -> EarlierTurn:
    """Prompt and answer with at most half of these characters each, and what says how much is missing."""
    answer = None if turn.answer is None else _ends_of(turn.answer, characters // 2)
    return turn.model_copy(update={"prompt": _ends_of(turn.prompt, characters // 2), "answer": answer})


def _ends_of(text: str, characters: int) -> str:
    """The beginning and the end of a text that is longer."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return text[:half] + LEFT_OUT.format(f"{len(text) - 2 * half:,}") + text[len(text) - half :]
