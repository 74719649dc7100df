"""Messages on Redis pub/sub: what was committed, a text grew, a control waits, a drone is there; any may be lost.

What an order's status is, Celery's monitors are told as well.
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
    STATUS_CHANNEL,
    Delta,
    DroneBeat,
    Hint,
    OrdersWait,
    Progress,
    Wake,
    control_channel,
    drone_channel,
    entry_message,
    order_channel,
)
from mcc.dispatch.broker import FOREIGN, connect, connect_async
from mcc.dispatch.task_events import TaskEvents
from mcc.store.store import Store


class Packed(NamedTuple):
    """A message as it is sent, whose object need not be kept while it waits."""

    channel: str
    payload: bytes


Message: TypeAlias = Entry | Hint | Delta | Progress | DroneBeat | Packed

PAUSE_SECONDS = 1.0
"""After a failure nothing is sent for this long, so that no caller waits for a Redis that is away."""


def payloads(messages: Iterable[Message]) -> Iterator[tuple[str, bytes]]:
    """Channel and payload of each; a hint with a status goes to the channel of all statuses as well."""
    for message in messages:
        match message:
            case Packed():
                yield message
            case Entry():
                yield packed(message)
            case DroneBeat():
                yield drone_channel(message.drone), to_json(message)
            case _:
                payload = to_json(message)
                yield order_channel(message.order_id), payload
                if isinstance(message, Hint) and message.status is not None:
                    yield STATUS_CHANNEL, payload


def packed(entry: Entry) -> Packed:
    """What is sent of a committed entry, at most about 16 KB."""
    return Packed(order_channel(entry.order_id), entry_message(entry))


_MOST_BYTES = 65_536
"""Of answers that are read at once."""

NEWEST = 10
"""At most so many entries are written when an order is moved that no drone runs, but for the closing of many agents."""


def newest(store: Store, order: WorkOrder) -> Sequence[Entry]:
    """The last entries of an order that was moved without a drone; some of them may have been told before."""
    if order.status is OrderStatus.RUNNING:
        return ()
    return list(store.journal.read(order.id, after=max(order.last_seq - NEWEST, 0), limit=NEWEST))


def moved(order: WorkOrder) -> Hint:
    """What tells viewers that an order has come to its status."""
    return Hint(order_id=order.id, seq=order.last_seq, status=order.status.value)


class _Pause:
    """The time after a failure in which nothing is sent."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = 0.0

    def lasts(self) -> bool:
        return self._clock() < self._until

    def begin(self) -> None:
        self._until = self._clock() + PAUSE_SECONDS


class Publisher:
    """For threads. Nothing here raises; each call ends within about twice `seconds`; True means that it was sent."""

    def __init__(
        self,
        redis_url: str,
        tasks: TaskEvents | None = None,
        *,
        seconds: float = 0.5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._redis = connect(redis_url, seconds=seconds)
        self._tasks = tasks
        self._pause = _Pause(clock)

    def publish(self, messages: Iterable[Message]) -> bool:
        return self._send(list(payloads(messages)))

    def wake(self, incarnation: str, wake: Wake) -> bool:
        """Let a drone process look for the control that waits for an order of its."""
        return self._send([(control_channel(incarnation), to_json(wake))])

    def tell(self, order: WorkOrder, why: str = "") -> None:
        """Let Celery's monitors know the status to which this order has come; see `TaskEvents.tell`."""
        if self._tasks is not None:
            self._tasks.tell(order, why)

    def close(self) -> None:
        if self._tasks is not None:
            self._tasks.close()
        self._redis.close()

    def _send(self, pairs: list[tuple[str, bytes]]) -> bool:
        if not pairs or self._pause.lasts():
            return False
        try:
            with self._redis.pipeline(transaction=False) as pipeline:
                for channel, payload in pairs:
                    pipeline.publish(channel, payload)
                pipeline.execute()
        except FOREIGN:
            self._pause.begin()
            return False
        return True


class AsyncPublisher:
    """As `Publisher`, for an event loop."""

    def __init__(
        self,
        redis_url: str,
        tasks: TaskEvents | None = None,
        *,
        seconds: float = 0.5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._redis = connect_async(redis_url, seconds=seconds)
        self._seconds = seconds
        self._tasks = tasks
        self._pause = _Pause(clock)
        self._spare: list[AbstractConnection] = []
        """Connections that nobody uses just now."""

    async def publish(self, messages: Iterable[Message]) -> bool:
        return await self._send(list(payloads(messages)))

    async def wake(self, incarnation: str, wake: Wake) -> bool:
        return await self._send([(control_channel(incarnation), to_json(wake))])

    async def call(self, incarnations: Iterable[str]) -> bool:
        """Let these drone processes look for orders that they can claim."""
        payload = to_json(OrdersWait())
        return await self._send([(control_channel(one), payload) for one in incarnations])

    def tell(self, order: WorkOrder, why: str = "") -> None:
        """Let Celery's monitors know the status to which this order has come; see `TaskEvents.tell`."""
        if self._tasks is not None:
            self._tasks.tell(order, why)

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
        """All of them at once, then their answers: a fraction of the work of a pipeline, which can do more than is
        needed."""
        pool = self._redis.connection_pool
        # Kept, and not given back: that the pool counts and looks after it took longer than what is sent. One that was
        # closed meanwhile is found out by what is sent, which is sent again then.
        connection = self._spare.pop() if self._spare else await pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.retry.call_with_retry(
                lambda: _published(connection, pairs, self._seconds), lambda _: connection.disconnect(nowait=True)
            )
        except BaseException:
            # Answers that nobody has read would be taken for those of the next messages.
            await connection.disconnect(nowait=True)
            await pool.release(connection)
            raise
        self._spare.append(connection)


async def _published(connection: AbstractConnection, pairs: Sequence[tuple[str, bytes]], seconds: float) -> None:
    """Raises what redis-py does. One limit for all answers: one for each costs more than the answer."""
    await connection.send_packed_command(b"".join(_command(channel.encode(), payload) for channel, payload in pairs))
    try:
        async with asyncio.timeout(seconds):
            await _counted(connection._reader, len(pairs))
    except TimeoutError as silence:
        raise RedisTimeout(f"no answer within {seconds:g} s") from silence


async def _counted(reader: asyncio.StreamReader | None, commands: int) -> None:
    """The answers to so many commands: how many heard each, which nobody wants to know. Raises what redis-py does."""
    if reader is None:
        raise RedisAway("the connection to Redis was closed")
    found = b""
    while found.count(b"\r\n") < commands:
        piece = await reader.read(_MOST_BYTES)
        if not piece:
            raise RedisAway("Redis has closed the connection")
        found += piece
    lines = found.split(b"\r\n")
    if refused := next((line for line in lines if line.startswith(b"-")), None):
        raise ResponseError(refused[1:].decode(errors="replace"))
    if len(lines) != commands + 1 or lines[-1] or not all(line.startswith(b":") for line in lines[:-1]):
        raise RedisAway("Redis has answered something else")


def _command(channel: bytes, payload: bytes) -> bytes:
    """PUBLISH as Redis reads it."""
    return b"*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(channel), channel, len(payload), payload)
