"""This room is for putting the HTTP service together: the one place where its parts are named."""

import contextlib
from collections.abc import AsyncIterator, Callable

from fastapi import FastAPI

import mcc
from mcc.api import again, controls, docs, fleet, health, orders, problems, sessions, streams
from mcc.api.door import Door
from mcc.api.guard import Guard
from mcc.api.metrics import Metrics
from mcc.api.notices import Notices, Nudge, Teller
from mcc.api.patience import BoundedOffload
from mcc.api.records import Records
from mcc.api.service import API, Service
from mcc.feed.feed import Feed, Pace
from mcc.feed.hints import Connect
from mcc.settings import Settings, watched_secrets
from mcc.store.ports import Store
from mcc.store.room import Reserve

TEXT_SECONDS = 60.0
"""How long the next piece of a long record may take: its readers wait for each other."""


def build_app(
    settings: Settings,
    store: Store,
    *,
    token: str,
    nudge: Nudge | None = None,
    teller: Teller | None = None,
    connect: Connect | None = None,
    pace: Pace | None = None,
    trouble: Callable[[], str] = lambda: "",
) -> FastAPI:
    """The ASGI application. `nudge`, `teller` and `connect` are the ways to Redis; None does without.

    `trouble` says why the database cannot be written now, "" when it can. The caller closes `store`, `nudge` and
    `teller` after the application's lifespan.
    """
    offload, write = BoundedOffload(8, "api"), BoundedOffload(8, "api-writes")
    texts = BoundedOffload(2, "api-texts", queue_seconds=TEXT_SECONDS, answer_seconds=TEXT_SECONDS)
    reserve = Reserve.beside(settings.database_url, settings.data_dir, settings.disk_reserve_mb)
    feed = Feed(store, offload, connect, pace)
    notices = Notices(feed, nudge, teller)
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
        metrics,
        redactor,
    )
    for room in (orders, again, streams, controls, sessions, fleet, health, docs):
        app.include_router(room.router)
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
