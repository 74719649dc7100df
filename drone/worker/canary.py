"""This room is for the canary: a message that a drone sends to itself, to learn whether it still consumes."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog
from kombu.entity import Queue

from drone.worker.slots import Slots
from mcc.contracts.ids import fresh_id
from mcc.contracts.wire import CANARY_TASK
from mcc.dispatch.broker import make_app
from mcc.dispatch.connection import connect
from mcc.dispatch.errors import FOREIGN, DispatchUnavailable, translated
from mcc.store.offload import Offload

log = structlog.get_logger("drone.canary")

QUEUE_SECONDS = 300
"""Redis forgets a canary's queue this long after its drone was last heard of."""


def canary_queue(name: str) -> Queue:
    """The queue of one process alone."""
    return Queue(name, routing_key=name, expires=QUEUE_SECONDS)  # type: ignore[no-untyped-call]


class Bird(Protocol):
    """The way a canary takes, and whether Redis is there at all."""

    def send(self, token: str) -> None: ...

    def answers(self) -> bool: ...


class RedisBird:
    def __init__(self, redis_url: str, queue: str) -> None:
        self._app = make_app(redis_url, [canary_queue(queue)], name="drone.canary", seconds=1.0)
        self._redis_url = redis_url
        self._queue = queue

    def send(self, token: str) -> None:
        """Raises `DispatchUnavailable`."""
        with translated():
            self._app.send_task(CANARY_TASK, args=[token], queue=self._queue, priority=0, retry=False)

    def answers(self) -> bool:
        """Whether a fresh connection gets an answer to a ping."""
        client = connect(self._redis_url)
        try:
            return bool(client.ping())
        except FOREIGN:
            return False
        finally:
            client.close()


class Canary:
    """Sends one every `every_seconds` while a slot is free; one that is not back in `patience_seconds` is a failure.

    The first failure calls `restart`, a second one in a row calls `give_up`.
    """

    def __init__(
        self,
        bird: Bird,
        slots: Slots,
        *,
        every_seconds: float,
        patience_seconds: float,
        restart: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        self._bird = bird
        self._slots = slots
        self._every_seconds = every_seconds
        self._patience_seconds = patience_seconds
        self._restart = restart
        self._give_up = give_up
        self._offload = Offload(1, "canary")
        self._token = ""
        self._back = asyncio.Event()
        self._failures = 0

    def seen(self, token: str) -> None:
        """A canary came back; call on the loop."""
        if token == self._token:
            self._back.set()

    async def run(self) -> None:
        """Send canaries until cancelled."""
        while True:
            await asyncio.sleep(self._every_seconds)
            try:
                await self.once()
            except DispatchUnavailable as problem:
                log.debug("no canary while Redis is away", problem=str(problem))
            except Exception:
                log.exception("the canary failed")

    async def once(self) -> bool | None:
        """Whether a canary came back; None when that could not be found out. Raises `DispatchUnavailable`."""
        if self._slots.free <= 0:
            return None
        fillings = self._slots.fillings
        self._token, self._back = fresh_id(), asyncio.Event()
        await self._offload(self._bird.send, self._token)
        try:
            async with asyncio.timeout(self._patience_seconds):
                await self._back.wait()
        except TimeoutError:
            if self._slots.fillings != fillings or not await self._offload(self._bird.answers):
                return None
            self._fail()
            return False
        self._failures = 0
        return True

    def _fail(self) -> None:
        self._failures += 1
        if self._failures == 1:
            log.error("this drone does not consume, although Redis answers: the consumer is restarted")
            self._restart()
        else:
            log.error("this drone still does not consume: it drains and ends")
            self._give_up()
