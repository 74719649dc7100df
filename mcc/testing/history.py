"""This room is for the earlier turns of a session in memory."""

from collections.abc import Iterator

from mcc.contracts.journal import ControlApplied
from mcc.contracts.order import EarlierTurn
from mcc.contracts.status import FINAL
from mcc.store.context import Place, as_asked
from mcc.testing.shelf import Kept, Shelf


class MemoryHistory:
    """`mcc.store.context.History` under the lock of a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def place(self, order_id: str) -> Place:
        return _place(self._shelf.order(order_id))

    def first(self, session_id: str) -> Place:
        turns = [kept for kept in self._shelf.orders.values() if kept.session_id == session_id]
        return _place(min(turns, key=lambda kept: kept.session_seq))

    def before(self, place: Place) -> Iterator[EarlierTurn]:
        turns = [kept for kept in self._shelf.orders.values() if kept.session_id == place.session_id]
        for kept in sorted(turns, key=lambda kept: kept.session_seq, reverse=True):
            if kept.session_seq < place.session_seq and kept.status in FINAL and not kept.left_out:
                yield _turn(kept)


def _place(kept: Kept) -> Place:
    return Place(kept.session_id, kept.session_seq, kept.origin)


def _turn(kept: Kept) -> EarlierTurn:
    told = [
        entry.data.message
        for entry in kept.entries
        if isinstance(entry.data, ControlApplied) and entry.data.control == "steer" and entry.data.message
        if entry.record_id is not None and entry.parent_id is None
    ]
    return EarlierTurn(
        order_id=kept.id,
        session_seq=kept.session_seq,
        prompt=as_asked(kept.spec.prompt, told),
        status=kept.status,
        answer=kept.outcome.answer if kept.outcome else None,
    )
