"""This room is for what lives on the shared loop: the orders at work, and the loops that serve them."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from drone.agent.threads import in_thread
from drone.crew import roots_of
from drone.sandbox.custody import Custody
from drone.settings import Settings
from drone.worker.canary import Canary, RedisBird
from drone.worker.control import ControlListener
from drone.worker.ending import spent
from drone.worker.health import LOOK_SECONDS, Health
from drone.worker.keeper import Keeper
from drone.worker.memory import Memory
from drone.worker.poll import Poll
from drone.worker.room import Room
from drone.worker.runner import Crew, Runner
from drone.worker.runs import Runs, Stop
from drone.worker.slots import Slots
from drone.worker.suspects import Suspects
from drone.worker.told import Teller
from drone.worker.workspaces import Workspaces
from drone.worker.writer import Writer
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.contracts.wire import Hint
from mcc.dispatch.errors import DispatchError
from mcc.dispatch.hints import AsyncHints
from mcc.dispatch.nudge import Nudger
from mcc.store.errors import Refused, StoreUnavailable
from mcc.store.heap import allowed_bytes
from mcc.store.offload import Offload
from mcc.store.ports import Store
from mcc.store.room import Reserve

log = structlog.get_logger("drone.workshop")

NEXT_TURNS = 50

FROZEN_LEASES = 2
"""A process that has shown no sign of life for so many leases is killed."""

BACKSTOP_SECONDS = 1.4
"""So long after its orders should have been handed back, a process that was told to end and did not is killed."""


@dataclass(frozen=True, slots=True)
class Exits:
    """How a process ends by itself. `fall`: at once, for it has no memory or thread to go on with; `give_up`: in good
    order, to make room for another one."""

    fall: Callable[[BaseException], None]
    give_up: Callable[[str], None]


class Workshop:
    """Everything that an order needs while it is here. Make and use it on the shared loop only."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        crew: Crew,
        keeper: Keeper,
        slots: Slots,
        nudger: Nudger,
        *,
        exits: Exits,
    ) -> None:
        self._settings = settings
        self._store = store
        self._crew = crew
        self._slots = slots
        self._nudger = nudger
        self._offload = Offload(4, "store")
        self._sends = Offload(1, "nudges")
        self._hints = AsyncHints(settings.redis_url)
        self._runs = Runs(lambda: settings.redactor)
        self._teller = Teller(self._hints)
        limit = allowed_bytes(settings.memory_mb, settings.memory_shares)
        self._memory = Memory(limit, self._runs, store.claims, self._offload, give_up=exits.give_up)
        self._writer = Writer(store, keeper, self._teller, grew=self._memory.grew)
        self._workspaces = Workspaces(store, self._offload, crew, keeper, roots_of(settings), settings.data_dir / "run")
        self._suspects = Suspects(settings.data_dir / "run" / "froze")
        self._custody = crew.custody or Custody()
        self._custody.guard(
            lambda: keeper.trusted_until,
            margin_seconds=keeper.margin_seconds,
            record=self._workspaces.children,
        )
        self._runner = Runner(
            store,
            self._offload,
            crew,
            keeper,
            self._runs,
            self._writer,
            self._teller,
            workspaces=self._workspaces,
            suspects=self._suspects,
            alone=lambda: slots.alone,
            park_after_seconds=settings.park_after_seconds,
            fall=exits.fall,
        )
        self._control = ControlListener(store.controls, self._offload, settings.redis_url, keeper, self._runs)
        self._poll = Poll(
            store,
            self._offload,
            slots,
            settings.queues,
            self._start,
            poll_seconds=settings.poll_seconds,
            connected=lambda: self._control.connected,
            incarnation=lambda: keeper.incarnation,
        )
        reserve = Reserve.beside(settings.database_url, settings.data_dir, settings.disk_reserve_mb)
        self._room = Room(reserve, self._runs, store.claims, self._offload)
        self._health = Health(crew.pools, settings.wedged_seconds)
        self._give_up = exits.give_up
        self._canary: Canary | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._seeking: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Commit, tell and listen until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._seeking.append(group.create_task(self._poll.run()))
            self._seeking.append(group.create_task(self._seek_workspaces()))
            self._seeking.append(group.create_task(self._look_after_threads()))
            group.create_task(self._writer.run())
            group.create_task(self._teller.run())
            group.create_task(self._control.run())
            group.create_task(self._room.run())
            group.create_task(self._memory.run())

    async def sing(self, queue: str, restart: Callable[[], None], give_up: Callable[[], None]) -> None:
        """Send canaries on `queue` until this drone drains."""
        self._canary = Canary(
            RedisBird(self._settings.redis_url, queue),
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
        if self._room.shortage or self._memory.shortage:
            return False
        order = await self._runner.work(order_id, drone=self._settings.name)
        if order is None:
            self._poll.left(order_id)
        else:
            await self._nudge_next(order)
        return order is not None

    async def ask_to_cancel(self, order_id: str, reason: str, principal: str) -> None:
        """Place a cancel as anybody could, with a receipt, and see to it at once."""
        asked = NewControl(reason=reason)
        try:
            await self._offload(self._store.controls.request, order_id, ControlKind.CANCEL, asked, principal=principal)
        except (Refused, StoreUnavailable) as problem:
            log.warning("order could not be cancelled", order_id=order_id, problem=str(problem))
        self._control.poke()

    def fence(self, incarnation: str) -> None:
        """This incarnation is lost: whatever runs under it stops and writes nothing more."""
        fenced = [run for run in self._runs if run.incarnation == incarnation]
        for run in fenced:
            run.halt(Stop.FENCED)
        log.warning("fenced", incarnation=incarnation, orders=[run.order_id for run in fenced])

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
        self._runs.close()
        for task in self._seeking:
            task.cancel()
        cancel_seconds = self._settings.drain_cancel_seconds
        if not await self._runs.emptied(cancel_seconds):
            for run in self._runs:
                run.halt(Stop.HAND_BACK)
            await self._runs.emptied(max(self._settings.drain_hand_back_seconds - cancel_seconds, 0.0))
        held = self._runs.to_hand_back()
        await in_thread(self._custody.end_term)
        try:
            if held:
                await self._hand_back(held, why)
        finally:
            for task in self._serving:
                task.cancel()
            await self._teller.flush()

    async def close(self) -> None:
        """Free what is held outside of this process."""
        await self._crew.close()
        await self._hints.close()
        self._writer.close()
        self._room.close()
        self._offload.close()
        self._sends.close()

    async def _seek_workspaces(self) -> None:
        """Take up again what waits for a workspace that is seen here."""
        while self._settings.workspace_roots:
            await asyncio.sleep(self._settings.poll_seconds * random.uniform(0.8, 1.2))
            try:
                for order_id in await self._workspaces.wake():
                    if self._slots.take():
                        self._start(order_id)
            except StoreUnavailable as problem:
                log.debug("orders without a workspace wait for the database", problem=str(problem))
            except Exception:
                log.exception("orders that wait for a workspace could not be looked at")

    def _start(self, order_id: str) -> None:
        task = asyncio.create_task(self._serve_in_slot(order_id))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve_in_slot(self, order_id: str) -> None:
        try:
            await self.serve(order_id)
        except Exception:
            log.exception("an order could not be served", order_id=order_id)
        finally:
            self._slots.release()

    async def _look_after_threads(self) -> None:
        """Give up when there is trouble; the orders that left all of their threads behind are not tried again."""
        while (trouble := self._health.trouble()) is None:  # noqa: ASYNC110 - threads that do not end tell nobody
            await asyncio.sleep(LOOK_SECONDS)
        for run in self._runs:
            if run.goes_on and self._crew.pools.exhausted_by(run.order_id):
                run.end(spent())
        self._give_up(trouble)

    async def _hand_back(self, held: list[tuple[str, int]], why: str) -> None:
        message = f"drone {self._settings.name} " + (f"restarts, because {why}" if why else "was told to stop")
        returned = await self._offload(self._store.claims.hand_back, held, drone=self._settings.name, message=message)
        log.info("orders handed back", orders=list(returned))
        for order_id, reached in (await self._offload(self._store.journal.reached, returned)).items():
            self._teller.hint(Hint(order_id=order_id, seq=reached.seq, status=reached.status.value))

    async def _nudge_next(self, order: WorkOrder) -> None:
        """The next turn of a session could not be claimed before; nobody else has told the drones of it yet."""
        try:
            page = await self._offload(
                self._store.orders.list,
                status=OrderStatus.QUEUED,
                session_id=order.session_id,
                limit=NEXT_TURNS,
            )
            if page.items:
                following = min(page.items, key=lambda item: item.session_seq)
                await self._sends(self._nudger.nudge, following.id, queue=following.queue, priority=following.priority)
        except (DispatchError, StoreUnavailable) as problem:
            log.debug("the next turn waits for a sweep", session_id=order.session_id, problem=str(problem))
