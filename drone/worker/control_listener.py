"""Brings controls of running orders from the database to their executions, promptly after a message in Redis."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from drone.agent.ports.journal import JournalError
from drone.worker.executions import Executions
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore
from mcc.contracts.control import Control
from mcc.contracts.wire import control_channel
from mcc.dispatch.broker import FOREIGN, RedisAt, connect_async
from mcc.dispatch.hearing import hearing
from mcc.store.database.errors import StoreUnavailable

log = structlog.get_logger("drone.control_listener")

POLL_SECONDS = 1.0


class ControlListener:
    """Passes controls on to their executions. `connected` tells whether the subscription in Redis works.

    It polls the database every `poll_seconds`, and at once after a message. `hear` receives each message on the drone's
    control channel unparsed.
    """

    def __init__(
        self,
        store: AsyncStore,
        redis: RedisAt,
        lease: Keeper,
        executions: Executions,
        *,
        hear: Callable[[object], None] = lambda data: None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._store = store
        self._redis = connect_async(redis)
        self._prefix = redis.prefix
        self._lease = lease
        self._executions = executions
        self._hear = hear
        self._poll_seconds = poll_seconds
        self._poked = asyncio.Event()
        self.connected = False

    def poke(self) -> None:
        """Poll the database now."""
        # Counted as well: an order that is just being claimed listens to nothing yet, and sees by the count what it
        # missed.
        self._executions.pokes += 1
        self._poked.set()

    async def run(self) -> None:
        """Listen and poll until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._poll())
        finally:
            self.connected = False
            await self._redis.aclose()

    async def once(self) -> None:
        """Read new controls from the database, and pass them on. Raises `StoreUnavailable`."""
        listening = self._executions.listening()
        if not listening:
            return
        by_order: dict[str, list[Control]] = {}
        for control in await self._store.once(lambda store: store.controls.pending(listening)):
            by_order.setdefault(control.order_id, []).append(control)
        await asyncio.gather(*(self._pass_on(order_id, controls) for order_id, controls in by_order.items()))

    async def _pass_on(self, order_id: str, controls: Sequence[Control]) -> None:
        execution = self._executions.get(order_id)
        # It left while its controls were read; they stay open for its next holder.
        if execution is None:
            return
        try:
            await execution.take(controls)
        except JournalError as problem:
            log.info("controls come too late", order_id=order_id, problem=str(problem))
        else:
            log.info("controls arrived", order_id=order_id, controls=[control.kind.value for control in controls])

    async def _poll(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await self._poked.wait()
            except TimeoutError:
                pass
            # Cleared before reading: a message that arrives meanwhile causes another look.
            self._poked.clear()
            try:
                await self.once()
            except StoreUnavailable as problem:
                log.debug("controls wait for the database", problem=str(problem))
            except Exception:
                log.exception("controls could not be read")

    async def _listen(self) -> None:
        while True:
            try:
                await self._receive()
            except FOREIGN as problem:
                if self.connected:
                    log.warning("Redis is away; controls are found by polling the database", problem=str(problem))
            except Exception:
                log.exception("the control channel failed; controls are found by polling the database")
            self.connected = False
            await asyncio.sleep(1.0)

    async def _receive(self) -> None:
        """Call `poke` for every message, until the subscription breaks or falls silent, or the incarnation changes."""
        incarnation = self._lease.incarnation
        if incarnation is None:
            return
        async with hearing(self._redis, self._prefix, [control_channel(incarnation, self._prefix)]) as opened:
            while self._lease.incarnation == incarnation:
                # A second at most, to notice a new incarnation: that one has another channel.
                message = await opened.next(1.0)
                if message is not None:
                    self.connected = True
                    self.poke()
                    if message["type"] == "message":
                        self._hear(message["data"])
