"""kombu's Redis transport over connections that leave a server which is not the master any more."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from celery import Celery
from celery.app.amqp import AMQP
from kombu.connection import Connection, ConnectionPool
from kombu.pools import ProducerPool
from kombu.transport import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry

from mcc.contracts.wire import probe_key
from mcc.dispatch.guarded import Guarded, Trust
from mcc.dispatch.master_search import SentinelGuarded

SENTINEL = "sentinel"


class Channel(redis.Channel):
    """A channel with guarded connections. What it sends to all is sent by a master: a replica would take it too, and
    tell nobody but its own subscribers."""

    guard: type[Guarded] = Guarded
    _kept: Any = None

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        options: dict[str, Any] = super()._connparams(asynchronous)  # type: ignore[no-untyped-call]
        kind = options["connection_class"]
        # Made of what kombu chose: TCP, TLS or a socket, as the address says.
        options["connection_class"] = type("Link", (self.guard, kind), {})
        return {**options, "trust": Trust(), "retry": Retry(NoBackoff(), 1)}

    def _create_client(self, asynchronous: bool = False) -> Any:
        """One client for all short commands: kombu creates one per command, which takes longer than the command."""
        if asynchronous:
            return super()._create_client(asynchronous=True)  # type: ignore[no-untyped-call]
        if self._kept is None or self._kept.connection_pool is not self.pool:
            self._kept = super()._create_client()  # type: ignore[no-untyped-call]
        return self._kept

    def _put_fanout(self, exchange: str, message: Any, routing_key: str, **more: Any) -> None:
        # An account that only listens and asks may write nothing. The prefix is added by kombu.
        with self.conn_or_acquire() as client, suppress(NoPermissionError):
            client.delete(probe_key(""))
        super()._put_fanout(exchange, message, routing_key, **more)  # type: ignore[no-untyped-call]


class SentinelChannel(Channel, redis.SentinelChannel):
    """The same for a master that Sentinels watch."""

    guard = SentinelGuarded


class Transport(redis.Transport):
    Channel = Channel


class SentinelTransport(redis.SentinelTransport):
    Channel = SentinelChannel


class BrokerConnection(Connection):
    """kombu's connection, with these transports."""

    transports: tuple[type[Transport], type[SentinelTransport]] = (Transport, SentinelTransport)

    def get_transport_cls(self) -> type[redis.Transport]:
        return self.transports[self.transport_cls == SENTINEL]


class Messaging(AMQP):  # type: ignore[misc]
    """Celery's `amqp` with `BrokerConnection`."""

    connection_type: type[BrokerConnection] = BrokerConnection
    """A subclass can name another type."""

    _producer_pool: ProducerPool | None

    @property
    def Connection(self) -> Callable[..., BrokerConnection]:
        return partial(self.connection_type)

    @property
    def producer_pool(self) -> ProducerPool:
        if self._producer_pool is None:
            self._producer_pool = ProducerPool(self.app.pool, limit=self.app.pool.limit)
        return self._producer_pool


class OwnConnections(ConnectionPool):
    """A pool of copies of one connection; kombu's own pools make stock connections instead."""

    def new(self) -> Connection:
        copy: Connection = self.connection.clone()
        return copy


class App(Celery):  # type: ignore[misc]
    """A Celery application over such connections."""

    amqp_cls = Messaging
    _pool: OwnConnections | None

    @property
    def pool(self) -> OwnConnections:
        if self._pool is None:
            self._pool = OwnConnections(self.connection_for_write(), limit=self.conf.broker_pool_limit)  # type: ignore[no-untyped-call]
        return self._pool
