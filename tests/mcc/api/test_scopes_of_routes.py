"""Each route of the service needs a scope, or is open to everybody by name."""

import httpx
import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from mcc.api.access.callers import CALLER, Caller
from mcc.api.access.scopes import SCOPES, NoScope, Scoped, guarded, needed_by
from mcc.api.app import PARTS
from mcc.api.problems import Refusal
from mcc.contracts.callers import AccessScope

ROUTES = [route for part in PARTS for route in part.router.routes if isinstance(route, APIRoute)]


def named(route: APIRoute) -> str:
    (method,) = route.methods or {""}
    return f"{method} {route.path}"


@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_a_route_needs_a_scope_or_is_open_by_name(route: APIRoute) -> None:
    needed = needed_by(route)
    assert needed is not None or SCOPES[named(route)] is None


def test_every_line_of_the_table_is_a_route() -> None:
    assert set(SCOPES) - {named(route) for route in ROUTES} == set()


def test_a_route_that_changes_something_and_is_not_named_does_not_start() -> None:
    router = APIRouter(prefix="/api/v1")
    router.add_api_route("/forgotten", lambda: None, methods=["POST"])
    with pytest.raises(NoScope, match="POST /api/v1/forgotten"):
        guarded(router.routes)


async def test_the_service_has_wrapped_them_all(api: httpx.AsyncClient) -> None:
    wrapped = {named(route) for route in ROUTES if isinstance(route.app, Scoped)}
    assert wrapped == {named(route) for route in ROUTES if needed_by(route) is not None}


@pytest.mark.parametrize("scopes", [frozenset[AccessScope](), frozenset({AccessScope.READ}), None])
async def test_a_caller_without_the_scope_is_refused_and_told_which(scopes: frozenset[AccessScope] | None) -> None:
    async def unreachable(*_: object) -> None:
        raise AssertionError

    caller = None if scopes is None else Caller("ann", scopes, "api")
    with pytest.raises(Refusal) as refused:
        await Scoped(unreachable, AccessScope.WRITE)({CALLER: caller}, unreachable, unreachable)  # type: ignore[arg-type]
    assert (refused.value.status, refused.value.needs) == (403, "write")
