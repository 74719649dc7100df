"""Assembles the HTTP service from its parts, and serves its API documentation.

The documentation page is swagger-ui from an installed package, without inline scripts and without other hosts.
"""

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.responses import FileResponse, HTMLResponse, Response

import mcc
from mcc.addresses import look_up, services_in
from mcc.api import (
    approvals,
    artifacts,
    batches,
    blueprints,
    controls,
    doctor,
    documents,
    fleet,
    health,
    notes,
    order_bulk,
    order_changes,
    orders,
    problems,
    reading,
    sessions,
    streams,
    views,
)
from mcc.api.access import audit, devices, people, provider, signins, tokens
from mcc.api.access.credentials import Credentials
from mcc.api.access.guard import Door, RequestGuard
from mcc.api.access.open_credentials import OpenCredentials
from mcc.api.access.ownership import Ownership
from mcc.api.access.polls import Polls
from mcc.api.access.refused import KIND as REFUSED
from mcc.api.access.refused import RefusedNotes
from mcc.api.access.scopes import guarded
from mcc.api.catalogue import Catalogue
from mcc.api.function_rules import FunctionRules
from mcc.api.health import Metrics
from mcc.api.pages import page_routes
from mcc.api.problems import PROBLEM_TYPE
from mcc.api.records import Records
from mcc.api.schedules import routes as schedules
from mcc.api.service import API, Notices, Service
from mcc.api.stuck import StuckOrders
from mcc.api.triggers import hooks
from mcc.api.triggers import routes as trigger_routes
from mcc.api.triggers.ordering import TriggerOrders
from mcc.api.triggers.ready import ReadyTrigger
from mcc.api.triggers.taking import TriggerDoor
from mcc.api.webhooks import routes as webhooks
from mcc.console.files import installed
from mcc.contracts.wire import KEY_PREFIX
from mcc.dispatch.checks import DroneChecks
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import AsyncPublisher
from mcc.documents.functions import Functions
from mcc.documents.own_functions import own_functions
from mcc.feed.feed import Feed, Pace
from mcc.feed.subscription import Connect
from mcc.reading.reader import OrderViews
from mcc.resources import Reserve
from mcc.settings import ServiceSettings, watched_secrets
from mcc.store.store import BoundedOffload, Offload, Store

if TYPE_CHECKING:
    from mcc.oidc.flow import OidcFlow

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
    order_bulk,
    orders,
    reading,
    views,
    order_changes,
    sessions,
    signins,
    provider,
    people,
    tokens,
    devices,
    audit,
    batches,
    streams,
    controls,
    approvals,
    blueprints,
    documents,
    notes,
    artifacts,
    schedules,
    webhooks,
    trigger_routes,
    hooks,
    fleet,
    doctor,
    health,
)
DOORS = {"schedules": schedules, "triggers": trigger_routes, "webhooks": webhooks}
"""Parts that a service may be without, by their names in `[doors] off`."""


def parts_without(off: Collection[str]) -> Sequence[ModuleType]:
    return [part for part in PARTS if part not in [DOORS[name] for name in off]]


def build_app(
    settings: ServiceSettings,
    store: Store,
    *,
    token: str,
    metrics_token: str | None = None,
    client_secret: str | None = None,
    redis: RedisAccess = NO_REDIS,
    pace: Pace | None = None,
    trouble: Callable[[], str] = lambda: "",
    metrics: Metrics | None = None,
    polls: Polls | None = None,
    triggers: Mapping[str, ReadyTrigger] = MappingProxyType({}),
) -> FastAPI:
    """The ASGI application. The caller closes `store` and the clients in `redis` after the application's lifespan.

    `metrics_token` opens only `/metrics`. `client_secret` proves this service to the provider of identities. `trouble`
    tells why the database cannot be written now, or "". `polls`: how often command lines may ask. `triggers`: by path.
    """
    offload, write, signing = (BoundedOffload(*pool) for pool in ((8, "api"), (8, "api-writes"), (2, "api-signins")))
    texts = BoundedOffload(2, "api-texts", queue_seconds=TEXT_SECONDS, answer_seconds=TEXT_SECONDS)
    credentials = Credentials(
        store.rights, signing, token=token, metrics_token=metrics_token, encrypted=settings.by_https
    )
    names = Offload(2, "api-names")
    feed = Feed(store, offload, redis.connect, pace, prefix=redis.prefix)
    service = Service(
        settings,
        store,
        offload,
        write,
        Reserve.beside(settings.database_url, settings.data_dir, settings.disk_reserve_mb),
        trouble,
        feed,
        Records(store, offload, texts),
        Notices(store, feed, redis.nudger, redis.publisher),
        Catalogue(settings.own_blueprints(), store.blueprints),
        texts,
        FunctionRules(store, _own_functions(settings)),
        credentials,
        OpenCredentials(lambda ids: signing(store.rights.ended, ids), credentials.rights.forget),
        Ownership(lambda thing, ids: signing(store.owners.owners, thing, ids)),
        StuckOrders(store, offload),
        OrderViews(store, offload, texts),
        TriggerDoor(triggers, TriggerOrders(store, settings)),
        watched_secrets(settings),
        redis.checks,
        polls=polls or Polls(),
        provider=_provider(settings, client_secret, names),
    )
    app = _without_routes(service, offload, write, texts, signing, names)
    app.state.service, app.state.ownership, app.state.metrics = service, service.ownership, metrics or Metrics()
    # Not include_router, which would build each route a second time on its first request.
    app.router.routes += guarded(route for part in parts_without(settings.doors.off) for route in part.router.routes)
    app.router.routes += [*description.routes, *page_routes(installed(), settings.oidc).routes]
    problems.install(app, service.redactor, settings.doors.off)
    _describe(app)
    refused = RefusedNotes(lambda by, route: write(store.audit.note, REFUSED, by=by, detail={"route": route}))
    app.add_middleware(RequestGuard, door=Door(settings, credentials), metrics=app.state.metrics, refused=refused)
    return app


