"""The service as a process: checks before it starts, its HTTP connections, its background threads, its shutdown."""

import asyncio
import errno
import logging
import socket
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any, NamedTuple

import h11
import uvicorn
import uvloop
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from mcc import oidc
from mcc.addresses import Endpoint
from mcc.api.app import RedisAccess, build_app
from mcc.api.health import Metrics
from mcc.api.problems import problem
from mcc.api.schedules.fires import ScheduleFires
from mcc.api.schedules.routes import preparing
from mcc.api.service import Service
from mcc.api.triggers.ready import ReadyTrigger, ready_triggers
from mcc.contracts.callers import OPERATOR, Actor
from mcc.contracts.ids import fresh_id
from mcc.dispatch.broker import DispatchUnavailable, RedisAt
from mcc.dispatch.checks import DroneChecks
from mcc.dispatch.fit import installation_of, unfit
from mcc.dispatch.housekeeping import Housekeeping
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import AsyncPublisher, Publisher
from mcc.dispatch.sweep import SweepLoop
from mcc.dispatch.task_events import TaskEvents
from mcc.feed.subscription import connector
from mcc.logs import log_crashes, set_up_logs
from mcc.resources import freeze_heap, tune_allocator
from mcc.settings import (
    BadSettings,
    ServiceSettings,
    client_secret,
    metrics_token,
    operator_token,
    refuse_open_door,
    trigger_secrets,
    watched_secrets,
)
from mcc.store.database.errors import StoreError
from mcc.store.store import STORE_SECONDS, Store, open_store
from mcc.webhooks.courier import courier_of

HEAD_SECONDS = 10.0
LINGER_BYTES = 1024 * 1024


