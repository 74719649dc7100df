"""Nudges: Celery messages that name an order which some drone should look at."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager
from threading import Lock

from celery import Celery

from mcc.contracts.drones import Drone, DroneStatus
from mcc.contracts.wire import KEY_PREFIX, RUN_ORDER_TASK
from mcc.dispatch.broker import DispatchUnavailable, UnknownQueue, connect, make_app, queue_keys, translated
from mcc.store.store import Store

AWAY_SECONDS = 2.0
"""After a failure nothing is tried for this long, so that callers are refused at once."""

PROBE_SECONDS = 5

SILENT = "Redis does not answer; the order stays queued and a drone finds it by asking the database."


class Nudger:
    """Sends nudges from a thread of its own, so that a broker that hangs costs a caller `seconds` at most.

    A nudge carries the order's id alone and may be lost or doubled (docs/decisions/01). Safe for several threads.
    """

    def __init__(
        self,
        redis_url: str,
        queues: Sequence[str],
        *,
        seconds: float = 2.0,
        repeat_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queues = tuple(queues)
        self._seconds = seconds
        self._repeat_seconds = repeat_seconds
        self._clock = clock
        self._app: Celery = make_app(redis_url, queues, name="mcc.nudger", seconds=seconds / 2)
        self._redis = connect(redis_url, seconds=seconds / 2)
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="nudger")
        self._lock = Lock()
        self._away_until = float("-inf")
        self.trouble = ""
        """Why the last message could not be sent; "" once one was."""
        self._sent: dict[str, float] = {}

    def nudge(self, order_id: str, *, queue: str = "default", priority: int = 5) -> None:
        """Tell the drones of `queue` that this order waits. Raises `DispatchUnavailable`, `UnknownQueue`."""
        if queue not in self._queues:
            raise UnknownQueue(f"There is no queue {queue!r} here; known are {', '.join(self._queues)}.")
        with self._trying():
            sending = self._sender.submit(
                self._app.send_task,
                RUN_ORDER_TASK,
                args=[order_id],
                queue=queue,
                priority=priority,
                retry=False,
                ignore_result=True,
            )
            try:
                sending.result(self._seconds)
            except NotYet:
                sending.cancel()
                raise DispatchUnavailable(SILENT) from None
        self.trouble = ""
        self._remember(order_id)

    def round(self, store: Store, *, limit: int = 200) -> int:
        """Nudge again for claimable orders, at most one for each live free slot that no message is meant for yet.

        Answers how many were sent. Raises `DispatchUnavailable`, `StoreUnavailable`.
        """
        if self.trouble:
            self.probe()
        lately = self._clock() - self._repeat_seconds
        claimable = store.claims.claimable(self._queues, limit)
        waiting = [item for item in claimable if self._sent.get(item.order_id, float("-inf")) <= lately]
        if not waiting:
            return 0
        room = room_of(store.leases.drones(), self.lengths())
        chosen = []
        for item in waiting:
            if room[item.queue] > 0:
                room[item.queue] -= 1
                chosen.append(item)
        for item in chosen:
            self.nudge(item.order_id, queue=item.queue, priority=item.priority)
        return len(chosen)

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

    def _remember(self, order_id: str) -> None:
        now = self._clock()
        with self._lock:
            if len(self._sent) > 10_000:
                self._sent = {key: at for key, at in self._sent.items() if now - at < self._repeat_seconds}
            self._sent[order_id] = now


def room_of(drones: Iterable[Drone], lengths: dict[str, int]) -> Counter[str]:
    """Free slots of the drones that are up, for each queue they serve, less the messages that wait there already."""
    room: Counter[str] = Counter()
    for drone in drones:
        if drone.status is DroneStatus.UP:
            for queue in drone.queues:
                room[queue] += max(drone.slots - drone.active, 0)
    room.subtract(lengths)
    return room
