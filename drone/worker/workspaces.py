"""The workspaces of orders: whether this drone sees one, and how an order holds it while its agents work."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from drone.agent.threads import NoThread
from drone.checkouts.mirror import CannotFetch
from drone.checkouts.sessions import Checkouts
from drone.crew import Crew
from drone.order_context import Seen
from drone.sandbox.host_lock import Holder, HostLock, Locks, keys_above, workspace_key
from drone.sandbox.paths import PathError, Roots, Workspace
from drone.sandbox.reaper import Process
from drone.worker.entering import GRACE_SECONDS, Entrance
from drone.worker.holders import Holders
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore
from drone.worker.sight import Sight, Verdict, sight_of, verdict
from mcc.addresses import Refused
from mcc.configuration.workspaces import git_address, is_git_address
from mcc.contracts.control import Control, ControlKind
from mcc.contracts.drones import Registration
from mcc.contracts.order import OrderKind, WorkOrder
from mcc.contracts.status import WaitingReason
from mcc.dispatch.sweep import boot_seconds
from mcc.store.errors import ControlsPending, Fenced
from mcc.store.transitions import cancels_order
from mcc.store.values import Claim, Parking, Waiting, WorkspaceHold

T = TypeVar("T")
log = structlog.get_logger("drone.workspaces")

LEFT_SECONDS = 5.0
"""An order that other drones may see is left to them for so long before it is laid aside."""

ANSWER_SECONDS = 20.0
"""A file system that says nothing of a workspace for so long is not waited for."""

NOT_IN_TIME = "its file system does not answer"
SILENT = "The file system of {} does not answer; it goes on when that does"
_ROOTS_OF_OTHERS = "roots of other drones"
WAITING = 200
"""Waiting orders that are looked at in one round."""

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
class Plan:
    """How to claim an order that names a workspace. `waits`: it is claimed only to be laid aside, for this reason.

    `found` is the key of the directory that is there instead of the one that it has begun in. `workspace` is what it
    works in, opened; `problem` says why it cannot be, and ends the order.
    """

    hold: WorkspaceHold | None = None
    waits: str | None = None
    found: str | None = None
    workspace: Workspace | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """Where a drone works: under its `roots`, on this `host`; `directory` is for records of its own on this machine,
    `locks` for what it shares with others. `checkouts` are of git addresses."""

    roots: Roots
    directory: Path
    host: str = field(default_factory=socket.gethostname)
    checkouts: Checkouts | None = None
    locks: Locks | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceTimes:
    """How long is waited for processes, drones and file systems; see the constants of the same names."""

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
        self._holders = Holders(store, crew, lease)
        self._entrance = Entrance(store, crew, lease, times.grace_seconds, times.clock)

    @property
    def children(self) -> Path:
        """Where this process keeps the record of its children."""
        started = self._me.started if self._me else 0
        return self._site.directory / "children" / f"{os.getpid()}-{started}"

    async def plan(self, order: WorkOrder, *, begun: bool) -> Plan | None:
        """How this drone claims an order that names a workspace; None: not now."""
        assert order.workspace is not None
        try:
            return await self._plan(order, order.workspace, begun=begun)
        except (NoThread, TimeoutError):
            log.warning("a workspace cannot be looked at", order_id=order.id, problem=NOT_IN_TIME)
            return Plan(waits=SILENT.format(order.workspace)) if self._was_left_long(order.id) else None
        except OSError as problem:
            log.warning("a workspace cannot be looked at", order_id=order.id, problem=str(problem))
            return None

    async def _checkout(self, order: WorkOrder, workspace: str) -> Plan | None:
        """It is checked out once the order is claimed: that takes its time."""
        try:
            address = git_address(workspace)
        except Refused as problem:
            return Plan(problem=str(problem))
        if self._site.checkouts is None:
            return Plan(problem=NO_CHECKOUTS)
        key = self._site.checkouts.name(address, await self._holders.session_of(order))
        hold = WorkspaceHold(key, exclusive=True, lasting=True, by_path=key)
        if await self._crew.pools.of(order.id).tool(self._site.checkouts.has, key):
            return Plan(hold)
        if order.kind is OrderKind.REVERT:
            names, why = await self._holders.of_checkpoints(order, ())
        else:
            names, why = await self._holders.of_checkout(order)
        return await self._left_to(order, names, why) if why else Plan(hold)

    async def _left_to(self, order: WorkOrder, names: Sequence[str], why: str) -> Plan | None:
        """An order that these drones alone can do is theirs while one of them is up; else it ends, and says why."""
        if await self._holders.another_of(names) or not self._was_left_long(order.id):
            return None
        return Plan(problem=why)

    async def checked_out(self, order: WorkOrder) -> Workspace:
        """The checkout of an order that names a git address. Raises `CannotFetch`."""
        assert self._site.checkouts is not None and order.workspace is not None
        try:
            threads = self._crew.pools.of(order.id)
            session_id = await self._holders.session_of(order)
            return await self._site.checkouts.opened(order.workspace, order.ref, session_id, threads)
        except (PathError, OSError) as problem:
            raise CannotFetch(f"{order.workspace} cannot be checked out here: {problem}") from problem

    async def _plan(self, order: WorkOrder, workspace: str, *, begun: bool) -> Plan | None:
        if is_git_address(workspace):
            return await self._checkout(order, workspace)
        root = self._roots.named_by(workspace)
        sight, hold = await self._looked(root, order.id, self._sighted, order, workspace)
        if hold is not None and sight.workspace is not None:
            if order.kind is OrderKind.REVERT:
                known = await self._looked(root, order.id, self._holders.known, order, sight.workspace)
                names, why = await self._holders.of_checkpoints(order, known)
                if why:
                    return await self._left_to(order, names, why)
            return Plan(hold, workspace=sight.workspace)
        judged = partial(verdict, sight, begun=begun, host=self._site.host, others=await self._others())
        match await self._looked(_ROOTS_OF_OTHERS, order.id, judged):
            case Verdict.INVALID:
                return Plan(problem=sight.problem)
            case Verdict.PERHAPS if self._was_left_long(order.id):
                return Plan(waits=f"It waits for a drone that sees {workspace}")
            case Verdict.NOBODY:
                outside = sight.exists and not sight.covered
                return Plan(waits=(OUTSIDE if outside else NOT_SEEN).format(workspace))
            case _:
                return None

    async def _looked(self, root: str, order_id: str, look: Callable[..., T], *arguments: object) -> T:
        """What a function that looks at an order's workspace says. Raises `NoThread` and OSError, TimeoutError for one.

        A file system that does not answer costs the orders under this root their threads, and no other order anything:
        once all of them are left behind, nothing looks there until one comes back.
        """
        async with asyncio.timeout(self._times.answer_seconds):
            return await self._crew.pools.looks.run_for(root, order_id, look, *arguments)

    def _sighted(self, order: WorkOrder, path: str) -> tuple[Sight, WorkspaceHold | None]:
        """What is seen of the order's directory, and how the order would hold it where it is. Blocks."""
        sight = sight_of(path, self._roots)
        return sight, None if sight.workspace is None else self._hold(order, sight.workspace)

    def _hold(self, order: WorkOrder, workspace: Workspace) -> WorkspaceHold:
        key = workspace_key(workspace)
        alone = self._crew.may_write(order, workspace)
        return WorkspaceHold(key.text, alone, key.lasting, key.by_path, keys_above(workspace))

    def replaced(self, order: WorkOrder, found: str) -> Plan | None:
        """How this drone claims an order that has begun in another directory than the one that it sees there now."""
        if not self._was_left_long(order.id):
            return None
        said = CHECKED_OUT_ELSEWHERE if is_git_address(str(order.workspace)) else REPLACED
        return Plan(waits=said.format(order.workspace), found=found)

    def _was_left_long(self, order_id: str) -> bool:
        """Whether this drone left the order to others a while ago; they had their chance."""
        now = self._times.clock()
        self._left = {one: at for one, at in self._left.items() if now - at < 10 * self._times.left_seconds}
        return now - self._left.setdefault(order_id, now) >= self._times.left_seconds

    async def _others(self) -> Sequence[Registration]:
        found = await self._store.patiently(lambda store: store.leases.registrations())
        return [one for one in found if one.incarnation != self._lease.incarnation]

    async def lay_aside(self, claim: Claim, plan: Plan, *, drone: str) -> int | None:
        """An order that was claimed for nothing else waits for its workspace. What was asked of it is seen to.

        Answers the number of the entry that says so, None when it does not wait.
        """
        seen, held = claim.control_seq, [(claim.order.id, claim.epoch)]
        while True:
            try:
                seq = await self._park(_parking(claim, plan, seen))
                log.info("order waits for its workspace", order_id=claim.order.id, workspace=claim.order.workspace)
                return seq
            except Fenced as problem:
                log.warning("another drone holds the order", order_id=claim.order.id, problem=str(problem))
                return None
            except ControlsPending:
                controls = await self._store.patiently(lambda store: store.controls.of_order(claim.order.id))
            if any(control.open and cancels_order(control) for control in controls):
                await self._store.patiently(
                    lambda store: store.claims.hand_back(held, drone=drone, message="it is cancelled")
                )
                return None
            for control in _of_no_use(controls):
                why = UNREAD if control.kind is ControlKind.RESUME else TAKEN_BACK
                await self._refuse(control, why)
            seen = max((control.number for control in controls), default=seen)

    async def _park(self, parking: Parking) -> int:
        return await self._store.patiently(lambda store: store.claims.park(parking))

    async def _refuse(self, control: Control, why: str) -> None:
        await self._store.patiently(lambda store: store.controls.refuse(control.id, why))

    async def wake(self) -> Sequence[str]:
        """Queue the orders again that wait for a workspace which is seen here; answers their ids.

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
                woken = [group.create_task(self._wake_under(root, those)) for root, those in by_root.items()]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        return [order_id for task in woken for order_id in task.result()]

    async def _wake_under(self, root: str, waiting: Sequence[Waiting]) -> Sequence[str]:
        """The same for those under one root, up to the first whose file system does not answer."""
        woken = []
        for one in waiting:
            try:
                if not await self._looked(root, one.order_id, self._is_seen, one):
                    continue
            except (NoThread, TimeoutError):
                break
            except OSError:
                continue
            if await self._wake_order(one.order_id):
                woken.append(one.order_id)
        return woken

    async def _wake_order(self, order_id: str) -> bool:
        return bool(await self._store.once(lambda store: store.claims.resume(order_id, WaitingReason.WORKSPACE, SEEN)))

    def _is_seen(self, waiting: Waiting) -> bool:
        """Whether the directory that it waits for is here. Blocks."""
        if waiting.workspace is not None and is_git_address(waiting.workspace):
            checkouts = self._site.checkouts
            return checkouts is not None and (waiting.key is None or checkouts.has(waiting.key))
        if waiting.workspace is None or (workspace := sight_of(waiting.workspace, self._roots).workspace) is None:
            return False
        return waiting.key in (None, workspace_key(workspace, mark=False).text)

    @asynccontextmanager
    async def entered(
        self, claim: Claim, hold: WorkspaceHold, incarnation: str, workspace: Workspace | None = None
    ) -> AsyncIterator[Seen | None]:
        """Work in the workspace of a claimed order; see `Entrance.opened`, with what that answers and raises."""
        self._left.pop(claim.order.id, None)
        locks = self._site.locks or Locks(self._site.directory / "workspaces")
        me = Holder.here(claim.order.id, claim.epoch, incarnation, self.children, locks.service)
        lock = HostLock(locks.directory, hold.key, me, exclusive=hold.exclusive, live=self._live)
        try:
            yield await self._entrance.opened(lock, claim, workspace)
        finally:
            lock.release()

    def _live(self) -> set[str]:
        return {one.incarnation for one in self._store.store.leases.registrations()}


def _of_no_use(controls: Sequence[Control]) -> list[Control]:
    """Open resumes, which nothing can come of now, and the open pauses that they take back."""
    resumes = [one for one in controls if one.open and one.kind is ControlKind.RESUME]
    last = {one.record_id: one.number for one in resumes}
    pauses = [one for one in controls if one.open and one.kind is ControlKind.PAUSE]
    return [*resumes, *(one for one in pauses if one.number < last.get(one.record_id, 0))]


def _parking(claim: Claim, plan: Plan, seen: int) -> Parking:
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
