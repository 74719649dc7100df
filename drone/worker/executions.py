"""The executions of a drone: the orders it works on right now, the controls they receive, the reasons they stop."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto

import structlog

from drone.agent.control.control_router import OVER, ControlRouter
from drone.agent.control.idle_watch import Block, IdleWatch
from drone.agent.control.inbox import People
from drone.agent.ports.write_access import WriteAccess
from drone.agent.state.tree import Tree
from drone.sandbox.places.paths import Workspace
from drone.worker.journal import OrderJournal
from drone.worker.loop import AsyncStore
from mcc.contracts.control import Control, ControlKind
from mcc.contracts.entry import Origin
from mcc.contracts.order import OrderOutcome
from mcc.contracts.status import WaitingReason
from mcc.redaction import Redactor
from mcc.store.rows.values import Claim, WorkspaceHold
from mcc.transcript.opening import SessionOpening

log = structlog.get_logger("drone.executions")


@dataclass(frozen=True, slots=True)
class ExecutionTimes:
    """`park_after_seconds`: how long an order's whole tree must have waited before the order is parked.
    `unwind_seconds`: how long halted agents may take to unwind before the drone stops waiting for them."""

    park_after_seconds: float = 20.0
    unwind_seconds: float = 5.0


def is_cancel(control: Control) -> bool:
    """Whether this control cancels the whole order."""
    return control.kind is ControlKind.CANCEL and control.record_id is None


class Stop(Enum):
    """Why an execution ends before its agents do."""

    CANCEL = auto()  # a person cancelled the order; it ends as cancelled
    HAND_BACK = auto()  # the process ends, or shall take no orders; the order returns to the queue
    PARK = auto()  # the whole tree waits, or the drone lacks memory or disk space; the order waits without a drone
    END = auto()  # no drone can continue the order; it ends with `Execution.outcome`
    FENCED = auto()  # the lease is lost; nothing may be written


class Refusals:
    """Closes the receipts of refused controls in the background, while the order continues.

    `epoch`: the epoch under which the order is held; the store ignores refusals by a former holder. Use on one event
    loop only.
    """

    def __init__(self, store: AsyncStore, epoch: int | None = None) -> None:
        self._store = store
        self._epoch = epoch
        self._storing: set[asyncio.Task[None]] = set()

    def refuse(self, control_id: str, why: str) -> None:
        """Close the receipt of this control with the sentence `why`; a receipt that is closed already stays as it
        is."""
        task = asyncio.create_task(self._refuse(control_id, why))
        # The event loop holds tasks only weakly: one that nobody keeps may be collected before it is done.
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)

    async def stored(self) -> None:
        """Return when all refusals are in the database."""
        while self._storing:
            await asyncio.wait(self._storing)

    async def _refuse(self, control_id: str, why: str) -> None:
        try:
            await self._store.patiently(lambda store: store.controls.refuse(control_id, why, epoch=self._epoch))
        except Exception:
            log.exception("a receipt stays open until its order ends", control_id=control_id)


class RefusedReceipts:
    """Refuses, for the router, controls that an agent accepted and never applied. Journal entries report the applied
    ones.

    Controls for the master stay open: a later attempt may still apply them, and the order's end closes them. So do all
    controls once the journal is sealed, because another drone may hold the order.
    """

    def __init__(self, journal: OrderJournal, refusals: Refusals) -> None:
        self._journal = journal
        self._refusals = refusals

    def applied(self, control_id: str, seq: int) -> None:
        pass

    def refused(self, whose: Origin, control_id: str, why: str) -> None:
        if whose.parent_id is not None and not self._journal.sealed:
            self._refusals.refuse(control_id, why)

    def carried(self, record_id: str, seq: int) -> None:
        pass


class IdleTimer:
    """Parks an execution whose tree has been idle for `seconds` without interruption, or at once where it waits for a
    disk, as nothing here ends that wait. Use on one event loop only."""

    def __init__(self, execution: "Execution", idle: IdleWatch, seconds: float) -> None:
        self._execution = execution
        self._idle = idle
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, stands: bool) -> None:
        """Called by the tree's `IdleWatch` whenever the tree becomes idle (`stands`) or active again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if stands:
            held_up = any(block.reason is WaitingReason.DISK for block in self._idle.blocks)
            self._timer = asyncio.get_running_loop().call_later(0 if held_up else self._seconds, self._over)

    def _over(self) -> None:
        if self._execution.goes_on and self._idle.is_idle:
            self._execution.halt(Stop.PARK)


