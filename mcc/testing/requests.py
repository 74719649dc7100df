"""This room is for controls in memory."""

from collections.abc import Mapping, Sequence

from mcc.contracts.control import Control, ControlKind, NewControl
from mcc.contracts.journal import OrderResumed
from mcc.contracts.status import FINAL, OrderStatus
from mcc.store.entries import WAKES, applied, cancelled_by, final_sentence, nobody_there, requested, stops_all, told
from mcc.store.errors import OrderIsFinal
from mcc.testing.shelf import Kept, Shelf


class MemoryControls:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def request(self, order_id: str, kind: ControlKind, asked: NewControl, *, principal: str) -> Control:
        with self._shelf.lock:
            kept = self._shelf.order(order_id)
            if kept.status in FINAL:
                raise OrderIsFinal(final_sentence(order_id, kept.status))
            number, now = kept.control_seq + 1, self._shelf.clock.now()
            control = requested(order_id, number, kind, asked, now)
            if kept.status is not OrderStatus.RUNNING:
                control = control.model_copy(update={"refused": nobody_there(control)})
            kept.controls.append(control)
            if kept.status is not OrderStatus.RUNNING and control.open:
                self._act_at_once(kept, control)
            return kept.controls[number - 1]

    def _act_at_once(self, kept: Kept, control: Control) -> None:
        if stops_all(control):
            kept.end_by_store(cancelled_by(control), self._shelf.clock.now())
        elif control.kind is ControlKind.RESUME and kept.reason in WAKES:
            resume(self._shelf, kept, "resumed on request", control)

    def pending(self, held: Mapping[str, int]) -> Sequence[Control]:
        with self._shelf.lock:
            now = self._shelf.clock.now()
            found: list[Control] = []
            for order_id, number in sorted(held.items()):
                kept = self._shelf.orders.get(order_id)
                if kept is not None:
                    found += _delivered(kept, number, now)
            return found

    def refuse(self, control_id: str, why: str) -> None:
        with self._shelf.lock:
            for kept in self._shelf.orders.values():
                kept.settle(control_id, refused=why)

    def of_order(self, order_id: str) -> Sequence[Control]:
        with self._shelf.lock:
            return list(self._shelf.order(order_id).controls)


def _delivered(kept: Kept, number: int, now: object) -> list[Control]:
    for control in [one for one in kept.controls if one.open and one.number > number and one.delivered_at is None]:
        kept.settle(control.id, delivered_at=now)
    return [control for control in kept.controls if control.open and control.number > number]


def resume(shelf: Shelf, kept: Kept, message: str, control: Control | None = None) -> None:
    """A waiting order becomes claimable again, whatever time it waited for."""
    now = shelf.clock.now()
    drafts = [applied(control, now)] if control else []
    kept.release(OrderStatus.QUEUED)
    kept.reason = kept.not_before = None
    kept.write([*drafts, told(now, OrderResumed(message=message))])
