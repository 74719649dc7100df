"""Kombu's Redis transport with bounds: no message from a stranger can end a worker or fill its memory."""

from collections.abc import Callable
from functools import partial
from queue import Empty
from typing import Any

import structlog
from kombu.connection import Connection
from kombu.transport import redis, virtual

from mcc.dispatch import transport

log = structlog.get_logger("drone.redis_transport")

LOGGED_CHARACTERS = 300
RECONNECTING = {"interval_start": 0.5, "interval_step": 0.5, "interval_max": 2.0}
"""Seconds between tries to reconnect; kombu's own grow to thirty."""

MAX_MESSAGE_BYTES = 1024 * 1024
"""Our own messages have about 1 KB, and the events of Celery's workers some hundred."""


class UnreadableMessage(Exception):
    """A message that is dropped without being parsed."""


class PlainMessage(virtual.Message):
    """Kombu's message, except that compressed ones are refused: ours are never compressed, and 300 KB may decompress to
    a gigabyte."""

    def __init__(self, payload: Any, channel: Any = None, **more: Any) -> None:
        if (payload.get("headers") or {}).get("compression"):
            raise UnreadableMessage("it is compressed")
        super().__init__(payload, channel, **more)  # type: ignore[no-untyped-call]


class BoundedRedis(redis.PrefixedStrictRedis):
    """Kombu's client, except that it drops a message that is too large before parsing it."""

    def parse_response(self, connection: Any, command_name: str, **options: Any) -> Any:
        answer = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        if command_name == "BRPOP" and answer and len(answer[1]) > MAX_MESSAGE_BYTES:
            raise UnreadableMessage(f"it has {len(answer[1]):,} bytes")
        return answer


class QoS(virtual.QoS):
    """Keeps unacknowledged messages in this process only, and returns them to their queue when the process ends in good
    order. Kombu's own class for Redis stores them in Redis as well, at two more commands per message, and redelivers
    them a day later; by then a sweep has long nudged again for the order (docs/decisions/01).

    A message that cannot be returned is dropped: a half-closed connection has no address any more, and asking for it
    would end the worker.
    """

    def restore_unacked(self) -> None:
        if problems := super().restore_unacked():  # type: ignore[no-untyped-call]
            log.warning("messages could not be returned", problem=repr(problems[0][0])[:LOGGED_CHARACTERS])


class WorkerChannel(transport.Channel):
    """Kombu's channel, except that it drops an unreadable message: requeued, it would end the next worker as well."""

    Message = PlainMessage
    ack_emulation = False

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)  # type: ignore[no-untyped-call]
        # Set after kombu's constructor, which assigns its own QoS to every channel without `ack_emulation`.
        self.QoS = QoS  # type: ignore[assignment]

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
        """A pub/sub message, with empty data if it is too large."""
        message = super()._handle_message(client, response)  # type: ignore[no-untyped-call]
        if isinstance(message["data"], bytes | str) and len(message["data"]) > MAX_MESSAGE_BYTES:
            self._drop(UnreadableMessage(f"it has {len(message['data']):,} bytes"))
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
            # As if nothing had come: kombu goes on with the next message.
            raise Empty from problem

    def _drop(self, problem: Exception) -> None:
        log.warning("an unreadable message was dropped", problem=repr(problem)[:LOGGED_CHARACTERS])
        self.connection.client.refused()

    def _broker_errors(self) -> tuple[type[Exception], ...]:
        """Errors of the connection, upon which Celery reconnects. Kombu lists KeyError among them, but messages raise
        it as well."""
        errors = (*self.connection.connection_errors, *self.connection.channel_errors)
        return tuple(error for error in errors if error is not KeyError)


class WorkerSentinelChannel(WorkerChannel, transport.SentinelChannel):
    """The same for a master that Sentinels watch."""


class WorkerTransport(transport.Transport):
    Channel = WorkerChannel


class WorkerSentinelTransport(transport.SentinelTransport):
    Channel = WorkerSentinelChannel


class WorkerConnection(transport.BrokerConnection):
    """Kombu's connection, except that it reconnects after a long outage as quickly as after a short one.

    `refused` is called for each message that cannot be read. Copies of the connection only send, and need none.
    """

    transports = WorkerTransport, WorkerSentinelTransport

    def __init__(self, *arguments: Any, refused: Callable[[], None] = lambda: None, **more: Any) -> None:
        super().__init__(*arguments, **more)  # type: ignore[no-untyped-call]
        self.refused = refused

    def ensure_connection(self, errback: Any = None, max_retries: int | None = None, **more: Any) -> Connection:
        super().ensure_connection(errback, max_retries, **{**more, **RECONNECTING})  # type: ignore[no-untyped-call]
        return self


class WorkerMessaging(transport.Messaging):
    """Celery's `amqp` with `WorkerConnection`; the application counts the messages that it drops."""

    connection_type = WorkerConnection

    @property
    def Connection(self) -> Callable[..., WorkerConnection]:
        return partial(self.connection_type, refused=self.app.message_refused)
