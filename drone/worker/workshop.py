"""What lives on the shared event loop of a drone: the orders at work, and the loops that serve them."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from drone.agent.report import is_exhausted
from drone.agent.threads import in_thread
from drone.crew import Crew
from drone.sandbox.custody import Custody
from drone.settings import Settings
from drone.worker.broadcaster import Broadcaster
from drone.worker.checkouts import site_of
from drone.worker.claiming import Claimant, Claiming, Poll
from drone.worker.control_listener import ControlListener, ModelChecks
from drone.worker.ending import Finisher, Left, Suspects, threads_exhausted
from drone.worker.executions import Executions, ExecutionTimes, Stop
from drone.worker.journal import Writer
from drone.worker.liveness import LOOK_SECONDS, Canary, CanarySender, ThreadHealth
from drone.worker.loop import AsyncStore
from drone.worker.mcp_pins import StorePins, StoreTokens
from drone.worker.runner import Runner
from drone.worker.server_trials import ServerTrials
from drone.worker.shortage import DiskWatch, MemoryWatch
from drone.worker.tidying import Tidying
from drone.worker.workspaces import Workspaces
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.shape import now, to_json
from mcc.contracts.wire import DroneBeat, OrdersWait, worker_name
from mcc.dispatch.broker import DispatchError
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import AsyncPublisher
from mcc.dispatch.task_events import TaskEvents
from mcc.store.errors import Refused, StoreUnavailable
from mcc.store.resources import Reserve, allowed_bytes
from mcc.store.store import Offload, Store
from mcc.store.values import Claim

log = structlog.get_logger("drone.workshop")

CALL = to_json(OrdersWait())
BEAT_SECONDS = 2.0

FROZEN_LEASES = 2
"""A process that has shown no sign of life for so many leases is killed."""

BACKSTOP_SECONDS = 1.4
"""So long after its orders should have been handed back, a process that was told to end and did not is killed."""


def monitored(settings: Settings) -> TaskEvents:
    """How this drone tells Celery's monitors of orders; they know it by the name of its worker."""
    return TaskEvents(
        settings.redis_url, worker_name(settings.name), lambda: settings.redactor, titles=settings.flower_titles
    )


@dataclass(frozen=True, slots=True)
class Exits:
    """How a process ends by itself. `fall`: at once, since it has no memory or thread to go on with; `give_up`: in good
    order, for a supervisor to start another."""

    fall: Callable[[BaseException], None]
    give_up: Callable[[str], None]


