"""What an order changed, over HTTP: its files, comments on their lines, and what a person has begun to write."""

import base64
import binascii
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Body, Query
from fastapi.openapi.models import Example
from starlette.responses import Response

from mcc.api.access.callers import CallerHere
from mcc.api.controls import announce, with_recipients
from mcc.api.orders import PLACED, ArtifactId, Attended, IdempotencyKey, answer_placed, check_disk, check_document
from mcc.api.problems import Refusal, Unacceptable
from mcc.api.service import API, ERRORS, Cursor, OrderId, Service, ServiceHere, answer, answers
from mcc.api.submission import checked
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl, Receipt
from mcc.contracts.entry_lines import EntryLine
from mcc.contracts.git_delivery import Deliver
from mcc.contracts.journal import ToolFinished
from mcc.contracts.media import measured
from mcc.contracts.order import OrderKind, WorkOrder
from mcc.contracts.permission import OnAsk
from mcc.contracts.reading import ChangesOfOrder, Drafts, FileChanges, NewReview, ReviewSent
from mcc.contracts.shape import JsonObject, now, to_json
from mcc.contracts.unified_diff import DiffHunk
from mcc.reading.file_changes import changes_in, changes_of, hunks_of_files, shown_file
from mcc.reading.review import BadReview, check_places, message_of
from mcc.store.database.errors import OrderIsFinal
from mcc.store.people.owners import Thing
from mcc.store.rows.forking import same_input
from mcc.store.rows.values import Placed

DRAFT_BYTES = 64 * 1024
SAFE = "sandbox; default-src 'none'"
"""Content-Security-Policy of a file of an agent: whatever it holds, nothing of it runs or is loaded."""

router = APIRouter(prefix=API, tags=["orders"])

FilePath = Annotated[str, Query(min_length=1, max_length=4_096)]


@router.get("/orders/{order_id}/changes", responses=answers(ChangesOfOrder | None))
async def changes(order_id: OrderId, service: ServiceHere, cursor: Cursor = None) -> Response:
    """What an order changed in its workspace: files, at most 200 at a time; commits, worktrees of its subagents. `null`
    before its end, and where it changed nothing: the rows of its calls have what each of them changed
    (`data.changes`)."""
    skip = _skipped(cursor)
    order = await service.offload(service.store.orders.get, order_id)
    if order.changes is None:
        return answer(None)
    return answer(await service.slow(changes_of, order.changes, await _diff(service, order), skip))


@router.get("/orders/{order_id}/changes/file", responses=answers(FileChanges))
async def file_changes(order_id: OrderId, service: ServiceHere, path: FilePath, cursor: Cursor = None) -> Response:
    """The lines of one changed file, coloured, at most 1,000 at a time, fewer where they are long. 404 where the order
    has not changed it."""
    skip = _skipped(cursor)
    order = await service.offload(service.store.orders.get, order_id)
    made = (await _hunks(service, order, {path})).get(path)
    if made is None:
        raise Refusal(404, "This order has not changed a file of this path, or has not ended.")
    return answer(await shown_file(service.reader.renderer, path, made, skip))


