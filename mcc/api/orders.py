"""Orders and their sessions over HTTP: placing, reading, record and journal; retry, fork and rollback."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

from fastapi import APIRouter, Body, Header, Path, Query
from fastapi.openapi.models import Example
from starlette.responses import Response, StreamingResponse

from mcc.api.controls import Requested, announce, traced
from mcc.api.problems import Refusal
from mcc.api.service import (
    API,
    PRINCIPAL,
    Cursor,
    Limit,
    OrderId,
    Service,
    ServiceHere,
    SessionId,
    answer,
    answers,
    page,
)
from mcc.api.submission import checked
from mcc.contracts.answers import Artifact, Listing, RecordSetup, SteeredOrder
from mcc.contracts.changes import NewRevert
from mcc.contracts.entry import Entry
from mcc.contracts.order import Identifier, Label, NewFork, NewOrder, NewSession, Session, SessionWithTurns, WorkOrder
from mcc.contracts.record import ChatRecord
from mcc.contracts.shape import now, to_json
from mcc.contracts.status import OrderStatus
from mcc.store.errors import StoreError, StoreFull
from mcc.store.forking import same_input
from mcc.store.store import Store
from mcc.store.values import Placed

JOURNAL_LIMIT = 1_000
JOURNAL_BYTES = 4_000_000
"""A page of a journal ends when it is as large as this."""

READ_AT_ONCE = 20

router = APIRouter(prefix=API, tags=["orders"])
conversations = APIRouter(prefix=API, tags=["sessions"])

IdPart = Annotated[str, Query(pattern="^[0-9a-f-]{4,36}$")]
RecordId = Annotated[str, Path(max_length=200)]
ArtifactId = Annotated[str, Path(max_length=200)]
Attended = Annotated[bool, Header(alias="MCC-Attended", description="Somebody watches and can be asked.")]
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]

EXAMPLES: dict[str, Example] = {
    "question": {
        "summary": "A question about a directory",
        "value": {"prompt": "Explain this repository", "workspace": "/path/to/it"},
    },
    "limits": {
        "summary": "With limits, on the model of an alias, found by a label",
        "value": {
            "prompt": "Which functions have no test?",
            "workspace": "/path/to/it",
            "agent": "review",
            "model": "fast",
            "limits": {"rounds": 20, "cost_usd": 0.5},
            "labels": ["nightly"],
        },
    },
    "document": {
        "summary": "A document of a blueprint that ships",
        "value": {
            "kind": "generate",
            "blueprint": "course",
            "generation": {"metadata": {"topic": "Photosynthesis"}, "concurrency": 8},
        },
    },
    "result": {
        "summary": "A result of a given shape, held to a rule, tomorrow",
        "value": {
            "prompt": "Name the entry points",
            "workspace": "/path/to/it",
            "result_schema": {
                "type": "object",
                "properties": {"paths": {"type": "array", "items": {"type": "string"}}},
                "required": ["paths"],
            },
            "rules": [{"cel": "result.paths.size() > 0", "message": "Name one at least."}],
            "not_before": "2030-01-01T06:00:00Z",
        },
    },
}

PLACED = answers(WorkOrder, 201) | answers(WorkOrder)


@router.post("/orders", status_code=201, responses=answers(WorkOrder, 201) | answers(WorkOrder | SteeredOrder))
async def place(
    new: Annotated[NewOrder, Body(openapi_examples=EXAMPLES)],
    service: ServiceHere,
    idempotency_key: IdempotencyKey = None,
    attended: Attended = False,
) -> Response:
    """Accept a work order: when this is answered with 201, it is a row in the database and will be worked on.

    Where neither it nor the operator says `on_ask`, calls that a person is to be asked for wait with `MCC-Attended:
    true`, and are denied without.
    """
    placed, requested = await service.write(_place, service, new, idempotency_key, attended)
    order = placed.order
    if placed.created:
        service.notices.placed(order)
    for one in requested:
        announce(service, one)
    if placed.receipt is not None:
        return answer(SteeredOrder(**dict(order), receipt=placed.receipt))
    return answer(order, 201 if placed.created else 200, {"Location": f"/api/v1/orders/{order.id}"})


@router.get("/orders", responses=answers(Listing[WorkOrder]))
async def list_orders(
    service: ServiceHere,
    status: OrderStatus | None = None,
    session_id: Identifier | None = None,
    label: Label | None = None,
    part: IdPart | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Orders, newest first; with `part` those whose id begins or ends so."""
    orders = service.store.orders
    return page(
        await service.offload(
            orders.list, status=status, session_id=session_id, label=label, part=part, cursor=cursor, limit=limit
        )
    )


