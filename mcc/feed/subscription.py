"""The subscription to Redis pub/sub: one connection per process for all watched orders, renewed when it breaks."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pydantic import ValidationError
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from mcc.contracts.wire import (
    ENTRY_BEGINS,
    KEY_PREFIX,
    Delta,
    Hint,
    InboxMoved,
    Progress,
    order_channel,
    status_channel,
)
from mcc.dispatch.broker import RedisAt, connect_async
from mcc.dispatch.hearing import PING_SECONDS, hearing

LONGEST_WAIT_SECONDS = 2.0

Transient: TypeAlias = Delta | Progress | InboxMoved

TRANSIENT: Mapping[object, type[Transient]] = {"delta": Delta, "progress": Progress, "inbox": InboxMoved}
"""Messages that are never stored in a journal, by their `type`."""

Connect = Callable[[], "Redis"]

log = logging.getLogger(__name__)


def connector(at: RedisAt) -> Connect:
    """Answers a factory of clients that give up within 2 s.

    The clients do not retry: after an error, `Subscription.run` makes a new client and subscribes anew.
    """
    return lambda: connect_async(at, seconds=2.0, retries=0)


class Subscription:
    """Passes messages about watched orders to callbacks, which must not block. `connected`: whether hints arrive now.

    `subscribed` is called with an order's id once its messages arrive; earlier ones may have been missed.
    """

    def __init__(
        self,
        connect: Connect,
        hint: Callable[[Hint], None],
        delta: Callable[[Transient], None],
        subscribed: Callable[[str], None],
        *,
        ping_seconds: float = PING_SECONDS,
        prefix: str = KEY_PREFIX,
    ) -> None:
        self.connected = False
        self._connect = connect
        self._hint = hint
        self._delta = delta
        self._subscribed = subscribed
        self._ping_seconds = ping_seconds
        self._prefix = prefix
        self._status = status_channel(prefix)
        self._watched: set[str] = set()
        self._pubsub: PubSub | None = None
        self._changes: set[asyncio.Task[None]] = set()

    def watch(self, order_id: str) -> None:
        self._watched.add(order_id)
        if self.connected:
            self._change(order_id, subscribe=True)

    def leave(self, order_id: str) -> None:
        self._watched.discard(order_id)
        if self.connected:
            self._change(order_id, subscribe=False)

    async def run(self) -> None:
        """Listen until cancelled. Reconnects with a backoff from 0.05 s to `LONGEST_WAIT_SECONDS`."""
        wait = 0.05
        while True:
            try:
                await self._session()
            except (RedisError, OSError, TimeoutError) as error:
                # Once per outage: every further attempt would log the same.
                if self.connected or wait < 0.1:
                    log.warning("no hints from Redis (%s); the database is asked instead", error)
            # A fault in here must not end the stream of hints for good, nor the other parts of the service.
            except Exception:
                log.exception("listening to Redis broke; the database is asked until it is tried again")
            wait = 0.05 if self.connected else min(wait * 2, LONGEST_WAIT_SECONDS)
            self.connected = False
            await asyncio.sleep(wait)

    async def _session(self) -> None:
        client = self._connect()
        try:
            channels = [self._status, *(order_channel(order_id, self._prefix) for order_id in self._watched)]
            async with hearing(client, self._prefix, channels, ping_seconds=self._ping_seconds) as opened:
                self._pubsub = opened.pubsub
                while True:
                    if (message := await opened.next(self._ping_seconds)) is not None:
                        self._take(message)
        finally:
            self._pubsub = None
            await client.aclose()

    def _take(self, message: dict[str, Any]) -> None:
        channel = _text(message["channel"])
        match message["type"]:
            case "subscribe" if channel == self._status:
                self.connected = True
                # Again, although the connection began with these channels: orders that were joined while it opened are
                # not among them.
                for order_id in self._watched:
                    self._change(order_id, subscribe=True)
            case "subscribe":
                self._subscribed(channel.rpartition(":")[2])
            case "message":
                self._read(message["data"])

    def _read(self, data: bytes) -> None:
        """Pass on a hint or a delta. Entries are ignored, since the feed reads them from the database; anything else is
        logged and dropped."""
        # By the first bytes, without parsing: entries are most of what comes, and the longest.
        if data.startswith(ENTRY_BEGINS):
            return
        try:
            message = json.loads(data)
            if (transient := TRANSIENT.get(message.get("type"))) is not None:
                self._delta(transient.model_validate(message))
            else:
                self._hint(Hint.model_validate(message))
        except (ValueError, AttributeError, ValidationError, RecursionError) as error:
            log.warning("a message on Redis was not understood: %s", type(error).__name__)

    def _change(self, order_id: str, *, subscribe: bool) -> None:
        if self._pubsub is None:
            return
        change = self._pubsub.subscribe if subscribe else self._pubsub.unsubscribe
        # `watch` is called where nothing may be awaited; the set keeps the task, of which asyncio holds only a weak
        # reference.
        task = asyncio.create_task(self._send(change(order_channel(order_id, self._prefix))))
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)

    async def _send(self, command: Any) -> None:
        try:
            await command
        except (RedisError, OSError, TimeoutError):
            # The session notices the same break, and renews every subscription.
            log.debug("a subscription could not be sent; it is made again with the next connection")


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
