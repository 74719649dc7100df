"""The inbox over HTTP: approvals and questions that wait for a person, their answers, and grants."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from mcc.api.access.callers import CallerHere
from mcc.api.controls import announce, with_recipients
from mcc.api.problems import Unacceptable
from mcc.api.service import API, ERRORS, Cursor, Limit, Service, ServiceHere, answer, answers, page
from mcc.contracts.answers import Listing
from mcc.contracts.approvals import (
    ITEM_KINDS,
    ORDER_ITEM_KINDS,
    AnyApproval,
    Grant,
    InboxItem,
    InboxKind,
    ItemStatus,
    LateAnswer,
    NewDecision,
    QuestionItem,
    SeenItems,
)
from mcc.contracts.callers import AccessScope
from mcc.contracts.ids import is_identifier
from mcc.contracts.questions import BadAnswer, NewAnswer
from mcc.contracts.status import OrderStatus
from mcc.store.lists.inbox import InboxQuery
from mcc.store.people.owners import Thing
from mcc.store.work.approvals import APPROVAL_KINDS, QUESTION_KINDS, Decided

router = APIRouter(prefix=API, tags=["inbox"])

ItemId = Annotated[str, Path(max_length=200)]


@router.get("/inbox", responses=answers(Listing[InboxItem]))
async def inbox(
    service: ServiceHere,
    caller: CallerHere,
    status: ItemStatus | None = None,
    order_id: str | None = None,
    kinds: Annotated[tuple[InboxKind | Literal["all"], ...], Query(max_length=20)] = (),
    scope: Literal["mine", "all"] | None = None,
    unseen: bool = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Items that wait or waited for a person, newest first: tool calls, outlines of documents, questions, memories.

    With `kinds` also orders that a person should look at: failed, over their budget, ready or stuck; `all` = all kinds.
    Orders have no status: `status` applies to the other items. `scope` mine: of orders that the caller placed;
    without it, all where the caller has the right `operate`, else mine. A page ends with `limit` items, or sooner where
    they are large; with `unseen` it may have none, and yet a `next_cursor`.
    """
    if order_id is not None and not is_identifier(order_id):
        order_id = ""
    wanted = ITEM_KINDS | ORDER_ITEM_KINDS if "all" in kinds else frozenset(kind for kind in kinds if kind != "all")
    query = InboxQuery(
        status,
        wanted or ITEM_KINDS,
        order_id,
        viewer=caller.principal,
        unseen=unseen,
        owner=None if scope == "all" or (scope is None and AccessScope.OPERATE in caller.scopes) else caller.principal,
        stuck=await service.stuck.items() if "stuck" in wanted else (),
        cursor=cursor,
        limit=limit,
    )
    return page(await service.offload(service.store.inbox.look, query))


@router.post("/inbox/seen", status_code=204, responses=dict(ERRORS))
async def see(items: SeenItems, service: ServiceHere, caller: CallerHere) -> Response:
    """Mark items of the inbox as seen by the caller: by their ids, of which unknown ones are passed over, or all up to
    a time."""
    await service.write(service.store.inbox.see, caller.principal, ids=items.ids, before=items.before)
    return Response(status_code=204)


@router.get("/approvals", responses=answers(Listing[AnyApproval]))
async def approvals(
    service: ServiceHere, status: ItemStatus | None = None, cursor: Cursor = None, limit: Limit = 50
) -> Response:
    """The inbox items that are approved or denied."""
    found = service.store.inbox.list
    return page(await service.offload(found, status, kinds=APPROVAL_KINDS, cursor=cursor, limit=limit))


@router.get("/questions", responses=answers(Listing[QuestionItem]))
async def questions(
    service: ServiceHere, status: ItemStatus | None = None, cursor: Cursor = None, limit: Limit = 50
) -> Response:
    """The inbox items that are answered."""
    found = service.store.inbox.list
    return page(await service.offload(found, status, kinds=QUESTION_KINDS, cursor=cursor, limit=limit))


@router.post("/approvals/{approval_id}", responses=answers(AnyApproval))
async def decide(approval_id: ItemId, decision: NewDecision, service: ServiceHere, caller: CallerHere) -> Response:
    """Approve or deny an item. An approved tool call runs once, provided it would still do the same; of a denied one
    the agent is informed. With an approved outline the order continues with the document as it is now; with a denied
    one the order ends.

    With `remember` the item's `would_save` is saved as a grant. Repeating a decision changes nothing; a different
    decision is answered with 409, as is one about an item of another `digest`; one that comes too late with 410. To
    remember it for a workspace decides for everybody, and needs the right `operate`, as does the session of others.
    """
    if decision.remember == "workspace":
        caller.need(AccessScope.OPERATE, "To remember this for the workspace, which counts for everybody,")
    elif decision.remember == "session":
        await service.ownership.check(caller, Thing.SESSION_OF_ITEM, approval_id)
    redacted = service.redactor().model(decision)
    decide_item = service.store.approvals.decide
    return await _told(service, await service.write(decide_item, approval_id, redacted, by=caller.actor))


@router.post("/questions/{question_id}", responses=answers(QuestionItem) | answers(LateAnswer, 202))
async def reply(question_id: ItemId, said: NewAnswer, service: ServiceHere, caller: CallerHere) -> Response:
    """Answer a question (`answer`), or several that were asked together (`answers`, by their ids), so that the agent
    that asked continues; or `decline`. Repeating the same answer changes nothing, a different one is refused with 409.

    202: nobody waits for the answer any more. It became a steer of the session's unfinished order, or its next turn is
    shown it above the prompt. There is nothing to decline then: 410; nor has the session of others anything to be told.
    """
    late = not await service.ownership.refused(caller, Thing.SESSION_OF_ITEM, [question_id])
    try:
        redacted = service.redactor().model(said)
        answered = service.store.approvals.answer
        anybodys = AccessScope.OPERATE in caller.scopes
        decided = await service.write(answered, question_id, redacted, by=caller.actor, late=late, anybodys=anybodys)
    except BadAnswer as problem:
        raise Unacceptable(problem.field, str(problem)) from problem
    if isinstance(decided, Decided):
        return await _told(service, decided)
    if decided.control is not None:
        announce(service, await service.offload(with_recipients, service.store, decided.control))
    return answer(decided.answer, 202)


async def _told(service: Service, decided: Decided) -> Response:
    """Wake whoever waits for the decision, and answer the item."""
    if decided.changed:
        service.notices.inbox_moved(decided.item.order_id)
    if decided.control is not None:
        announce(service, await service.offload(with_recipients, service.store, decided.control))
    elif decided.changed:
        order = await service.offload(service.store.orders.get, decided.item.order_id)
        service.notices.placed(order) if order.status is OrderStatus.QUEUED else service.notices.status_changed(order)
    return answer(decided.item)


@router.get("/grants", responses=answers(Listing[Grant]))
async def grants(service: ServiceHere, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """Grants, which are approvals that stand for later calls, newest first."""
    return page(await service.offload(service.store.grants.list, cursor=cursor, limit=limit))


@router.delete("/grants/{grant_id}", status_code=204, responses=dict(ERRORS))
async def revoke(grant_id: ItemId, service: ServiceHere, caller: CallerHere) -> Response:
    """Revoke a grant. It applies to no further call, those of running orders included."""
    await service.write(service.store.grants.revoke, grant_id, by=caller.actor)
    return Response(status_code=204)
