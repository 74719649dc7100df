"""The inbox over HTTP: approvals and questions that wait for a person, their answers, and grants."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from mcc.api.controls import announce, with_recipients
from mcc.api.problems import Unacceptable
from mcc.api.service import API, ERRORS, PRINCIPAL, Cursor, Limit, Service, ServiceHere, answer, answers, page
from mcc.contracts.answers import Listing
from mcc.contracts.approvals import AnyApproval, AnyItem, Grant, ItemStatus, LateAnswer, NewDecision, QuestionItem
from mcc.contracts.ids import is_identifier
from mcc.contracts.questions import BadAnswer, NewAnswer
from mcc.contracts.status import OrderStatus
from mcc.store.work.approvals import APPROVAL_KINDS, QUESTION_KINDS, Decided

router = APIRouter(prefix=API, tags=["inbox"])

ItemId = Annotated[str, Path(max_length=200)]


@router.get("/inbox", responses=answers(Listing[AnyItem]))
async def inbox(
    service: ServiceHere,
    status: ItemStatus | None = None,
    order_id: str | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Items that wait or waited for a person, newest first: tool calls, outlines of documents, questions, memories."""
    if order_id is not None and not is_identifier(order_id):
        order_id = ""
    listing = service.store.approvals.list
    return page(await service.offload(listing, status, order_id=order_id, cursor=cursor, limit=limit))


@router.get("/approvals", responses=answers(Listing[AnyApproval]))
async def approvals(
    service: ServiceHere, status: ItemStatus | None = None, cursor: Cursor = None, limit: Limit = 50
) -> Response:
    """The inbox items that are approved or denied."""
    found = service.store.approvals.list
    return page(await service.offload(found, status, kinds=APPROVAL_KINDS, cursor=cursor, limit=limit))


@router.get("/questions", responses=answers(Listing[QuestionItem]))
async def questions(
    service: ServiceHere, status: ItemStatus | None = None, cursor: Cursor = None, limit: Limit = 50
) -> Response:
    """The inbox items that are answered."""
    found = service.store.approvals.list
    return page(await service.offload(found, status, kinds=QUESTION_KINDS, cursor=cursor, limit=limit))


@router.post("/approvals/{approval_id}", responses=answers(AnyApproval))
async def decide(approval_id: ItemId, decision: NewDecision, service: ServiceHere) -> Response:
    """Approve or deny an item. An approved tool call runs once, provided it would still do the same; of a denied one
    the agent is informed. With an approved outline the order continues with the document as it is now; with a denied
    one the order ends.

    With `remember` the item's `would_save` is saved as a grant. Repeating a decision changes nothing; a different
    decision is answered with 409, one that comes too late with 410.
    """
    redacted = service.redactor().model(decision)
    return await _settled(service, service.store.approvals.decide, approval_id, redacted)


@router.post("/questions/{question_id}", responses=answers(QuestionItem) | answers(LateAnswer, 202))
async def reply(question_id: ItemId, said: NewAnswer, service: ServiceHere) -> Response:
    """Answer a question (`answer`), or several that were asked together (`answers`, by their ids), so that the agent
    that asked continues; or `decline`. Repeating the same answer changes nothing, a different one is refused with 409.

    202: nobody waits for the answer any more. It became a steer of the session's unfinished order, or its next turn is
    shown it above the prompt. There is nothing to decline then: 410.
    """
    try:
        redacted = service.redactor().model(said)
        decided = await service.write(service.store.approvals.answer, question_id, redacted, principal=PRINCIPAL)
    except BadAnswer as problem:
        raise Unacceptable(problem.field, str(problem)) from problem
    if isinstance(decided, Decided):
        return await _told(service, decided)
    if decided.control is not None:
        announce(service, await service.offload(with_recipients, service.store, decided.control))
    return answer(decided.answer, 202)


async def _settled(service: Service, settle: Callable[..., Decided], item_id: str, said: object) -> Response:
    return await _told(service, await service.write(settle, item_id, said, principal=PRINCIPAL))


async def _told(service: Service, decided: Decided) -> Response:
    """Wake whoever waits for the decision, and answer the item."""
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
async def revoke(grant_id: ItemId, service: ServiceHere) -> Response:
    """Revoke a grant. It applies to no further call, those of running orders included."""
    await service.write(service.store.grants.revoke, grant_id, principal=PRINCIPAL)
    return Response(status_code=204)
