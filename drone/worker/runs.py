"""This room is for the orders that a drone works on right now, and for why one of them must stop."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto

from drone.agent.controls.bridge import Bridge
from drone.agent.controls.standstill import Block, Standstill
from drone.sandbox.paths import Workspace
from drone.worker.journal import OrderJournal
from drone.worker.refusals import Refusals
from mcc.contracts.control import Control, ControlKind
from mcc.contracts.journal import Origin
from mcc.contracts.order import Outcome
from mcc.redaction import Redactor
from mcc.store.values import Claim, WorkspaceHold


def is_cancel(control: Control) -> bool:
    """Whether this asks to stop the whole order."""
    return control.kind is ControlKind.CANCEL and control.record_id is None


class Stop(Enum):
    """Why a run ends before its turn does."""

    CANCEL = auto()  # someone asked; the run writes the end
    HAND_BACK = auto()  # the process ends; the order goes back to the queue
    PARK = auto()  # all of it waits for a person or a clock; the order is laid aside
    END = auto()  # it cannot be carried on; the run writes the end that was said
    FENCED = auto()  # the lease is lost; nothing may be written


class LateReceipts:
    """What the bridge tells of controls that it had taken: the entries speak for those that were applied.

    What was said to the order as a whole is left open, for it may yet be read by another attempt; its end settles it.
    So is everything once the run must stop, or another drone may hold the order.
    """

    def __init__(self, run: "Run", refusals: Refusals) -> None:
        self._run = run
        self._refusals = refusals

    def applied(self, control_id: str, seq: int) -> None:
        pass

    def refused(self, whose: Origin, control_id: str, why: str) -> None:
        if whose.parent_id is not None and self._run.goes_on:
            self._refusals.refuse(control_id, why)


class Run:
    """One order from before its claim to after its end. Use on one event loop only."""

    def __init__(self, order_id: str, redactor: Redactor) -> None:
        self.order_id = order_id
        self.redactor = redactor
        self.incarnation = ""
        self.seen = 0
        self.stop: Stop | None = None
        self.cancel: Control | None = None
        self.bridge: Bridge | None = None
        self.workspace: WorkspaceHold | None = None
        self.directory: Workspace | None = None
        """The workspace, opened for this claim and for all of its tools."""
        self.invalid: str | None = None
        """Why it cannot have its workspace, which ends it."""
        self.waits_for: Sequence[Block] | None = None
        """Of a run that was halted to be parked: what its tree waited for then."""
        self.outcome: Outcome | None = None
        """Of a run that was halted to be ended: how."""
        self.stopping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held: tuple[Claim, OrderJournal] | None = None
        self._refusals: Refusals | None = None

    @property
    def held(self) -> tuple[Claim, OrderJournal] | None:
        """The claim with its journal; None before."""
        return self._held

    @property
    def goes_on(self) -> bool:
        """Whether the order is held here, and nothing was said against it."""
        return self.stop is None and self._held is not None and not self._held[1].sealed

    @property
    def weight(self) -> int:
        """About as many bytes as its entries so far take in memory."""
        return self._held[1].weight if self._held is not None else 0

    def hold(self, claim: Claim, journal: OrderJournal, refusals: Refusals) -> Standstill:
        """It was claimed; answers what tells whether its tree stands still."""
        self._held = (claim, journal)
        self._refusals = refusals
        standstill = Standstill(parks=True, expires_at=claim.order.expires_at)
        self.bridge = Bridge(journal, LateReceipts(self, refusals), standstill)
        self.seen = claim.control_seq
        if self.stop is not None:
            journal.seal()
        return standstill

    async def take(self, controls: Sequence[Control]) -> None:
        """Do what is asked of this order, each control once and cancels first; refuse what cannot be done.

        Raises `JournalError`; what is open then is for the next holder.
        """
        unseen = [control for control in controls if control.number > self.seen and self.stop is None]
        new = list(map(self.redactor.model, unseen))
        if not new:
            return
        self.seen = max(control.number for control in new)
        if cancel := next(filter(is_cancel, new), None):
            self.halt(Stop.CANCEL, cancel)
            return
        assert self.bridge is not None and self._refusals is not None
        for control in sorted(new, key=lambda one: (one.kind is not ControlKind.CANCEL, one.number)):
            if refused := await self.bridge.take(control):
                self._refusals.refuse(control.id, refused)

    def wait_for(self, block: Block) -> None:
        """It cannot go on here, whatever its tree does: lay it aside."""
        if self.stop is None:
            self.halt(Stop.PARK)
            self.waits_for = (block,)

    def end(self, outcome: Outcome) -> None:
        """It cannot go on anywhere, whatever its tree does: end it so."""
        if self.stop is None:
            self.outcome = outcome
            self.halt(Stop.END)

    def halt(self, stop: Stop, cancel: Control | None = None) -> None:
        """Start nothing more; the first reason counts, except that a lost lease beats all."""
        if self.stop is None or stop is Stop.FENCED:
            self.stop, self.cancel = stop, cancel
        if stop is Stop.PARK and self.bridge is not None:
            self.waits_for = self.bridge.standstill.blocks
        if self._held is not None:
            self._held[1].seal()
        if not self.stopping.done():
            self.stopping.set_result(None)


class Runs:
    """All runs by order; refuses new ones once closed. Use on one event loop only."""

    def __init__(self, redactor: Callable[[], Redactor] = Redactor) -> None:
        self._redactor = redactor
        self._runs: dict[str, Run] = {}
        self._closed = False
        self.left = 0
        """How many have left so far."""
        self._changed = asyncio.Event()
        self.left_over: list[tuple[str, int]] = []
        """Order and epoch of runs that stopped to be handed back."""

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def enter(self, order_id: str) -> Run | None:
        """A new run; None when this drone works on the order already, or takes no more."""
        if self._closed or order_id in self._runs:
            return None
        run = self._runs[order_id] = Run(order_id, self._redactor())
        return run

    def leave(self, run: Run) -> None:
        if run.stop is Stop.HAND_BACK and run.held is not None:
            self.left_over.append((run.order_id, run.held[0].epoch))
        del self._runs[run.order_id]
        self.left += 1
        self._changed.set()

    def get(self, order_id: str) -> Run | None:
        return self._runs.get(order_id)

    def listening(self) -> dict[str, int]:
        """Order and highest control number seen, of the runs that can still be told something."""
        return {run.order_id: run.seen for run in self if run.held is not None and run.stop is None}

    def close(self) -> None:
        self._closed = True

    async def emptied(self, seconds: float) -> bool:
        """Wait until no run is left, at most `seconds`; whether that came true."""
        try:
            async with asyncio.timeout(seconds):
                while self._runs:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def to_hand_back(self) -> list[tuple[str, int]]:
        """Order and epoch of all that this drone holds still or gave up."""
        still = [(run.order_id, run.held[0].epoch) for run in self if run.held is not None]
        return [*self.left_over, *still]
