"""What the endpoints share, and how they answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Query, Request
from starlette.responses import Response

from mcc.api.notices import Notices
from mcc.api.problems import Refusal
from mcc.api.records import Records
from mcc.contracts.answers import Problem
from mcc.contracts.ids import is_identifier
from mcc.contracts.shape import to_json
from mcc.feed.feed import Feed
from mcc.redaction import Redactor
from mcc.settings import Settings
from mcc.store.free_space import Reserve
from mcc.store.store import BoundedOffload, Store
from mcc.store.values import Page

API = "/api/v1"

PRINCIPAL = "operator"
"""Whose orders these are: the one token is the operator's."""

PAGE_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Service:
    """`offload` is for reading and `write` for changes, each with threads of its own: a locked database keeps no reader
    waiting.

    `trouble` says why the database cannot be written now, "" when it can; `redactor` keeps out what the service knows.
    """

    settings: Settings
    store: Store
    offload: BoundedOffload
    write: BoundedOffload
    reserve: Reserve
    trouble: Callable[[], str]
    feed: Feed
    records: Records
    notices: Notices
    redactor: Callable[[], Redactor] = Redactor


async def _service(request: Request) -> Service:
    return cast(Service, request.app.state.service)


async def _order_id(order_id: str) -> str:
    """What cannot be an order's id is not asked for in the database."""
    if not is_identifier(order_id):
        raise Refusal(404, "There is no such order.")
    return order_id


async def _session_id(session_id: str) -> str:
    if not is_identifier(session_id):
        raise Refusal(404, "There is no such session.")
    return session_id


ServiceHere = Annotated[Service, Depends(_service)]
OrderId = Annotated[str, Depends(_order_id)]
SessionId = Annotated[str, Depends(_session_id)]
Limit = Annotated[int, Query(ge=1, le=PAGE_LIMIT)]
Cursor = Annotated[str | None, Query(max_length=500)]


ERRORS: Mapping[int | str, dict[str, Any]] = {"default": {"model": Problem, "description": "An error"}}
"""For the API's description: what every other request is answered with."""


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as JSON that carries any text."""
    body = value if isinstance(value, bytes) else to_json(value)
    return Response(body, status, headers=dict(headers or {}), media_type="application/json")


def page(found: Page[Any]) -> Response:
    return answer({"items": found.items, "next_cursor": found.next_cursor})


def whole(items: Sequence[object]) -> Response:
    """A list that needs no second page, in the shape of those that may."""
    return answer({"items": items, "next_cursor": None})


def answers(model: Any, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """For the API's description: what a right request is answered with, and that errors are problems."""
    return {status: {"model": model}, **ERRORS}
