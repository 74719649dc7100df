"""A simulated drone: the product's runner, writer, keeper, poll, controls and sweep in one process."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import cast

from drone.crew import Crew
from drone.sandbox.places.paths import Roots
from drone.worker.broadcaster import Broadcaster
from drone.worker.claiming import Claimant, Claiming, Poll, Slots
from drone.worker.control_listener import ControlListener
from drone.worker.ending import Finisher
from drone.worker.executions import Executions, Stop
from drone.worker.journal import Writer
from drone.worker.keeper import Heartbeat, Keeper, LeaseTimes
from drone.worker.loop import AsyncStore
from drone.worker.runner import Runner
from drone.worker.site import Site
from drone.worker.workspaces import Workspaces, WorkspaceTimes
from mcc.contracts.drones import Registration
from mcc.contracts.order import WorkOrder
from mcc.contracts.wire import Hint
from mcc.dispatch.broker import RedisAt
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import AsyncPublisher, Message, Publisher
from mcc.dispatch.sweep import SweepLoop
from mcc.store.database.errors import StoreUnavailable
from mcc.store.store import Store
from tests.faults.simulation.links import Link
from tests.faults.simulation.loop import PROCESS, Process, SimulatedLoop, State

LEASE_SECONDS, RENEW_SECONDS, SWEEP_SECONDS, POLL_SECONDS = 6.0, 1.0, 1.0, 2.0
SLOTS = 2
NOWHERE = "redis://127.0.0.1:1/0"
"""Controls are found by asking the database; nobody listens here."""


class Ears(AsyncPublisher):
    """Where hints go: nobody needs them, but none may run ahead of what is committed."""

    def __init__(self, heard: Callable[[Hint], None]) -> None:
        self._heard = heard

    def report_status(self, order: WorkOrder, why: str = "") -> None:
        """No monitor listens."""

    async def publish(self, messages: Iterable[Message]) -> bool:
        for message in messages:
            if isinstance(message, Hint):
                self._heard(message)
        return True


class Silent:
    """The hints of a sweep, and its nudges."""

    def __init__(self, round: Callable[[Store], int] = lambda store: 0) -> None:
        self._round = round

    def nudge_claimable(self, store: Store) -> int:
        return self._round(store)

    def report_status(self, order: WorkOrder, why: str = "") -> None:
        """No monitor listens."""

    def taken_over(self, orders: int) -> None:
        """Nobody counts."""

    def publish(self, messages: Iterable[Message]) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Disks:
    """Directories of this machine: `workspaces`, which all drones share, and what each has for itself in `own`."""

    workspaces: Path
    own: Path


def sweeping(store: object, silent: Silent, *, sweeper: str, clock: Callable[[], float]) -> SweepLoop:
    """The sweep of one process, which is heard by nobody."""
    return SweepLoop(
        cast("Store", store), cast("Nudger", silent), cast("Publisher", silent), sweeper=sweeper, clock=clock
    )


class SimulatedDrone:
    """One process from its registration to its end, alone on its machine. `link` is its way to the store."""

    def __init__(
        self,
        process: Process,
        link: Link,
        crew: Crew,
        loop: SimulatedLoop,
        dice: Random,
        heard: Callable[[Hint], None],
        disks: Disks,
    ) -> None:
        self.process = process
        self.link = link
        self._crew = crew
        self._loop = loop
        self._dice = dice
        self._store = store = cast(Store, link)
        self._slots = Slots(SLOTS)
        self._executions = Executions()
        self._calls = AsyncStore(store, 1)
        self._keeper = Keeper(
            store.leases,
            Registration(
                incarnation="",
                name=process.name,
                pid=1,
                host=process.name,
                version="0",
                queues=("default",),
                slots=SLOTS,
                workspace_roots=(str(disks.workspaces),),
            ),
            lambda: Heartbeat(self._slots.active),
            LeaseTimes(LEASE_SECONDS, RENEW_SECONDS, loop.time),
            on_lost=self._fence,
            on_helpless=lambda: None,
        )
        self._broadcaster = Broadcaster(Ears(heard))
        self._writer = Writer(store, self._keeper, self._broadcaster)
        self._workspaces = Workspaces(
            self._calls,
            crew,
            self._keeper,
            Site(Roots((disks.workspaces,)), disks.own / process.name, process.name),
            WorkspaceTimes(clock=loop.time),
        )
        claimant = Claimant(process.name, self._keeper, self._slots)
        self._runner = Runner(
            self._calls,
            Claiming(self._calls, claimant, self._broadcaster, self._workspaces),
            crew,
            self._executions,
            self._writer,
            Finisher(self._calls, self._broadcaster),
        )
        self._controls = ControlListener(self._calls, RedisAt(NOWHERE), self._keeper, self._executions)
        self._poll = Poll(
            self._calls,
            claimant,
            ("default",),
            lambda order_id: self._begin(self._serve(order_id)),
            poll_seconds=POLL_SECONDS,
            connected=lambda: False,
        )
        self._sweep = sweeping(store, Silent(), sweeper=process.name, clock=loop.time)
        self._tasks: set[asyncio.Task[object]] = set()
        self._context = copy_context()
        self._context.run(PROCESS.set, process)

    @property
    def alive(self) -> bool:
        return self.process.state is not State.DEAD

    def start(self) -> None:
        self._begin(self._live())

    def deliver(self, order_id: str) -> None:
        """A message names this order; what the process does of it, it does when it can."""
        self._begin(self._take(order_id))

    def drain(self) -> None:
        """It is told to stop: it hands back what it holds, and ends."""
        self._begin(self._wind_down())

    def bury(self) -> None:
        """Let what is left of it come apart, without any of it reaching the world."""
        self.link.cut = True
        self.process.before = None
        self.process.unwind(self._loop)
        self._writer.close()
        self._calls.close()

    def _begin(self, work: Coroutine[None, None, object]) -> None:
        task = self._loop.create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_looked_at)

    async def _live(self) -> None:
        while self._keeper.incarnation is None:
            try:
                self._keeper.register()
            except StoreUnavailable:
                await asyncio.sleep(0.5)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._writer.run())
            group.create_task(self._broadcaster.run())
            group.create_task(self._every(RENEW_SECONDS, self._keeper.once))
            group.create_task(self._every(SWEEP_SECONDS, self._sweep.once))
            group.create_task(self._asking(POLL_SECONDS, self._poll.once))
            group.create_task(self._asking(POLL_SECONDS, self._seek_workspaces))
            group.create_task(self._asking(1.0, self._controls.once))
            group.create_task(self._workspaces.wake_writers(lambda: True, self.deliver))

    async def _every(self, seconds: float, act: Callable[[], object]) -> None:
        """What has a thread of its own in a real drone."""
        while True:
            await asyncio.sleep(seconds * self._dice.uniform(0.8, 1.2))
            try:
                act()
            except StoreUnavailable:
                continue

    async def _asking(self, seconds: float, ask: Callable[[], Awaitable[object]]) -> None:
        while True:
            await asyncio.sleep(seconds * self._dice.uniform(0.8, 1.2))
            try:
                await ask()
            except StoreUnavailable:
                continue

    async def _seek_workspaces(self) -> None:
        for order_id in await self._workspaces.requeue_waiting():
            self.deliver(order_id)

    async def _take(self, order_id: str) -> None:
        if self._slots.take():
            await self._serve(order_id)

    async def _serve(self, order_id: str) -> None:
        done = False
        try:
            done = await self._runner.work(order_id) is not None
            if not done:
                self._poll.skip(order_id)
        finally:
            self._slots.release()
        if done:
            self._poll.freed()

    def _fence(self, incarnation: str) -> None:
        for execution in self._executions:
            if execution.incarnation == incarnation:
                execution.halt(Stop.FENCED)

    async def _wind_down(self) -> None:
        self._executions.close()
        self._keeper.drain()
        if not await self._executions.emptied(2.0):
            for execution in self._executions:
                execution.halt(Stop.HAND_BACK)
            await self._executions.emptied(2.0)
        held = self._executions.to_hand_back()
        try:
            if held:
                epochs = [(claim.order.id, claim.epoch) for claim in held]
                self._store.claims.hand_back(epochs, drone=self.process.name, message="told to stop")
            self._keeper.leave()
        except StoreUnavailable:
            pass
        self.process.kill()


def _looked_at(task: "asyncio.Task[object]") -> None:
    """Whatever a process of the simulation ends with is its own; the invariants tell what it meant."""
    if not task.cancelled():
        task.exception()