class BoundedConnection(H11Protocol):
    """uvicorn's HTTP/1.1 connection, closed when the head of a request does not arrive within `head_seconds`.

    A request that cannot be parsed is answered with a problem. Up to `LINGER_BYTES` of what follows are then read and
    discarded: closing with unread bytes would reset the connection before the caller has read the answer.
    """

    head_seconds = HEAD_SECONDS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._discarded: int | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if self._discarded is not None:
            self._discarded += len(data)
            if self._discarded > LINGER_BYTES:
                self.transport.close()
            return
        super().data_received(data)
        if self._discarded is not None:
            return
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._head_timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        # uvicorn calls this while it handles h11's error, which has the status.
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        detail = "The head of the request is too large." if status == 431 else "This is no HTTP request."
        answer = problem(status, detail, headers={"Connection": "close"})
        for event in (
            h11.Response(status_code=status, headers=answer.raw_headers),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.write_eof()
        self._discarded = 0
        self._stop_timer()
        self._start_timer()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


DEFAULT_REDIS_URL = "redis://127.0.0.1:6379/0"
"""The address of Redis when none is configured. Drones have the same default."""

DONE, FAILED, USAGE, UNREACHABLE = 0, 1, 2, 3
GRACE_SECONDS = 1

log = logging.getLogger(__name__)


class ServiceCannotStart(Exception):
    """The service cannot start. The message is a sentence that says what to do, `code` the process's exit code."""

    code = FAILED


class UnfitServer(ServiceCannotStart):
    """The database or the Redis that was given cannot be used."""

    code = UNREACHABLE


class ApiServer(uvicorn.Server):
    """On SIGTERM or SIGINT ends the event streams first, so that viewers reconnect elsewhere at once, and exits with 0.

    A second signal forces the exit.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Without super(), which would record the signal, so that uvicorn raised it again after the shutdown.
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # First: uvicorn waits for open responses, and a stream of events has no end of its own.
        self._service.feed.end_streams()
        await super().shutdown(sockets)


class Tokens(NamedTuple):
    """The operator's token; the one that opens `/metrics` alone, and the secret for the provider of identities, if
    there are any; triggers with theirs."""

    operator: str
    metrics: str | None
    client: str | None
    triggers: Mapping[str, ReadyTrigger]


def serve(settings: ServiceSettings, *, listening: socket.socket | None = None) -> int:
    """Serve until a signal ends the process. Answers the exit code. `listening` is an already open socket to use."""
    set_up_logs(redactor=watched_secrets(settings))
    log_crashes(log)
    tune_allocator()
    if settings.passed_over:
        log.warning("%s", settings.passed_over)
    try:
        refuse_open_door(settings)
        triggers = ready_triggers(settings, trigger_secrets(settings))
        tokens = Tokens(operator_token(settings), metrics_token(settings), client_secret(settings), triggers)
        if settings.oidc is not None and not oidc.is_installed():
            raise BadSettings(f"{settings.configuration.place_of('oidc')}: {oidc.MISSING}, or remove the table.")
        store = _open_store(settings)
    except BadSettings as error:
        return _fail(str(error), USAGE)
    except ServiceCannotStart as error:
        return _fail(str(error), error.code)
    try:
        _refuse_unfit_redis(settings, store)
        return _serve(settings, store, tokens, listening or _bind(settings))
    except ServiceCannotStart as error:
        return _fail(str(error), error.code)
    finally:
        store.close()


def redis_of(settings: ServiceSettings) -> RedisAt:
    """Where this installation has its place in Redis."""
    return RedisAt(settings.redis_url or DEFAULT_REDIS_URL, settings.redis_prefix)


def _refuse_unfit_redis(settings: ServiceSettings, store: Store) -> None:
    """Raises `UnfitServer` for one that lacks something; without any Redis orders still run, seconds later."""
    try:
        problem = unfit(redis_of(settings), installation_of(store))
    # A Redis that is away is no reason not to start (decision 1).
    except (DispatchUnavailable, StoreError) as away:
        log.warning("it is not known yet whether Redis is fit: %s", away)
        return
    if problem:
        raise UnfitServer(problem)


def _serve(settings: ServiceSettings, store: Store, tokens: Tokens, listening: socket.socket) -> int:
    redis = redis_of(settings)
    nudger = Nudger(redis, settings.queues)
    metrics = Metrics()
    publisher = Publisher(redis, task_events(settings, redis))
    publisher.metrics = metrics.work
    sweeps = SweepLoop(store, nudger, publisher, sweeper=f"mcc-{fresh_id()}", sweep_seconds=settings.sweep_seconds)
    # In a thread, outside of the event loop: heartbeats must go on while a request keeps the loop busy.
    sweeps.start()
    try:
        uvloop.run(_run(settings, store, tokens, nudger, sweeps, redis, listening, metrics))
    finally:
        sweeps.stop(1.0)
        nudger.close()
        publisher.close()
        listening.close()
    return DONE


def task_events(settings: ServiceSettings, redis: RedisAt) -> TaskEvents:
    """Reports status changes that this service makes itself to Celery's monitors, without appearing as a worker."""
    worker, redactor = f"mcc@{socket.gethostname()}", watched_secrets(settings)
    return TaskEvents(redis, worker, redactor, titles=settings.flower_titles, works=False)


async def _run(
    settings: ServiceSettings,
    store: Store,
    tokens: Tokens,
    nudger: Nudger,
    sweeps: SweepLoop,
    redis: RedisAt,
    listening: socket.socket,
    metrics: Metrics,
) -> None:
    publisher = AsyncPublisher(redis, task_events(settings, redis))
    publisher.metrics = metrics.work
    checks = DroneChecks(redis)
    app = build_app(
        settings,
        store,
        token=tokens.operator,
        metrics_token=tokens.metrics,
        client_secret=tokens.client,
        redis=RedisAccess(nudger, publisher, connector(redis), checks, redis.prefix),
        trouble=lambda: sweeps.trouble,
        metrics=metrics,
        triggers=tokens.triggers,
    )
    service: Service = app.state.service
    if "schedules" not in settings.doors.off:
        sweeps.also = ScheduleFires(store, preparing(service), service.reserve, metrics.fired).once
    housekeeping = Housekeeping(store, settings.retention_days, lambda: service.feed.watched)
    housekeeping.start()
    host, port = listening.getsockname()[:2]
    log.info("MCC answers at http://%s:%s", host, port)
    at = f"http://{Endpoint(host, port)}"
    courier = courier_of(settings, store, at, watched_secrets(settings), metrics.work.forge_failed)
    sending = asyncio.create_task(courier.run(), name="webhooks")
    freeze_heap()
    try:
        await ApiServer(configured(app), service).serve(sockets=[listening])
    finally:
        sending.cancel()
        await asyncio.wait({sending}, timeout=GRACE_SECONDS)
        housekeeping.stop()
        await publisher.close()
        await checks.close()


def configured(app: FastAPI, http: type[BoundedConnection] = BoundedConnection) -> uvicorn.Config:
    """uvicorn's configuration. Headers of proxies are not trusted, and no Server header is sent."""
    return uvicorn.Config(
        app,
        http=http,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        log_level="warning",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


def _open_store(settings: ServiceSettings) -> Store:
    try:
        store = open_store(
            settings.database,
            patience_seconds=STORE_SECONDS,
            max_queued=settings.max_queued_orders,
            stale_days=settings.memory.stale_days,
        )
    except ValueError as error:
        raise BadSettings(f"MCC_DATABASE_URL cannot be used: {error}.") from error
    try:
        problem = store.schema_problem()
    except StoreError as error:
        problem = str(error)
    if problem is not None:
        store.close()
        raise UnfitServer(problem)
    try:
        # Before the first order: drones, too, reserve by what stands in the database.
        store.budgets.make_usual(settings.budgets.budget, settings.budgets.timezone, by=Actor(OPERATOR))
    except StoreError as error:
        store.close()
        raise UnfitServer(f"the budgets cannot be written: {error}") from error
    return store


def _bind(settings: ServiceSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ServiceCannotStart(
                f"Port {settings.port} on {settings.host} is in use: stop what runs there, "
                "or choose another one with --port or MCC_PORT (0 takes any free one)."
            ) from error
        raise ServiceCannotStart(
            f"It is not possible to listen on {settings.host}:{settings.port}: {error}."
        ) from error


def _fail(sentence: str, code: int) -> int:
    print(sentence, file=sys.stderr)
    return code