@router.get("/orders/{order_id}", responses=answers(WorkOrder))
async def show(order_id: OrderId, service: ServiceHere) -> Response:
    """One order as it is now."""
    return answer(await service.offload(service.store.orders.get, order_id))


@router.get("/orders/{order_id}/record", responses=answers(ChatRecord))
async def record(order_id: OrderId, service: ServiceHere) -> Response:
    """The chat record as a tree, also while the order runs; 404 before its first agent has started."""
    found = await service.records.of(order_id)
    if found is None:
        raise Refusal(404, "This order has no record: none of its agents has started.")
    return answer(found) if isinstance(found, bytes) else StreamingResponse(found, media_type="application/json")


@router.get("/orders/{order_id}/records/{record_id}/setup", responses=answers(RecordSetup))
async def setup(order_id: OrderId, record_id: RecordId, service: ServiceHere) -> Response:
    """What the model of this record's agent was asked with: system prompt, tool schemas, model, limits, definition."""
    found = await service.records.setup(order_id, record_id)
    if found is None:
        raise Refusal(404, "This order has no record of this id whose set-up was kept.")
    return answer(found.encode("utf-8"))


@router.get("/orders/{order_id}/artifacts/{artifact_id}", responses=answers(Artifact))
async def artifact(order_id: OrderId, artifact_id: ArtifactId, service: ServiceHere) -> Response:
    """The whole of a text of which a result of this order shows only the beginning and the end."""
    found = await service.records.artifact(order_id, artifact_id)
    if found is None:
        raise Refusal(404, "No result of this order names an artifact of this id.")
    return answer(Artifact(id=artifact_id, content=found))


@router.get("/orders/{order_id}/journal", responses=answers(Listing[Entry]))
async def journal(
    order_id: OrderId,
    service: ServiceHere,
    after: Annotated[int, Query(ge=0, le=10**15)] = 0,
    limit: Annotated[int, Query(ge=1, le=JOURNAL_LIMIT)] = JOURNAL_LIMIT,
    cursor: Annotated[int, Query(ge=0, le=10**15)] = 0,
) -> Response:
    """Journal entries after number `after`, in order; `next_cursor` is the `after` of the next page.

    A page ends with `limit` entries, or sooner when they are large. 410 when the journal was pruned; the record is
    kept.
    """
    return answer(await service.offload(_journal_page, service.store, order_id, max(after, cursor), limit))


@router.post("/orders/{order_id}/retry", status_code=201, responses=PLACED)
async def retry(order_id: OrderId, service: ServiceHere, idempotency_key: IdempotencyKey = None) -> Response:
    """A new order from the same input, as the next turn of the same session; 409 while the order has not ended."""

    def place() -> Placed:
        return service.store.orders.retry(order_id, principal=PRINCIPAL, idempotency_key=idempotency_key)

    return await _place_made(service, order_id, place)


@router.post("/orders/{order_id}/fork", status_code=201, responses=PLACED)
async def fork(
    order_id: OrderId, asked: NewFork, service: ServiceHere, idempotency_key: IdempotencyKey = None
) -> Response:
    """A new order, in a session of its own, that begins with entries 1 to `after` of this one and goes on from there.

    The number is rounded down to where neither a model nor a tool was being called; `origin` says to which, and why.
    With a `prompt`, that is what its master hears next.
    """

    def place() -> Placed:
        return service.store.orders.fork(order_id, asked, principal=PRINCIPAL, idempotency_key=idempotency_key)

    return await _place_made(service, order_id, place)


@router.post("/orders/{order_id}/revert", status_code=201, responses=PLACED)
async def revert(
    order_id: OrderId, service: ServiceHere, asked: NewRevert | None = None, idempotency_key: IdempotencyKey = None
) -> Response:
    """A new order that brings back the files of the workspace as they were before this one wrote, or after entry `to`.

    It asks no model, has the workspace to itself and keeps what was there, so that it can be reverted as well. Where
    somebody else changed one of the files since, it fails with their list and changes nothing, unless `overwrite`.
    409 while the order has not ended.
    """

    def place() -> Placed:
        check_disk(service)
        wanted = asked or NewRevert()
        return service.store.orders.revert(order_id, wanted, principal=PRINCIPAL, idempotency_key=idempotency_key)

    return _answer_made(service, await service.write(place))


