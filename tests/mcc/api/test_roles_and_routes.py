"""Every route for every role, with own things and those of others: what is said here is what the service does."""

from collections.abc import Collection, Mapping
from copy import copy

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from mcc.api.access.callers import CALLER, Caller
from mcc.api.access.ownership import Ownership
from mcc.api.access.scopes import Scoped, name_of
from mcc.api.app import PARTS
from mcc.api.problems import Refusal
from mcc.contracts.callers import SCOPES_OF, Role
from mcc.store.people.owners import Thing

EXPECTED = {
    "everybody": """
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
    "viewer": """
        GET /failures
        GET /orders
        GET /orders/counts
        GET /orders/{order_id}
        GET /orders/{order_id}/record
        GET /orders/{order_id}/records/{record_id}/setup
        GET /orders/{order_id}/artifacts/{artifact_id}
        GET /orders/{order_id}/artifacts/{artifact_id}/content
        GET /orders/{order_id}/journal
        GET /orders/{order_id}/overview
        GET /orders/{order_id}/timeline
        GET /orders/{order_id}/rows
        GET /orders/{order_id}/changes
        GET /orders/{order_id}/changes/file
        GET /orders/{order_id}/controls
        GET /orders/{order_id}/events
        GET /orders/{order_id}/drafts
        PUT /orders/{order_id}/drafts
        GET /schedules
        GET /schedules/{schedule_id}
        GET /schedules/{schedule_id}/runs
        POST /schedules:preview
        GET /orders/{order_id}/calls/{seq}
        GET /usage
        GET /stream
        GET /events
        GET /views
        GET /views/{name}
        PUT /views/{name}
        DELETE /views/{name}
        GET /sessions
        GET /sessions/{session_id}
        GET /sessions/{session_id}/usage
        GET /sessions/{session_id}/search
        GET /sessions/{session_id}/export
        POST /sessions/{session_id}/read
        GET /me
        PATCH /me
        GET /me/signins
        DELETE /me/signins/{signin_id}
        POST /signout
        GET /principals
        GET /tokens
        POST /tokens
        DELETE /tokens/{token_id}
        POST /device
        GET /audit
        GET /inbox
        POST /inbox/seen
        GET /approvals
        GET /questions
        GET /grants
        GET /blueprints
        GET /blueprints/{name}
        GET /documents
        GET /documents/{document_id}
        GET /documents/{document_id}/history
        GET /documents/{document_id}/diff
        GET /documents/{document_id}/export
        GET /notes
        GET /notes/history
        GET /artifacts/{artifact_id}
        GET /drones
        GET /agents
        GET /agents/{name}
        GET /models
        GET /tools
        GET /triggers
    """,
    "member": """
        POST /orders
        POST /orders:batch
        POST /orders:bulk
        POST /orders:cancel
        POST /orders/{order_id}/fork
        POST /sessions
        POST /documents
        POST /blueprints
        POST /artifacts
        DELETE /artifacts/{artifact_id}
        POST /schedules
    """,
    "member, of others operator": """
        POST /orders/{order_id}/retry
        POST /orders/{order_id}/revert
        POST /orders/{order_id}/deliver
        POST /orders/{order_id}/review
        POST /orders/{order_id}/rollback
        POST /orders/{order_id}/cancel
        POST /orders/{order_id}/pause
        POST /orders/{order_id}/resume
        POST /orders/{order_id}/steer
        POST /orders/{order_id}/metadata
        POST /orders/{order_id}/controls:batch
        POST /approvals/{approval_id}
        POST /questions/{question_id}
        DELETE /grants/{grant_id}
        PATCH /sessions/{session_id}
        DELETE /sessions/{session_id}
        POST /sessions/{session_id}/compact
        POST /sessions/{session_id}/fork
        POST /documents/{document_id}/commands
        POST /documents/{document_id}/blueprint
        DELETE /documents/{document_id}
        PATCH /schedules/{schedule_id}
        DELETE /schedules/{schedule_id}
        POST /schedules/{schedule_id}/run
    """,
    "operator": """
        GET /metrics
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
        DELETE /notes
        POST /notes/decide
        POST /models/check
        POST /tools/test
        POST /tools/approve
        POST /drones/{name}/drain
        DELETE /drones/{name}/drain
    """,
    "admin": """
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
"""Who may, by route; the roles after the named one may too."""

BY_ROUTE = {line.strip(): who for who, text in EXPECTED.items() for line in text.strip().splitlines()}
ROUTES = {
    name_of(route).replace(" /api/v1", " "): route
    for part in PARTS
    for route in part.router.routes
    if isinstance(route, APIRoute)
}
PARAMETERS = {"order_id", "session_id", "document_id", "approval_id", "question_id", "grant_id", "schedule_id"}
OWN, OTHERS = "mine", "theirs"


def test_what_each_route_does_is_said_here() -> None:
    assert set(BY_ROUTE) == set(ROUTES)


async def owners(_: Thing, ids: Collection[str]) -> Mapping[str, str]:
    return {each: "person:me" if each == OWN else "person:somebody-else" for each in ids}


async def is_let_through(route: APIRoute, role: Role, whose: str) -> bool:
    """Whether the route's own code is reached; where it is not, the refusal names a right that the role lacks."""
    reached: list[object] = []

    async def reach(*_: object) -> None:
        reached.append(None)

    gate = copy(route.app)
    assert isinstance(gate, Scoped)
    gate._app = reach
    app = FastAPI()
    app.state.ownership = Ownership(owners)
    named = [name for name in PARAMETERS if f"{{{name}}}" in route.path]
    caller = Caller("person:me", SCOPES_OF[role], "api")
    scope = {CALLER: caller, "app": app, "path_params": dict.fromkeys(named, whose)}
    try:
        await gate(scope, reach, reach)  # type: ignore[arg-type]
    except Refusal as refused:
        assert refused.status == 403 and refused.needs not in SCOPES_OF[role] and not reached
        return False
    return bool(reached)


@pytest.mark.parametrize("named", sorted(BY_ROUTE))
async def test_a_route_is_open_to_those_who_may_and_to_nobody_else(api: httpx.AsyncClient, named: str) -> None:
    route, who = ROUTES[named], BY_ROUTE[named]
    if who == "everybody":
        assert not isinstance(route.app, Scoped)
        return
    least, _, of_others = who.partition(", of others ")
    for role in Role:
        for whose, needed in ((OWN, least), (OTHERS, of_others or least)):
            expected = list(Role).index(role) >= list(Role).index(Role(needed))
            assert await is_let_through(route, role, whose) == expected, (role, whose)


async def test_what_nobody_knows_is_left_to_the_route(api: httpx.AsyncClient) -> None:
    async def none(_: Thing, ids: Collection[str]) -> Mapping[str, str]:
        return {}

    caller = Caller("person:me", SCOPES_OF[Role.MEMBER], "api")
    assert await Ownership(none).refused(caller, Thing.ORDER, ["x"]) == {}
