"""This room is for controls in memory."""

from collections.abc import Mapping, Sequence

from mcc.contracts.control import Control, ControlKind, NewControl
from mcc.contracts.journal import OrderResumed
from mcc.contracts.status import FINAL, OrderStatus
from mcc.store.entries import applied, cancelled_by, final_sentence, requested, told
from mcc.store.errors import OrderIsFinal
from mcc.store.waiting import Effect, accepted_by, effect_of, said_by, why_refused
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
            effect = _effect(kept, control)
            kept.controls.append(control.model_copy(update={"refused": why_refused(effect)}))
            if effect is Effect.ENDS:
                kept.end_by_store(cancelled_by(control), now)
            elif effect in (Effect.RESUMES, Effect.WAKES):
                kept.began_in = accepted_by(control, kept.entries[-1].data) or kept.began_in
                resume(self._shelf, kept, said_by(control), control if effect is Effect.RESUMES else None)
            return kept.controls[number - 1]

    def pending(self, held: Mapping[str, int]) -> Sequence[Control]:
        with self._shelf.lock:
            now = self._shelf.clock.now()
            found: list[Control] = []
            for order_id, number in sorted(held.items()):
                kept = self._shelf.orders.get(order_id)
                if kept is not None:
                    found += _delivered(kept, number, now)
            return found

    def refuse(self, control_id: str, why: str, *, epoch: int | None = None) -> bool:
        with self._shelf.lock:
            orders = list(self._shelf.orders.values())
            heard = [kept for kept in orders if epoch is None or self._shelf.holds(kept.id, epoch)]
            return any(kept.settle(control_id, refused=why) for kept in heard)

    def of_order(self, order_id: str) -> Sequence[Control]:
        with self._shelf.lock:
            return list(self._shelf.order(order_id).controls)


def _effect(kept: Kept, control: Control) -> Effect:
    if kept.status is OrderStatus.RUNNING:
        return Effect.STAYS
    before = kept.controls
    return effect_of(control, kept.status, kept.reason, attempt=kept.attempt, before=before, endable=kept.endable)


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