@router.post("/orders/{order_id}/review", status_code=202, responses=answers(ReviewSent, 202) | answers(WorkOrder, 201))
async def review(
    order_id: OrderId,
    asked: NewReview,
    service: ServiceHere,
    caller: CallerHere,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Send comments on changed lines, all together: one steer to the agent, which reads each below the lines that it is
    about; of an order that has ended, the next turn of its session.

    422 for a line that the diff does not show, and for more than 20,000 characters. The answer to a key that was used
    before is the one that was given then.
    """
    redacted = service.redactor().model(asked)
    order = await service.offload(service.store.orders.get, order_id)
    try:
        check_places(redacted.comments)
        message = message_of(redacted, await _commented(service, order, redacted))
    except BadReview as error:
        raise Unacceptable(error.field, str(error)) from error
    control = NewControl(message=message, record_id=redacted.record_id)
    try:
        # Of an order that has ended, too: a key may be that of a steer which was sent before.
        steer, is_new = await service.write(
            service.store.controls.request_once,
            order_id,
            ControlKind.STEER,
            control,
            by=caller.actor,
            key=idempotency_key,
        )
    except OrderIsFinal:
        order = await service.offload(service.store.orders.get, order_id)
    else:
        if is_new:
            announce(service, await service.offload(with_recipients, service.store, steer))
        receipt = Receipt(id=steer.id, requested_at=steer.requested_at, order_id=order_id)
        return answer(ReviewSent(receipt=receipt), 202)
    # Whose the order is was checked before; a turn also goes on with the session, which may be somebody else's.
    await service.ownership.check(caller, Thing.TURN, order_id)
    await check_document(service, caller, order_id)
    placed = await service.write(_next_turn, service, order, message, caller.actor, idempotency_key)
    if placed.created:
        service.notices.placed(placed.order, placed.entries)
    return answer(placed.order, 201 if placed.created else 200, {"Location": f"../{placed.order.id}"})


@router.get("/orders/{order_id}/drafts", responses=answers(Drafts))
async def drafts(order_id: OrderId, service: ServiceHere, caller: CallerHere) -> Response:
    """What the caller has begun to write about the order, as it was stored last."""
    kept = await service.offload(service.store.drafts.read, order_id, caller.principal)
    return answer(Drafts(drafts=kept[0], changed_at=kept[1]) if kept is not None else Drafts())


DELIVERIES: dict[str, Example] = {
    "request": {
        "summary": "A request to merge it, which ends an issue",
        "value": {"pull_request": True, "base": "main", "title": "Mend the rounding", "close": 12},
    },
    "branch": {"summary": "Its branch alone, under another name", "value": {"branch": "mcc/rounding"}},
}


@router.post("/orders/{order_id}/deliver", status_code=201, responses=PLACED)
async def deliver(
    order_id: OrderId,
    service: ServiceHere,
    caller: CallerHere,
    asked: Annotated[Deliver | None, Body(openapi_examples=DELIVERIES)] = None,
    idempotency_key: IdempotencyKey = None,
    attended: Attended = False,
) -> Response:
    """A new order, the next turn of the same session, that brings what this one did on a git address back there: it
    commits what is not committed, pushes the session's branch, and with `pull_request` opens or updates the request.

    It calls no model. Without a body it does what `deliver` of this order says, else it pushes. 409 while this order
    has not ended.
    """

    def place() -> Placed:
        check_disk(service)
        on_ask: OnAsk = service.settings.approvals.on_ask or ("wait" if attended else "deny")
        orders = service.store.orders
        return orders.deliver(order_id, asked, by=caller.actor, idempotency_key=idempotency_key, on_ask=on_ask)

    return answer_placed(service, await service.write(place))


@router.put("/orders/{order_id}/drafts", status_code=204, response_class=Response, responses={**ERRORS})
async def keep_drafts(order_id: OrderId, service: ServiceHere, caller: CallerHere, begun: JsonObject) -> Response:
    """Store what the caller has begun to write about the order: any JSON object of at most 64 KB; an empty one is
    dropped."""
    if len(to_json(begun)) > DRAFT_BYTES:
        raise Refusal(413, f"What is begun has at most {DRAFT_BYTES:,} bytes.")
    await service.write(service.store.drafts.keep, order_id, caller.principal, begun)
    return Response(status_code=204)


@router.get("/orders/{order_id}/artifacts/{artifact_id}/content", response_class=Response, responses={**ERRORS})
async def artifact_content(order_id: OrderId, artifact_id: ArtifactId, service: ServiceHere) -> Response:
    """The bytes of an artifact. PNG, JPEG, GIF and WebP are shown as what they are by their bytes; all else, SVG and
    HTML too, is a file to save."""
    content = await service.records.artifact(order_id, artifact_id)
    if content is None:
        raise Refusal(404, "No result of this order names an artifact of this id.")
    picture = await service.slow(picture_in, content)
    headers = {"Content-Security-Policy": SAFE, "Cache-Control": "private, max-age=86400"}
    if picture is not None:
        return Response(picture[1], headers={**headers, "Content-Disposition": "inline"}, media_type=picture[0])
    name = f'attachment; filename="{artifact_id[:16]}.txt"'
    body = content.encode("utf-8", "replace")
    return Response(body, headers={**headers, "Content-Disposition": name}, media_type="application/octet-stream")


def picture_in(content: str) -> tuple[str, bytes] | None:
    """Media type and bytes of a picture that is stored as base64; None for anything else."""
    try:
        data = base64.b64decode(content, validate=True)
        return measured(data).media_type, data
    except (binascii.Error, ValueError):
        return None


def _skipped(cursor: str | None) -> int:
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
        raise Refusal(400, "This cursor is not one that a page of this order's changes gave; begin without one.")
    return int(cursor or 0)


async def _diff(service: Service, order: WorkOrder) -> str:
    """The whole diff of an order that has ended; "" where there is none."""
    if order.changes is None or order.changes.diff is None:
        return ""
    try:
        return await service.offload(service.store.texts.kept, order.changes.diff)
    except KeyError:
        return ""


async def _hunks(service: Service, order: WorkOrder, paths: Collection[str]) -> Mapping[str, Sequence[DiffHunk]]:
    """What the order has changed in files at these paths; a diff has 4 MB at most, so it is read once for all."""
    if order.changes is None or not paths:
        return {}
    return await service.slow(hunks_of_files, order.changes, await _diff(service, order), paths)


async def _commented(service: Service, order: WorkOrder, asked: NewReview) -> Sequence[tuple[str, Sequence[DiffHunk]]]:
    """Path and changes of each comment's file. Raises `BadReview` for one that the order has not changed."""
    changed = await _hunks(service, order, {comment.path for comment in asked.comments if comment.path is not None})
    commented: list[tuple[str, Sequence[DiffHunk]]] = []
    for number, comment in enumerate(asked.comments):
        if comment.path is not None:
            if (hunks := changed.get(comment.path)) is None:
                message = "this order has not changed a file of this path; while it runs, name the call_id."
                raise BadReview(f"comments.{number}.path", message)
            commented.append((comment.path, hunks))
            continue
        files = await _changed_by(service, order.id, comment.call_id or "")
        if not files:
            raise BadReview(f"comments.{number}.call_id", "no call of this id has told what it changed.")
        commented.append(files[0])
    return commented


async def _changed_by(service: Service, order_id: str, call_id: str) -> Sequence[tuple[str, Sequence[DiffHunk]]]:
    def picked(line: EntryLine) -> bool:
        return line.call == call_id and line.kind == ToolFinished.kind

    entries = (await service.reader.journal_page(order_id, picked, 0, 1)).items
    facts = [entry.data for entry in entries]
    return changes_in(facts[0].content) if facts and isinstance(facts[0], ToolFinished) else ()


def _next_turn(service: Service, order: WorkOrder, message: str, by: Actor, key: str | None) -> Placed:
    """The review as the next turn of the order's session, with what the order was placed with."""
    if order.kind is not OrderKind.CHAT:
        raise Unacceptable("comments", f"a {order.kind.value} order has no next turn that could read a review.")
    check_disk(service)
    again = same_input(order, now()).model_copy(update={"prompt": message, "attachments": ()})
    new = checked(again, service.settings, service.store.leases.registrations(), now())
    return service.store.orders.place(
        new,
        by=by,
        idempotency_key=key,
        on_ask=service.settings.approvals.on_ask or order.on_ask or "deny",
        # Its time to expiry counts from now on, so it is not what a repeated request is known by.
        request=again.model_copy(update={"expires_at": None}),
    )
