"""Assembles everything that runs on a drone's shared event loop: the running orders, and the loops that serve them."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from drone.agent.ports.report import is_exhausted
from drone.crew import Crew
from drone.sandbox.custody import Custody
from drone.settings import Settings
from drone.threads import in_thread
from drone.worker.broadcaster import Broadcaster
from drone.worker.claiming import Claimant, Claiming, Poll
from drone.worker.control_listener import ControlListener
from drone.worker.ending import FinishedOrder, Finisher, Suspects, threads_exhausted
from drone.worker.executions import Executions, ExecutionTimes, Stop
from drone.worker.journal import Writer
from drone.worker.liveness import LOOK_SECONDS, Canary, CanarySender, ThreadHealth
from drone.worker.loop import AsyncStore
from drone.worker.mcp_state import StorePins, StoreTokens
from drone.worker.metrics import DroneMetrics
from drone.worker.monitors import monitored, redis_of
from drone.worker.runner import Runner
from drone.worker.sessions.idle import IdleCompaction
from drone.worker.shortage import DiskWatch, MemoryWatch
from drone.worker.site import site_of
from drone.worker.strays import Draining, Strays
from drone.worker.tidying import Tidying
from drone.worker.trials import ModelChecks, ServerTrials
from drone.worker.workspaces import Workspaces
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.shape import now, to_json
from mcc.contracts.wire import DroneBeat, OrdersWait
from mcc.dispatch.broker import DispatchError
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import AsyncPublisher
from mcc.resources import Reserve, allowed_bytes
from mcc.store.database.errors import StoreRefused, StoreUnavailable
from mcc.store.rows.values import Claim
from mcc.store.store import Offload, Store

log = structlog.get_logger("drone.workshop")

CALL = to_json(OrdersWait())
BEAT_SECONDS = 2.0

FROZEN_LEASES = 2
"""The reaper kills a process that has shown no sign of life for the duration of so many leases."""

BACKSTOP_SECONDS = 1.4
"""The reaper kills a process that was told to end and still runs this long after its orders should have been handed
back."""


@dataclass(frozen=True, slots=True)
class Exits:
    """How a process ends by itself. `die`: at once, because it has no memory or threads left; `give_up`: in good order,
    so that a supervisor starts another."""

    die: Callable[[BaseException], None]
    give_up: Callable[[str], None]


CLEAR_SECONDS = 3_600.0
CALL_SECONDS = 0.25
"""Minimum interval between calls to other drones, however many orders arrive at a drone that is full."""


class Workshop:
    """The parts that carry out orders in one process, assembled. Make and use it on the shared loop only."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        crew: Crew,
        claimant: Claimant,
        nudger: Nudger,
        exits: Exits,
    ) -> None:
        self._settings, self._crew = settings, crew
        self._slots, self._nudger = claimant.slots, nudger
        self._exits = exits
        lease = self._lease = claimant.lease
        self._store = AsyncStore(store)
        self._nudges = Offload(1, "nudges")
        self._publisher = AsyncPublisher(redis_of(settings), monitored(settings))
        self._executions = Executions(lambda: settings.redactor, ExecutionTimes(settings.park_after_seconds))
        self._broadcaster = Broadcaster(self._publisher)
        limit = allowed_bytes(settings.memory_mb, settings.memory_shares)
        self._memory = MemoryWatch(limit, self._executions, self._store, give_up=exits.give_up)
        self._writer = Writer(store, lease, self._broadcaster, grew=self._memory.grew)
        self._site = site_of(settings, crew)
        self._workspaces = Workspaces(self._store, crew, lease, self._site)
        self._suspects = Suspects(settings.data_dir / "run" / "froze")
        self._custody = crew.custody or Custody()
        self._custody.guard(
            lambda: lease.trusted_until,
            margin_seconds=lease.margin_seconds,
            record=self._workspaces.children,
        )
        idle = IdleCompaction(settings.compaction, crew.model_source)
        self._runner = Runner(
            self._store,
            Claiming(self._store, claimant, self._broadcaster, self._workspaces),
            crew,
            self._executions,
            self._writer,
            Finisher(self._store, self._broadcaster, self._suspects, idle),
        )
        self._strays = Strays(self._store, claimant, self._executions)
        self._model_checks = ModelChecks(crew, redis_of(settings), settings.name)
        crew.share(StorePins(self._store), StoreTokens(self._store))
        self._trials = ServerTrials(crew, self._store, redis_of(settings), settings.name)
        self._control = ControlListener(self._store, redis_of(settings), lease, self._executions, hear=self._hear)
        self._poll = Poll(
            self._store,
            claimant,
            settings.queues,
            self._start,
            poll_seconds=settings.poll_seconds,
            connected=lambda: self._control.connected,
        )
        reserve = Reserve.beside(settings.database_url, settings.data_dir, settings.disk_reserve_mb)
        self._disk = DiskWatch(reserve, self._executions, self._store)
        self._health = ThreadHealth(crew.pools, settings.wedged_seconds)
        self._tidying = Tidying(self._store, crew)
        self._canary: Canary | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._seeking: list[asyncio.Task[None]] = []
        self.draining = Draining(self._slots, self._executions, self._custody, self._hand_back, self._poll.look)

    async def run(self) -> None:
        """Run all loops until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._seeking.append(group.create_task(self._poll.run()))  # `wind_down` ends these first, while orders run
            self._seeking.append(group.create_task(self._seek_workspaces()))
            self._seeking.append(group.create_task(self._workspaces.wake_writers(self._slots.take, self._start)))
            self._seeking.append(group.create_task(self._look_after_threads()))
            self._seeking.append(group.create_task(self._clear_checkpoints()))
            self._seeking.append(group.create_task(self._tidying.run()))
            self._seeking.append(group.create_task(self._call_others()))
            self._seeking.append(group.create_task(self.draining.run()))
            group.create_task(self._writer.run())
            group.create_task(self._broadcaster.run())
            group.create_task(self._control.run())
            group.create_task(self._strays.run())
            group.create_task(self._disk.run())
            group.create_task(self._memory.run())
            group.create_task(self._beat(BEAT_SECONDS))

    async def start_canary(self, queue: str, restart: Callable[[], None], give_up: Callable[[], None]) -> None:
        """Send canaries on `queue` until this drone drains."""
        self._canary = Canary(
            CanarySender(redis_of(self._settings), queue),
            self._slots,
            every_seconds=self._settings.canary_seconds,
            patience_seconds=self._settings.canary_patience_seconds,
            restart=restart,
            give_up=give_up,
        )
        self._seeking.append(asyncio.create_task(self._canary.run()))

    async def canary_seen(self, token: str) -> None:
        if self._canary is not None:
            self._canary.seen(token)

    async def serve(self, order_id: str) -> bool:
        """Claim and carry out this order if possible, then nudge for the next turn of its session.

        Answers whether the order was ended here.
        """
        if self._disk.shortage or self._memory.shortage:
            return False
        try:
            finished = await self._runner.work(order_id)
        except Exception as problem:
            if not is_exhausted(problem):
                raise
            self._exits.die(problem)
            return False
        if finished is None:
            self._poll.skip(order_id)
        else:
            await self._nudge_next(finished)
            await self._tidying.after(order_id)
        return finished is not None

    @property
    def wanting(self) -> bool:
        """Whether orders may be waiting for a slot of this drone. Call from any thread."""
        return self._poll.wanting

    def freed(self) -> None:
        """Fill the slot that became free when an order ended here."""
        self._poll.freed()

    def arrived(self, *, missed: bool) -> None:
        """As `Poll.arrived`, or as `Poll.miss`: it waits for a slot here or in another drone."""
        self._poll.miss() if missed else self._poll.arrived()

    async def request_cancel(self, order_id: str, reason: str, principal: str) -> None:
        """Place an ordinary cancel control, with a receipt, for an order that runs here, and process it at once."""
        if self._executions.get(order_id) is None:
            return
        cancel = NewControl(reason=reason)
        try:
            await self._store.once(
                lambda store: store.controls.request(order_id, ControlKind.CANCEL, cancel, by=Actor(principal))
            )
        except (StoreRefused, StoreUnavailable) as problem:
            log.warning("order could not be cancelled", order_id=order_id, problem=str(problem))
        self._control.poke()

    def fence(self, incarnation: str) -> None:
        """Stop every execution under this lost incarnation; none of them writes anything more."""
        fenced = [one for one in self._executions if one.incarnation == incarnation]
        for execution in fenced:
            execution.halt(Stop.FENCED)
        log.warning("fenced", incarnation=incarnation, orders=[one.order_id for one in fenced])

    def watch_over(self) -> int:
        """Have the reaper kill this process when it freezes, or does not end when told to; see `Custody.watch_over`."""
        exit_seconds = self._settings.drain_hand_back_seconds + BACKSTOP_SECONDS
        self._crew.pools.tell(self._custody.note)
        frozen_seconds = FROZEN_LEASES * self._settings.lease_seconds
        if self._settings.heartbeat is not None:
            self._custody.beat_on(self._settings.heartbeat)
        return self._custody.watch_over(frozen_seconds, exit_seconds, self._suspects.made())

    def count_in(self, metrics: DroneMetrics) -> None:
        """Count in these metrics what is done from now on."""
        self._publisher.metrics = self._broadcaster.metrics = self._site.forge_errors.metrics = metrics.work
        metrics.watch(
            active=lambda: self._slots.active, slots=self._slots.total, lag_seconds=lambda: self._writer.lag_seconds
        )

    async def wind_down(self, why: str = "") -> None:
        """Claim nothing more; let turns end for `drain_cancel_seconds`, then halt them, then hand back the rest after
        `drain_hand_back_seconds`.

        `why`: what is wrong with this drone, if it gives up.
        """
        self._executions.close()
        for task in self._seeking:
            task.cancel()
        cancel_seconds = self._settings.drain_cancel_seconds
        if not await self._executions.emptied(cancel_seconds):
            for execution in self._executions:
                execution.halt(Stop.HAND_BACK)
            await self._executions.emptied(max(self._settings.drain_hand_back_seconds - cancel_seconds, 0.0))
        held = self._executions.to_hand_back()
        # Programs end before their orders are handed back: the next drone's programs run in the same workspace.
        await in_thread(self._custody.end_term)
        try:
            if held:
                ends = f"restarts, because {why}" if why else "was told to stop"
                await self._hand_back(held, f"drone {self._settings.name} {ends}")
        finally:
            for task in self._serving:
                task.cancel()
            await self._broadcaster.flush()

    async def close(self) -> None:
        """Close connections and threads, and end the programs that run outside of this process."""
        await self._model_checks.close()
        await self._trials.close()
        await self._crew.close()
        await self._publisher.close()
        self._writer.close()
        self._disk.close()
        self._store.close()
        self._nudges.close()

    async def _seek_workspaces(self) -> None:
        """Regularly queue and start the orders that wait for a workspace which this drone sees."""
        while self._settings.workspace_roots or self._settings.workspaces.git:
            await asyncio.sleep(self._settings.poll_seconds * random.uniform(0.8, 1.2))
            try:
                for order_id in await self._workspaces.requeue_waiting():
                    if self._slots.take():
                        self._start(order_id)
            except StoreUnavailable as problem:
                log.debug("orders without a workspace wait for the database", problem=str(problem))
            except Exception:
                log.exception("the search for orders that wait for a workspace failed")

    async def _call_others(self) -> None:
        """Have other drones poll for orders that arrived while no slot was free here: a nudge reaches only one
        drone."""
        while True:
            await self._poll.missed.wait()
            self._poll.missed.clear()
            try:
                others = [rival for rival in await self._poll.rivals() if rival != self._lease.incarnation]
                if others:
                    await self._publisher.call(others)
            except StoreUnavailable as problem:
                log.debug("other drones are not called while the database is away", problem=str(problem))
            except Exception:
                log.exception("other drones could not be called")
            await asyncio.sleep(CALL_SECONDS)

    async def _clear_checkpoints(self) -> None:
        """Remove old checkpoints and checkouts of this host about every hour. Several drones may do so concurrently."""
        while True:
            await asyncio.sleep(CLEAR_SECONDS * random.uniform(0.5, 1.5))
            try:
                done = await in_thread(self._crew.checkpoints.prune, self._settings.checkpoint_days)
                log.info("old checkpoints removed", orders=done.orders, contents=done.contents)
                await self._tidying.clear_checkouts(self._site, self._settings, self._workspaces.children)
            except Exception:
                log.exception("old checkpoints and checkouts could not be removed")

    async def _beat(self, seconds: float) -> None:
        """Regularly publish to viewers that this drone is alive. The lease does not depend on it."""
        while True:
            try:
                await self._publisher.publish([self._heartbeat()])
            except Exception:
                log.exception("a heartbeat could not be published")
            await asyncio.sleep(seconds)

    def _hear(self, data: object) -> None:
        """Take an unparsed message from the drone's control channel."""
        self._model_checks.hear(data)
        self._trials.hear(data)
        if isinstance(data, bytes) and data == CALL:
            self._poll.look()

    def _heartbeat(self) -> DroneBeat:
        return DroneBeat(
            drone=self._settings.name,
            incarnation=self._lease.incarnation or "",
            at=now(),
            slots=self._slots.total,
            active=self._slots.active,
            draining=self._executions.closed,
        )

    def _start(self, order_id: str) -> None:
        task = asyncio.create_task(self._serve_in_slot(order_id))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve_in_slot(self, order_id: str) -> None:
        done = False
        try:
            done = await self.serve(order_id)
        except Exception:
            log.exception("an order could not be served", order_id=order_id)
        finally:
            self._slots.release()
        # Not after an order that could not be started: its obstacle may hold for all others, in an endless loop.
        if done:
            self._poll.freed()

    async def _look_after_threads(self) -> None:
        """Give up when the threads are in trouble; first end the orders that exhausted their own threads, as they are
        not to be tried again."""
        while (trouble := self._health.trouble()) is None:  # noqa: ASYNC110 - a thread that hangs sets no event
            await asyncio.sleep(LOOK_SECONDS)
        for execution in self._executions:
            if execution.goes_on and self._crew.pools.exhausted_by(execution.order_id):
                execution.end(threads_exhausted())
        self._exits.give_up(trouble)

    async def _hand_back(self, held: Sequence[Claim], message: str) -> None:
        name, epochs = self._settings.name, [(claim.order.id, claim.epoch) for claim in held]
        # Once, not patiently: this process may be about to exit, and a sweep returns what it leaves.
        returned = await self._store.once(lambda store: store.claims.hand_back(epochs, drone=name, message=message))
        log.info("orders handed back", orders=list(returned))
        orders = {claim.order.id: claim.order for claim in held}
        reached = await self._store.once(lambda store: store.journal.reached(returned))
        written = await self._store.once(
            lambda store: {id_: store.journal.read(id_, after=at.seq - 1) for id_, at in reached.items()}
        )
        for order_id, at in reached.items():
            left = {"status": at.status, "last_seq": at.seq, "detail": None}
            self._broadcaster.moved(orders[order_id].model_copy(update=left), written[order_id], message)

    async def _nudge_next(self, finished: FinishedOrder) -> None:
        """Nudge the drones for the next turn of the session, which could not be claimed before this order ended."""
        following = finished.following
        if following is None:
            return
        try:
            await self._nudges(
                self._nudger.nudge,
                following.order_id,
                queue=following.queue,
                priority=following.priority,
                last_seq=following.last_seq,
            )
        except DispatchError as problem:
            log.debug("the next turn waits for a sweep", session_id=finished.order.session_id, problem=str(problem))
