"""This room is for the workspaces of orders: whether this drone sees one, and how an order holds it while it runs."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import structlog

from drone.agent.ports import Fenced as Lost
from drone.agent.threads import NoThread, Pools
from drone.sandbox.host_lock import Holder, HostLock, Overtaken
from drone.sandbox.marker import workspace_key
from drone.sandbox.paths import PathError, Workspace
from drone.sandbox.reaper import Process
from drone.sandbox.roots import Roots, resolved
from drone.worker.writer import patiently
from mcc.contracts.control import Control, ControlKind
from mcc.contracts.drones import Registration
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import WaitingReason
from mcc.dispatch.sweep import boot_seconds
from mcc.store.entries import stops_all
from mcc.store.errors import ControlsPending, Fenced
from mcc.store.offload import Offload
from mcc.store.ports import Store
from mcc.store.values import Claim, Parking, Waiting, WorkspaceHold

T = TypeVar("T")
log = structlog.get_logger("drone.workspaces")

LEFT_SECONDS = 5.0
"""An order that other drones may see is left to them for so long before it is laid aside."""

GRACE_SECONDS = 3.0
"""Another process of this machine that is still in the workspace has so long to notice that it has lost it."""

ANSWER_SECONDS = 20.0
"""A file system that says nothing of a workspace for so long is not waited for."""

NOT_IN_TIME = "its file system does not answer"
LOOK_SECONDS = 0.1
WAITING = 200
"""Waiting orders that are looked at in one round."""

BUSY = "Another process of this machine is still at work in its workspace"
REPLACED = (
    "{} is not the directory that it began in, or the marker in it was deleted; "
    "it goes on when that is back, or in this one once it is resumed"
)
NOT_SEEN = (
    "No drone sees {} any more; it goes on when that directory is back, or in another one once it is resumed there"
)
UNREAD = "this cannot be done while no drone sees its workspace"
TAKEN_BACK = "a resume took it back before a drone could do it"


class Verdict(Enum):
    """What a drone does with an order that names a workspace."""

    HERE = auto()  # it is seen: claim it
    INVALID = auto()  # nobody can ever have seen it, or it must not be: claim it, to say what is wrong
    ELSEWHERE = auto()  # another drone of this machine sees it: leave it
    PERHAPS = auto()  # drones elsewhere may see it: leave it for a while, then lay it aside
    NOBODY = auto()  # it had begun, and nobody sees it now: lay it aside


@dataclass(frozen=True, slots=True)
class Sight:
    """What one drone knows of a path: `exists` as a directory here; `covered` by its own roots.

    `workspace` is that directory, opened for as long as this object is there. `problem` says why it is not.
    """

    path: Path
    exists: bool
    covered: bool
    workspace: Workspace | None = None
    problem: str | None = None

    @property
    def seen(self) -> bool:
        return self.workspace is not None

    @property
    def refused(self) -> bool:
        """Whether it is there and ours to look at, and must not be, or cannot be, opened."""
        return self.exists and self.covered and not self.seen


def sight_of(path: str, roots: Roots) -> Sight:
    """Blocks."""
    real = resolved(path)
    exists, covered = os.path.isabs(path) and real.is_dir(), roots.covering(real) is not None
    try:
        return Sight(real, exists, covered, roots.opened(path))
    except PathError as problem:
        return Sight(real, exists, covered, problem=str(problem))


def verdict(sight: Sight, *, begun: bool, host: str, others: Sequence[Registration]) -> Verdict:
    """`begun`: some drone has worked on it before. `others` are the live drones beside this one, which is on `host`.

    Drones of one machine see the same files; what those of another one see, only they can tell.
    """
    if sight.seen:
        return Verdict.HERE
    if sight.refused:
        return Verdict.NOBODY if begun else Verdict.INVALID
    covering = [one for one in others if _is_under(sight.path, map(Path, one.workspace_roots))]
    if sight.exists and any(one.host == host for one in covering):
        return Verdict.ELSEWHERE
    if any(one.host != host for one in covering):
        return Verdict.PERHAPS
    return Verdict.NOBODY if begun else Verdict.INVALID


def _is_under(path: Path, roots: Iterable[Path]) -> bool:
    return any(path.is_relative_to(resolved(str(root))) for root in roots)


class Writes(Protocol):
    """Who knows what an order's agents can do."""

    @property
    def pools(self) -> Pools: ...

    def may_write(self, order: WorkOrder, workspace: Workspace) -> bool: ...


