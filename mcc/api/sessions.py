"""Sessions over HTTP: opened, listed, read in pages, changed, forked, exported, deleted."""

from typing import Annotated, TypeVar

from fastapi import APIRouter, Query
from starlette.responses import Response

from mcc.api.access.callers import CallerHere
from mcc.api.controls import announce, with_recipients_of_all
from mcc.api.orders import IdPart, check_disk
from mcc.api.service import (
    API,
    ERRORS,
    Cursor,
    Limit,
    Service,
    ServiceHere,
    SessionId,
    WindowHere,
    answer,
    answers,
    page,
    whole,
)
from mcc.api.session_export import MEDIA_TYPES, ExportFormat, exported
from mcc.api.streams import Begun, TextStream
from mcc.api.submission import checked
from mcc.contracts.answers import Listing
from mcc.contracts.callers import Actor
from mcc.contracts.cancelling import OrdersCancelled, OrdersToCancel
from mcc.contracts.history import FoundLimit, HistoryFound, Question
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.sessions import (
    NewSession,
    NewSessionFork,
    ReadMark,
    Session,
    SessionChange,
    SessionDefaults,
    SessionWithTurns,
    TurnUsage,
)
from mcc.contracts.shape import now
from mcc.contracts.status import FINAL
from mcc.store.history.scope import MOST_FORKS, turn_of
from mcc.store.rows.values import Placed
from mcc.store.upkeep.session_removal import WHY
from mcc.store.work.cancelling import Cancels
from mcc.store.work.session_search import SessionFilter

D = TypeVar("D", bound=SessionDefaults)

router = APIRouter(prefix=API, tags=["sessions"])

TurnBefore = Annotated[int | None, Query(ge=1, le=10**9)]
ForksBack = Annotated[int | None, Query(ge=0, le=MOST_FORKS)]
TitlePart = Annotated[str | None, Query(min_length=1, max_length=200)]


@router.post("/sessions", status_code=201, responses=answers(Session, 201))
async def open_session(service: ServiceHere, caller: CallerHere, new: NewSession | None = None) -> Response:
    """Begin a conversation. Its orders run one after another.

    `agent`, `model`, `mode`, `workspace` and `limits` are what its chat turns get where their orders leave them out.
    """
    session = await service.write(_open, service, new or NewSession(), caller.actor)
    return answer(session, 201, {"Location": f"sessions/{session.id}"})


