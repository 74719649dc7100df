"""This room is for the service as a process: what must be right before it starts, and how it ends."""

import asyncio
import errno
import logging
import socket
import sys
from types import FrameType

import uvicorn
from fastapi import FastAPI

from mcc.api import logs
from mcc.api.app import build_app
from mcc.api.connection import BoundedConnection
from mcc.api.patience import STORE_SECONDS
from mcc.api.service import Service
from mcc.api.token import operator_token, refuse_open_door
from mcc.contracts.ids import fresh_id
from mcc.dispatch.hints import AsyncHints, Hints
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.sweep import SweepLoop
from mcc.feed.hints import connector
from mcc.redaction.logs import log_crashes
from mcc.settings import BadSettings, Settings, watched_secrets
from mcc.store.errors import StoreError
from mcc.store.heap import settle
from mcc.store.ports import Store
from mcc.store.sql import open_store

DEFAULT_REDIS_URL = "redis://127.0.0.1:6379/0"
"""Where Redis is looked for when nobody said; drones look there as well."""

DONE, FAILED, USAGE = 0, 1, 2
GRACE_SECONDS = 1

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
        self._service.feed.let_go()
        await super().shutdown(sockets)


def serve(settings: Settings, *, listening: socket.socket | None = None) -> int:
    """Serve until told to stop; answers the exit code. `listening`: a socket that is open already."""
    logs.set_up(redactor=watched_secrets(settings))
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
    hints = Hints(redis_url)
    sweeps = SweepLoop(store, nudger, hints, sweeper=f"mcc-{fresh_id()}", sweep_seconds=settings.sweep_seconds)
    sweeps.start()
    try:
        asyncio.run(_run(settings, store, token, nudger, sweeps, redis_url, listening))
    finally:
        sweeps.stop(1.0)
        nudger.close()
        hints.close()
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
    teller = AsyncHints(redis_url)
    app = build_app(
        settings,
        store,
        token=token,
        nudge=nudger,
        teller=teller,
        connect=connector(redis_url),
        trouble=lambda: sweeps.trouble,
    )
    log.info("MCC answers at http://%s:%s", *listening.getsockname()[:2])
    try:
        await Server(configured(app), app.state.service).serve(sockets=[listening])
    finally:
        await teller.close()


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