@router.post("/orders/{order_id}/rollback", responses=answers(WorkOrder))
async def roll_back(order_id: OrderId, service: ServiceHere) -> Response:
    """Leave a turn that has ended out of the context of its session's later turns; it stays in history.

    409 while it has not ended. Asking again changes nothing.
    """
    return answer(await service.write(service.store.orders.roll_back, order_id, principal=PRINCIPAL))


def _journal_page(store: Store, order_id: str, after: int, limit: int) -> bytes:
    """The answer as JSON, put together of entries that are read a few at a time."""
    store.journal.check(order_id)
    items: list[bytes] = []
    size, more = 0, True
    while more and len(items) < limit and size < JOURNAL_BYTES:
        wanted = min(READ_AT_ONCE, limit - len(items))
        entries = store.journal.read(order_id, after=after, limit=wanted)
        items += map(to_json, entries)
        size = sum(map(len, items))
        more, after = len(entries) == wanted, entries[-1].seq if entries else after
    return b'{"items":[%b],"next_cursor":%b}' % (b",".join(items), to_json(str(after) if more else None))


def check_disk(service: Service) -> None:
    """Raises `StoreFull` when the disk's free space is in reserve for the orders that are there already."""
    if shortage := service.reserve.shortage():
        raise StoreFull(f"No new order is taken. {shortage}")


def _place(
    service: Service, new: NewOrder, idempotency_key: str | None, attended: bool
) -> tuple[Placed, Sequence[Requested]]:
    store = service.store
    check_disk(service)
    accepted = checked(new, service.settings, store.leases.registrations(), now())
    blueprint = service.catalogue.find(accepted.blueprint).blueprint if accepted.blueprint else None
    placed = store.orders.place(
        accepted,
        principal=PRINCIPAL,
        idempotency_key=idempotency_key,
        blueprint=blueprint,
        on_ask=service.settings.approvals.on_ask or ("wait" if attended else "deny"),
    )
    return placed, asked_of_others(store, [placed])


def asked_of_others(store: Store, placed: Iterable[Placed]) -> Sequence[Requested]:
    """What placing has asked of running orders: interruptions, and steers."""
    requested: list[Requested] = []
    for one in placed:
        for order_id in (one.interrupted, one.order.id if one.receipt else None):
            if order_id is not None:
                with contextlib.suppress(StoreError):
                    requested.append(traced(store, store.controls.of_order(order_id)[-1]))
    return requested


async def _place_made(service: Service, order_id: str, place: Callable[[], Placed]) -> Response:
    def checked_and_placed() -> Placed:
        # What was allowed and there when the order was placed may not be any more.
        check_disk(service)
        new = same_input(service.store.orders.get(order_id), now())
        checked(new, service.settings, service.store.leases.registrations(), now())
        return place()

    return _answer_made(service, await service.write(checked_and_placed))


def _answer_made(service: Service, placed: Placed) -> Response:
    if placed.created:
        service.notices.placed(placed.order)
    location = {"Location": f"{API}/orders/{placed.order.id}"}
    return answer(placed.order, 201 if placed.created else 200, location)


@conversations.post("/sessions", status_code=201, responses=answers(Session, 201))
async def open_session(service: ServiceHere, new: NewSession | None = None) -> Response:
    """Begin a conversation; its orders follow one another."""
    session = await service.write(service.store.sessions.open, new or NewSession(), principal=PRINCIPAL)
    return answer(session, 201, {"Location": f"/api/v1/sessions/{session.id}"})


@conversations.get("/sessions", responses=answers(Listing[Session]))
async def list_sessions(service: ServiceHere, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """Sessions, newest first."""
    return page(await service.offload(service.store.sessions.list, cursor=cursor, limit=limit))


@conversations.get("/sessions/{session_id}", name="show", responses=answers(SessionWithTurns))
async def show_session(session_id: SessionId, service: ServiceHere) -> Response:
    """One session with its turns, in the order in which they were accepted."""
    return answer(await service.offload(service.store.session_with_turns, session_id))