@router.get("/sessions", responses=answers(Listing[Session]))
async def list_sessions(
    service: ServiceHere,
    caller: CallerHere,
    archived: bool | None = None,
    text: TitlePart = None,
    part: IdPart | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Sessions, newest first: those that are not archived, with `archived` those that are.

    `text` selects those in whose title it is; a page may then have fewer than `limit`, even none, and yet a
    `next_cursor`. `part` selects those whose id begins or ends so, archived or not.
    """
    shown = archived if archived is not None or part is not None else False
    wanted = SessionFilter(shown, text, part, cursor)
    return page(await service.offload(service.store.sessions.list, wanted, principal=caller.principal, limit=limit))


@router.get("/sessions/{session_id}", name="show", responses=answers(SessionWithTurns))
async def show_session(
    session_id: SessionId, service: ServiceHere, caller: CallerHere, before: TurnBefore = None, limit: Limit = 50
) -> Response:
    """One session with its newest turns, newest first; `next_before` is the `before` of the page with earlier ones."""
    turns = service.store.sessions.turns
    return answer(await service.offload(turns, session_id, before=before, limit=limit, principal=caller.principal))


@router.patch("/sessions/{session_id}", responses=answers(Session))
async def change_session(
    session_id: SessionId, change: SessionChange, service: ServiceHere, caller: CallerHere
) -> Response:
    """Change the fields that are given; null unsets one.

    409 for another `context` once the session has a turn.
    """
    change = await service.offload(_checked, service, change)
    return answer(await service.write(service.store.sessions.change, session_id, change, principal=caller.principal))


@router.delete("/sessions/{session_id}", status_code=202, responses=answers(OrdersCancelled, 202))
async def delete_session(session_id: SessionId, service: ServiceHere, caller: CallerHere) -> Response:
    """Delete a session with all that its turns left: it is unknown from now on (404).

    Its unfinished orders are cancelled: `requested` of them were told to end, `ended` of these at once. Once all have
    ended, their rows are removed in small transactions; a note in the audit stays. What a fork that has not ended a
    turn builds on stays until then, and long texts until they are a day old. 409 for the session of a document.
    """
    cancels = await service.write(_delete, service, session_id, caller.actor)
    orders = await service.offload(with_recipients_of_all, service.store, cancels.controls)
    for told in orders:
        announce(service, told)
    ended = sum(told.order is not None and told.order.status in FINAL for told in orders)
    return answer(OrdersCancelled(requested=len(orders), ended=ended), 202)


@router.post("/sessions/{session_id}/fork", status_code=201, responses=answers(Session, 201))
async def fork_session(
    session_id: SessionId, asked: NewSessionFork, service: ServiceHere, caller: CallerHere
) -> Response:
    """A new session whose next turn is shown this one's turns up to `turn`, with the same defaults; nothing runs yet.

    409 while that turn has not ended, 422 where there is none of that number or the session is a document's.
    """
    forked = await service.write(service.store.sessions.fork, session_id, asked, by=caller.actor)
    # Relative to the call: a proxy may have put a prefix before the path.
    return answer(forked, 201, {"Location": f"../{forked.id}"})


@router.post("/sessions/{session_id}/compact", status_code=202, responses=answers(WorkOrder, 202) | answers(WorkOrder))
async def compact(session_id: SessionId, service: ServiceHere, caller: CallerHere) -> Response:
    """Have what later turns are shown of the session shortened by a summary: the order that does so, of kind `compact`.

    No turn waits for it: one that begins before it has ended is shown what was there. It ends without doing anything
    while a turn runs. 200 with the order that is under way already, 409 where no turn has ended since the last one.
    """
    placed = await service.write(_compact, service, session_id, caller.actor)
    if placed.created:
        service.notices.placed(placed.order, placed.entries)
    location = {"Location": f"../../orders/{placed.order.id}"}
    return answer(placed.order, 202 if placed.created else 200, location)


@router.post("/sessions/{session_id}/read", status_code=204, responses={204: {"description": "Marked"}, **ERRORS})
async def mark_read(session_id: SessionId, mark: ReadMark, service: ServiceHere, caller: CallerHere) -> Response:
    """Mark the turns up to `turn` as read by the caller; what was marked before stays so."""
    await service.write(service.store.sessions.read, session_id, mark.turn, principal=caller.principal)
    return Response(status_code=204)


@router.get("/sessions/{session_id}/usage", responses=answers(Listing[TurnUsage]))
async def usage(session_id: SessionId, service: ServiceHere, window: WindowHere) -> Response:
    """What each turn has used, in their sequence; all of them unless `limit` is given."""
    return whole(await service.offload(service.store.sessions.usage, session_id), window)


@router.get("/sessions/{session_id}/search", responses=answers(HistoryFound))
async def search_session(
    session_id: SessionId,
    service: ServiceHere,
    q: Question,
    turn: TurnBefore = None,
    back: ForksBack = None,
    limit: FoundLimit = 10,
) -> Response:
    """Entries of the session's turns, and of those that it was forked from, in which words of `q` stand.

    A word also finds longer ones that begin like it. Best match first, then newest. `turn`: only in that turn, of
    the session that is `back` forks back (0: this one); without `back` in the turn of that number that is the fewest
    forks back. What is not indexed yet is read first, for at most 5 seconds; turns that were not reached are named in
    `not_searched`.
    """
    return answer(await service.slow(_search, service, session_id, q, turn, back, limit))


@router.get(
    "/sessions/{session_id}/export",
    responses={
        200: {
            "content": {kind: {"schema": {"type": "string"}} for kind in MEDIA_TYPES.values()},
            "description": "The session, turn by turn",
        },
        **ERRORS,
    },
)
async def export(
    session_id: SessionId, service: ServiceHere, caller: CallerHere, format: ExportFormat = "md"
) -> Response:
    """The whole session, oldest turn first: `md` to read, prompts and answers as quotations; `jsonl` for programs.

    The first line of `jsonl` is `{"session": …}`. Each further line is one turn, `{"order": …, "record": …}`, or
    `{"order_id", "pruned_at", "prompt", "answer"}` where its journal was pruned.
    """
    session = await service.offload(service.store.sessions.get, session_id, principal=caller.principal)
    pieces = await Begun.of(exported(service, session, format))
    return TextStream(pieces, media_type=MEDIA_TYPES[format])


def _search(
    service: Service, session_id: str, question: str, number: int | None, back: int | None, limit: int
) -> HistoryFound:
    history = service.store.history
    turns = history.of_session(session_id)
    if number is not None:
        turn = turn_of(turns, number, back)
        turns = [] if turn is None else [turn]
    return history.search(turns, question, service.redactor().text, limit=limit).found


def _open(service: Service, new: NewSession, by: Actor) -> Session:
    check_disk(service)
    return service.store.sessions.open(_checked(service, new), by=by)


def _compact(service: Service, session_id: str, by: Actor) -> Placed:
    check_disk(service)
    return service.store.compactions.ask(session_id, by=by)


def _checked(service: Service, defaults: D) -> D:
    """The same with its workspace normalised. Raises `Unacceptable` for what no order may name."""
    given = {name: value for name in SessionDefaults.model_fields if (value := getattr(defaults, name)) is not None}
    if not given:
        return defaults
    order = NewOrder.model_validate({"prompt": "-", **given})
    accepted = checked(order, service.settings, service.store.leases.registrations(), now())
    return defaults if accepted.workspace is None else defaults.model_copy(update={"workspace": accepted.workspace})


def _delete(service: Service, session_id: str, by: Actor) -> Cancels:
    service.store.removal.begin(session_id, by=by)
    # Those of the first thousand at once; the sweep finds what is left.
    asked = OrdersToCancel(session_id=session_id, reason=WHY)
    return service.store.cancelling.cancel(asked, by=by)
