"""Workspaces of orders: whether this drone sees one, how an order holds it, and parking until one is there."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from drone.agent.ports.write_access import HoldRefused
from drone.checkouts.mirror import CannotFetch
from drone.crew import Crew
from drone.delivery.deliveries import Deliveries
from drone.order_context import Seen
from drone.sandbox.host_lock import Holder, HostLock, Locks
from drone.sandbox.places.paths import PathError, Workspace
from drone.sandbox.places.workspace_key import keys_above, workspace_key
from drone.sandbox.reaper import Process
from drone.threads import NoThread
from drone.worker.entering import GRACE_SECONDS, Busy, Entrance
from drone.worker.executions import Execution
from drone.worker.holders import Holders
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore
from drone.worker.site import Sight, Site, SiteVerdict, live_incarnations, sight_of, verdict
from drone.worker.writing import OrderWriteAccess
from mcc.addresses import AddressRefused
from mcc.configuration.workspaces import git_address, is_git_address
from mcc.contracts.control import Control, ControlKind
from mcc.contracts.drones import Registration
from mcc.contracts.order import OrderKind, WorkOrder
from mcc.contracts.status import WaitingReason
from mcc.dispatch.sweep import boot_seconds
from mcc.store.database.errors import ControlsPending, StoreFenced, StoreUnavailable
from mcc.store.rows.transitions import cancels_order
from mcc.store.rows.values import Claim, Parking, Waiting, WorkspaceHold

T = TypeVar("T")
log = structlog.get_logger("drone.workspaces")

LEFT_SECONDS = 5.0
"""How long an order is left to other drones that may see its workspace, before this drone parks it."""

ANSWER_SECONDS = 20.0
"""How long a file system may take to answer about a workspace."""

NOT_IN_TIME = "its file system does not answer"
SILENT = "The file system of {} does not answer; it goes on when that does"
_ROOTS_OF_OTHERS = "roots of other drones"
WAITING = 200
"""Bound on the waiting orders looked at in one round."""

REPLACED = (
    "{} is not the directory that it began in, or the marker in it was deleted; "
    "it goes on when that is back, or in this one once it is resumed"
)
CHECKED_OUT_ELSEWHERE = (
    "The checkout of {} that it began in is on another machine, or is gone; it goes on when the drone that has it is "
    "up, or in a new checkout once it is resumed"
)
NOT_SEEN = (
    "No drone sees {} any more; it goes on when that directory is back, or in another one once it is resumed there"
)
OUTSIDE = (
    "{} is under none of the directories in which drones may work now; it goes on once it is: with "
    "mcc up --workspace, or named in MCC_WORKSPACE_ROOTS where the service starts"
)
NO_CHECKOUTS = "This drone checks out no git address: that needs git, bubblewrap and [[workspaces.git]] in its mcc.toml"
SEEN = "its workspace is seen again"
UNREAD = "this cannot be done while no drone sees its workspace"
TAKEN_BACK = "a resume took it back before a drone could do it"


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """How to claim an order that names a workspace.

    `hold`: the keys of its workspace. `workspace`: the opened workspace. `waits`: claim the order only to park
    it, for this reason. `found`: key of the directory that now stands at the path instead of the one in which the order
    began. `problem`: why the order can never have its workspace, which ends it.
    """

    hold: WorkspaceHold | None = None
    waits: str | None = None
    found: str | None = None
    workspace: Workspace | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceTimes:
    """How long to wait for processes, drones and file systems; see the constants of the same names. `clock` counts
    seconds since boot."""

    grace_seconds: float = GRACE_SECONDS
    left_seconds: float = LEFT_SECONDS
    answer_seconds: float = ANSWER_SECONDS
    clock: Callable[[], float] = boot_seconds


class Workspaces:
    """The workspaces of the orders of one drone. Use on one event loop only."""

    def __init__(
        self, store: AsyncStore, crew: Crew, lease: Keeper, site: Site, times: WorkspaceTimes = WorkspaceTimes()
    ) -> None:
        self._store = store
        self._crew = crew
        self._lease = lease
        self._site = site
        self._roots = site.roots
        self._times = times
        self._me = Process.of(os.getpid())
        self._left: dict[str, float] = {}
        self._after = ""
        self.released = asyncio.Event()
        """Set whenever an order that wrote has left this drone."""
        self._holders = Holders(store, crew, lease)
        self._entrance = Entrance(store, crew, lease, times.grace_seconds, times.clock)

    @property
    def deliveries(self) -> Deliveries | None:
        """How orders deliver their work from here; None where no git address is allowed."""
        return self._site.deliveries

    @property
    def children(self) -> Path:
        """Where this process keeps the record of its children."""
        started = self._me.started if self._me else 0
        return self._site.directory / "children" / f"{os.getpid()}-{started}"

    async def plan(self, order: WorkOrder, *, begun: bool) -> ClaimPlan | None:
        """How this drone claims an order that names a workspace; None when it should not claim the order now."""
        assert order.workspace is not None
        try:
            return await self._plan(order, order.workspace, begun=begun)
        except (NoThread, TimeoutError):
            log.warning("a workspace cannot be looked at", order_id=order.id, problem=NOT_IN_TIME)
            return ClaimPlan(waits=SILENT.format(order.workspace)) if self._others_had_their_chance(order.id) else None
        except OSError as problem:
            log.warning("a workspace cannot be looked at", order_id=order.id, problem=str(problem))
            return None

    async def _plan_checkout(self, order: WorkOrder, workspace: str) -> ClaimPlan | None:
        """The plan for a git address. The checkout itself is made after the claim, because it takes long."""
        try:
            address = git_address(workspace)
        except AddressRefused as problem:
            return ClaimPlan(problem=str(problem))
        if self._site.checkouts is None:
            return ClaimPlan(problem=NO_CHECKOUTS)
        key = self._site.checkouts.name(address, await self._holders.session_of(order))
        hold = WorkspaceHold(key, lasting=True, by_path=key)
        if await self._crew.pools.of(order.id).tool(self._site.checkouts.has, key):
            return ClaimPlan(hold)
        if order.kind is OrderKind.REVERT:
            names, why = await self._holders.of_checkpoints(order, ())
        else:
            names, why = await self._holders.of_checkout(order)
        return await self._leave_to(names, order, why) if why else ClaimPlan(hold)

    async def _leave_to(self, names: Sequence[str], order: WorkOrder, why: str) -> ClaimPlan | None:
        """The plan for an order that only these drones can carry out: leave it to them while one of them is up; else
        end it with the reason `why`."""
        if await self._holders.another_is_up(names) or not self._others_had_their_chance(order.id):
            return None
        return ClaimPlan(problem=why)

    async def checked_out(self, order: WorkOrder) -> Workspace:
        """The checkout of an order that names a git address. Raises `CannotFetch`."""
        assert self._site.checkouts is not None and order.workspace is not None
        try:
            threads = self._crew.pools.of(order.id)
            session_id = await self._holders.session_of(order)
            return await self._site.checkouts.opened(order.workspace, order.ref, session_id, threads)
        except (PathError, OSError) as problem:
            raise CannotFetch(f"{order.workspace} cannot be checked out here: {problem}") from problem

    async def _plan(self, order: WorkOrder, workspace: str, *, begun: bool) -> ClaimPlan | None:
        if is_git_address(workspace):
            return await self._plan_checkout(order, workspace)
        root = self._roots.named_by(workspace)
        sight, hold = await self._look(root, order.id, self._sight_and_hold, workspace)
        if hold is not None and sight.workspace is not None:
            if order.kind is OrderKind.REVERT:
                known = await self._look(root, order.id, self._holders.known, order, sight.workspace)
                names, why = await self._holders.of_checkpoints(order, known)
                if why:
                    return await self._leave_to(names, order, why)
            return ClaimPlan(hold, workspace=sight.workspace)
        judge = partial(verdict, sight, begun=begun, host=self._site.host, others=await self._others())
        match await self._look(_ROOTS_OF_OTHERS, order.id, judge):
            case SiteVerdict.INVALID:
                return ClaimPlan(problem=sight.problem)
            case SiteVerdict.PERHAPS if self._others_had_their_chance(order.id):
                return ClaimPlan(waits=f"It waits for a drone that sees {workspace}")
            case SiteVerdict.NOBODY:
                outside = sight.exists and not sight.covered
                return ClaimPlan(waits=(OUTSIDE if outside else NOT_SEEN).format(workspace))
            case _:
                return None

    async def _look(self, root: str, order_id: str, look: Callable[..., T], *arguments: object) -> T:
        """Run a function that looks at an order's workspace in a thread for this root, and answer its result.

        Raises `NoThread`, OSError, and TimeoutError after `answer_seconds`. A file system that does not answer occupies
        only the threads for its root: once all of them hang, nothing looks there until one returns. Orders under other
        roots are not affected.
        """
        async with asyncio.timeout(self._times.answer_seconds):
            return await self._crew.pools.looks.run_for(root, order_id, look, *arguments)

    def _sight_and_hold(self, path: str) -> tuple[Sight, WorkspaceHold | None]:
        """What this drone sees of the order's directory, and the keys under which the order would hold it; None where
        the directory is not seen. Blocks."""
        sight = sight_of(path, self._roots)
        if sight.workspace is None:
            return sight, None
        key = workspace_key(sight.workspace)
        return sight, WorkspaceHold(key.text, key.lasting, key.by_path, keys_above(sight.workspace))

    def replaced(self, order: WorkOrder, found: str) -> ClaimPlan | None:
        """How this drone claims an order that began in another directory than the one that now stands at its path;
        `found` is the key of the latter."""
        if not self._others_had_their_chance(order.id):
            return None
        said = CHECKED_OUT_ELSEWHERE if is_git_address(str(order.workspace)) else REPLACED
        return ClaimPlan(waits=said.format(order.workspace), found=found)

    def _others_had_their_chance(self, order_id: str) -> bool:
        """Whether this drone has left the order to other drones for at least `left_seconds`. The first call for an
        order starts that time."""
        now = self._times.clock()
        self._left = {one: at for one, at in self._left.items() if now - at < 10 * self._times.left_seconds}
        return now - self._left.setdefault(order_id, now) >= self._times.left_seconds

    async def _others(self) -> Sequence[Registration]:
        found = await self._store.patiently(lambda store: store.leases.registrations())
        return [one for one in found if one.incarnation != self._lease.incarnation]

    async def park(self, claim: Claim, plan: ClaimPlan, *, drone: str) -> int | None:
        """Park an order that was claimed only to wait for its workspace. Open resumes are refused, and the pauses they
        cancelled; an open cancel hands the order back instead.

        Answers the number of the entry that records the waiting; None when the order was not parked.
        """
        seen, held = claim.control_seq, [(claim.order.id, claim.epoch)]
        while True:
            try:
                seq = await self._park(_parking(claim, plan, seen))
                log.info("order waits for its workspace", order_id=claim.order.id, workspace=claim.order.workspace)
                return seq
            except StoreFenced as problem:
                log.warning("another drone holds the order", order_id=claim.order.id, problem=str(problem))
                return None
            except ControlsPending:
                controls = await self._store.patiently(lambda store: store.controls.of_order(claim.order.id))
            if any(control.open and cancels_order(control) for control in controls):
                await self._store.patiently(
                    lambda store: store.claims.hand_back(held, drone=drone, message="it is cancelled")
                )
                return None
            for control in _useless(controls):
                why = UNREAD if control.kind is ControlKind.RESUME else TAKEN_BACK
                await self._refuse(control, why)
            seen = max((control.number for control in controls), default=seen)

    async def _park(self, parking: Parking) -> int:
        return await self._store.patiently(lambda store: store.claims.park(parking))

    async def _refuse(self, control: Control, why: str) -> None:
        await self._store.patiently(lambda store: store.controls.refuse(control.id, why))

    async def requeue_waiting(self) -> Sequence[str]:
        """Queue again the orders that wait for a workspace which this drone sees now; answers their ids.

        Raises `StoreUnavailable`.
        """
        if not self._roots and self._site.checkouts is None:
            return ()
        waiting = await self._store.once(
            lambda store: store.claims.waiting(WaitingReason.WORKSPACE, WAITING, after=self._after)
        )
        self._after = waiting[-1].order_id if len(waiting) == WAITING else ""
        by_root: dict[str, list[Waiting]] = {}
        for one in waiting:
            by_root.setdefault(self._roots.named_by(one.workspace or ""), []).append(one)
        try:
            async with asyncio.TaskGroup() as group:
                requeued = [group.create_task(self._requeue_under(root, those)) for root, those in by_root.items()]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        return [order_id for task in requeued for order_id in task.result()]

    async def wake_writers(self, take_slot: Callable[[], bool], start: Callable[[str], None]) -> None:
        """Queue and start, until cancelled, the orders whose turn it is to write in a workspace that one has left."""
        while True:
            await self.released.wait()
            self.released.clear()
            try:
                for order_id in await self._store.once(lambda store: store.workspaces.wake()):
                    if take_slot():
                        start(order_id)
            except StoreUnavailable as problem:
                log.debug("those in line for a workspace wait for the database", problem=str(problem))
            except Exception:
                log.exception("those in line for a workspace could not be woken")

    async def _requeue_under(self, root: str, waiting: Sequence[Waiting]) -> Sequence[str]:
        """As `requeue_waiting`, for the orders under one root; stops at the first whose file system does not answer."""
        requeued = []
        for one in waiting:
            try:
                if not await self._look(root, one.order_id, self._is_seen, one):
                    continue
            except (NoThread, TimeoutError):
                break
            except OSError:
                continue
            if await self._requeue(one.order_id):
                requeued.append(one.order_id)
        return requeued

    async def _requeue(self, order_id: str) -> bool:
        return bool(await self._store.once(lambda store: store.claims.resume(order_id, WaitingReason.WORKSPACE, SEEN)))

    def _is_seen(self, waiting: Waiting) -> bool:
        """Whether this drone sees the directory that the order waits for. Blocks."""
        if waiting.workspace is not None and is_git_address(waiting.workspace):
            checkouts = self._site.checkouts
            return checkouts is not None and (waiting.key is None or checkouts.has(waiting.key))
        if waiting.workspace is None or (workspace := sight_of(waiting.workspace, self._roots).workspace) is None:
            return False
        return waiting.key in (None, workspace_key(workspace, mark=False).text)

    @asynccontextmanager
    async def entered(self, claim: Claim, hold: WorkspaceHold, execution: Execution) -> AsyncIterator[OrderWriteAccess]:
        """Work in the workspace of a claimed order. Raises `Busy` where the order has to write from its beginning on
        and cannot yet, and `drone.agent.ports.journal.Fenced`."""
        self._left.pop(claim.order.id, None)
        locks = self._site.locks or Locks(self._site.directory / "workspaces")
        me = Holder.here(claim.order.id, claim.epoch, execution.incarnation, self.children, locks.service)
        live = partial(live_incarnations, self._store.store)
        lock = HostLock(locks.directory, hold.key, me, exclusive=True, live=live)
        access = OrderWriteAccess(self._entrance, lock, claim, hold, execution)
        execution.access = access
        try:
            if access.from_the_beginning and isinstance(refused := await access.acquire(), HoldRefused):
                raise Busy(refused.message)
            yield access
        finally:
            access.release()

    async def seen(self, order: WorkOrder, workspace: Workspace) -> Seen | None:
        """The first look at a workspace; None for an order that needs none."""
        if order.kind is OrderKind.REVERT:
            return None
        return await self._crew.pools.of(order.id).claim(self._crew.seen_in, workspace)


def _useless(controls: Sequence[Control]) -> list[Control]:
    """Open resumes, which cannot take effect without the workspace, and the open pauses that they cancel."""
    resumes = [one for one in controls if one.open and one.kind is ControlKind.RESUME]
    last = {one.record_id: one.number for one in resumes}
    pauses = [one for one in controls if one.open and one.kind is ControlKind.PAUSE]
    return [*resumes, *(one for one in pauses if one.number < last.get(one.record_id, 0))]


def _parking(claim: Claim, plan: ClaimPlan, seen: int) -> Parking:
    assert plan.waits is not None
    return Parking(
        order_id=claim.order.id,
        epoch=claim.epoch,
        last_seq=claim.last_seq,
        control_seq=seen,
        reason=WaitingReason.WORKSPACE,
        message=plan.waits,
        found=plan.found,
    )
