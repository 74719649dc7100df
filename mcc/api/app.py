"""This room is for putting the HTTP service together: the one place where its parts are named."""

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI

import mcc
from mcc.api import controls, docs, fleet, health, orders, problems, sessions, streams
from mcc.api.door import Door
from mcc.api.guard import Guard
from mcc.api.metrics import Metrics
from mcc.api.notices import Notices, Nudge, Teller
from mcc.api.records import Records
from mcc.api.service import API, Service
from mcc.feed.feed import Feed, Pace
from mcc.feed.hints import Connect
from mcc.settings import Settings
from mcc.store.offload import Offload
from mcc.store.ports import Store


def build_app(
    settings: Settings,
    store: Store,
    *,
    token: str,
    nudge: Nudge | None = None,
    teller: Teller | None = None,
    connect: Connect | None = None,
    pace: Pace | None = None,
) -> FastAPI:
    """The ASGI application. `nudge`, `teller` and `connect` are the ways to Redis; None does without.

    The caller closes `store`, `nudge` and `teller` after the application's lifespan.
    """
    offload = Offload(8, "api")
    feed = Feed(store, offload, connect, pace)
    notices = Notices(feed, nudge, teller)
    metrics = Metrics()
    app = FastAPI(
        title="MCC",
        version=mcc.__version__,
        description="Keeps work orders of AI agents: accepts them, shows what happens, keeps the chat records.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lambda _: _alive(feed, notices, offload),
    )
    app.state.service = Service(settings, store, offload, feed, Records(store, offload), notices, metrics)
    for room in (orders, streams, controls, sessions, fleet, health, docs):
        app.include_router(room.router)
    problems.install(app)
    docs.install(app)
    app.add_middleware(Guard, door=Door(settings, token), metrics=metrics)
    return app


@contextlib.asynccontextmanager
async def _alive(feed: Feed, notices: Notices, offload: Offload) -> AsyncIterator[None]:
    async with notices.running(), feed.running():
        yield
    offload.close()
