"""This room is for hints on Redis pub/sub: an order reached a number, a text grew, a control waits. All may be lost."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from mcc.contracts.shape import to_json
from mcc.contracts.wire import STATUS_CHANNEL, Delta, Hint, Wake, control_channel, order_channel
from mcc.dispatch.connection import connect, connect_async
from mcc.dispatch.errors import FOREIGN

Told: TypeAlias = Hint | Delta
PAUSE_SECONDS = 1.0
"""After a failure nothing is tried for this long: whoever tells must not wait for a Redis that is away."""


def messages(told: Iterable[Told]) -> Iterator[tuple[str, bytes]]:
    """Channel and payload of each; a hint with a status goes to the channel of all statuses as well."""
    for item in told:
        payload = to_json(item)
        yield order_channel(item.order_id), payload
        if isinstance(item, Hint) and item.status is not None:
            yield STATUS_CHANNEL, payload


class _Patience:
    """Remembers a failure for a moment."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = 0.0

    def over(self) -> bool:
        return self._clock() < self._until

    def failed(self) -> None:
        self._until = self._clock() + PAUSE_SECONDS


class Hints:
    """Tells from threads. Nothing here raises; each call ends within about twice `seconds`; True means it was sent."""

    def __init__(self, redis_url: str, *, seconds: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = connect(redis_url, seconds=seconds)
        self._patience = _Patience(clock)

    def tell(self, told: Iterable[Told]) -> bool:
        return self._publish(list(messages(told)))

    def wake(self, incarnation: str, wake: Wake) -> bool:
        """Tell a drone process that a control waits for an order which it runs."""
        return self._publish([(control_channel(incarnation), to_json(wake))])

    def close(self) -> None:
        self._redis.close()

    def _publish(self, payloads: list[tuple[str, bytes]]) -> bool:
        if not payloads or self._patience.over():
            return False
        try:
            with self._redis.pipeline(transaction=False) as pipeline:
                for channel, payload in payloads:
                    pipeline.publish(channel, payload)
                pipeline.execute()
        except FOREIGN:
            self._patience.failed()
            return False
        return True


class AsyncHints:
    """As `Hints`, on an event loop."""

    def __init__(self, redis_url: str, *, seconds: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = connect_async(redis_url, seconds=seconds)
        self._patience = _Patience(clock)

    async def tell(self, told: Iterable[Told]) -> bool:
        return await self._publish(list(messages(told)))

    async def wake(self, incarnation: str, wake: Wake) -> bool:
        return await self._publish([(control_channel(incarnation), to_json(wake))])

    async def close(self) -> None:
        await self._redis.aclose()

    async def _publish(self, payloads: list[tuple[str, bytes]]) -> bool:
        if not payloads or self._patience.over():
            return False
        try:
            async with self._redis.pipeline(transaction=False) as pipeline:
                for channel, payload in payloads:
                    pipeline.publish(channel, payload)
                await pipeline.execute()
        except FOREIGN:
            self._patience.failed()
            return False
        return True