class Execution:
    """One order in this drone, from before its claim until after its end. Use on one event loop only."""

    def __init__(self, order_id: str, redactor: Redactor, times: ExecutionTimes) -> None:
        self.order_id = order_id
        self.redactor = redactor
        self.times = times
        self.incarnation = ""
        """The incarnation under which the order was claimed."""
        self.seen = 0
        """The highest number among the controls read so far."""
        self.stop: Stop | None = None
        self.cancel: Control | None = None
        """The control that cancelled the order."""
        self.router: ControlRouter | None = None
        self.workspace: WorkspaceHold | None = None
        self.directory: Workspace | None = None
        """The opened workspace, shared by all tools under this claim."""
        self.access: WriteAccess | None = None
        """How its agents come to write there."""
        self.wrote = False
        """The order was the only one that might write there."""
        self.invalid: str | None = None
        """Why the order can never have its workspace, and therefore ends."""
        self.waits_for: Sequence[Block] | None = None
        """What the tree of a parked order waits for."""
        self.opening = SessionOpening()
        """What the turn is shown of its session."""
        self.outcome: OrderOutcome | None = None
        """How the order ends, if `stop` is `Stop.END`."""
        self.pokes = 0
        """The value of `Executions.pokes` when this execution was entered."""
        self.stopping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held: tuple[Claim, OrderJournal] | None = None
        self._refusals: Refusals | None = None

    @property
    def held(self) -> tuple[Claim, OrderJournal] | None:
        """The claim with its journal; None before the claim."""
        return self._held

    @property
    def goes_on(self) -> bool:
        """Whether the order is held here and not stopped."""
        return self.stop is None and self._held is not None and not self._held[1].sealed

    @property
    def weight(self) -> int:
        """Approximate bytes that the order's entries so far take in memory."""
        return self._held[1].weight if self._held is not None else 0

    def hold(
        self, claim: Claim, journal: OrderJournal, refusals: Refusals, tree: Tree, people: People | None = None
    ) -> None:
        """Record that the order was claimed. From here on, controls reach its agents, and its agents reach `people`."""
        self._held = (claim, journal)
        self._refusals = refusals
        idle = IdleWatch(parks=True, expires_at=claim.order.expires_at)
        self.router = ControlRouter(journal, RefusedReceipts(journal, refusals), idle, tree, people)
        self.router.workspace_key = self.workspace.key if self.workspace is not None else ""
        self.seen = claim.control_seq
        # It was stopped while the claim was on its way.
        if self.stop is not None:
            journal.seal()

    @contextmanager
    def parks_when_idle(self) -> Iterator[None]:
        """Within this context, halt the held order for parking once its whole tree has waited for
        `park_after_seconds`."""
        assert self.router is not None
        idle = self.router.idle
        # The watch ends with the agents: otherwise the idle watch and the execution would form a reference cycle, and
        # thousands of executions would stay in memory until the next garbage collection.
        with idle.watched(IdleTimer(self, idle, self.times.park_after_seconds)):
            yield

    async def take(self, controls: Sequence[Control]) -> None:
        """Apply these controls, each once and cancels first; refuse those that cannot be applied.

        Raises `JournalError`; the next holder of the order takes the controls that are still open then.
        """
        unseen = [control for control in controls if control.number > self.seen and self.stop is None]
        new = list(map(self.redactor.model, unseen))
        if not new:
            return
        # Noted before they are applied: the next poll may read the same ones meanwhile.
        self.seen = max(control.number for control in new)
        if cancel := next(filter(is_cancel, new), None):
            self.halt(Stop.CANCEL, cancel)
            return
        assert self.router is not None and self._refusals is not None
        for control in sorted(new, key=lambda one: (one.kind is not ControlKind.CANCEL, one.number)):
            refused = await self.router.take(control)
            # A message that the turn is too late for stays open: the order's end keeps it for the next turn.
            if refused and not (refused == OVER and control.kind is ControlKind.STEER and control.message):
                self._refusals.refuse(control.id, refused)

    def wait_for(self, block: Block) -> None:
        """Park the order for a reason of this drone, even if its tree is active; its open calls stay open."""
        if self.stop is None:
            self.halt(Stop.PARK)
            # After `halt`, which notes what the tree waits for.
            self.waits_for = (block,)

    def end(self, outcome: OrderOutcome) -> None:
        """End the order, which no drone can continue, even if its tree is active."""
        if self.stop is None:
            self.outcome = outcome
            self.halt(Stop.END)

    def halt(self, stop: Stop, cancel: Control | None = None) -> None:
        """Stop the execution; nothing more starts. The first reason counts, except that a lost lease overrides all."""
        if self.stop is None or stop is Stop.FENCED:
            self.stop, self.cancel = stop, cancel
        if stop is Stop.PARK and self.router is not None:
            self.waits_for = self.router.idle.blocks
        if self._held is not None:
            self._held[1].seal()
        if not self.stopping.done():
            self.stopping.set_result(None)


