"""The HTTP service put together: the one place where its parts are named."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from fastapi import FastAPI

import mcc
from mcc.api import controls, docs, fleet, health, orders, problems, sessions, streams
from mcc.api.door import Door
from mcc.api.guard import Guard
from mcc.api.health import Metrics
from mcc.api.notices import Notices
from mcc.api.records import Records
from mcc.api.service import API, Service
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import AsyncPublisher
from mcc.feed.feed import Feed, Pace
from mcc.feed.subscription import Connect
from mcc.settings import Settings, watched_secrets
from mcc.store.free_space import Reserve
from mcc.store.store import BoundedOffload, Store

TEXT_SECONDS = 60.0
"""How long the next piece of a long record may take: its readers wait for each other."""


@dataclass(frozen=True, slots=True)
class RedisAccess:
    """What the service uses Redis by: nudges, hints that it sends, hints that it hears. None of one does without it."""

    nudger: Nudger | None = None
    publisher: AsyncPublisher | None = None
    connect: Connect | None = None


NO_REDIS = RedisAccess()


def build_app(
    settings: Settings,
    store: Store,
    *,
    token: str,
    redis: RedisAccess = NO_REDIS,
    pace: Pace | None = None,
    trouble: Callable[[], str] = lambda: "",
) -> FastAPI:
    """The ASGI application. The caller closes `store` and what is in `redis` after the application's lifespan.

    `trouble` says why the database cannot be written now, "" when it can.
    """
    offload, write = BoundedOffload(8, "api"), BoundedOffload(8, "api-writes")
    texts = BoundedOffload(2, "api-texts", queue_seconds=TEXT_SECONDS, answer_seconds=TEXT_SECONDS)
    reserve = Reserve.beside(settings.database_url, settings.data_dir, settings.disk_reserve_mb)
    feed = Feed(store, offload, redis.connect, pace)
    notices = Notices(feed, redis.nudger, redis.publisher)
    metrics = Metrics()
    redactor = watched_secrets(settings)
    app = FastAPI(
        title="MCC",
        version=mcc.__version__,
        description="Keeps work orders of AI agents: accepts them, shows what happens, keeps the chat records.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lambda _: _alive(feed, notices, offload, write, texts),
    )
    app.state.metrics = metrics
    app.state.service = Service(
        settings,
        store,
        offload,
        write,
        reserve,
        trouble,
        feed,
        Records(store, offload, texts),
        notices,
        redactor,
    )
    for endpoints in (orders, streams, controls, sessions, fleet, health, docs):
        app.include_router(endpoints.router)
    problems.install(app, redactor)
    docs.install(app)
    app.add_middleware(Guard, door=Door(settings, token), metrics=metrics)
    return app


@contextlib.asynccontextmanager
async def _alive(feed: Feed, notices: Notices, *offloads: BoundedOffload) -> AsyncIterator[None]:
    async with notices.running(), feed.running():
        yield
    for offload in offloads:
        offload.close()
