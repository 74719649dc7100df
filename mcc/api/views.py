"""Saved views over HTTP: filters of lists, kept under a name."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from mcc.api.access.callers import CallerHere
from mcc.api.problems import Unacceptable
from mcc.api.service import API, ERRORS, ServiceHere, WindowHere, answer, answers, whole
from mcc.contracts.answers import Listing
from mcc.contracts.callers import AccessScope
from mcc.contracts.order_bulk import VIEW_BYTES, View, ViewContent, ViewName
from mcc.contracts.shape import to_json

router = APIRouter(prefix=API, tags=["views"])

Named = Annotated[ViewName, Path()]


@router.get("/views", responses=answers(Listing[View]))
async def views(service: ServiceHere, caller: CallerHere, window: WindowHere) -> Response:
    """The caller's saved views and those that are shared, by their positions."""
    return whole(await service.offload(service.store.views.list, caller.principal), window)


@router.get("/views/{name}", responses=answers(View))
async def view(name: Named, service: ServiceHere, caller: CallerHere) -> Response:
    """The caller's view of this name, else a shared one."""
    return answer(await service.offload(service.store.views.get, caller.principal, name))


@router.put("/views/{name}", responses=answers(View))
async def keep(name: Named, content: ViewContent, service: ServiceHere, caller: CallerHere) -> Response:
    """Keep filters under this name, in place of the caller's view that has it; 409 beyond 50 views. A shared view needs
    the right `operate`."""
    if content.shared:
        caller.need(AccessScope.OPERATE, "Sharing a view")
    if len(to_json(content.query)) > VIEW_BYTES:
        raise Unacceptable("query", f"a view has at most {VIEW_BYTES:,} bytes of filters.")
    return answer(await service.write(service.store.views.put, caller.principal, name, content))


@router.delete("/views/{name}", status_code=204, responses=dict(ERRORS))
async def delete(name: Named, service: ServiceHere, caller: CallerHere) -> Response:
    """Delete the caller's view of this name."""
    await service.write(service.store.views.delete, caller.principal, name)
    return Response(status_code=204)
