"""Assembles the HTTP service from its parts, and serves its start page and its API documentation.

The documentation page is swagger-ui from an installed package, without inline scripts and without other hosts.
"""

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.responses import FileResponse, HTMLResponse, Response

import mcc
from mcc.api import (
    approvals,
    artifacts,
    batches,
    blueprints,
    controls,
    documents,
    fleet,
    health,
    notes,
    orders,
    problems,
    sessions,
    streams,
)
from mcc.api.catalogue import Catalogue
from mcc.api.function_rules import FunctionRules
from mcc.api.guard import Door, RequestGuard
from mcc.api.health import Metrics
from mcc.api.problems import PROBLEM_TYPE
from mcc.api.records import Records
from mcc.api.service import API, Notices, Service
from mcc.configuration.places import NotPrivate
from mcc.configuration.running import Held, Presence, find_family
from mcc.contracts.wire import KEY_PREFIX
from mcc.dispatch.checks import DroneChecks
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import AsyncPublisher
from mcc.documents.functions import Functions
from mcc.documents.own_functions import own_functions
from mcc.feed.feed import Feed, Pace
from mcc.feed.subscription import Connect
from mcc.resources import Reserve
from mcc.settings import ServiceSettings, watched_secrets
from mcc.store.store import BoundedOffload, Store

TEXT_SECONDS = 60.0
"""How long the next piece of a long record may take, including the wait for other readers' pieces."""


@dataclass(frozen=True, slots=True)
class RedisAccess:
    """The service's uses of Redis, each of which may be None: nudges, published hints, received hints, and checks that
    drones run."""

    nudger: Nudger | None = None
    publisher: AsyncPublisher | None = None
    connect: Connect | None = None
    checks: DroneChecks | None = None
    prefix: str = KEY_PREFIX


NO_REDIS = RedisAccess()
PARTS = (
    orders,
    sessions,
    batches,
    streams,
    controls,
    approvals,
    blueprints,
    documents,
    notes,
    artifacts,
    fleet,
    health,
)


def build_app(
    settings: ServiceSettings,
    store: Store,
    *,
    token: str,
    metrics_token: str | None = None,
    redis: RedisAccess = NO_REDIS,
    pace: Pace | None = None,
    trouble: Callable[[], str] = lambda: "",
    metrics: Metrics | None = None,
) -> FastAPI:
    """The ASGI application. The caller closes `store` and the clients in `redis` after the application's lifespan.

    `metrics_token` opens only `/metrics`. `trouble` answers why the database cannot be written now, "" when it can.
    """
    # FastAPI passes the aliases of body parameters on to pydantic, which warns about them. FastAPI suppresses that
    # warning only while it builds models itself, but those of mcc.contracts are built later, on first use.
    warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)
    offload, write = BoundedOffload(8, "api"), BoundedOffload(8, "api-writes")
    texts = BoundedOffload(2, "api-texts", queue_seconds=TEXT_SECONDS, answer_seconds=TEXT_SECONDS)
    reserve = Reserve.beside(settings.database_url, settings.data_dir, settings.disk_reserve_mb)
    feed = Feed(store, offload, redis.connect, pace, prefix=redis.prefix)
    notices = Notices(store, feed, redis.nudger, redis.publisher)
    redactor = watched_secrets(settings)
    function_rules = FunctionRules(store, _own_functions(settings))
    app = FastAPI(
        title="MCC",
        version=mcc.__version__,
        description="Keeps work orders of AI agents: accepts them, shows what happens, keeps the chat records.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lambda _: _lifespan(feed, notices, function_rules, offload, write, texts),
    )
    app.state.metrics = metrics = metrics or Metrics()
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
        Catalogue(settings.own_blueprints(), store.blueprints),
        texts,
        function_rules,
        redactor,
        redis.checks,
    )
    for part in PARTS:
        app.router.routes.extend(part.router.routes)
    # Not include_router, which would build each route a second time on its first request.
    app.router.routes += description.routes
    problems.install(app, redactor)
    _describe(app)
    app.add_middleware(RequestGuard, door=Door(settings, token, metrics_token), metrics=metrics)
    return app


