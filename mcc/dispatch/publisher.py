"""Messages on Redis pub/sub: an order reached an entry, a text grew, a control waits; any of them may be lost."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from mcc.contracts.shape import to_json
from mcc.contracts.wire import STATUS_CHANNEL, Delta, Hint, Wake, control_channel, order_channel
from mcc.dispatch.broker import FOREIGN, connect, connect_async

Message: TypeAlias = Hint | Delta

PAUSE_SECONDS = 1.0
"""After a failure nothing is sent for this long, so that no caller waits for a Redis that is away."""


def payloads(messages: Iterable[Message]) -> Iterator[tuple[str, bytes]]:
    """Channel and payload of each; a hint with a status goes to the channel of all statuses as well."""
    for message in messages:
        payload = to_json(message)
        yield order_channel(message.order_id), payload
        if isinstance(message, Hint) and message.status is not None:
            yield STATUS_CHANNEL, payload


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

    def __init__(self, redis_url: str, *, seconds: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = connect(redis_url, seconds=seconds)
        self._pause = _Pause(clock)

    def publish(self, messages: Iterable[Message]) -> bool:
        return self._send(list(payloads(messages)))

    def wake(self, incarnation: str, wake: Wake) -> bool:
        """Let a drone process look for the control that waits for an order of its."""
        return self._send([(control_channel(incarnation), to_json(wake))])

    def close(self) -> None:
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

    def __init__(self, redis_url: str, *, seconds: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = connect_async(redis_url, seconds=seconds)
        self._pause = _Pause(clock)

    async def publish(self, messages: Iterable[Message]) -> bool:
        return await self._send(list(payloads(messages)))

    async def wake(self, incarnation: str, wake: Wake) -> bool:
        return await self._send([(control_channel(incarnation), to_json(wake))])

    async def close(self) -> None:
        await self._redis.aclose()

    async def _send(self, pairs: list[tuple[str, bytes]]) -> bool:
        if not pairs or self._pause.lasts():
            return False
        try:
            async with self._redis.pipeline(transaction=False) as pipeline:
                for channel, payload in pairs:
                    pipeline.publish(channel, payload)
                await pipeline.execute()
        except FOREIGN:
            self._pause.begin()
            return False
        return True
