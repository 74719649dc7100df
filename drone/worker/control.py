"""This room is for the control listener: what people ask of running orders, woken by Redis, found by polling."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog
from redis.asyncio.client import PubSub

from drone.agent.ports import JournalError
from drone.worker.runs import Runs
from mcc.contracts.control import Control
from mcc.contracts.wire import control_channel
from mcc.dispatch.connection import connect_async
from mcc.dispatch.errors import FOREIGN
from mcc.dispatch.sweep import boot_seconds
from mcc.store.errors import StoreUnavailable
from mcc.store.offload import Offload
from mcc.store.ports import Controls

log = structlog.get_logger("drone.control")

POLL_SECONDS = 1.0
PING_SECONDS = 5.0
SILENT_SECONDS = 12.0
"""A subscription that answers no ping for so long is made anew."""


class Holder(Protocol):
    @property
    def incarnation(self) -> str | None: ...


class ControlListener:
    """Brings controls to the runs they are for. `connected` tells whether Redis is there."""

    def __init__(
        self,
        controls: Controls,
        offload: Offload,
        redis_url: str,
        holder: Holder,
        runs: Runs,
        *,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._controls = controls
        self._offload = offload
        self._redis = connect_async(redis_url)
        self._holder = holder
        self._runs = runs
        self._poll_seconds = poll_seconds
        self._poked = asyncio.Event()
        self.connected = False

    def poke(self) -> None:
        """Ask the database now."""
        self._poked.set()

    async def run(self) -> None:
        """Listen and ask until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._ask())
        finally:
            self.connected = False
            await self._redis.aclose()

    async def once(self) -> None:
        """Ask the database for what is new, and pass it on. Raises `StoreUnavailable`."""
        listening = self._runs.listening()
        if not listening:
            return
        found: dict[str, list[Control]] = {}
        for control in await self._offload(self._controls.pending, listening):
            found.setdefault(control.order_id, []).append(control)
        await asyncio.gather(*(self._pass_on(order_id, asked) for order_id, asked in found.items()))

    async def _pass_on(self, order_id: str, asked: Sequence[Control]) -> None:
        run = self._runs.get(order_id)
        if run is None:
            return
        try:
            await run.take(asked)
        except JournalError as problem:
            log.info("controls come too late", order_id=order_id, problem=str(problem))
        else:
            log.info("order is told", order_id=order_id, controls=[control.kind.value for control in asked])

    async def _ask(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await self._poked.wait()
            except TimeoutError:
                pass
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
                async with self._redis.pubsub() as pubsub:
                    await self._hear(pubsub)
            except FOREIGN as problem:
                if self.connected:
                    log.warning("Redis is away; controls are found by asking the database", problem=str(problem))
            except Exception:
                log.exception("controls could not be listened for; they are found by asking the database")
            self.connected = False
            await asyncio.sleep(1.0)

    async def _hear(self, pubsub: PubSub) -> None:
        """Poke at every message, until the subscription breaks, falls silent or the incarnation changes."""
        incarnation = self._holder.incarnation
        if incarnation is None:
            return
        await pubsub.subscribe(control_channel(incarnation))
        heard = pinged = boot_seconds()
        while self._holder.incarnation == incarnation:
            message = await pubsub.get_message(timeout=1.0)
            now = boot_seconds()
            if message is not None:
                heard, self.connected = now, True
                if message["type"] != "pong":
                    self.poke()
            if now - heard > SILENT_SECONDS:
                raise TimeoutError("Redis answers no ping")
            if now - pinged > PING_SECONDS:
                pinged = now
                await pubsub.ping()