def _own_functions(settings: ServiceSettings) -> Functions:
    own = settings.configuration.own
    return own_functions(settings.documents.functions, own.parent if own else None).functions


@contextlib.asynccontextmanager
async def _lifespan(
    feed: Feed, notices: Notices, function_rules: FunctionRules, *offloads: BoundedOffload
) -> AsyncIterator[None]:
    async with notices.running(), feed.running():
        yield
    function_rules.close()
    for offload in offloads:
        offload.close()


description = APIRouter(include_in_schema=False)

ROOT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>MCC {version}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,"></head>
<body><h1>MCC {version}</h1>
<p>This service keeps work orders for AI agents; drones do them. There is no page to work with yet:
<code>mcc run "PROMPT"</code>, Python and HTTP are the ways in.</p>
<ul>
<li><a href="api/docs">What the HTTP API takes and answers</a></li>{flower}
<li><a href="healthz">Whether the service is alive</a>, <a href="readyz">and ready</a></li>
</ul></body></html>
"""

FLOWER = """
<li><a href="{url}">Flower</a>, where this service runs: orders as tasks, drones as workers; its login is in
<code>flower.auth</code> of the data directory</li>"""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><link rel="stylesheet" href="docs/swagger.css"></head>
<body><div id="page"></div>
<script src="docs/swagger.js"></script><script src="docs/start.js"></script></body></html>
"""

# Addresses are relative, because a proxy may put a prefix before the paths of this service.
# The page does not have the operator's token, so "Try it out" is disabled.
START = """SwaggerUIBundle({
  url: "v1/openapi.json", dom_id: "#page", deepLinking: true, validatorUrl: null, supportedSubmitMethods: []
});
"""


@description.get("/")
async def root(request: Request) -> Response:
    data_dir = request.app.state.service.settings.data_dir
    try:
        family = await asyncio.to_thread(find_family, data_dir)
    except NotPrivate:
        family = Held.NOBODY
    url = family.flower_url if isinstance(family, Presence) else None
    flower = FLOWER.format(url=escape(url)) if url else ""
    return HTMLResponse(ROOT.format(version=escape(mcc.__version__), flower=flower))


@description.get("/api/docs")
async def page(request: Request) -> Response:
    return HTMLResponse(PAGE.format(title=escape(request.app.title)))


@description.get("/api/docs/start.js")
async def start() -> Response:
    return Response(START, media_type="text/javascript")


@description.get("/api/docs/swagger.js")
async def script() -> Response:
    return _asset("swagger-ui-bundle.js")


@description.get("/api/docs/swagger.css")
async def style() -> Response:
    return _asset("swagger-ui.css")


def _asset(name: str) -> Response:
    # The package's own page has an inline script, which our Content-Security-Policy forbids.
    return FileResponse(str(files("fastapi_offline") / "static" / name), headers={"Cache-Control": "max-age=3600"})


def _first_clause(text: str) -> str:
    """What stands before the first full stop, semicolon or colon that ends a word."""
    words = text.split()
    last = next(number for number, word in enumerate(words, 1) if word[-1] in ".;:")
    return " ".join(words[:last])[:-1]


def _describe(app: FastAPI) -> None:
    """Correct FastAPI's OpenAPI document: it describes errors as plain JSON, and sums calls up by functions' names."""
    by_framework = app.openapi

    def document() -> dict[str, Any]:
        described = by_framework()
        described["servers"] = [{"url": "../.."}]  # Relative to the document itself.
        for operation in (operation for methods in described["paths"].values() for operation in methods.values()):
            operation["summary"] = _first_clause(operation["description"])
            for status, response in operation["responses"].items():
                if (status == "default" or status >= "400") and (problem := response.get("content", {})):
                    response["content"] = {PROBLEM_TYPE: next(iter(problem.values()))}
        return described

    app.openapi = document  # type: ignore[method-assign]
