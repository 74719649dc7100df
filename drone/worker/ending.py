"""This room is for the end of an order: what is open is closed, controls are settled, the outcome is stored."""

from functools import partial

import structlog

from drone.worker.runs import Run, is_cancel
from drone.worker.told import Teller
from drone.worker.writer import patiently
from mcc.contracts.control import Control
from mcc.contracts.fold import Fold
from mcc.contracts.journal import OrderFinished
from mcc.contracts.order import Outcome
from mcc.contracts.record import AgentEnd, RecordStatus
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.wire import Hint
from mcc.store.entries import applied, told
from mcc.store.errors import BadEntry, ControlsPending, Fenced
from mcc.store.offload import Offload
from mcc.store.ports import Store
from mcc.store.values import Claim, Ending

log = structlog.get_logger("drone.ending")

TOO_LATE = "The turn had ended before it was read."


class Finisher:
    """Ends held orders, however often the database or a late control makes it begin again."""

    def __init__(self, store: Store, offload: Offload, teller: Teller) -> None:
        self._store = store
        self._offload = offload
        self._teller = teller

    async def finish(self, run: Run, outcome: Outcome) -> bool:
        """Store the end of a held order; False when another drone holds it by now."""
        assert run.held is not None
        claim, journal = run.held
        refused_before = False
        while True:
            ending = ending_of(claim, journal.fold, run, outcome)
            try:
                seq = await patiently(self._offload, partial(self._store.claims.finish, ending))
            except Fenced as problem:
                log.warning("another drone holds the order", order_id=run.order_id, problem=str(problem))
                return False
            except ControlsPending:
                await self._read_controls(run)
                if run.cancel is not None:
                    outcome = cancelled(run.cancel)
            except BadEntry as problem:
                if refused_before:
                    raise
                refused_before = True
                outcome = unstorable(problem)
            else:
                self._teller.hint(Hint(order_id=run.order_id, seq=seq, status=ending.outcome.status.value))
                log.info("order finished", order_id=run.order_id, status=ending.outcome.status.value, seq=seq)
                return True
            journal.fold = await self._fold_again(run.order_id)

    async def abandon(self, run: Run, claim: Claim, problem: Exception) -> bool:
        """End an order that cannot even be folded: its last entries, no record. False when that fails as well."""
        try:
            while True:
                ending = await self._bare_ending(run, claim, problem)
                try:
                    seq = await patiently(self._offload, partial(self._store.claims.finish, ending))
                    break
                except ControlsPending:
                    await self._read_controls(run)
        except Exception:
            log.exception("an order stays with this drone until its lease ends", order_id=run.order_id)
            return False
        self._teller.hint(Hint(order_id=run.order_id, seq=seq, status=ending.outcome.status.value))
        return True

    async def _bare_ending(self, run: Run, claim: Claim, problem: Exception) -> Ending:
        order_id = run.order_id
        reached = await patiently(self._offload, lambda: self._store.journal.reached([order_id])[order_id])
        fold = Fold(order_id)
        fold.last_seq = reached.seq
        return ending_of(claim, fold, run, cancelled(run.cancel) if run.cancel else broken(problem))

    async def _read_controls(self, run: Run) -> None:
        controls = await patiently(self._offload, lambda: self._store.controls.of_order(run.order_id))
        for control in controls:
            run.seen = max(run.seen, control.number)
            if not control.open:
                continue
            if is_cancel(control):
                run.cancel = run.cancel or run.redactor.model(control)
            else:
                await patiently(self._offload, partial(self._store.controls.refuse, control.id, TOO_LATE))

    async def _fold_again(self, order_id: str) -> Fold:
        fold = Fold(order_id)
        while True:
            page = await patiently(self._offload, lambda: self._store.journal.read(order_id, after=fold.last_seq))
            for entry in page:
                fold.add(entry)
            if not page:
                return fold


def ending_of(claim: Claim, fold: Fold, run: Run, outcome: Outcome) -> Ending:
    """The last entries, with record and usage as they stand after them; `fold` takes in all but the very last."""
    outcome = run.redactor.model(outcome)
    at, last_seq = now(), fold.last_seq
    drafts = [applied(run.cancel, at)] if run.cancel else []
    end: AgentEnd = RecordStatus.CANCELLED if outcome.status is OrderStatus.CANCELLED else RecordStatus.FAILED
    drafts += fold.closing(at, end, outcome.detail or "The turn ended before this did.")
    for number, draft in enumerate(drafts, start=last_seq + 1):
        fold.add(draft.numbered(claim.order.id, number))
    finished = OrderFinished(status=outcome.status, reason=outcome.reason, detail=outcome.detail, usage=fold.spent)
    return Ending(
        order_id=claim.order.id,
        epoch=claim.epoch,
        last_seq=last_seq,
        control_seq=run.seen,
        drafts=[*drafts, told(at, finished)],
        outcome=outcome.model_copy(update={"usage": fold.spent}),
        record=fold.record(),
    )


def cancelled(control: Control | None) -> Outcome:
    """The outcome of an order that a person stopped."""
    reason = control.reason if control else None
    return Outcome(status=OrderStatus.CANCELLED, detail=reason or "cancelled on request")


def broken(problem: BaseException | None) -> Outcome:
    """The outcome of an order that met an error of ours."""
    what = "the turn was cancelled from within" if problem is None else f"{type(problem).__name__}: {problem}"
    detail = f"The drone met an error of its own: {what}"[:500]
    return Outcome(status=OrderStatus.FAILED, reason=FailureReason.INTERNAL, detail=detail)


def spent() -> Outcome:
    """The outcome of an order that would leave as many threads behind in the next drone."""
    detail = (
        "Its tool calls took all threads that an order may have, were given up, and never ended. Its drone has to "
        "restart for that, and the order is not tried again: mend the tool, or what it works on."
    )
    return Outcome(status=OrderStatus.FAILED, reason=FailureReason.POISON, detail=detail)


def froze() -> Outcome:
    """The outcome of an order that held a drone's interpreter until others took the drone for lost."""
    detail = (
        "A tool that it called held its drone's interpreter until the drone was taken for lost. It is not tried again: "
        "mend the tool, or what it works on."
    )
    return Outcome(status=OrderStatus.FAILED, reason=FailureReason.POISON, detail=detail)


def unstorable(problem: Exception) -> Outcome:
    detail = f"The database refuses the outcome: {problem}"[:500]
    return Outcome(status=OrderStatus.FAILED, reason=FailureReason.INTERNAL, detail=detail)
