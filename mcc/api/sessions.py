"""Sessions over HTTP: opening, listing, one with its turns."""

from fastapi import APIRouter
from starlette.responses import Response

from mcc.api.service import API, PAGE_LIMIT, PRINCIPAL, Cursor, Limit, ServiceHere, SessionId, answer, answers, page
from mcc.contracts.answers import Listing
from mcc.contracts.order import NewSession, Session, SessionWithTurns, WorkOrder
from mcc.store.store import Store

router = APIRouter(prefix=API, tags=["sessions"])


@router.post("/sessions", status_code=201, responses=answers(Session, 201))
async def open_session(service: ServiceHere, new: NewSession | None = None) -> Response:
    """Begin a conversation; its orders follow one another."""
    session = await service.write(service.store.sessions.open, new or NewSession(), principal=PRINCIPAL)
    return answer(session, 201, {"Location": f"/api/v1/sessions/{session.id}"})


@router.get("/sessions", responses=answers(Listing[Session]))
async def list_sessions(service: ServiceHere, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """Sessions, newest first."""
    return page(await service.offload(service.store.sessions.list, cursor=cursor, limit=limit))


@router.get("/sessions/{session_id}", responses=answers(SessionWithTurns))
async def show(session_id: SessionId, service: ServiceHere) -> Response:
    """One session with its turns, in the order in which they were accepted."""
    return answer(await service.offload(_with_turns, service.store, session_id))


def _with_turns(store: Store, session_id: str) -> SessionWithTurns:
    session = store.sessions.get(session_id)
    orders: list[WorkOrder] = []
    found = store.orders.list(session_id=session_id, limit=PAGE_LIMIT)
    orders.extend(found.items)
    while found.next_cursor is not None:
        found = store.orders.list(session_id=session_id, limit=PAGE_LIMIT, cursor=found.next_cursor)
        orders.extend(found.items)
    orders.sort(key=lambda order: order.session_seq)
    return SessionWithTurns(**dict(session), orders=tuple(orders))
