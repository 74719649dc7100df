"""The service as a process: what must be right before it starts, its log, and how it ends."""

import asyncio
import errno
import logging
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import structlog
import uvicorn
from fastapi import FastAPI

from mcc.api.app import RedisAccess, build_app
from mcc.api.connection import BoundedConnection
from mcc.api.service import Service
from mcc.api.token import operator_token, refuse_open_door
from mcc.contracts.ids import fresh_id
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import AsyncPublisher, Publisher
from mcc.dispatch.sweep import SweepLoop
from mcc.feed.subscription import connector
from mcc.redaction import Redactor
from mcc.redaction.redactor import RedactedFormatter, log_crashes
from mcc.settings import BadSettings, Settings, watched_secrets
from mcc.store.errors import StoreError
from mcc.store.heap import settle
from mcc.store.store import STORE_SECONDS, Store, open_store

DEFAULT_REDIS_URL = "redis://127.0.0.1:6379/0"
"""Where Redis is looked for when nobody said; drones look there as well."""

DONE, FAILED, USAGE = 0, 1, 2
GRACE_SECONDS = 1
LONGEST_FIELD = 10_000

log = logging.getLogger(__name__)


class CannotStart(Exception):
    """The message is a sentence that says what to do."""


class Server(uvicorn.Server):
    """Ends its event streams first when told to stop, so that viewers go elsewhere at once; ends with exit code 0."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.feed.end_streams()
        await super().shutdown(sockets)


def serve(settings: Settings, *, listening: socket.socket | None = None) -> int:
    """Serve until told to stop; answers the exit code. `listening`: a socket that is open already."""
    set_up_logs(redactor=watched_secrets(settings))
    log_crashes(log)
    settle()
    try:
        refuse_open_door(settings)
        token = operator_token(settings)
        store = _opened(settings)
    except BadSettings as error:
        return _refused(str(error), USAGE)
    except CannotStart as error:
        return _refused(str(error), FAILED)
    try:
        return _serve(settings, store, token, listening or _bound(settings))
    except CannotStart as error:
        return _refused(str(error), FAILED)
    finally:
        store.close()


def _serve(settings: Settings, store: Store, token: str, listening: socket.socket) -> int:
    redis_url = settings.redis_url or DEFAULT_REDIS_URL
    nudger = Nudger(redis_url, settings.queues)
    publisher = Publisher(redis_url)
    sweeps = SweepLoop(store, nudger, publisher, sweeper=f"mcc-{fresh_id()}", sweep_seconds=settings.sweep_seconds)
    sweeps.start()
    try:
        asyncio.run(_run(settings, store, token, nudger, sweeps, redis_url, listening))
    finally:
        sweeps.stop(1.0)
        nudger.close()
        publisher.close()
        listening.close()
    return DONE


async def _run(
    settings: Settings,
    store: Store,
    token: str,
    nudger: Nudger,
    sweeps: SweepLoop,
    redis_url: str,
    listening: socket.socket,
) -> None:
    publisher = AsyncPublisher(redis_url)
    app = build_app(
        settings,
        store,
        token=token,
        redis=RedisAccess(nudger, publisher, connector(redis_url)),
        trouble=lambda: sweeps.trouble,
    )
    log.info("MCC answers at http://%s:%s", *listening.getsockname()[:2])
    try:
        await Server(configured(app), app.state.service).serve(sockets=[listening])
    finally:
        await publisher.close()


def configured(app: FastAPI, http: type[BoundedConnection] = BoundedConnection) -> uvicorn.Config:
    """How uvicorn runs the application: no header of a proxy is believed, nothing is said of the server."""
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


def _opened(settings: Settings) -> Store:
    try:
        store = open_store(settings.database_url, patience_seconds=STORE_SECONDS, max_queued=settings.max_queued_orders)
    except ValueError as error:
        raise BadSettings(f"MCC_DATABASE_URL cannot be used: {error}.") from error
    try:
        problem = store.schema_problem()
    except StoreError as error:
        problem = str(error)
    if problem is not None:
        store.close()
        raise CannotStart(problem)
    return store


def _bound(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotStart(
                f"Port {settings.port} on {settings.host} is in use: stop what runs there, "
                "or choose another one with --port or MCC_PORT (0 takes any free one)."
            ) from error
        raise CannotStart(f"It is not possible to listen on {settings.host}:{settings.port}: {error}.") from error


def _refused(sentence: str, code: int) -> int:
    print(sentence, file=sys.stderr)
    return code


def _bounded(redactor: Callable[[], Redactor]) -> Callable[[Any, str, Any], Any]:
    """Cuts long values after they are redacted: the first half of a secret that is cut would not be found any more."""

    def bounded(_: Any, __: str, event: Any) -> Any:
        return {
            key: redactor().text(value)[:LONGEST_FIELD] + "…"
            if isinstance(value, str) and len(value) > LONGEST_FIELD
            else value
            for key, value in event.items()
        }

    return bounded


def set_up_logs(level: int = logging.INFO, redactor: Callable[[], Redactor] = Redactor) -> None:
    """One JSON object per line on standard error, from structlog and the standard library, without secrets."""
    shared: list[Callable[..., Any]] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _bounded(redactor),
            structlog.processors.JSONRenderer(ensure_ascii=True),
        ],
    )
    handler.setFormatter(RedactedFormatter(formatter, redactor))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)
