"""Ends orders with an outcome, or parks them, so that they leave their drone."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import structlog

from drone.agent.control.idle_watch import combined
from drone.agent.ports.journal import JournalError
from drone.worker.broadcaster import Broadcaster
from drone.worker.executions import Execution, is_cancel
from drone.worker.loop import AsyncStore, Grouped
from drone.worker.sessions.idle import IdleCompaction
from drone.worker.sessions.opening import OpeningLost, Openings
from mcc.contracts.control import Control, ControlKind
from mcc.contracts.entry import Draft, Entry
from mcc.contracts.fold import Fold
from mcc.contracts.order import OrderOutcome, WorkOrder
from mcc.contracts.order_facts import OrderFinished
from mcc.contracts.record import AgentEnd, RecordStatus
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.store.database.errors import BadEntry, ControlsPending, StoreError, StoreFenced
from mcc.store.rows.transitions import applied_draft, order_draft
from mcc.store.rows.values import Claim, Claimable, EndedOrder, Ending, Parking
from mcc.transcript.own_messages import OwnMessages

log = structlog.get_logger("drone.ending")

MOST_TOGETHER = 50
"""Bound on the orders ended in one transaction."""

TOO_LATE = "The turn had ended before it was read."
CONTROLLED_MEANWHILE = "a control for it arrived just as it was to be parked"
ENTRIES_LOST = "the database has lost confirmed entries of it, as after a fail-over: it goes on from what is left"


class Suspects:
    """Orders that froze a drone on this machine, as files in a directory shared by all drones of one data directory.

    The frozen drone's reaper writes the file before it kills the drone; such orders are not tried again.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def made(self) -> Path:
        """The directory; created if it is missing."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._directory

    def holds(self, order_id: str) -> bool:
        """Whether this order froze a drone."""
        return (self._directory / order_id).exists()

    def forget(self, order_id: str) -> None:
        """Delete the file of an ended order; a file that cannot be deleted does no harm."""
        with suppress(OSError):
            (self._directory / order_id).unlink(missing_ok=True)


class FinishedOrder(NamedTuple):
    """An order that has ended, and the queued turn of its session that can be claimed from now on."""

    order: WorkOrder
    following: Claimable | None


class Finisher:
    """Ends and parks held orders; retries when the database refuses an outcome or a control arrives late."""

    def __init__(
        self,
        store: AsyncStore,
        broadcaster: Broadcaster,
        suspects: Suspects | None = None,
        idle: IdleCompaction | None = None,
    ) -> None:
        """`idle`: after which turns sessions are compacted; None: after none."""
        self._store = store
        self._idle = idle
        self._broadcaster = broadcaster
        self._suspects = suspects
        self._openings = Openings(store)
        self._ends = Grouped(self._finish_group, MOST_TOGETHER)

    def poison(self, execution: Execution) -> OrderOutcome | None:
        """The outcome of an order that froze a drone and must not be tried again; None for all other orders."""
        is_suspect = self._suspects is not None and self._suspects.holds(execution.order_id)
        return froze_a_drone() if is_suspect else None

    async def finish(
        self, execution: Execution, outcome: OrderOutcome, owed: Sequence[Draft] = ()
    ) -> FinishedOrder | None:
        """Store the end of a held order, together with the `owed` entries; None when another drone holds the order."""
        assert execution.held is not None
        claim, journal = execution.held
        order_id = execution.order_id
        refused_before = False
        while True:
            try:
                ending = await self._with_turn(execution, ending_of(claim, journal.fold, execution, outcome, owed))
                ended = await self._ends.ask(ending)
            except StoreFenced as problem:
                log.warning("the order is not this run's to end", order_id=order_id, problem=str(problem))
                await self.let_go(claim)
                return None
            except ControlsPending:
                # Controls arrived since this drone last read them: each gets its answer, and a cancel still decides how
                # the order ends.
                await self._read_controls(execution)
                if execution.cancel is not None:
                    outcome = cancelled(execution.cancel)
            except BadEntry as problem:
                # Now the database refuses words of our own; `abandon` is what is left.
                if refused_before:
                    raise
                refused_before = True
                outcome = unstorable(problem)
            else:
                self._announce(claim, ending, ended)
                status = ending.outcome.status.value
                log.info("order finished", order_id=order_id, status=status, seq=ended.last_seq)
                if self._suspects is not None:
                    self._suspects.forget(order_id)
                return FinishedOrder(claim.order, ended.following)
            # The fold holds closing entries of an ending that was not stored: rebuild it from the stored entries.
            journal.fold, journal.own = await self._fold_again(order_id)
            if refused_before and owed:
                # Commit the owed entries by themselves: the database may have refused only the outcome.
                journal.owed += owed
                owed = ()
                with suppress(JournalError):
                    await journal.settle()

    async def abandon(self, execution: Execution, claim: Claim, problem: Exception) -> FinishedOrder | None:
        """End an order whose journal cannot be folded: store its last entries without a record. None when that fails as
        well."""
        try:
            while True:
                ending = await self._bare_ending(execution, claim, problem)
                try:
                    ended = await self._ends.ask(ending)
                    break
                except ControlsPending:
                    await self._read_controls(execution)
        except Exception:
            log.exception("an order stays with this drone until its lease ends", order_id=execution.order_id)
            return None
        self._announce(claim, ending, ended)
        return FinishedOrder(claim.order, ended.following)

    async def park(self, execution: Execution) -> None:
        """Park the order of a halted execution until what its tree waits for; its journal must be quiet.

        If a control arrived at the last moment, the order returns to the queue instead.
        """
        assert execution.held is not None and execution.waits_for is not None
        claim, journal = execution.held
        block = combined(execution.waits_for)
        parking = Parking(
            order_id=execution.order_id,
            epoch=claim.epoch,
            last_seq=journal.last_seq,
            control_seq=execution.seen,
            reason=block.reason,
            message=block.message,
            until=block.until,
            in_line=block.reason is WaitingReason.WORKSPACE,
            tries=block.tries,
        )
        try:
            seq = await self._store.patiently(lambda store: store.claims.park(parking))
        except StoreFenced as problem:
            log.warning("the order is not this run's to park", order_id=execution.order_id, problem=str(problem))
            await self.let_go(claim)
        except ControlsPending:
            await self._hand_back(claim, CONTROLLED_MEANWHILE)
        else:
            parked = {"status": OrderStatus.WAITING, "reason": block.reason, "detail": block.message, "last_seq": seq}
            entries = await self._store.entries(execution.order_id, after=seq - 1)
            self._broadcaster.moved(claim.order.model_copy(update=parked), entries)
            log.info("order waits", order_id=execution.order_id, reason=block.reason.value, until=block.until)

    def _announce(self, claim: Claim, ending: Ending, ended: EndedOrder) -> None:
        self._broadcaster.moved(as_ended(claim.order, ending.outcome, ended.last_seq), entries_of(ending))

    async def _finish_group(self, endings: Sequence[Ending]) -> Sequence[EndedOrder | StoreError]:
        return await self._store.patiently(lambda store: store.claims.finish_together(endings))

    async def _refuse(self, control_id: str) -> None:
        await self._store.patiently(lambda store: store.controls.refuse(control_id, TOO_LATE))

    async def let_go(self, claim: Claim) -> None:
        """Leave an order to whoever holds it. Where its row still names this claim, its journal is not the one that
        this run has written: the database has lost confirmed entries, and the order is queued with what is left."""
        await self._hand_back(claim, ENTRIES_LOST)

    async def _hand_back(self, claim: Claim, why: str) -> None:
        """Nothing happens when the order is not held under this claim."""
        order_id, drone = claim.order.id, claim.order.drone or ""
        held = [(order_id, claim.epoch)]
        if not await self._store.patiently(lambda store: store.claims.hand_back(held, drone=drone, message=why)):
            return
        reached = await self._store.patiently(lambda store: store.journal.reached([order_id])[order_id])
        left = claim.order.model_copy(update={"status": reached.status, "last_seq": reached.seq})
        entries = await self._store.entries(order_id, after=claim.last_seq)
        # The last entry says that the order was handed back; the ones before were published when they were written.
        self._broadcaster.moved(left, entries[-1:], why)
        log.info("order handed back", order_id=order_id, why=why)

    async def _bare_ending(self, execution: Execution, claim: Claim, problem: Exception) -> Ending:
        order_id = execution.order_id
        reached = await self._store.patiently(lambda store: store.journal.reached([order_id])[order_id])
        fold = Fold(order_id)
        fold.last_seq = reached.seq
        outcome = cancelled(execution.cancel) if execution.cancel else internal_error(problem)
        return ending_of(claim, fold, execution, outcome)

    async def _read_controls(self, execution: Execution) -> None:
        controls = await self._store.patiently(lambda store: store.controls.of_order(execution.order_id))
        for control in controls:
            execution.seen = max(execution.seen, control.number)
            if not control.open:
                continue
            if is_cancel(control):
                execution.cancel = execution.cancel or execution.redactor.model(control)
            elif control.kind is not ControlKind.STEER or control.message is None:
                await self._refuse(control.id)
            # A message that the turn is too late for stays open: the order's end keeps it for the next turn.

    async def _with_turn(self, execution: Execution, ending: Ending) -> Ending:
        """The ending, with what the turn leaves to its session. Where that cannot be computed, a later turn tries."""
        assert execution.held is not None
        claim, journal = execution.held
        try:
            for entry in entries_of(ending):
                journal.own.add(entry)
            leaves = await self._openings.left_by(
                claim.order, ending.outcome, journal.own, execution.opening, execution.redactor
            )
        except (OpeningLost, ValueError):
            log.exception("what a turn leaves to its session could not be computed", order_id=execution.order_id)
            return ending
        asked = None if journal.own.started is None else journal.own.started.model
        planned = None if self._idle is None else self._idle.planned(claim.order, leaves, asked)
        return replace(ending, turn=leaves.turn, base=leaves.base, begun_with=leaves.begun_with, compaction=planned)

    async def _fold_again(self, order_id: str) -> tuple[Fold, OwnMessages]:
        fold, messages = Fold(order_id), OwnMessages()
        while page := await self._store.patiently(lambda store: store.journal.read(order_id, after=fold.last_seq)):
            for entry in page:
                fold.add(entry)
                messages.add(entry)
        return fold, messages


def ending_of(
    claim: Claim, fold: Fold, execution: Execution, outcome: OrderOutcome, owed: Sequence[Draft] = ()
) -> Ending:
    """The ending of an order: its last entries (the `owed` ones first), and its record and usage after them. Adds all
    of these entries except `order.finished` to `fold`."""
    outcome = execution.redactor.model(outcome)
    at, last_seq, order_id = now(), fold.last_seq, claim.order.id
    drafts = [*owed, *([applied_draft(execution.cancel, at)] if execution.cancel else [])]
    end: AgentEnd = RecordStatus.CANCELLED if outcome.status is OrderStatus.CANCELLED else RecordStatus.FAILED
    _add_drafts(fold, order_id, drafts)
    closing = fold.closing(at, end, outcome.detail or "The turn ended before this did.")
    _add_drafts(fold, order_id, closing)
    drafts += closing
    finished = OrderFinished(status=outcome.status, reason=outcome.reason, detail=outcome.detail, usage=fold.spent)
    return Ending(
        order_id=claim.order.id,
        epoch=claim.epoch,
        last_seq=last_seq,
        control_seq=execution.seen,
        drafts=[*drafts, order_draft(at, finished)],
        outcome=outcome.model_copy(update={"usage": fold.spent}),
        record=fold.record(),
    )


def _add_drafts(fold: Fold, order_id: str, drafts: Sequence[Draft]) -> None:
    for number, draft in enumerate(drafts, start=fold.last_seq + 1):
        fold.add(draft.numbered(order_id, number))


def entries_of(ending: Ending) -> Sequence[Entry]:
    """The entries that a stored ending wrote."""
    numbered = enumerate(ending.drafts, start=ending.last_seq + 1)
    return [draft.numbered(ending.order_id, number) for number, draft in numbered]


def as_ended(order: WorkOrder, outcome: OrderOutcome, seq: int) -> WorkOrder:
    """The order with this outcome, as it is published to viewers."""
    ended = {"status": outcome.status, "reason": outcome.reason, "detail": outcome.detail, "usage": outcome.usage}
    return order.model_copy(update={**ended, "finished_at": now(), "last_seq": seq})


def cancelled(control: Control | None) -> OrderOutcome:
    """The outcome of an order that a person cancelled."""
    reason = control.reason if control else None
    return OrderOutcome(status=OrderStatus.CANCELLED, detail=reason or "cancelled on request")


def internal_error(problem: BaseException | None) -> OrderOutcome:
    """The outcome of an order that failed by an error of the drone itself."""
    what = "the turn was cancelled from within" if problem is None else f"{type(problem).__name__}: {problem}"
    detail = f"The drone had an internal error: {what}"[:500]
    return OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.INTERNAL, detail=detail)


def threads_exhausted() -> OrderOutcome:
    """The outcome of an order that used up its threads with calls that never ended, as it would in the next drone."""
    detail = (
        "Its tool calls took all threads that an order may have: they were abandoned and never ended. Its drone has to "
        "restart because of them, and the order is not tried again: fix the tool, or what it works on."
    )
    return OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.POISON, detail=detail)


def froze_a_drone() -> OrderOutcome:
    """The outcome of an order whose tool blocked a drone's interpreter until other drones took that drone for lost."""
    detail = (
        "A tool that it called blocked its drone's interpreter until other drones took that drone for lost. The order "
        "is not tried again: fix the tool, or what it works on."
    )
    return OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.POISON, detail=detail)


def unstorable(problem: Exception) -> OrderOutcome:
    """The outcome of an order whose own outcome the database refuses."""
    detail = f"The database refuses the outcome: {problem}"[:500]
    return OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.INTERNAL, detail=detail)