def _provider(settings: ServiceSettings, secret: str | None, names: Offload) -> "OidcFlow | None":
    """How people sign in by the provider of identities that is configured. `names` looks hosts up."""
    if settings.oidc is None:
        return None
    # Its libraries are an extra.
    from mcc.oidc.assembly import flow_of

    services = services_in((settings.database_url, settings.redis_url))
    return flow_of(settings.oidc, secret, lambda host: names(look_up, host), services)


def _without_routes(service: Service, *offloads: Offload | BoundedOffload) -> FastAPI:
    """The application, whose lifespan runs the parts of the service and closes its threads."""
    # FastAPI passes the aliases of body parameters on to pydantic, which warns about them. FastAPI suppresses that
    # warning only while it builds models itself, but those of mcc.contracts are built later, on first use.
    warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)
    return FastAPI(
        title="MCC",
        version=mcc.__version__,
        description="Keeps work orders of AI agents: accepts them, shows what happens, keeps the chat records.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lambda _: _lifespan(service, *offloads),
    )


def _own_functions(settings: ServiceSettings) -> Functions:
    own = settings.configuration.own
    return own_functions(settings.documents.functions, own.parent if own else None).functions


@contextlib.asynccontextmanager
async def _lifespan(service: Service, *offloads: Offload | BoundedOffload) -> AsyncIterator[None]:
    async with service.notices.running(), service.feed.running(), service.reader.running():
        looking = asyncio.create_task(service.open_credentials.run())
        yield
        looking.cancel()
    service.function_rules.close()
    service.triggers.close()
    for offload in offloads:
        offload.close()


description = APIRouter(include_in_schema=False)

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>MCC</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><link rel="stylesheet" href="docs/swagger.css"></head>
<body><div id="page"></div>
<script src="docs/swagger.js"></script><script src="docs/start.js"></script></body></html>
"""

DOCS_POLICY = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; frame-ancestors 'none'; "
    "base-uri 'none'"
}
"""swagger-ui sets styles and pictures that the page's own policy would not let it."""

# Addresses are relative, because a proxy may put a prefix before the paths of this service.
# The page does not have the operator's token, so "Try it out" is disabled.
START = """SwaggerUIBundle({
  url: "v1/openapi.json", dom_id: "#page", deepLinking: true, validatorUrl: null, supportedSubmitMethods: []
});
"""


@description.get("/api/docs")
async def page() -> Response:
    return HTMLResponse(PAGE, headers=DOCS_POLICY)


@description.get("/api/docs/start.js")
async def start() -> Response:
    return Response(START, media_type="text/javascript", headers=DOCS_POLICY)


@description.get("/api/docs/swagger.js")
async def script() -> Response:
    return _asset("swagger-ui-bundle.js")


@description.get("/api/docs/swagger.css")
async def style() -> Response:
    return _asset("swagger-ui.css")


def _asset(name: str) -> Response:
    # The package's own page has an inline script, which our Content-Security-Policy forbids.
    return FileResponse(
        str(files("fastapi_offline") / "static" / name), headers={**DOCS_POLICY, "Cache-Control": "max-age=3600"}
    )


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
