"""This room is for one order: claim it, run it, finish it."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import structlog

from drone.agent.controls.bridge import Bridge
from drone.agent.controls.standstill import Block
from drone.agent.mishap import is_exhausted
from drone.agent.past import Past
from drone.agent.ports import Fenced, Journal
from drone.agent.threads import Pools
from drone.sandbox.custody import Custody
from drone.sandbox.paths import Workspace
from drone.worker.ending import Finisher, broken, cancelled, froze
from drone.worker.journal import OrderJournal
from drone.worker.parking import Grace, Parker
from drone.worker.refusals import Refusals
from drone.worker.runs import Run, Runs, Stop
from drone.worker.suspects import Suspects
from drone.worker.told import Teller
from drone.worker.workspaces import Busy, Plan, Workspaces
from drone.worker.writer import Writer, patiently, weight_of
from mcc.contracts.drones import Capability
from mcc.contracts.fold import Fold
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import Entry
from mcc.contracts.order import EarlierTurn, Outcome, WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.contracts.wire import Hint
from mcc.store.errors import AnotherWorkspace, WorkspaceNeeded
from mcc.store.offload import Offload
from mcc.store.ports import Store
from mcc.store.values import Claim

log = structlog.get_logger("drone.runner")

UNWIND_SECONDS = 5.0
"""A turn that was told to stop has this long to unwind; what it does after that is no longer waited for."""

PARK_AFTER_SECONDS = 20.0
"""An order that stands still for so long is laid aside."""

SESSION_CHARACTERS = 100_000
"""The most that a turn is shown of the earlier ones of its session: about 25,000 tokens."""

PAGE = 100
FRESH = 2
"""Entries of an order that was claimed as soon as it was queued."""


class Crew(Protocol):
    """Who does the work of an order."""

    @property
    def sandbox(self) -> str: ...

    async def run(
        self,
        order: WorkOrder,
        *,
        journal: Journal,
        bridge: Bridge,
        past: Past,
        session: tuple[EarlierTurn, ...] = (),
        workspace: Workspace | None = None,
    ) -> Outcome: ...

    def agents(self) -> tuple[Capability, ...]: ...

    def tools(self) -> tuple[Capability, ...]: ...

    def models(self) -> tuple[Capability, ...]: ...

    def may_write(self, order: WorkOrder, workspace: Workspace) -> bool: ...

    @property
    def custody(self) -> Custody | None: ...

    @property
    def pools(self) -> Pools: ...

    async def close(self) -> None: ...


class Holder(Protocol):
    """Under which incarnation orders are claimed."""

    @property
    def incarnation(self) -> str | None: ...


class Runner:
    """Carries out orders, each from its claim to its end."""

    def __init__(
        self,
        store: Store,
        offload: Offload,
        crew: Crew,
        holder: Holder,
        runs: Runs,
        writer: Writer,
        teller: Teller,
        *,
        workspaces: Workspaces | None = None,
        suspects: Suspects | None = None,
        alone: Callable[[], bool] = lambda: False,
        unwind_seconds: float = UNWIND_SECONDS,
        park_after_seconds: float = PARK_AFTER_SECONDS,
        fall: Callable[[BaseException], None] = lambda problem: None,
    ) -> None:
        """`alone` tells whether the order that is worked on has the process to itself.

        `fall` is called when this process has no memory or threads left: it should end, so that its orders are taken
        over as those of any lost drone. They are not ended here.
        """
        self._store = store
        self._offload = offload
        self._crew = crew
        self._holder = holder
        self._runs = runs
        self._writer = writer
        self._teller = teller
        self._workspaces = workspaces
        self._suspects = suspects
        self._alone = alone
        self._unwind_seconds = unwind_seconds
        self._finisher = Finisher(store, offload, teller)
        self._parker = Parker(store, offload, teller)
        self._park_after_seconds = park_after_seconds
        self._fall = fall

    async def work(self, order_id: str, *, drone: str) -> WorkOrder | None:
        """Claim, run, finish. Answers the order that was ended here; None when there was none or it went elsewhere."""
        run = self._runs.enter(order_id)
        if run is None:
            return None
        try:
            claim = await self._claim(run, drone)
            if claim is None:
                return None
            return claim.order if await self._surely(run, claim) else None
        except Exception as problem:
            if not is_exhausted(problem):
                raise
            self._fall(problem)
            return None
        finally:
            self._runs.leave(run)

    async def _claim(self, run: Run, drone: str) -> Claim | None:
        incarnation = self._holder.incarnation
        if incarnation is None:
            return None
        run.incarnation = incarnation
        claim = partial(
            self._store.claims.claim,
            run.order_id,
            incarnation=incarnation,
            claim_token=fresh_id(),
            drone=drone,
            alone=self._alone(),
        )
        if self._workspaces is None:
            return await patiently(self._offload, claim)
        try:
            return await patiently(self._offload, partial(claim, unseen=False))
        except WorkspaceNeeded as needed:
            order, begun = needed.order, needed.begun
        try:
            return await self._claim_with(run, await self._workspaces.plan(order, begun=begun), claim, drone)
        except AnotherWorkspace as another:
            return await self._claim_with(run, self._workspaces.replaced(order, another.found), claim, drone)

    async def _claim_with(
        self, run: Run, plan: Plan | None, claim: "partial[Claim | None]", drone: str
    ) -> Claim | None:
        """Claim an order that names a workspace; one that has to wait for it is laid aside at once."""
        assert self._workspaces is not None
        if plan is None:
            return None
        run.workspace, run.directory, run.invalid = plan.hold, plan.workspace, plan.problem
        claimed = await patiently(self._offload, partial(claim, workspace=plan.hold))
        if claimed is None or plan.waits is None:
            return claimed
        seq = await self._workspaces.lay_aside(claimed, plan, drone=drone)
        if seq is not None:
            self._teller.hint(Hint(order_id=run.order_id, seq=seq, status=OrderStatus.WAITING.value))
        return None

    async def _surely(self, run: Run, claim: Claim) -> bool:
        """An order that is held here must not stay so for ever, whatever is wrong with it or with us."""
        try:
            return await self._carry_out(run, claim)
        except Exception as problem:
            if is_exhausted(problem):
                raise
            log.exception("an order could not be carried out", order_id=run.order_id)
            return await self._finisher.abandon(run, claim, problem)

    async def _carry_out(self, run: Run, claim: Claim) -> bool:
        fold, past, weight = await self._read(claim)
        journal = self._writer.open(run.order_id, claim.epoch, fold, run.incarnation)
        journal.weight = weight
        refusals = Refusals(self._store.controls, self._offload, claim.epoch)
        standstill = run.hold(claim, journal, refusals)
        standstill.watch(Grace(run, standstill, self._park_after_seconds))
        self._teller.hint(Hint(order_id=run.order_id, seq=claim.last_seq, status=OrderStatus.RUNNING.value))
        log.info("order claimed", order_id=run.order_id, attempt=claim.attempt, epoch=claim.epoch)
        outcome = self._known(run) or await self._turn(run, claim, journal, past)
        journal.seal()
        await journal.quiet()
        if outcome is None and run.stop is Stop.PARK:
            await refusals.kept()
            await self._parker.park(run)
            return False
        if outcome is None or run.stop is Stop.FENCED:
            log.info(
                "order let go", order_id=run.order_id, epoch=claim.epoch, why=run.stop.name if run.stop else "fenced"
            )
            return False
        await refusals.kept()
        is_ended = await self._finisher.finish(run, outcome)
        if is_ended and self._suspects is not None:
            self._suspects.forget(run.order_id)
        return is_ended

    def _known(self, run: Run) -> Outcome | None:
        """The end of an order that is not to be tried again, whatever its turn would bring."""
        return froze() if self._suspects is not None and self._suspects.holds(run.order_id) else None

    async def _read(self, claim: Claim) -> tuple[Fold, Past, int]:
        """The journal so far, for the record and for going on, and what it weighs; most first attempts tell nothing."""
        fold, past = Fold(claim.order.id, claim.order.session_id), Past()
        if claim.attempt == 1 and claim.last_seq <= FRESH:
            fold.last_seq, fold.attempt = claim.last_seq, 1
            return fold, past, 0
        weight = 0
        while fold.last_seq < claim.last_seq:
            for entry in await self._page(claim.order.id, fold.last_seq):
                fold.add(entry)
                past.add(entry)
                weight += weight_of(entry.data)
        past.close()
        return fold, past, weight

    async def _page(self, order_id: str, after: int) -> Sequence[Entry]:
        return await patiently(self._offload, lambda: self._store.journal.read(order_id, after=after, limit=PAGE))

    async def _turn(self, run: Run, claim: Claim, journal: OrderJournal, past: Past) -> Outcome | None:
        """How the turn ended; None when it is not ours to end it."""
        turn = asyncio.create_task(self._attempt(run, claim, journal, past), name=f"order {run.order_id}")
        try:
            both: set[asyncio.Future[Any]] = {turn, run.stopping}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            turn.cancel()
        if not turn.done():
            await asyncio.wait({turn}, timeout=self._unwind_seconds)
        return outcome_of(run, turn)

    async def _read_controls(self, run: Run) -> None:
        """What was asked before the claim counts from the first round on."""
        asked = partial(self._store.controls.pending, {run.order_id: run.seen})
        await run.take(await patiently(self._offload, asked))

    async def _session(self, order: WorkOrder) -> tuple[EarlierTurn, ...]:
        """What it goes on from; the first turn of a session has something only when it was made of another one."""
        if order.session_seq == 1 and order.origin is None:
            return ()
        context = partial(self._store.sessions.context, order, characters=SESSION_CHARACTERS)
        return tuple(await patiently(self._offload, context))

    async def _attempt(self, run: Run, claim: Claim, journal: OrderJournal, past: Past) -> Outcome:
        """Go on where an earlier attempt was, under what people asked for then."""
        assert run.bridge is not None
        run.bridge.expect(past)
        run.bridge.restore(paused=journal.fold.paused, tools_removed=journal.fold.tools_removed)
        await self._read_controls(run)
        session = await self._session(claim.order) if past.root is None else ()
        if run.invalid is not None:
            return Outcome(status=OrderStatus.FAILED, reason=FailureReason.INVALID, detail=run.invalid)
        work = partial(
            self._crew.run,
            claim.order,
            journal=journal,
            bridge=run.bridge,
            past=past,
            session=session,
            workspace=run.directory,
        )
        if self._workspaces is None or run.workspace is None:
            return await work()
        try:
            async with self._workspaces.entered(claim, run.workspace, run.incarnation):
                return await work()
        except Busy as busy:
            run.wait_for(Block(WaitingReason.WORKSPACE, str(busy)))
            raise


def outcome_of(run: Run, turn: "asyncio.Task[Outcome]") -> Outcome | None:
    """Read a turn that ended or was told to; None = the order is another's, or goes back.

    Raises what says that the process is exhausted.
    """
    if run.stop is Stop.CANCEL:
        return cancelled(run.cancel)
    if run.stop is Stop.END:
        return run.outcome
    if not turn.done():
        log.error("a turn did not stop in time", order_id=run.order_id)
        return None
    problem = None if turn.cancelled() else turn.exception()
    if problem is not None and is_exhausted(problem):
        raise problem
    if problem is None and not turn.cancelled():
        return turn.result()
    if run.stop is not None or isinstance(problem, Fenced):
        return None
    log.error("a turn broke", order_id=run.order_id, exc_info=problem)
    return broken(problem)
