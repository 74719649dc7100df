"""Which scope each route needs, and whose things it reaches: two tables, by which routes are wrapped when the service
is assembled.

A GET below `/api/v1` needs `read` where the table says nothing; every other route is named.
"""

from collections.abc import Iterable, Mapping

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from mcc.api.access.callers import caller_of, refusal
from mcc.api.access.ownership import Ownership
from mcc.contracts.callers import AccessScope
from mcc.store.people.owners import Thing

API = "/api/v1"

OIDC_WAY = "/signin/oidc"
OIDC_CALLBACK, OIDC_BACKCHANNEL = f"{OIDC_WAY}/callback", f"{OIDC_WAY}/backchannel"
"""The way to a provider of identities and back, and how it signs people out."""
HOOKS = "/hooks/"
"""How the paths of deliveries from outside begin, which bring a signature and no credential."""

READ, WRITE, OPERATE = AccessScope.READ, AccessScope.WRITE, AccessScope.OPERATE
ADMIN, METRICS = AccessScope.ADMIN, AccessScope.METRICS

BY_ROUTE: Mapping[AccessScope | None, str] = {
    None: """
        GET /healthz
        GET /readyz
        POST /signin
        POST /login/device
        POST /login/token
        GET /signin/oidc
        GET /signin/oidc/callback
        POST /signin/oidc/backchannel
        POST /hooks/{path:path}
    """,
    METRICS: "GET /metrics",
    READ: """
        POST /signout
        PATCH /me
        DELETE /me/signins/{signin_id}
        POST /tokens
        DELETE /tokens/{token_id}
        POST /device
        POST /inbox/seen
        PUT /views/{name}
        DELETE /views/{name}
        POST /sessions/{session_id}/read
        PUT /orders/{order_id}/drafts
        POST /schedules:preview
    """,
    WRITE: """
        POST /orders
        POST /orders:batch
        POST /orders:bulk
        POST /orders:cancel
        POST /orders/{order_id}/fork
        POST /sessions
        POST /artifacts
        DELETE /artifacts/{artifact_id}
        POST /blueprints
        POST /documents
        POST /schedules
    """,
    OPERATE: """
        DELETE /notes
        POST /notes/decide
        POST /models/check
        POST /tools/test
        POST /tools/approve
        POST /drones/{name}/drain
        DELETE /drones/{name}/drain
        GET /doctor
        POST /doctor/fix
        GET /webhooks
        POST /webhooks
        GET /webhooks/deliveries
        POST /webhooks/deliveries:replay
        POST /webhooks/deliveries/{delivery_id}/replay
        GET /webhooks/{webhook_id}
        PATCH /webhooks/{webhook_id}
        DELETE /webhooks/{webhook_id}
        POST /webhooks/{webhook_id}/rotate
        POST /webhooks/{webhook_id}/test
        GET /triggers/{name}/deliveries
    """,
    ADMIN: """
        POST /signin/links
        GET /people
        POST /people
        GET /people/{person_id}
        PATCH /people/{person_id}
        DELETE /people/{person_id}
        POST /people/{person_id}/link
        GET /people/{person_id}/signins
        DELETE /people/{person_id}/signins
    """,
}
"""By scope, one route a line: method and path, without the prefix of the API. None: open to everybody."""

OWN: Mapping[Thing, str] = {
    Thing.TURN: """
        POST /orders/{order_id}/retry
        POST /orders/{order_id}/deliver
    """,
    Thing.ORDER: """
        POST /orders/{order_id}/revert
        POST /orders/{order_id}/review
        POST /orders/{order_id}/rollback
        POST /orders/{order_id}/cancel
        POST /orders/{order_id}/pause
        POST /orders/{order_id}/resume
        POST /orders/{order_id}/steer
        POST /orders/{order_id}/metadata
        POST /orders/{order_id}/controls:batch
    """,
    Thing.ITEM: """
        POST /approvals/{approval_id}
        POST /questions/{question_id}
    """,
    Thing.GRANT: "DELETE /grants/{grant_id}",
    Thing.SESSION: """
        PATCH /sessions/{session_id}
        DELETE /sessions/{session_id}
        POST /sessions/{session_id}/compact
        POST /sessions/{session_id}/fork
    """,
    Thing.DOCUMENT: """
        POST /documents/{document_id}/commands
        POST /documents/{document_id}/blueprint
        DELETE /documents/{document_id}
    """,
    Thing.SCHEDULE: """
        PATCH /schedules/{schedule_id}
        DELETE /schedules/{schedule_id}
        POST /schedules/{schedule_id}/run
    """,
}
"""Routes that change the thing in their path: `write` reaches own ones, others' need `operate`. What a body names is
checked by its route, with the same `Ownership`."""

OUTSIDE = frozenset(
    {"/healthz", "/metrics", "/readyz", OIDC_WAY, OIDC_CALLBACK, OIDC_BACKCHANNEL, HOOKS + "{path:path}"}
)
"""Paths of routes that are not below the API's prefix."""


def _routes(text: str) -> list[str]:
    lines = (line.split() for line in text.strip().splitlines())
    return [f"{method} {path if path in OUTSIDE else API + path}" for method, path in lines]


THINGS: Mapping[str, Thing] = {route: thing for thing, text in OWN.items() for route in _routes(text)}
SCOPES: Mapping[str, AccessScope | None] = {
    **{route: scope for scope, text in BY_ROUTE.items() for route in _routes(text)},
    **dict.fromkeys(THINGS, WRITE),
}


class NoScope(LookupError):
    """A route that this table does not have; a mistake in the code."""


class Scoped:
    """An ASGI application that runs `app` for callers who have the scope, and answers others with 403. `thing`: what
    the one parameter of its path names, which has to be the caller's own, or the caller an operator."""

    def __init__(self, app: ASGIApp, needed: AccessScope, thing: Thing | None = None) -> None:
        self._app = app
        self._needed = needed
        self._thing = thing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = caller_of(scope)
        if caller is None or self._needed not in caller.scopes:
            raise refusal(self._needed, "This")
        if self._thing is not None:
            (named,) = scope["path_params"].values()
            ownership: Ownership = scope["app"].state.ownership
            await ownership.check(caller, self._thing, named)
        await self._app(scope, receive, send)


def needed_by(route: APIRoute) -> AccessScope | None:
    """The scope of a route, None for one that is open to everybody. Raises `NoScope`."""
    named = name_of(route)
    if named in SCOPES:
        return SCOPES[named]
    if named.startswith(f"GET {API}/"):
        return READ
    raise NoScope(f"{named} has no scope: name it in mcc/api/access/scopes.py")


def name_of(route: APIRoute) -> str:
    """Method and path, as the tables name it."""
    (method,) = route.methods or ("any method",)
    return f"{method} {route.path}"


def guarded(routes: Iterable[BaseRoute]) -> list[BaseRoute]:
    """The routes, each of which now refuses callers without its scope. Raises `NoScope`."""
    kept = list(routes)
    for route in kept:
        # Routes are shared by all applications of a process, so another one may have wrapped them.
        if not isinstance(route, APIRoute) or isinstance(route.app, Scoped):
            continue
        if (needed := needed_by(route)) is not None:
            route.app = Scoped(route.app, needed, THINGS.get(name_of(route)))
    return kept