class Executions:
    """All executions of a drone, by order id; refuses new ones once closed. Use on one event loop only."""

    def __init__(self, redactor: Callable[[], Redactor] = Redactor, times: ExecutionTimes = ExecutionTimes()) -> None:
        self._redactor = redactor
        self._times = times
        self._executions: dict[str, Execution] = {}
        self.closed = False
        self.left = 0
        """How many executions have ended or left this drone so far."""
        self.pokes = 0
        """How often this drone was told that one of its orders has new controls."""
        self._changed = asyncio.Event()
        self._handed_back: list[Claim] = []

    def __iter__(self) -> Iterator[Execution]:
        return iter(list(self._executions.values()))

    def __len__(self) -> int:
        return len(self._executions)

    def enter(self, order_id: str) -> Execution | None:
        """A new execution; None when this drone already works on the order, or is closed."""
        if self.closed or order_id in self._executions:
            return None
        execution = self._executions[order_id] = Execution(order_id, self._redactor(), self._times)
        execution.pokes = self.pokes
        return execution

    def leave(self, execution: Execution) -> None:
        if execution.stop is Stop.HAND_BACK and execution.held is not None:
            # It has ended here, but its row names this drone until it is handed back.
            self._handed_back.append(execution.held[0])
        del self._executions[execution.order_id]
        self.left += 1
        self._changed.set()

    def get(self, order_id: str) -> Execution | None:
        return self._executions.get(order_id)

    def listening(self) -> dict[str, int]:
        """For the executions that still take controls: order id to the highest control number seen."""
        return {one.order_id: one.seen for one in self if one.held is not None and one.stop is None}

    def close(self) -> None:
        self.closed = True

    async def emptied(self, seconds: float) -> bool:
        """Wait at most `seconds` until no execution is left; answers whether that happened."""
        try:
            async with asyncio.timeout(seconds):
                while self._executions:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def to_hand_back(self) -> list[Claim]:
        """The claims that this drone still holds, or stopped in order to hand them back."""
        return [*self._handed_back, *(one.held[0] for one in self if one.held is not None)]

    def stopped_to_hand_back(self) -> list[Claim]:
        """The claims of the executions that ended here so that their orders are handed back."""
        return [*self._handed_back]

    def handed_back(self, claims: Sequence[Claim]) -> None:
        """Forget these claims, whose orders are in the queue again."""
        self._handed_back = [claim for claim in self._handed_back if claim not in claims]