class Lease(Protocol):
    @property
    def incarnation(self) -> str | None: ...

    @property
    def trusted(self) -> bool: ...


class Busy(Exception):
    """The workspace cannot be had now; the sentence says why."""


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


class Workspaces:
    """The workspaces of this drone's orders. `directory` is for locks on this machine. Use on one event loop only."""

    def __init__(
        self,
        store: Store,
        offload: Offload,
        crew: Writes,
        lease: Lease,
        roots: Roots,
        directory: Path,
        *,
        host: str | None = None,
        grace_seconds: float = GRACE_SECONDS,
        left_seconds: float = LEFT_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._store = store
        self._offload = offload
        self._crew = crew
        self._lease = lease
        self._roots = roots
        self._directory = directory
        self._host = socket.gethostname() if host is None else host
        self._grace_seconds = grace_seconds
        self._left_seconds = left_seconds
        self._answer_seconds = answer_seconds
        self._clock = clock
        self._me = Process.of(os.getpid())
        self._left: dict[str, float] = {}
        self._after = ""

    @property
    def children(self) -> Path:
        """Where this process keeps the record of its children."""
        started = self._me.started if self._me else 0
        return self._directory / "children" / f"{os.getpid()}-{started}"

    async def plan(self, order: WorkOrder, *, begun: bool) -> Plan | None:
        """How this drone claims an order that names a workspace; None: not now."""
        assert order.workspace is not None
        try:
            return await self._plan(order, order.workspace, begun=begun)
        except (NoThread, OSError) as problem:
            log.warning("a workspace cannot be looked at", order_id=order.id, problem=str(problem) or NOT_IN_TIME)
            return None

    async def _plan(self, order: WorkOrder, workspace: str, *, begun: bool) -> Plan | None:
        sight = await self._looked(order.id, sight_of, workspace, self._roots)
        others = () if sight.seen else await self._others()
        match verdict(sight, begun=begun, host=self._host, others=others):
            case Verdict.HERE:
                assert sight.workspace is not None
                hold = await self._looked(order.id, self._hold, order, sight.workspace)
                return Plan(hold, workspace=sight.workspace)
            case Verdict.INVALID:
                return Plan(problem=sight.problem)
            case Verdict.PERHAPS if self._was_left_long(order.id):
                return Plan(waits=f"It waits for a drone that sees {workspace}")
            case Verdict.NOBODY:
                return Plan(waits=NOT_SEEN.format(workspace))
            case _:
                return None

    async def _looked(self, order_id: str, look: Callable[..., T], *arguments: object) -> T:
        """What a function that looks at an order's workspace says. Raises `NoThread` and OSError, TimeoutError for one.

        A file system that does not answer costs this order its thread, and no other order anything.
        """
        async with asyncio.timeout(self._answer_seconds):
            return await self._crew.pools.claims.run(order_id, look, *arguments)

    def _hold(self, order: WorkOrder, workspace: Workspace) -> WorkspaceHold:
        key = workspace_key(workspace)
        return WorkspaceHold(key.text, self._crew.may_write(order, workspace), key.lasting, key.by_path)

    def replaced(self, order: WorkOrder, found: str) -> Plan | None:
        """How this drone claims an order that has begun in another directory than the one that it sees there now."""
        if not self._was_left_long(order.id):
            return None
        return Plan(waits=REPLACED.format(order.workspace), found=found)

    def _was_left_long(self, order_id: str) -> bool:
        """Whether this drone left the order to others a while ago; they had their chance."""
        now = self._clock()
        self._left = {one: at for one, at in self._left.items() if now - at < 10 * self._left_seconds}
        return now - self._left.setdefault(order_id, now) >= self._left_seconds

    async def _others(self) -> Sequence[Registration]:
        found = await patiently(self._offload, self._store.leases.registrations)
        return [one for one in found if one.incarnation != self._lease.incarnation]

    async def lay_aside(self, claim: Claim, plan: Plan, *, drone: str) -> int | None:
        """An order that was claimed for nothing else waits for its workspace. What was asked of it is seen to.

        Answers the number of the entry that says so, None when it does not wait.
        """
        seen = claim.control_seq
        while True:
            try:
                seq = await patiently(self._offload, partial(self._store.claims.park, _parking(claim, plan, seen)))
                log.info("order waits for its workspace", order_id=claim.order.id, workspace=claim.order.workspace)
                return seq
            except Fenced as problem:
                log.warning("another drone holds the order", order_id=claim.order.id, problem=str(problem))
                return None
            except ControlsPending:
                controls = await patiently(self._offload, partial(self._store.controls.of_order, claim.order.id))
            if any(control.open and stops_all(control) for control in controls):
                held = [(claim.order.id, claim.epoch)]
                said = "it is cancelled"
                await patiently(self._offload, partial(self._store.claims.hand_back, held, drone=drone, message=said))
                return None
            for control in _of_no_use(controls):
                why = UNREAD if control.kind is ControlKind.RESUME else TAKEN_BACK
                await patiently(self._offload, partial(self._store.controls.refuse, control.id, why))
            seen = max((control.number for control in controls), default=seen)

    async def wake(self) -> Sequence[str]:
        """Queue the orders again that wait for a workspace which is seen here; answers their ids.

        Raises `StoreUnavailable`.
        """
        if not self._roots:
            return ()
        waiting = await self._offload(
            partial(self._store.claims.waiting, WaitingReason.WORKSPACE, WAITING, after=self._after)
        )
        self._after = waiting[-1].order_id if len(waiting) == WAITING else ""
        seen = [one for one in waiting if await self._is_there(one)]
        said = "its workspace is seen again"
        return [
            one.order_id
            for one in seen
            if await self._offload(partial(self._store.claims.wake, one.order_id, WaitingReason.WORKSPACE, said))
        ]

    async def _is_there(self, waiting: Waiting) -> bool:
        try:
            return await self._looked(waiting.order_id, self._is_seen, waiting)
        except (NoThread, OSError):
            return False

    def _is_seen(self, waiting: Waiting) -> bool:
        """Whether the directory that it waits for is here. Blocks."""
        if waiting.workspace is None or (workspace := sight_of(waiting.workspace, self._roots).workspace) is None:
            return False
        return waiting.key in (None, workspace_key(workspace, mark=False).text)

    @asynccontextmanager
    async def entered(self, claim: Claim, hold: WorkspaceHold, incarnation: str) -> AsyncIterator[None]:
        """Work in the workspace of a claimed order, with nobody of this machine in there who lost it.

        Raises `Busy`, and `drone.agent.ports.Fenced` when the order is another's by now.
        """
        self._left.pop(claim.order.id, None)
        me = Holder.here(claim.order.id, claim.epoch, incarnation, self.children)
        lock = HostLock(self._directory / "workspaces", hold.key, me, exclusive=hold.exclusive, live=self._live)
        try:
            await self._take(lock)
            yield
        finally:
            lock.release()

    def _live(self) -> set[str]:
        return {one.incarnation for one in self._store.leases.registrations()}

    async def _take(self, lock: HostLock) -> None:
        give_up = self._clock() + self._grace_seconds
        ended = False
        try:
            while not await patiently(self._offload, lock.take):
                if self._clock() >= give_up:
                    if ended or not self._lease.trusted or not await patiently(self._offload, lock.end_others):
                        raise Busy(BUSY)
                    ended, give_up = True, self._clock() + self._grace_seconds
                await asyncio.sleep(LOOK_SECONDS)
        except Overtaken as problem:
            raise Lost(str(problem)) from problem
        except OSError as problem:
            log.warning("a workspace is not locked on this machine", problem=str(problem))


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
