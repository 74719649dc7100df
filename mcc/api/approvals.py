"""The inbox over HTTP: what waits for a person's yes or no, and the decision."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from mcc.api.service import API, PRINCIPAL, ServiceHere, answer, answers, whole
from mcc.contracts.answers import Listing
from mcc.contracts.approvals import ItemStatus, NewDecision, OutlineItem

router = APIRouter(prefix=API, tags=["approvals"])

ApprovalId = Annotated[str, Path(max_length=200)]


@router.get("/inbox", responses=answers(Listing[OutlineItem]))
async def inbox(service: ServiceHere, status: ItemStatus | None = None) -> Response:
    """What waits for a person, or waited: the outlines of documents. Those of orders that have ended are told for as
    long as their journals stand as they were written."""
    return whole(await service.offload(service.store.approvals.list, status))


@router.get("/approvals", responses=answers(Listing[OutlineItem]))
async def approvals(service: ServiceHere, status: ItemStatus | None = None) -> Response:
    """Of the inbox what is approved or denied."""
    return whole(await service.offload(service.store.approvals.list, status))


@router.post("/approvals/{approval_id}", responses=answers(OutlineItem))
async def decide(approval_id: ApprovalId, decision: NewDecision, service: ServiceHere) -> Response:
    """Approve it, and its order goes on with the document as it is now; or deny it, and the order ends. The same
    decision again changes nothing, another one is answered with 409, one that comes too late with 410."""
    redacted = service.redactor().model(decision)
    item, decided = await service.write(
        service.store.approvals.decide, approval_id, redacted.decision, principal=PRINCIPAL, note=redacted.note
    )
    if decided:
        service.notices.placed(await service.offload(service.store.orders.get, item.order_id))
    return answer(item)
