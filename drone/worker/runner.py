"""Carries out one order: claims it, runs its agents from where its journal stands, ends or parks it."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import structlog

from drone.agent.control.idle_watch import Block
from drone.agent.ports.journal import Fenced, JournalError
from drone.agent.ports.report import is_exhausted
from drone.agent.state.tree import Tree
from drone.checkouts.mirror import CannotFetch, NotNow
from drone.crew import Crew
from drone.generation.outline import OrderParked
from drone.generation.port import DocumentLost
from drone.order_context import OrderContext
from drone.worker.claiming import Claiming
from drone.worker.delivery.order_delivery import OrderDelivery
from drone.worker.ending import FinishedOrder, Finisher, cancelled, internal_error
from drone.worker.entering import Busy
from drone.worker.executions import Execution, Executions, Refusals, Stop
from drone.worker.journal import OrderJournal, Writer
from drone.worker.loop import AsyncStore
from drone.worker.order_ports import (
    OrderAttachments,
    OrderDocuments,
    OrderEarlierTurns,
    OrderNotes,
    OrderPeople,
    is_cloned,
)
from drone.worker.sessions.compacting import next_turn
from drone.worker.sessions.history import OrderHistory
from drone.worker.sessions.opening import OpeningLost, Openings
from drone.worker.site import fetch_again
from drone.worker.weight import weight_of
from mcc.contracts.fold import Fold
from mcc.contracts.journal import ToolFinished
from mcc.contracts.order import OrderKind, OrderOutcome, WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.store.rows.values import Claim
from mcc.transcript.own_messages import OwnMessages

log = structlog.get_logger("drone.runner")

PAGE = 100
FRESH = 2
"""Number of entries of an order that was claimed as soon as it was queued."""


class Runner:
    """Carries out orders, each from its claim to its end here."""

    def __init__(
        self,
        store: AsyncStore,
        claiming: Claiming,
        crew: Crew,
        executions: Executions,
        writer: Writer,
        finisher: Finisher,
    ) -> None:
        self._store = store
        self._claiming = claiming
        self._crew = crew
        self._executions = executions
        self._writer = writer
        self._finisher = finisher
        self._openings = Openings(store, crew.context_mode)
        self._delivery = OrderDelivery(store, crew, claiming)

    async def work(self, order_id: str) -> FinishedOrder | None:
        """Claim, run and finish the order. Answers the order that was ended here; None when it was not claimed, or did
        not end here.

        Raises an error for which `is_exhausted` holds when this process has no memory or threads left: the process
        should end without ending its orders, so that other drones take them over as those of any lost drone.
        """
        execution = self._executions.enter(order_id)
        if execution is None:
            return None
        try:
            claim = await self._claiming.claim(execution)
            if claim is None:
                return None
            return await self._carry_out_or_abandon(execution, claim)
        finally:
            self._executions.leave(execution)
            self._claiming.left(execution)

    async def _carry_out_or_abandon(self, execution: Execution, claim: Claim) -> FinishedOrder | None:
        """Abandon the order on an unexpected error, so that this drone does not hold it for ever."""
        try:
            return await self._carry_out(execution, claim)
        except Exception as problem:
            if is_exhausted(problem):
                raise
            log.exception("an order could not be carried out", order_id=execution.order_id)
            return await self._finisher.abandon(execution, claim, problem)

    async def _carry_out(self, execution: Execution, claim: Claim) -> FinishedOrder | None:
        fold, tree, messages, weight = await self._read(claim)
        journal = self._writer.open(execution.order_id, claim.epoch, fold, execution.incarnation)
        journal.weight, journal.own = weight, messages
        refusals = Refusals(self._store, claim.epoch)
        crew = self._crew
        people = OrderPeople(self._store, execution.order_id, crew.expire_seconds, crew.wait_seconds)
        execution.hold(claim, journal, refusals, tree, people)
        log.info("order claimed", order_id=execution.order_id, attempt=claim.attempt, epoch=claim.epoch)
        with execution.parks_when_idle():
            outcome = self._finisher.poison(execution) or await self._turn(execution, claim, journal, tree)
        if outcome is not None and execution.stop in (Stop.CANCEL, Stop.END):
            outcome = await self._with_changes(execution, claim, journal, outcome)
        # Sealed first: otherwise a task that did not unwind could still write after the order has left.
        journal.seal()
        owed = journal.take_owed() if outcome is not None and execution.stop is None else ()
        if execution.stop is not Stop.FENCED:
            # Another drone holds the order by now, and goes on from what is committed.
            with suppress(JournalError):
                await journal.settle()
        await journal.quiet()
        if outcome is None and execution.stop is Stop.PARK:
            # A receipt that is still open counts as a new control, and would keep the order from being parked or ended.
            await refusals.stored()
            await self._finisher.park(execution)
            return None
        if outcome is None or execution.stop is Stop.FENCED:
            why = execution.stop.name if execution.stop else "fenced"
            log.info("order let go", order_id=execution.order_id, epoch=claim.epoch, why=why)
            if execution.stop is None:
                await self._finisher.let_go(claim)
            return None
        await refusals.stored()
        return await self._finisher.finish(execution, outcome, owed)

    async def _read(self, claim: Claim) -> tuple[Fold, Tree, OwnMessages, int]:
        """The journal so far, as the fold of the chat record, as the tree to resume from and as what the turn adds to
        its session, and its approximate bytes in memory.

        Most first attempts read nothing: the claim already tells what their journal holds.
        """
        fold, tree, messages = Fold(claim.order.id, claim.order.session_id), Tree(), OwnMessages()
        if claim.attempt == 1 and claim.last_seq <= FRESH:
            fold.last_seq, fold.attempt = claim.last_seq, 1
            return fold, tree, messages, 0
        weight = 0
        while fold.last_seq < claim.last_seq:
            for entry in await self._store.patiently(
                lambda store: store.journal.read(claim.order.id, after=fold.last_seq, limit=PAGE)
            ):
                fold.add(entry)
                tree.add(entry)
                messages.add(entry)
                weight += weight_of(entry.data)
        tree.take_over()
        return fold, tree, messages, weight

    async def _turn(self, execution: Execution, claim: Claim, journal: OrderJournal, tree: Tree) -> OrderOutcome | None:
        """Run the turn until it ends or the execution stops. Answers its outcome; None when this drone must not end the
        order."""
        turn = asyncio.create_task(self._attempt(execution, claim, journal, tree), name=f"order {execution.order_id}")
        try:
            both: set[asyncio.Future[Any]] = {turn, execution.stopping}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            turn.cancel()
        if not turn.done():
            # A tool may ignore its cancellation: stop waiting for it; the sealed journal refuses its later writes.
            await asyncio.wait({turn}, timeout=execution.times.unwind_seconds)
        return outcome_of(execution, turn)

    async def _read_controls(self, execution: Execution) -> None:
        """Apply the controls that were placed before the claim, so that they count from the first round on."""
        seen = {execution.order_id: execution.seen}
        await execution.take(await self._store.patiently(lambda store: store.controls.pending(seen)))

    async def _attempt(self, execution: Execution, claim: Claim, journal: OrderJournal, tree: Tree) -> OrderOutcome:
        """Resume from where an earlier attempt stopped, under the controls that were placed until now."""
        assert execution.router is not None
        # A control placed between the claim and `hold` poked this drone before it listened for this order.
        if claim.has_open_controls or execution.pokes != self._executions.pokes:
            await self._read_controls(execution)
        if execution.invalid is not None:
            return OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.INVALID, detail=execution.invalid)
        try:
            shown_to = claim.order
            if (session_id := claim.order.compacts) is not None:
                begun = tree.root is not None
                following = await next_turn(self._store, claim.order, session_id, begun=begun)
                if isinstance(following, OrderOutcome):
                    return following
                shown_to = following
            opening = await self._openings.of(shown_to, tree, execution.redactor)
            # What a clone holds was not written on this machine.
            execution.opening = replace(opening, tainted=opening.tainted or is_cloned(claim.order))
            documents = await self._documents(claim.order, journal)
            reached = await self._calls_before_target(claim.order)
            key = None if execution.workspace is None else execution.workspace.key
            async with self._claiming.entered(claim, execution) as seen:
                history = OrderHistory(self._store, journal, claim.order, execution.redactor)
                context = OrderContext(
                    journal,
                    router=execution.router,
                    session=execution.opening,
                    workspace=execution.directory,
                    seen=seen,
                    access=execution.access,
                    documents=documents,
                    notes=OrderNotes(self._store, journal, claim.order, key, self._crew.accepts),
                    history=history,
                    attachments=OrderAttachments(self._store, journal, claim.order.id),
                    earlier=OrderEarlierTurns(self._store, journal, history),
                    reached=reached,
                )
                outcome = await self._delivery.outcome(execution, context)
                if execution.router.tree.checkpointed:
                    await journal.settle()  # before comparing the workspace, which may take long
                return await self._with_changes(execution, claim, journal, outcome)
        except OpeningLost as lost:
            return OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.INTERNAL, detail=f"{lost}.")
        except DocumentLost as lost:
            return OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.INVALID, detail=f"{lost}.")
        except NotNow as problem:
            if (block := fetch_again(claim.order, str(problem))) is None:
                return OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.EXPIRED, detail=str(problem))
            execution.wait_for(block)
            # The error ends the turn; as the execution has stopped, `outcome_of` answers None, and the order is parked.
            raise
        except CannotFetch as problem:
            return OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.INVALID, detail=str(problem))
        except OrderParked as parked:
            execution.wait_for(parked.block)
            raise
        except Busy as busy:
            execution.wait_for(Block(WaitingReason.WORKSPACE, str(busy)))
            raise

    async def _with_changes(
        self, execution: Execution, claim: Claim, journal: OrderJournal, outcome: OrderOutcome
    ) -> OrderOutcome:
        """The outcome, with what the order did to its workspace."""
        tree = execution.router.tree if execution.router else Tree()
        if execution.directory is None or not (tree.checkpointed or tree.git_facts):
            return outcome
        git_facts = tuple(tree.git_facts)
        return await self._crew.with_changes(claim.order, execution.directory, journal, outcome, git_facts)

    async def _calls_before_target(self, order: WorkOrder) -> frozenset[str]:
        """For a partial revert: ids of the reverted order's calls that had ended at the entry which it goes back to."""
        if order.kind is not OrderKind.REVERT or order.origin is None or order.origin.after is None:
            return frozenset()
        source, last, ended = order.origin.order_id, order.origin.after, set[str]()
        for after in range(0, last, PAGE):
            entries = await self._store.page(source, after=after, limit=min(PAGE, last - after))
            ended |= {entry.data.call_id for entry in entries if isinstance(entry.data, ToolFinished)}
        return frozenset(ended)

    async def _documents(self, order: WorkOrder, journal: OrderJournal) -> OrderDocuments | None:
        """The document that the order generates or talks about; None without one. Raises `DocumentLost`."""
        if order.document_id is None:
            return None
        return await OrderDocuments.opened(self._store, journal, order.document_id, self._crew.functions)


def outcome_of(execution: Execution, turn: "asyncio.Task[OrderOutcome]") -> OrderOutcome | None:
    """The outcome of a turn that ended or was stopped; None when the order belongs to another drone, or returns to the
    queue.

    Raises the turn's error if `is_exhausted` holds for it.
    """
    # Before looking at the turn: these outcomes hold however it unwound.
    if execution.stop is Stop.CANCEL:
        return cancelled(execution.cancel)
    if execution.stop is Stop.END:
        return execution.outcome
    if not turn.done():
        log.error("a turn did not stop in time", order_id=execution.order_id)
        return None
    problem = None if turn.cancelled() else turn.exception()
    if problem is not None and is_exhausted(problem):
        raise problem
    if problem is None and not turn.cancelled():
        return turn.result()
    if execution.stop is not None or isinstance(problem, Fenced):
        return None
    log.error("a turn broke", order_id=execution.order_id, exc_info=problem)
    return internal_error(problem)
