"""Detects that a drone cannot work: its event loop or threads hang, or its messages to itself do not arrive."""

import asyncio
from collections.abc import Callable

import structlog
from kombu.entity import Queue

from drone.threads import Pools
from drone.worker.claiming import Slots
from mcc.contracts.ids import fresh_id
from mcc.contracts.wire import CANARY_TASK
from mcc.dispatch.broker import FOREIGN, DispatchUnavailable, RedisAt, connect, make_app, translated
from mcc.dispatch.sweep import boot_seconds
from mcc.store.store import Offload

log = structlog.get_logger("drone.liveness")

LOOK_SECONDS = 1.0
MOST_LEFT_BEHIND = 16
"""Bound on threads that are busy with abandoned calls: twice as many as the tools of one order can leave behind."""

QUEUE_SECONDS = 300
"""Redis forgets a canary's queue this long after its drone was last heard of."""


class Stall:
    """Measures for how long a loop has made no progress, as seen by a caller that looks regularly.

    While the process is suspended the caller does not look either, so at most `gap_seconds` count of the time between
    two looks.
    """

    def __init__(self, gap_seconds: float, clock: Callable[[], float] = boot_seconds) -> None:
        self._gap_seconds = gap_seconds
        self._clock = clock
        self._looked_at = self._ticked_at = clock()
        self.seconds = 0.0

    def look(self, ticked_at: float) -> float:
        """Take note of when the loop last made progress; answers for how many seconds it has made none."""
        now = self._clock()
        turned = ticked_at != self._ticked_at
        self.seconds = 0.0 if turned else self.seconds + min(now - self._looked_at, self._gap_seconds)
        self._looked_at, self._ticked_at = now, ticked_at
        return self.seconds


class ThreadHealth:
    """Watches a drone's threads; its caller looks once a second."""

    def __init__(self, pools: Pools, wedged_seconds: float, clock: Callable[[], float] = boot_seconds) -> None:
        self._pools = pools
        self._wedged_seconds = wedged_seconds
        self._clock = clock
        self._stall = Stall(2 * LOOK_SECONDS, clock)

    def trouble(self) -> str | None:
        """Why this drone should be replaced by another, as part of a sentence; None while it is healthy.

        A drone is wedged when work has waited for a thread for more than `wedged_seconds`, during which no other work
        ended. An order that delays only itself does not count.
        """
        waits = self._pools.keep_waiting()
        # While nothing waits, idle threads are no stall: a number that is new at each look counts as progress.
        stuck_seconds = self._stall.look(self._pools.ended if waits else -self._clock())
        left_behind = self._pools.left_behind()
        if left_behind >= MOST_LEFT_BEHIND:
            return f"{left_behind} of its threads go on with calls that were given up"
        if stuck_seconds > self._wedged_seconds:
            return f"it is wedged: work waits for a thread, and none has ended any for {stuck_seconds:.0f} s"
        return None


def canary_queue(name: str) -> Queue:
    """The queue on which one process sends canaries to itself."""
    return Queue(name, routing_key=name, expires=QUEUE_SECONDS)


class CanarySender:
    """Sends canaries to a queue in Redis, and tells whether Redis answers at all."""

    def __init__(self, redis: RedisAt, queue: str) -> None:
        self._app = make_app(redis, [canary_queue(queue)], name="drone.canary", seconds=1.0)
        self._at = redis
        self._queue = queue

    def send(self, token: str) -> None:
        """Raises `DispatchUnavailable`."""
        with translated():
            self._app.send_task(CANARY_TASK, args=[token], queue=self._queue, priority=0, retry=False)

    def answers(self) -> bool:
        """Whether Redis answers a ping over a new connection."""
        client = connect(self._at)
        try:
            return bool(client.ping())
        except FOREIGN:
            return False
        finally:
            client.close()


class Canary:
    """Sends a message through Redis to this drone every `every_seconds`, while a slot is free. A message that is not
    back within `patience_seconds` is a failure.

    The first failure calls `restart`, a second one in a row calls `give_up`.
    """

    def __init__(
        self,
        sender: CanarySender,
        slots: Slots,
        *,
        every_seconds: float,
        patience_seconds: float,
        restart: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        self._sender = sender
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
        """Note that the canary with this token came back. Call on the loop."""
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
        """Whether a canary came back; None when the try proves nothing. Raises `DispatchUnavailable`."""
        # A full drone takes no messages, so that its silence proves nothing.
        if self._slots.free <= 0:
            return None
        fillings = self._slots.fillings
        self._token, self._back = fresh_id(), asyncio.Event()
        try:
            # The time starts before sending: on a busy machine the canary may be back before `send` returns.
            async with asyncio.timeout(self._patience_seconds):
                await self._offload(self._sender.send, self._token)
                await self._back.wait()
        except TimeoutError:
            # No failure: the slots were full in between, so nothing was consumed, or Redis does not answer.
            if self._slots.fillings != fillings or not await self._offload(self._sender.answers):
                return None
            self._failures += 1
            if self._failures == 1:
                log.error("this drone does not consume, although Redis answers: the consumer is restarted")
                self._restart()
            else:
                log.error("this drone still does not consume: it drains and ends")
                self._give_up()
            return False
        self._failures = 0
        return True