CLEAR_SECONDS = 3_600.0
CALL_SECONDS = 0.25
"""Other drones are called no more often, however many orders come to one that is full."""


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
        self._settings = settings
        self._crew = crew
        self._slots = claimant.slots
        self._nudger = nudger
        self._exits = exits
        lease = self._lease = claimant.lease
        self._store = AsyncStore(store)
        self._nudges = Offload(1, "nudges")
        self._publisher = AsyncPublisher(settings.redis_url, monitored(settings))
        times = ExecutionTimes(park_after_seconds=settings.park_after_seconds)
        self._executions = Executions(lambda: settings.redactor, times)
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
        self._runner = Runner(
            self._store,
            Claiming(self._store, claimant, self._broadcaster, self._workspaces),
            crew,
            self._executions,
            self._writer,
            Finisher(self._store, self._broadcaster, self._suspects),
        )
        self._model_checks = ModelChecks(crew, settings.redis_url, settings.name)
        crew.share(StorePins(self._store), StoreTokens(self._store))
        self._trials = ServerTrials(crew, self._store, settings.redis_url, settings.name)
        self._control = ControlListener(self._store, settings.redis_url, lease, self._executions, hear=self._hear)
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

    async def run(self) -> None:
        """Commit, tell and listen until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._seeking.append(group.create_task(self._poll.run()))
            self._seeking.append(group.create_task(self._seek_workspaces()))
            self._seeking.append(group.create_task(self._look_after_threads()))
            self._seeking.append(group.create_task(self._clear_checkpoints()))
            self._seeking.append(group.create_task(self._tidying.run()))
            self._seeking.append(group.create_task(self._call_others()))
            group.create_task(self._writer.run())
            group.create_task(self._broadcaster.run())
            group.create_task(self._control.run())
            group.create_task(self._disk.run())
            group.create_task(self._memory.run())
            group.create_task(self._beat(BEAT_SECONDS))

    async def start_canary(self, queue: str, restart: Callable[[], None], give_up: Callable[[], None]) -> None:
        """Send canaries on `queue` until this drone drains."""
        self._canary = Canary(
            CanarySender(self._settings.redis_url, queue),
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
        """Do this order if it is there to be claimed, then see to the next turn of its session.

        Answers whether it was ended here.
        """
        if self._disk.shortage or self._memory.shortage:
            return False
        try:
            left = await self._runner.work(order_id)
        except Exception as problem:
            if not is_exhausted(problem):
                raise
            self._exits.fall(problem)
            return False
        if left is None:
            self._poll.skip(order_id)
        else:
            await self._nudge_next(left)
            await self._tidying.after(order_id)
        return left is not None

    @property
    def wanting(self) -> bool:
        """Whether orders may wait for a slot of this drone. For any thread."""
        return self._poll.wanting

    def freed(self) -> None:
        """A slot is free again after an order that ended here."""
        self._poll.freed()

    def miss(self) -> None:
        """An order came while no slot was free: it waits for one, here or in another drone."""
        self._poll.miss()

    async def ask_to_cancel(self, order_id: str, reason: str, principal: str) -> None:
        """Place a cancel of an order at work here, as anybody could, with a receipt, and see to it at once."""
        if self._executions.get(order_id) is None:
            return
        asked = NewControl(reason=reason)
        try:
            await self._store.once(
                lambda store: store.controls.request(order_id, ControlKind.CANCEL, asked, principal=principal)
            )
        except (Refused, StoreUnavailable) as problem:
            log.warning("order could not be cancelled", order_id=order_id, problem=str(problem))
        self._control.poke()

    def fence(self, incarnation: str) -> None:
        """This incarnation is lost: whatever runs under it stops and writes nothing more."""
        fenced = [one for one in self._executions if one.incarnation == incarnation]
        for execution in fenced:
            execution.halt(Stop.FENCED)
        log.warning("fenced", incarnation=incarnation, orders=[one.order_id for one in fenced])

    def watch_over(self) -> int:
        """Have this process killed when it freezes, or does not end when it is told to; see `Custody.watch_over`."""
        exit_seconds = self._settings.drain_hand_back_seconds + BACKSTOP_SECONDS
        self._crew.pools.tell(self._custody.note)
        frozen_seconds = FROZEN_LEASES * self._settings.lease_seconds
        if self._settings.heartbeat is not None:
            self._custody.beat_on(self._settings.heartbeat)
        return self._custody.watch_over(frozen_seconds, exit_seconds, self._suspects.made())

    async def wind_down(self, why: str = "") -> None:
        """Take nothing more; let turns end, then stop them, then hand back what is left, all in time.

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
        # Programs end before their orders go back: those of the next drone would meet them in the same workspace.
        await in_thread(self._custody.end_term)
        try:
            if held:
                await self._hand_back(held, why)
        finally:
            for task in self._serving:
                task.cancel()
            await self._broadcaster.flush()

    async def close(self) -> None:
        """Close connections, threads and programs that run outside of this process."""
        await self._model_checks.close()
        await self._trials.close()
        await self._crew.close()
        await self._publisher.close()
        self._writer.close()
        self._disk.close()
        self._store.close()
        self._nudges.close()

    async def _seek_workspaces(self) -> None:
        """Queue and start orders that wait for a workspace which this drone sees."""
        while self._settings.workspace_roots or self._settings.workspaces.git:
            await asyncio.sleep(self._settings.poll_seconds * random.uniform(0.8, 1.2))
            try:
                for order_id in await self._workspaces.wake():
                    if self._slots.take():
                        self._start(order_id)
            except StoreUnavailable as problem:
                log.debug("orders without a workspace wait for the database", problem=str(problem))
            except Exception:
                log.exception("orders that wait for a workspace could not be looked at")

    async def _call_others(self) -> None:
        """Have other drones look for orders that came while no slot was free here: one drone alone hears of each."""
        while True:
            await self._poll.missed.wait()
            self._poll.missed.clear()
            try:
                others = [one for one in await self._poll.rivals() if one != self._lease.incarnation]
                if others:
                    await self._publisher.call(others)
            except StoreUnavailable as problem:
                log.debug("other drones are not called while the database is away", problem=str(problem))
            except Exception:
                log.exception("other drones could not be called")
            await asyncio.sleep(CALL_SECONDS)

    async def _clear_checkpoints(self) -> None:
        """Remove old checkpoints and checkouts of this host every hour; drones that do it at once do no harm."""
        while True:
            await asyncio.sleep(CLEAR_SECONDS * random.uniform(0.5, 1.5))
            try:
                done = await in_thread(self._crew.kept.prune, self._settings.checkpoint_days)
                log.info("old checkpoints removed", orders=done.orders, contents=done.contents)
                await self._tidying.clear_checkouts(self._site, self._settings, self._workspaces.children)
            except Exception:
                log.exception("old checkpoints and checkouts could not be removed")

    async def _beat(self, seconds: float) -> None:
        """Say every so often that this drone is there; its lease is kept elsewhere, and does not depend on it."""
        while True:
            try:
                await self._publisher.publish([self._heartbeat()])
            except Exception:
                log.exception("a heartbeat could not be told")
            await asyncio.sleep(seconds)

    def _hear(self, data: object) -> None:
        """What is said to this drone, as it came."""
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
        # Not after one that could not be begun: what keeps it from that may keep all others from it as well.
        if done:
            self._poll.freed()

    async def _look_after_threads(self) -> None:
        """Give up when there is trouble; the orders that left all of their threads behind are not tried again."""
        while (trouble := self._health.trouble()) is None:  # noqa: ASYNC110 - threads that do not end tell nobody
            await asyncio.sleep(LOOK_SECONDS)
        for execution in self._executions:
            if execution.goes_on and self._crew.pools.exhausted_by(execution.order_id):
                execution.end(threads_exhausted())
        self._exits.give_up(trouble)

    async def _hand_back(self, held: Sequence[Claim], why: str) -> None:
        message = f"drone {self._settings.name} " + (f"restarts, because {why}" if why else "was told to stop")
        name, epochs = self._settings.name, [(claim.order.id, claim.epoch) for claim in held]
        returned = await self._store.once(lambda store: store.claims.hand_back(epochs, drone=name, message=message))
        log.info("orders handed back", orders=list(returned))
        orders = {claim.order.id: claim.order for claim in held}
        reached = await self._store.once(lambda store: store.journal.reached(returned))
        written = await self._store.once(
            lambda store: {one: store.journal.read(one, after=at.seq - 1) for one, at in reached.items()}
        )
        for order_id, at in reached.items():
            left = {"status": at.status, "last_seq": at.seq, "detail": None}
            self._broadcaster.moved(orders[order_id].model_copy(update=left), written[order_id], message)

    async def _nudge_next(self, left: Left) -> None:
        """Nudge the drones for the next turn of the session, which could not be claimed before this order ended."""
        following = left.following
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
            log.debug("the next turn waits for a sweep", session_id=left.order.session_id, problem=str(problem))
