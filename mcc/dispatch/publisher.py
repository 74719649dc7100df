"""Publishing on Redis pub/sub: committed entries, text deltas, waiting controls, drones' heartbeats. Any may be lost.

Statuses of orders are reported to Celery's monitors as well.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeout

from mcc.contracts.entry import Entry
from mcc.contracts.order import WorkOrder
from mcc.contracts.shape import to_json
from mcc.contracts.status import OrderStatus
from mcc.contracts.wire import (
    KEY_PREFIX,
    Delta,
    DroneBeat,
    Hint,
    InboxMoved,
    OrdersWait,
    Progress,
    Wake,
    control_channel,
    drone_channel,
    entry_message,
    order_channel,
    probe_key,
    status_channel,
)
from mcc.dispatch.broker import FOREIGN, RedisAt, connect, connect_async
from mcc.dispatch.guarded import AsyncGuarded
from mcc.dispatch.task_events import TaskEvents
from mcc.dispatch.work_metrics import WorkMetrics
from mcc.store.store import Store


class Packed(NamedTuple):
    """A serialized message. While it waits to be sent, it takes less memory than its object."""

    order_id: str
    payload: bytes


Message: TypeAlias = Entry | Hint | Delta | Progress | DroneBeat | InboxMoved | Packed

PAUSE_SECONDS = 1.0
"""After a failure nothing is sent for this long, so that callers do not wait for a Redis that is down."""


def payloads(messages: Iterable[Message], prefix: str = KEY_PREFIX) -> Iterator[tuple[str, bytes]]:
    """Channel and payload of each message. A hint with a status also goes to the channel of all status changes."""
    for message in messages:
        match message:
            case Packed():
                yield order_channel(message.order_id, prefix), message.payload
            case Entry():
                yield order_channel(message.order_id, prefix), entry_message(message)
            case DroneBeat():
                yield drone_channel(message.drone, prefix), to_json(message)
            case InboxMoved():
                yield status_channel(prefix), to_json(message)
            case _:
                payload = to_json(message)
                yield order_channel(message.order_id, prefix), payload
                if isinstance(message, Hint) and message.status is not None:
                    yield status_channel(prefix), payload


def packed(entry: Entry) -> Packed:
    """The message for a committed entry, at most about 16 KB; of a larger entry only its head."""
    return Packed(entry.order_id, entry_message(entry))


_PUBLISH = b"*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n"
_DELETE = b"*2\r\n$3\r\nDEL\r\n$%d\r\n%b\r\n"
"""Commands in Redis' wire format (RESP), each argument behind its length."""

_READ_BYTES = 65_536
"""How much of Redis' replies is read at once."""

NEWEST = 10
"""A status change without a drone writes at most this many entries, unless it has to close many agents."""


def newest_entries(store: Store, order: WorkOrder) -> Sequence[Entry]:
    """The last entries of an order whose status was changed without a drone. Some may have been published before.

    Empty for a running order, whose drone publishes its entries itself.
    """
    if order.status is OrderStatus.RUNNING:
        return ()
    return list(store.journal.read(order.id, after=max(order.last_seq - NEWEST, 0), limit=NEWEST))


def status_hint(order: WorkOrder) -> Hint:
    """The hint that tells viewers an order's new status."""
    return Hint(order_id=order.id, seq=order.last_seq, status=order.status.value)


