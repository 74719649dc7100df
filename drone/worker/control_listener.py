"""What is asked of a drone by way of Redis: controls of running orders, found in the database; trials of its models."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import structlog
from pydantic import ValidationError
from redis.asyncio.client import PubSub

from drone.agent.journal import JournalError
from drone.crew import Crew
from drone.worker.executions import Executions
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore
from mcc.contracts.answers import ModelCheck
from mcc.contracts.control import Control
from mcc.contracts.shape import to_json
from mcc.contracts.wire import CheckModels, check_key, control_channel
from mcc.dispatch.broker import FOREIGN, connect_async
from mcc.dispatch.sweep import boot_seconds
from mcc.store.errors import StoreUnavailable

log = structlog.get_logger("drone.control_listener")

POLL_SECONDS = 1.0
PING_SECONDS = 5.0
SILENT_SECONDS = 12.0
"""A subscription that answers no ping for so long is made anew."""


class ControlListener:
    """Brings controls to the executions that they are for. `connected` tells whether Redis is there.

    `hear` gets whatever is said to this drone, as it came.
    """

    def __init__(
        self,
        store: AsyncStore,
        redis_url: str,
        lease: Keeper,
        executions: Executions,
        *,
        hear: Callable[[object], None] = lambda data: None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._store = store
        self._redis = connect_async(redis_url)
        self._lease = lease
        self._executions = executions
        self._hear = hear
        self._poll_seconds = poll_seconds
        self._poked = asyncio.Event()
        self.connected = False

    def poke(self) -> None:
        """Ask the database now."""
        self._executions.wakes += 1
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
        listening = self._executions.listening()
        if not listening:
            return
        found: dict[str, list[Control]] = {}
        for control in await self._store.once(lambda store: store.controls.pending(listening)):
            found.setdefault(control.order_id, []).append(control)
        await asyncio.gather(*(self._pass_on(order_id, asked) for order_id, asked in found.items()))

    async def _pass_on(self, order_id: str, asked: Sequence[Control]) -> None:
        execution = self._executions.get(order_id)
        if execution is None:
            return
        try:
            await execution.take(asked)
        except JournalError as problem:
            log.info("controls come too late", order_id=order_id, problem=str(problem))
        else:
            log.info("controls arrived", order_id=order_id, controls=[control.kind.value for control in asked])

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
                    await self._receive(pubsub)
            except FOREIGN as problem:
                if self.connected:
                    log.warning("Redis is away; controls are found by asking the database", problem=str(problem))
            except Exception:
                log.exception("controls could not be listened for; they are found by asking the database")
            self.connected = False
            await asyncio.sleep(1.0)

    async def _receive(self, pubsub: PubSub) -> None:
        """Poke at every message, until the subscription breaks, falls silent or the incarnation changes."""
        incarnation = self._lease.incarnation
        if incarnation is None:
            return
        await pubsub.subscribe(control_channel(incarnation))
        heard = pinged = boot_seconds()
        while self._lease.incarnation == incarnation:
            message = await pubsub.get_message(timeout=1.0)
            now = boot_seconds()
            if message is not None:
                heard, self.connected = now, True
                if message["type"] != "pong":
                    self.poke()
                if message["type"] == "message":
                    self._hear(message["data"])
            if now - heard > SILENT_SECONDS:
                raise TimeoutError("Redis answers no ping")
            if now - pinged > PING_SECONDS:
                pinged = now
                await pubsub.ping()


KEPT_SECONDS = 120
MOST_BYTES = 32 * 1024
"""A message with the most names that one may have is smaller."""

BUSY = "This drone tries models for somebody else just now: ask again in a minute."


class ModelChecks:
    """Hears the messages on the drone's control channel, and does those that ask for a check, one at a time.

    Whoever can write in Redis can ask: so no more is spent than one small call per model and check under way.
    """

    def __init__(self, crew: Crew, redis_url: str, drone: str) -> None:
        self._crew = crew
        self._redis = connect_async(redis_url)
        self._drone = drone
        self._doing: asyncio.Task[None] | None = None
        self._refusing: set[asyncio.Task[None]] = set()

    def hear(self, data: object) -> None:
        """A message; all but requests for a check are passed over. Call on the loop."""
        request = _request(data)
        if request is None:
            return
        if self._doing is None or self._doing.done():
            self._doing = asyncio.create_task(self._do(request))
            return
        refusing = asyncio.create_task(self._refuse(request))
        self._refusing.add(refusing)
        refusing.add_done_callback(self._refusing.discard)

    async def close(self) -> None:
        """Give up what is under way."""
        under_way = [task for task in (self._doing, *self._refusing) if task is not None]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._redis.aclose()

    async def _do(self, request: CheckModels) -> None:
        log.info("models are tried", names=list(request.names))

        async def tell(row: ModelCheck) -> None:
            await self._put(request.check_id, [row])

        try:
            await self._crew.check_models(request.names, tell)
        except Exception:
            log.exception("models could not be tried")

    async def _refuse(self, request: CheckModels) -> None:
        await self._put(request.check_id, [ModelCheck(name=name, problem=BUSY) for name in request.names])

    async def _put(self, check_id: str, rows: Iterable[ModelCheck]) -> None:
        encoded = [to_json(row.model_copy(update={"drone": self._drone})) for row in rows]
        try:
            async with self._redis.pipeline() as pipeline:
                pipeline.rpush(check_key(check_id), *encoded)
                pipeline.expire(check_key(check_id), KEPT_SECONDS)
                await pipeline.execute()
        except FOREIGN as problem:
            log.warning("what was found of a model could not be told", problem=str(problem))


def _request(data: object) -> CheckModels | None:
    if not isinstance(data, bytes) or len(data) > MOST_BYTES or b"check_models" not in data:
        return None
    try:
        return CheckModels.model_validate_json(data)
    except ValidationError as problem:
        log.warning("a request to try models was not understood", problem=str(problem)[:200])
        return None
