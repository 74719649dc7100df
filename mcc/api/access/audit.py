"""The audit over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from mcc.api.access.callers import CallerHere
from mcc.api.service import API, Cursor, Limit, ServiceHere, answers, page
from mcc.contracts.answers import Listing
from mcc.contracts.callers import AccessScope
from mcc.contracts.people import AuditNote
from mcc.contracts.shape import Moment
from mcc.store.rows.audit import AuditFilter

router = APIRouter(prefix=API, tags=["audit"])

Short = Annotated[str | None, Query(max_length=200)]


@router.get("/audit", responses=answers(Listing[AuditNote]))
async def audit(
    service: ServiceHere,
    caller: CallerHere,
    who: Short = None,
    kind: Short = None,
    order_id: Short = None,
    since: Moment | None = None,
    until: Moment | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """What was done and stands in no order, newest first: sign-ins, people, tokens, decisions, grants, controls of
    others' orders, deletions, repairs. Everybody reads what they did themselves (`who`: a principal); what others did
    needs the right `operate`. `since`, `until`: from this time on, and before this time.
    """
    if who is not None and who != caller.principal:
        caller.need(AccessScope.OPERATE, "To read what others did")
    elif AccessScope.OPERATE not in caller.scopes:
        who = caller.principal
    wanted = AuditFilter(who, kind, order_id, since, until, cursor, limit)
    return page(await service.offload(service.store.audit.find, wanted))
