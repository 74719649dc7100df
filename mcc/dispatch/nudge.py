"""Nudges: Celery messages that ask a drone to look at an order."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager

import structlog
from celery import Celery

from mcc.contracts.drones import Drone, DroneStatus
from mcc.contracts.wire import RUN_ORDER_TASK, nudged_key
from mcc.dispatch.broker import DispatchUnavailable, RedisAt, UnknownQueue, connect, make_app, queue_keys, translated
from mcc.dispatch.fit import KEPT_SECONDS, installation_of, occupy
from mcc.store.rows.values import Claimable
from mcc.store.store import Store

AWAY_SECONDS = 2.0
"""After a failure, calls fail at once for this long instead of trying Redis again."""

PROBE_SECONDS = 5

REPEAT_SECONDS = 5.0
"""How long Redis remembers that an order was nudged. If the order is still claimable after that, while more slots are
free than messages wait, the message must have been lost, and the order is nudged again."""

CLAIM_SECONDS = KEPT_SECONDS / 5

log = structlog.get_logger("mcc.dispatch.nudge")

SILENT = "Redis does not answer; the order stays queued and a drone finds it by asking the database."


class Nudger:
    """Sends nudges from a thread of its own, so that a hanging broker blocks a caller for at most `seconds`.

    A nudge carries only the order's id, which is also the id of the Celery task. It may be lost or delivered twice
    (docs/decisions/01). When several processes send the same nudge, only the first does. Safe for several threads.
    """

    def __init__(
        self,
        redis: RedisAt,
        queues: Sequence[str],
        *,
        seconds: float = 2.0,
        repeat_seconds: float = REPEAT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._prefix = redis.prefix
        self._queues = tuple(queues)
        self._seconds = seconds
        self._repeat_seconds = repeat_seconds
        self._clock = clock
        # Half, so that an attempt and one retry fit into `seconds`.
        self._app: Celery = make_app(redis, queues, name="mcc.nudger", seconds=seconds / 2)
        self._redis = connect(redis, seconds=seconds / 2)
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="nudger")
        self._away_until = float("-inf")
        self._claim_at = float("-inf")
        self.trouble = ""
        """Why the last message could not be sent; "" when it was sent."""

    def nudge(self, order_id: str, *, queue: str = "default", priority: int = 5, last_seq: int = 1) -> bool:
        """Tell the drones of `queue` that this order waits; `last_seq` is the number of its last journal entry.

        False when another process has just sent this nudge. Raises `DispatchUnavailable` and `UnknownQueue`.
        """
        if queue not in self._queues:
            raise UnknownQueue(f"There is no queue {queue!r} here; known are {', '.join(self._queues)}.")
        return bool(self._send_first([Claimable(order_id, queue, priority, last_seq)]))

    def nudge_claimable(self, store: Store, *, limit: int = 200) -> int:
        """Nudge claimable orders that were not nudged lately, at most one per free slot that no message waits for yet.

        Looks at up to `limit` orders. Answers how many nudges were sent. Raises `DispatchUnavailable` and
        `StoreUnavailable`.
        """
        # A write, since a Redis that is full or read-only still answers reads.
        if self.trouble:
            self.probe()
        if self._clock() >= self._claim_at:
            self._claim(installation_of(store))
        waiting = self._not_nudged(store.claims.claimable(self._queues, limit))
        if not waiting:
            return 0
        # Not one nudge for each of thousands that wait: a drone that is done with an order looks for the next one
        # itself.
        free = free_slots(store.leases.drones(), self.lengths())
        chosen = []
        for item in waiting:
            if free[item.queue] > 0:
                free[item.queue] -= 1
                chosen.append(item)
        return self._send_first(chosen)

    def probe(self) -> None:
        """Test by a write whether messages can be sent, and clear `trouble` if so. Raises `DispatchUnavailable`."""
        with self._trying():
            self._redis.set(f"{self._prefix}nudger.probe", "1", ex=PROBE_SECONDS)
        self.trouble = ""

    def lengths(self) -> dict[str, int]:
        """How many messages wait in each queue. Raises `DispatchUnavailable`."""
        keys = {queue: queue_keys(queue, self._prefix) for queue in self._queues}
        with self._trying(), self._redis.pipeline(transaction=False) as pipeline:
            for key in (key for of_queue in keys.values() for key in of_queue):
                pipeline.llen(key)
            found = iter(pipeline.execute())
        return {queue: sum(int(next(found)) for _ in of_queue) for queue, of_queue in keys.items()}

    def close(self) -> None:
        self._sender.shutdown(wait=False, cancel_futures=True)
        self._redis.close()
        self._app.close()

    def _claim(self, installation: str) -> None:
        """Tell other installations that this prefix is taken, for a few minutes at a time."""
        with self._trying():
            other = occupy(self._redis, self._prefix, installation)
        self._claim_at = self._clock() + CLAIM_SECONDS
        if other:
            log.error("another installation uses the same keys in Redis: give each a prefix", prefix=self._prefix)

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
            known = self._redis.mget([nudged_key(item.order_id, item.last_seq, self._prefix) for item in claimable])
        return [item for item, nudged in zip(claimable, known, strict=True) if nudged is None]

    def _send_first(self, orders: Sequence[Claimable]) -> int:
        """Send nudges for those orders that no other process has nudged meanwhile. Answers how many were sent."""
        if not orders:
            return 0
        with self._trying(), self._redis.pipeline(transaction=False) as pipeline:
            for order in orders:
                key = nudged_key(order.order_id, order.last_seq, self._prefix)
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


def free_slots(drones: Iterable[Drone], lengths: dict[str, int]) -> Counter[str]:
    """Free slots of all drones that are up, by queue, minus the messages that already wait there (`lengths`).

    A drone that serves several queues counts for each of them. The result may be negative.
    """
    free: Counter[str] = Counter()
    for drone in drones:
        if drone.status is DroneStatus.UP:
            for queue in drone.queues:
                free[queue] += max(drone.slots - drone.active, 0)
    free.subtract(lengths)
    return free
