"""Orders over HTTP: placing, reading, record and journal; retry, fork, revert and rollback."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Header, Path, Query
from fastapi.openapi.models import Example
from pydantic import Field
from starlette.responses import Response

from mcc.api.access.callers import Caller, CallerHere
from mcc.api.controls import Requested, announce, with_recipients
from mcc.api.problems import Refusal
from mcc.api.service import (
    API,
    PAGE_LIMIT,
    OrderId,
    Service,
    ServiceHere,
    answer,
    answers,
    whole,
)
from mcc.api.streams import Begun, TextStream
from mcc.api.submission import checked
from mcc.contracts.answers import Artifact, Listing, RecordSetup, SteeredOrder
from mcc.contracts.callers import AccessScope
from mcc.contracts.changes import NewRevert
from mcc.contracts.entry import Entry
from mcc.contracts.entry_lines import EntryLine
from mcc.contracts.order import NewFork, NewOrder, OrderKind, WorkOrder
from mcc.contracts.order_lists import OrderCount, OrderCriteria, OrderPage, SummaryPage
from mcc.contracts.record import ChatRecord
from mcc.contracts.sessions import SessionDefaults
from mcc.contracts.shape import now, to_json
from mcc.store.database.errors import StoreError, StoreFull
from mcc.store.people.owners import Thing
from mcc.store.rows.forking import same_input
from mcc.store.rows.values import Placed
from mcc.store.store import Store

JOURNAL_LIMIT = 1_000
JOURNAL_BYTES = 4_000_000
"""The size in bytes at which a page of the journal ends."""

DEFAULTED = frozenset(SessionDefaults.model_fields)
"""Fields of an order for which its session may have a default."""

READ_AT_ONCE = 20
"""How many entries are read from the database at a time, so that few large ones are in memory."""

router = APIRouter(prefix=API, tags=["orders"])

IdPart = Annotated[str, Query(pattern="^[0-9a-f-]{4,36}$")]
RecordId = Annotated[str, Path(max_length=200)]
ArtifactId = Annotated[str, Path(max_length=200)]
Attended = Annotated[bool, Header(alias="MCC-Attended", description="A person watches and can be asked.")]
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]


class ListQuery(OrderCriteria):
    """The query of a list of orders. `view`: whole orders, or summaries."""

    view: Literal["full", "summary"] = "full"
    cursor: Annotated[str | None, Field(max_length=500)] = None
    limit: Annotated[int, Field(ge=1, le=PAGE_LIMIT)] = 50


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
    "delivered": {
        "summary": "Work on a git address that ends as a request to merge it; a webhook is told",
        "value": {
            "prompt": "Mend the rounding of prices",
            "workspace": "https://github.com/team/shop",
            "deliver": {"pull_request": True, "close": 12},
            "permission": {"deliver": "allow"},
            "webhook_url": "https://ci.example.com/hook",
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
    caller: CallerHere,
    idempotency_key: IdempotencyKey = None,
    attended: Attended = False,
) -> Response:
    """Accept a work order. Once the answer is 201, the order is a row in the database and will be executed.

    If neither the order nor the operator sets `on_ask`, tool calls that need a person's approval wait for it with
    `MCC-Attended: true`, and are denied without. The session and the document of others need the right `operate`,
    as does a `when_busy` that steers or interrupts a turn of others.
    """
    for refused in (await service.ownership.refused_places(caller, [new])).values():
        raise refused
    placed, requested = await service.write(_place, service, new, caller, idempotency_key, attended)
    order = placed.order
    if placed.created:
        service.notices.placed(order, placed.entries)
    for changed in requested:
        announce(service, changed)
    if placed.receipt is not None:
        return answer(SteeredOrder(**dict(order), receipt=placed.receipt))
    return answer(order, 201 if placed.created else 200, {"Location": f"orders/{order.id}"})


@router.get("/orders", responses=answers(OrderPage | SummaryPage))
async def list_orders(
    service: ServiceHere,
    filters: Annotated[ListQuery, Query()],
) -> Response:
    """Orders, newest first, that fit all filters; of several values of one filter, one has to fit.

    `view` summary: with the beginnings of their prompts, without answers and results, and with what waits for a person.
    A request looks at 20,000 orders at most: a page may have fewer orders than `limit`, even none, and yet a
    `next_cursor`; `searched_to` then says how far it looked. Orders that compact a session are listed with
    `kind=compact` alone.
    """
    lists = service.store.order_lists
    read = lists.find if filters.view == "full" else lists.summaries
    return answer(await service.offload(read, filters, cursor=filters.cursor, limit=filters.limit))


@router.get("/orders/counts", responses=answers(Listing[OrderCount]))
async def count_orders(service: ServiceHere) -> Response:
    """Numbers of unfinished orders by status and reason."""
    return whole(await service.offload(service.store.order_lists.counts))


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
    return answer(found) if isinstance(found, bytes) else TextStream(await Begun.of(found))


@router.get("/orders/{order_id}/records/{record_id}/setup", responses=answers(RecordSetup))
async def setup(order_id: OrderId, record_id: RecordId, service: ServiceHere) -> Response:
    """The set-up of this record's agent: system prompt, tool schemas, model, limits, definition."""
    found = await service.records.setup(order_id, record_id)
    if found is None:
        raise Refusal(404, "This order has no record of this id whose set-up was kept.")
    return answer(found.encode("utf-8"))


