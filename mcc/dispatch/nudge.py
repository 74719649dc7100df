"""Nudges: Celery messages that name an order which some drone should look at."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager

from celery import Celery

from mcc.contracts.drones import Drone, DroneStatus
from mcc.contracts.wire import KEY_PREFIX, RUN_ORDER_TASK, nudged_key
from mcc.dispatch.broker import DispatchUnavailable, UnknownQueue, connect, make_app, queue_keys, translated
from mcc.store.store import Store
from mcc.store.values import Claimable

AWAY_SECONDS = 2.0
"""After a failure nothing is tried for this long, so that callers are refused at once."""

PROBE_SECONDS = 5

REPEAT_SECONDS = 5.0
"""A nudge is remembered for so long, in the Redis that holds its message. Whoever finds its order still claimable then,
while more slots are free than messages wait, knows that the message was lost."""

SILENT = "Redis does not answer; the order stays queued and a drone finds it by asking the database."


class Nudger:
    """Sends nudges from a thread of its own, so that a broker that hangs costs a caller `seconds` at most.

    A nudge carries the order's id alone, which is its task's id too, and may be lost or doubled (docs/decisions/01).
    However many processes want to send the same one, the first sends it. Safe for several threads.
    """

    def __init__(
        self,
        redis_url: str,
        queues: Sequence[str],
        *,
        seconds: float = 2.0,
        repeat_seconds: float = REPEAT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queues = tuple(queues)
        self._seconds = seconds
        self._repeat_seconds = repeat_seconds
        self._clock = clock
        self._app: Celery = make_app(redis_url, queues, name="mcc.nudger", seconds=seconds / 2)
        self._redis = connect(redis_url, seconds=seconds / 2)
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="nudger")
        self._away_until = float("-inf")
        self.trouble = ""
        """Why the last message could not be sent; "" once one was."""

    def nudge(self, order_id: str, *, queue: str = "default", priority: int = 5, last_seq: int = 1) -> bool:
        """Tell the drones of `queue` that this order waits, whose journal stands at `last_seq`.

        False: somebody has just told them.

        Raises `DispatchUnavailable`, `UnknownQueue`.
        """
        if queue not in self._queues:
            raise UnknownQueue(f"There is no queue {queue!r} here; known are {', '.join(self._queues)}.")
        return bool(self._send_first([Claimable(order_id, queue, priority, last_seq)]))

    def round(self, store: Store, *, limit: int = 200) -> int:
        """Nudge for claimable orders that nobody nudged for lately, at most one for each live free slot that no message
        is meant for yet.

        Answers how many were sent. Raises `DispatchUnavailable`, `StoreUnavailable`.
        """
        if self.trouble:
            self.probe()
        waiting = self._not_nudged(store.claims.claimable(self._queues, limit))
        if not waiting:
            return 0
        room = room_of(store.leases.drones(), self.lengths())
        chosen = []
        for item in waiting:
            if room[item.queue] > 0:
                room[item.queue] -= 1
                chosen.append(item)
        return self._send_first(chosen)

    def probe(self) -> None:
        """Find out by writing whether messages could be sent. Raises `DispatchUnavailable`."""
        with self._trying():
            self._redis.set(f"{KEY_PREFIX}nudger.probe", "1", ex=PROBE_SECONDS)
        self.trouble = ""

    def lengths(self) -> dict[str, int]:
        """Messages that wait in each queue. Raises `DispatchUnavailable`."""
        keys = {queue: queue_keys(queue) for queue in self._queues}
        with self._trying(), self._redis.pipeline(transaction=False) as pipeline:
            for key in (key for of_queue in keys.values() for key in of_queue):
                pipeline.llen(key)
            found = iter(pipeline.execute())
        return {queue: sum(int(next(found)) for _ in of_queue) for queue, of_queue in keys.items()}

    def close(self) -> None:
        self._sender.shutdown(wait=False, cancel_futures=True)
        self._redis.close()
        self._app.close()

    @contextmanager
    def _trying(self) -> Iterator[None]:
        if self._clock() < self._away_until:
            raise DispatchUnavailable(SILENT)
        try:
            with translated():
                yield
        except DispatchUnavailable as problem:
            self._away_until = self._clock() + AWAY_SECONDS
            self.trouble = str(problem)
            raise

    def _not_nudged(self, claimable: Sequence[Claimable]) -> Sequence[Claimable]:
        if not claimable:
            return ()
        with self._trying():
            known = self._redis.mget([nudged_key(item.order_id, item.last_seq) for item in claimable])
        return [item for item, nudged in zip(claimable, known, strict=True) if nudged is None]

    def _send_first(self, orders: Sequence[Claimable]) -> int:
        """Send for those for which nobody else has, meanwhile."""
        if not orders:
            return 0
        with self._trying(), self._redis.pipeline(transaction=False) as pipeline:
            for order in orders:
                key = nudged_key(order.order_id, order.last_seq)
                pipeline.set(key, "1", nx=True, px=round(self._repeat_seconds * 1000))
            won = pipeline.execute()
        mine = [order for order, first in zip(orders, won, strict=True) if first]
        for order in mine:
            self._send(order)
        return len(mine)

    def _send(self, order: Claimable) -> None:
        with self._trying():
            sending = self._sender.submit(
                self._app.send_task,
                RUN_ORDER_TASK,
                args=[order.order_id],
                task_id=order.order_id,
                queue=order.queue,
                priority=order.priority,
                retry=False,
                ignore_result=True,
            )
            try:
                sending.result(self._seconds)
            except NotYet:
                sending.cancel()
                raise DispatchUnavailable(SILENT) from None
        self.trouble = ""


def room_of(drones: Iterable[Drone], lengths: dict[str, int]) -> Counter[str]:
    """Free slots of the drones that are up, for each queue they serve, less the messages that wait there already."""
    room: Counter[str] = Counter()
    for drone in drones:
        if drone.status is DroneStatus.UP:
            for queue in drone.queues:
                room[queue] += max(drone.slots - drone.active, 0)
    room.subtract(lengths)
    return room