class _Pause:
    """The pause after a failure, in which nothing is sent."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = 0.0

    def lasts(self) -> bool:
        return self._clock() < self._until

    def begin(self) -> None:
        self._until = self._clock() + PAUSE_SECONDS


class Publisher:
    """Publishes from threads. No method raises. Each call ends within about twice `seconds` and answers whether the
    message was sent."""

    metrics: WorkMetrics | None = None
    """Where reported status changes are counted."""

    def __init__(
        self,
        redis: RedisAt,
        tasks: TaskEvents | None = None,
        *,
        seconds: float = 0.5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._prefix = redis.prefix
        self._redis = connect(redis, seconds=seconds)
        self._tasks = tasks
        self._pause = _Pause(clock)

    def publish(self, messages: Iterable[Message]) -> bool:
        return self._send(list(payloads(messages, self._prefix)))

    def wake(self, incarnation: str, wake: Wake) -> bool:
        """Tell a drone process that a control waits for one of its orders."""
        return self._send([(control_channel(incarnation, self._prefix), to_json(wake))])

    def report_status(self, order: WorkOrder, why: str = "") -> None:
        """Report a status that this process gave to the order: to Celery's monitors, see `TaskEvents.report`, and to
        the metrics of this process."""
        if self.metrics is not None:
            self.metrics.status_changed(order)
        if self._tasks is not None:
            self._tasks.report(order, why)

    def taken_over(self, orders: int) -> None:
        """Count orders of lost drones that this process queued again."""
        if self.metrics is not None:
            self.metrics.taken_over(orders)

    def close(self) -> None:
        if self._tasks is not None:
            self._tasks.close()
        self._redis.close()

    def _send(self, pairs: list[tuple[str, bytes]]) -> bool:
        if not pairs or self._pause.lasts():
            return False
        try:
            with self._redis.pipeline(transaction=False) as pipeline:
                # A replica would take what follows as well, and tell only its own subscribers.
                pipeline.delete(probe_key(self._prefix))
                for channel, payload in pairs:
                    pipeline.publish(channel, payload)
                pipeline.execute()
        except FOREIGN:
            self._pause.begin()
            return False
        return True


class AsyncPublisher:
    """Like `Publisher`, for an event loop."""

    metrics: WorkMetrics | None = None

    def __init__(
        self,
        redis: RedisAt,
        tasks: TaskEvents | None = None,
        *,
        seconds: float = 0.5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._prefix = redis.prefix
        probe = probe_key(redis.prefix).encode()
        self._probe = _DELETE % (len(probe), probe)
        self._redis = connect_async(redis, seconds=seconds)
        self._seconds = seconds
        self._tasks = tasks
        self._pause = _Pause(clock)
        self._spare: list[AbstractConnection] = []
        """Idle connections."""

    async def publish(self, messages: Iterable[Message]) -> bool:
        return await self._send(list(payloads(messages, self._prefix)))

    async def wake(self, incarnation: str, wake: Wake) -> bool:
        return await self._send([(control_channel(incarnation, self._prefix), to_json(wake))])

    async def call(self, incarnations: Iterable[str]) -> bool:
        """Tell these drone processes that claimable orders wait."""
        payload = to_json(OrdersWait())
        return await self._send([(control_channel(one, self._prefix), payload) for one in incarnations])

    def report_status(self, order: WorkOrder, why: str = "") -> None:
        """Report a status that this process gave to the order: to Celery's monitors, see `TaskEvents.report`, and to
        the metrics of this process."""
        if self.metrics is not None:
            self.metrics.status_changed(order)
        if self._tasks is not None:
            self._tasks.report(order, why)

    async def close(self) -> None:
        if self._tasks is not None:
            await asyncio.to_thread(self._tasks.close)
        await self._redis.aclose()

    async def _send(self, pairs: list[tuple[str, bytes]]) -> bool:
        if not pairs or self._pause.lasts():
            return False
        try:
            await self._write(pairs)
        except FOREIGN:
            self._pause.begin()
            return False
        return True

    async def _write(self, pairs: Sequence[tuple[str, bytes]]) -> None:
        """Send all commands at once, then read the replies. A redis-py pipeline does the same with far more CPU.

        A probe comes first: a replica would take the rest as well, and tell only its own subscribers.
        """
        named = ((channel.encode(), payload) for channel, payload in pairs)
        publishing = (_PUBLISH % (len(channel), channel, len(payload), payload) for channel, payload in named)
        commands = [self._probe, *publishing]
        pool = self._redis.connection_pool
        # Connections stay in `_spare` instead of going back to the pool, whose bookkeeping takes longer than the
        # sending. Sending fails on a connection that was closed meanwhile, and `call_with_retry` then sends again.
        connection = self._spare.pop() if self._spare else await pool.get_connection()
        try:
            await connection.retry.call_with_retry(
                lambda: _published(connection, commands, self._seconds), lambda _: connection.disconnect(nowait=True)
            )
        except BaseException:
            # Unread replies would be taken for those of the next commands.
            await connection.disconnect(nowait=True)
            await pool.release(connection)
            raise
        self._spare.append(connection)


async def _published(connection: AbstractConnection, commands: Sequence[bytes], seconds: float) -> None:
    """Send all commands over one connection, and read their replies. Raises redis-py's errors.

    One timeout covers all replies, because a timeout for each costs more CPU than reading the reply.
    """
    assert isinstance(connection, AsyncGuarded)
    await connection.send_packed_command(b"".join(commands))
    try:
        with connection.judged():
            async with asyncio.timeout(seconds):
                # redis-py reads one reply after another, which takes longer than sending the messages.
                await _read_replies(connection._reader, len(commands))
    except TimeoutError as silence:
        raise RedisTimeout(f"no answer within {seconds:g} s") from silence


async def _read_replies(reader: asyncio.StreamReader | None, commands: int) -> None:
    """Read and check the replies to so many DEL and PUBLISH commands: numbers. Raises redis-py's errors."""
    if reader is None:
        raise RedisAway("the connection to Redis was closed")
    received = b""
    while received.count(b"\r\n") < commands:
        piece = await reader.read(_READ_BYTES)
        if not piece:
            raise RedisAway("Redis has closed the connection")
        received += piece
    lines = received.split(b"\r\n")
    if refused := next((line for line in lines if line.startswith(b"-")), None):
        raise ResponseError(refused[1:].decode(errors="replace"))
    if len(lines) != commands + 1 or lines[-1] or not all(line.startswith(b":") for line in lines[:-1]):
        raise RedisAway("Redis has answered something else")
