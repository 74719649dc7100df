"""Notes that agents keep for later orders of a project: listed with their history, and removed, over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from mcc.api.access.callers import CallerHere
from mcc.api.service import API, PAGE_LIMIT, ServiceHere, Window, WindowHere, answer, answers, whole
from mcc.contracts.answers import Listing
from mcc.contracts.notes import DecideNote, Note, NoteKind, NoteState

router = APIRouter(prefix=API, tags=["notes"])

Project = Annotated[str, Query(max_length=200)]
NoteName = Annotated[str, Query(max_length=200)]


@router.get("/notes", responses=answers(Listing[Note]))
async def notes(
    service: ServiceHere,
    window: WindowHere,
    project: Annotated[str | None, Query(max_length=200)] = None,
    kind: NoteKind | None = None,
    state: NoteState = "accepted",
) -> Response:
    """Notes of all projects or one, newest first: of each that is neither removed nor expired the version that counts,
    which is the newest accepted one; with `state` all versions of memories that are pending, or were rejected."""
    window = Window(window.skip, window.limit or PAGE_LIMIT)
    most = window.skip + PAGE_LIMIT + 1
    find = service.store.notes.find
    return whole(await service.offload(find, project=project, kind=kind, state=state, most=most), window)


@router.get("/notes/history", responses=answers(Listing[Note]))
async def history(
    project: Project, kind: NoteKind, name: NoteName, service: ServiceHere, window: WindowHere
) -> Response:
    """All kept versions of one note, newest first, each with the order and journal entry that wrote it."""
    return whole(await service.offload(service.store.notes.history, project, kind, name), window)


@router.post("/notes/decide", responses=answers(Note))
async def decide(decision: DecideNote, service: ServiceHere, caller: CallerHere) -> Response:
    """Accept a pending version of a memory, which from now on counts for agents of all sessions, or reject it.

    Repeating a decision changes nothing. Answered with 409: a different decision, and one about a version whose place a
    later one has taken.
    """
    return answer(await service.write(service.store.notes.decide, decision, by=caller.actor))


@router.delete("/notes", responses=answers(Note))
async def remove(
    project: Project, kind: NoteKind, name: NoteName, service: ServiceHere, caller: CallerHere
) -> Response:
    """Remove a note, so that agents no longer read it. Its versions stay in the history until they are pruned."""
    return answer(await service.write(service.store.notes.remove, project, kind, name, by=caller.actor))