@router.get("/orders/{order_id}/artifacts/{artifact_id}", responses=answers(Artifact))
async def artifact(order_id: OrderId, artifact_id: ArtifactId, service: ServiceHere) -> Response:
    """The full text of which a result of this order shows only the beginning and the end."""
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
    kind: Annotated[list[str] | None, Query(max_length=50)] = None,
    record_id: Annotated[str | None, Query(max_length=200)] = None,
    call_id: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Journal entries after number `after`, in order; `next_cursor` is the `after` of the next page. Only those of
    these kinds, of this record, of this tool call, where such are named.

    A page ends with `limit` entries, or sooner when they are large. 410 when the journal was pruned; the record is
    kept.
    """
    if kind or record_id is not None or call_id is not None:
        kinds, after = frozenset(kind or ()), max(after, cursor)

        def picked(line: EntryLine) -> bool:
            named = record_id in (None, line.record) and call_id in (None, line.call)
            return named and (not kinds or line.kind in kinds)

        return answer(await service.reader.journal_page(order_id, picked, after, limit))
    return answer(await service.offload(_journal_page, service.store, order_id, max(after, cursor), limit))


@router.post("/orders/{order_id}/retry", status_code=201, responses=PLACED)
async def retry(
    order_id: OrderId, service: ServiceHere, caller: CallerHere, idempotency_key: IdempotencyKey = None
) -> Response:
    """A new order from the same input, as the next turn of the same session; 409 while the order has not ended."""

    def place() -> Placed:
        return service.store.orders.retry(order_id, by=caller.actor, idempotency_key=idempotency_key)

    return await _place_derived(service, caller, order_id, place)


@router.post("/orders/{order_id}/fork", status_code=201, responses=PLACED)
async def fork(
    order_id: OrderId, asked: NewFork, service: ServiceHere, caller: CallerHere, idempotency_key: IdempotencyKey = None
) -> Response:
    """A new order, in a session of its own, that begins with entries 1 to `after` of this one and continues from there.

    `after` is rounded down to a point at which neither a model nor a tool call was in progress; `origin` gives that
    number and the reason. A `prompt` becomes the next message to its master.
    """

    def place() -> Placed:
        return service.store.orders.fork(order_id, asked, by=caller.actor, idempotency_key=idempotency_key)

    return await _place_derived(service, caller, order_id, place)


@router.post("/orders/{order_id}/revert", status_code=201, responses=PLACED)
async def revert(
    order_id: OrderId,
    service: ServiceHere,
    caller: CallerHere,
    asked: NewRevert | None = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """A new order that restores the workspace's files to their state before this order wrote, or after its entry `to`.

    It calls no model, holds the workspace exclusively, and keeps what it replaces, so that it can be reverted as well.
    If someone else has changed one of the files since, it fails with a list of them and changes nothing, unless
    `overwrite` is set. 409 while this order has not ended.
    """

    def place() -> Placed:
        check_disk(service)
        wanted = asked or NewRevert()
        return service.store.orders.revert(order_id, wanted, by=caller.actor, idempotency_key=idempotency_key)

    return answer_placed(service, await service.write(place))


@router.post("/orders/{order_id}/rollback", responses=answers(WorkOrder))
async def roll_back(order_id: OrderId, service: ServiceHere, caller: CallerHere) -> Response:
    """Remove an ended turn from the context of its session's later turns; it stays in the history.

    409 while the order has not ended. Repeating the request changes nothing.
    """
    return answer(await service.write(service.store.orders.roll_back, order_id, by=caller.actor))


def _journal_page(store: Store, order_id: str, after: int, limit: int) -> bytes:
    """The page as JSON, assembled from entries that are read a few at a time."""
    # Before the first entry: a journal that was pruned is told as such, not as an empty page.
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
    """Raises `StoreFull` when the free disk space has shrunk to the reserve, which is kept for accepted orders."""
    if shortage := service.reserve.shortage():
        raise StoreFull(f"No new order is taken. {shortage}")


def _place(
    service: Service, new: NewOrder, caller: Caller, idempotency_key: str | None, attended: bool
) -> tuple[Placed, Sequence[Requested]]:
    store = service.store
    check_disk(service)
    (filled,) = with_defaults(store, new)
    accepted = checked(filled, service.settings, store.leases.registrations(), now())
    blueprint = service.catalogue.find(accepted.blueprint).blueprint if accepted.blueprint else None
    placed = store.orders.place(
        accepted,
        by=caller.actor,
        idempotency_key=idempotency_key,
        blueprint=blueprint,
        on_ask=service.settings.approvals.on_ask or ("wait" if attended else "deny"),
        request=as_asked(new, filled, accepted),
        anybodys=AccessScope.OPERATE in caller.scopes,
    )
    return placed, controls_by_placing(store, [placed])


def with_defaults(store: Store, *orders: NewOrder) -> Sequence[NewOrder]:
    """The orders, with the defaults of their sessions in place of what chat turns leave out."""
    named = {new.session_id for new in orders if new.session_id is not None and new.kind is OrderKind.CHAT}
    known = store.sessions.defaults(named)
    filled: list[NewOrder] = []
    for new in orders:
        defaults = known.get(new.session_id or "") if new.kind is OrderKind.CHAT else None
        filled.append(new if defaults is None else defaults.apply(new))
    return filled


def as_asked(new: NewOrder, filled: NewOrder, accepted: NewOrder) -> NewOrder | None:
    """The `accepted` order without the defaults with which its session `filled` it, by which a repeated request is
    known; None when it had none."""
    if filled is new:
        return None
    return accepted.model_copy(
        update={name: getattr(new, name) for name in {*DEFAULTED - new.model_fields_set, "limits"}}
    )


def controls_by_placing(store: Store, placed: Iterable[Placed]) -> Sequence[Requested]:
    """The controls that placing these orders has requested of running ones: interruptions and steers."""
    requested: list[Requested] = []
    for placement in placed:
        for order_id in (placement.interrupted, placement.order.id if placement.receipt else None):
            if order_id is not None:
                # The order is placed; a control whose recipients cannot be read now is found by drones themselves.
                with contextlib.suppress(StoreError):
                    requested.append(with_recipients(store, store.controls.of_order(order_id)[-1]))
    return requested


async def _place_derived(service: Service, caller: Caller, order_id: str, place: Callable[[], Placed]) -> Response:
    """Check the input of an existing order again and place a new order made from it."""
    await check_document(service, caller, order_id)

    def checked_and_placed() -> Placed:
        check_again(service, order_id)
        return place()

    return answer_placed(service, await service.write(checked_and_placed))


async def check_document(service: Service, caller: Caller, order_id: str) -> None:
    """Raises `Refusal` where this order works on a document that the caller may not change: an order made from it
    would, whoever placed the first one."""
    source = await service.offload(service.store.orders.get, order_id)
    await service.ownership.check(caller, Thing.DOCUMENT, source.document_id)


def check_again(service: Service, order_id: str) -> None:
    """Raises what placing an order with the input of this one would: what it named may no longer be allowed, or no
    longer exist."""
    check_disk(service)
    new = same_input(service.store.orders.get(order_id), now())
    checked(new, service.settings, service.store.leases.registrations(), now())


def answer_placed(service: Service, placed: Placed) -> Response:
    if placed.created:
        service.notices.placed(placed.order, placed.entries)
    # Relative to the call of another order: a proxy may have put a prefix before the path.
    location = {"Location": f"../{placed.order.id}"}
    return answer(placed.order, 201 if placed.created else 200, location)
