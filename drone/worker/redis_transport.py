"""Kombu's Redis transport within bounds: no message that a stranger sends ends a worker, or fills its memory."""

from collections.abc import Callable
from functools import partial
from queue import Empty
from typing import Any

import structlog
from celery.app.amqp import AMQP
from kombu.connection import Connection
from kombu.transport import redis, virtual

log = structlog.get_logger("drone.redis_transport")

LOGGED_CHARACTERS = 300
RECONNECTING = {"interval_start": 0.5, "interval_step": 0.5, "interval_max": 2.0}
"""Seconds between tries; kombu's own grow to thirty."""


MAX_MESSAGE_BYTES = 1024 * 1024
"""Ours have about one KB, and what Celery's workers tell of themselves some hundred."""


class Unacceptable(Exception):
    """A message that is not even looked into."""


class Message(virtual.Message):
    """As kombu's own, except that nothing is decompressed: ours never need it, and 300 KB may become a gigabyte."""

    def __init__(self, payload: Any, channel: Any = None, **more: Any) -> None:
        if (payload.get("headers") or {}).get("compression"):
            raise Unacceptable("it is compressed")
        super().__init__(payload, channel, **more)  # type: ignore[no-untyped-call]


class BoundedRedis(redis.PrefixedStrictRedis):
    """Kombu's client, except that a message that is too large is thrown away before it is parsed."""

    def parse_response(self, connection: Any, command_name: str, **options: Any) -> Any:
        answer = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        if command_name == "BRPOP" and answer and len(answer[1]) > MAX_MESSAGE_BYTES:
            raise Unacceptable(f"it has {len(answer[1]):,} bytes")
        return answer


class QoS(virtual.QoS):
    """What was delivered and is not acknowledged yet is known to this process alone, and given back when it ends in
    order. Kombu's own for Redis keeps it there as well, which is two questions more for each message; a day later it
    would be delivered again, when sweeps have long nudged anew for its order (docs/decisions/01).

    What cannot be given back is let go: a connection that is half closed has no address any more, and asking it for
    one would end the worker.
    """

    def restore_unacked(self) -> None:
        if problems := super().restore_unacked():  # type: ignore[no-untyped-call]
            log.warning("messages could not be given back", problem=repr(problems[0][0])[:LOGGED_CHARACTERS])


class Channel(redis.Channel):
    """As kombu's own, except that an unreadable message is dropped: restored, it would end the next worker as well."""

    Message = Message
    ack_emulation = False
    _kept: BoundedRedis | None = None

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)  # type: ignore[no-untyped-call]
        # Kombu's names its own for each channel that keeps nothing in Redis.
        self.QoS = QoS  # type: ignore[assignment]

    def _create_client(self, asynchronous: bool = False) -> Any:
        """The same client for every short command: kombu makes one for each, which takes longer than the command."""
        if asynchronous:
            return super()._create_client(asynchronous=True)  # type: ignore[no-untyped-call]
        if self._kept is None or self._kept.connection_pool is not self.pool:
            self._kept = super()._create_client()  # type: ignore[no-untyped-call]
        return self._kept

    @property
    def _refused(self) -> Callable[[], None]:
        """To be called for every message that is dropped."""
        refused: Callable[[], None] = self.connection.client.refused
        return refused

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Callable[[Any], Any], consumer_tag: str, **more: Any
    ) -> None:
        def guarded(message: Any) -> Any:
            try:
                return callback(message)
            except self._broker_errors():
                raise
            except Exception as problem:
                self._drop(problem)
                if not no_ack and not message.acknowledged:
                    message.reject()
                return None

        super().basic_consume(queue, no_ack, guarded, consumer_tag, **more)  # type: ignore[no-untyped-call]

    def _brpop_read(self, **options: Any) -> Any:
        return self._read(super()._brpop_read, **options)

    def _receive(self) -> Any:
        return self._read(super()._receive)

    def _handle_message(self, client: Any, response: Any) -> Any:
        """A message of a channel, whose text is left out when it is too large."""
        message = super()._handle_message(client, response)  # type: ignore[no-untyped-call]
        if isinstance(message["data"], bytes | str) and len(message["data"]) > MAX_MESSAGE_BYTES:
            self._drop(Unacceptable(f"it has {len(message['data']):,} bytes"))
            message["data"] = b""
        return message

    def _get_client(self) -> Callable[..., BoundedRedis]:
        return partial(BoundedRedis, global_keyprefix=self.global_keyprefix)

    def _read(self, read: Callable[..., Any], **options: Any) -> Any:
        try:
            return read(**options)
        except Empty:
            raise
        except self._broker_errors():
            raise
        except Exception as problem:
            self._drop(problem)
            raise Empty from problem

    def _drop(self, problem: Exception) -> None:
        log.warning("an unreadable message was dropped", problem=repr(problem)[:LOGGED_CHARACTERS])
        self._refused()

    def _broker_errors(self) -> tuple[type[Exception], ...]:
        """What tells of the connection, so that Celery connects anew; kombu counts KeyError, which messages cause."""
        errors = (*self.connection.connection_errors, *self.connection.channel_errors)
        return tuple(error for error in errors if error is not KeyError)


class Transport(redis.Transport):
    Channel = Channel


class BrokerConnection(Connection):
    """Kombu's, except that a broker that was away for long is found again as soon as one that was away for a moment.

    `refused` is called for each message that cannot be read; copies of the connection, which only send, need none.
    """

    def __init__(self, *arguments: Any, refused: Callable[[], None] = lambda: None, **more: Any) -> None:
        super().__init__(*arguments, **more)  # type: ignore[no-untyped-call]
        self.refused = refused

    def ensure_connection(self, errback: Any = None, max_retries: int | None = None, **more: Any) -> Connection:
        super().ensure_connection(errback, max_retries, **{**more, **RECONNECTING})  # type: ignore[no-untyped-call]
        return self

    def get_transport_cls(self) -> type[Transport]:
        return Transport


class Messaging(AMQP):  # type: ignore[misc]
    """Celery's `amqp` with connections of its own type; what they drop is counted by the application."""

    connection_type = BrokerConnection
    """An application that wants others, a drone under test for one, names them in a class of its own."""

    @property
    def Connection(self) -> Callable[..., BrokerConnection]:
        return partial(self.connection_type, refused=self.app.message_refused)
