"""Subscriptions to Redis pub/sub, looked after: where the server is not the master any more, they are opened anew."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import ResponseError

from mcc.contracts.ids import fresh_id
from mcc.contracts.wire import listener_channel, probe_key
from mcc.dispatch.guarded import WrongServer
from mcc.dispatch.sweep import boot_seconds

PING_SECONDS = 5.0
SILENT_SECONDS = 12.0
"""A subscription that has not answered a ping for this long is replaced."""


class Hearing:
    """One subscription. `next` raises redis-py's errors, `WrongServer` among them, or `TimeoutError` once nothing
    arrives here any more; the caller then opens another."""

    def __init__(self, client: Redis, pubsub: PubSub, prefix: str, *, ping_seconds: float = PING_SECONDS) -> None:
        self.pubsub = pubsub
        self._client = client
        self._probe = probe_key(prefix)
        self._own = listener_channel(fresh_id(), prefix)
        self._ping_seconds = ping_seconds
        self._heard = self._pinged = boot_seconds()

    async def begin(self, channels: Iterable[str]) -> None:
        # A channel of its own too: whether the master knows this subscription can then be asked by its number of
        # subscribers.
        await self.pubsub.subscribe(self._own, *channels)

    async def next(self, seconds: float) -> dict[str, Any] | None:
        """The next message of a channel, or the answer to its subscription; None when none comes within `seconds`."""
        message: dict[str, Any] | None = await self.pubsub.get_message(timeout=seconds)
        now = boot_seconds()
        if message is not None:
            self._heard = now
        # A connection that was cut without a word looks like one on which nothing happens.
        if now - self._heard > SILENT_SECONDS:
            raise TimeoutError(f"nothing heard for {SILENT_SECONDS:g} s")
        if now - self._pinged >= self._ping_seconds:
            self._pinged = now
            await self.pubsub.ping()
            await self._check_master()
        if message is None or message["type"] == "pong" or message["channel"] in (self._own, self._own.encode()):
            return None
        return message

    async def _check_master(self) -> None:
        """Raise `WrongServer` unless the master has this subscription: whoever publishes does it there."""
        await self._client.delete(self._probe)
        try:
            answer: Any = await self._client.pubsub_numsub(self._own)
        except ResponseError:
            return  # The account may not ask, or a proxy does not know the command.
        if not int(list(answer[0])[1]):
            raise WrongServer("this subscription is at another server than the master")


@asynccontextmanager
async def hearing(
    client: Redis, prefix: str, channels: Iterable[str], *, ping_seconds: float = PING_SECONDS
) -> AsyncIterator[Hearing]:
    """A subscription to these channels of the master that `client` reaches."""
    async with client.pubsub() as pubsub:
        made = Hearing(client, pubsub, prefix, ping_seconds=ping_seconds)
        await made.begin(channels)
        yield made
