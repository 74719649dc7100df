"""People over HTTP: added, changed, let in by links, signed out; and what principals are called."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from mcc.api.access.callers import CallerHere
from mcc.api.access.signins import link_for
from mcc.api.service import API, ERRORS, Cursor, Limit, Service, ServiceHere, answer, answers, page, whole
from mcc.contracts.answers import Listing
from mcc.contracts.callers import PERSON, Signin, SigninLink
from mcc.contracts.people import MOST_PRINCIPALS, NewPerson, Person, PersonChange, PrincipalName
from mcc.store.people.people import ChangedPerson

router = APIRouter(prefix=API, tags=["people"])

PersonId = Annotated[str, Path(max_length=200)]
Principals = Annotated[
    list[Annotated[str, Query(max_length=200)]], Query(alias="ids", min_length=1, max_length=MOST_PRINCIPALS)
]


@router.get("/people", responses=answers(Listing[Person]))
async def people(service: ServiceHere, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """People, those who were added first before the others; without those who were removed."""
    return page(await service.offload(service.store.people.list, cursor=cursor, limit=limit))


@router.post("/people", status_code=201, responses=answers(Person, 201))
async def add(new: NewPerson, service: ServiceHere, caller: CallerHere) -> Response:
    """Add a person, who signs in by a link. A viewer reads; a member also places orders and steers own ones; an
    operator also those of others; an admin also sees to people and tokens."""
    person = await service.write(service.store.people.add, service.redactor().model(new), by=caller.actor)
    return answer(person, 201, {"Location": f"people/{person.id}"})


@router.get("/people/{person_id}", responses=answers(Person))
async def show(person_id: PersonId, service: ServiceHere) -> Response:
    """One person."""
    return answer(await service.offload(service.store.people.get, person_id))


@router.patch("/people/{person_id}", responses=answers(Person))
async def change(person_id: PersonId, asked: PersonChange, service: ServiceHere, caller: CallerHere) -> Response:
    """Change what is given. Another role counts from the next request on, of what is under way too. Who is disabled is
    signed out everywhere, and their tokens count no more until they are enabled again. 409 for the role of somebody who
    signs in by a provider of identities: their groups there say it.

    `budget` counts from the next order on, and what is spent today counts in it; null: that of everybody, `[budgets]`
    of the configuration.
    """
    # Not the redactor's own copy, in which nothing is left out: a budget that is left out stays as it is.
    redacted = asked if asked.name is None else asked.model_copy(update={"name": service.redactor().text(asked.name)})
    changed = await service.write(service.store.people.change, person_id, redacted, by=caller.actor)
    return answer(_ended(service, changed))


@router.delete("/people/{person_id}", status_code=204, responses=dict(ERRORS))
async def remove(person_id: PersonId, service: ServiceHere, caller: CallerHere) -> Response:
    """Remove a person for good: name and e-mail are blanked, all sign-ins and tokens end. The id stays, so that the
    history of what they did stays readable."""
    _ended(service, await service.write(service.store.people.remove, person_id, by=caller.actor))
    return Response(status_code=204)


@router.post("/people/{person_id}/link", status_code=201, responses=answers(SigninLink, 201))
async def link(person_id: PersonId, request: Request, service: ServiceHere, caller: CallerHere) -> Response:
    """A link that signs a browser in as this person, once within 24 hours: give it to nobody else. 409 for somebody who
    signs in by a provider of identities."""
    return answer(await link_for(service, caller, request, PERSON + person_id), 201)


@router.get("/people/{person_id}/signins", responses=answers(Listing[Signin]))
async def signins(person_id: PersonId, service: ServiceHere) -> Response:
    """The browsers that are signed in as this person, the newest first."""
    person = await service.offload(service.store.people.get, person_id)
    return whole(await service.offload(service.store.signins.of_principal, person.principal))


@router.delete("/people/{person_id}/signins", status_code=204, responses=dict(ERRORS))
async def sign_out(person_id: PersonId, service: ServiceHere, caller: CallerHere) -> Response:
    """End all of them, their event streams too. Tokens stay."""
    ended = await service.write(service.store.signins.end_all, PERSON + person_id, by=caller.actor)
    service.open_credentials.end(ended, "this browser was signed out")
    return Response(status_code=204)


@router.get("/principals", responses=answers(Listing[PrincipalName]))
async def principals(ids: Principals, service: ServiceHere) -> Response:
    """What up to 200 principals are called, in the same sequence."""
    return whole(await service.offload(service.store.people.names, ids))


def _ended(service: Service, changed: ChangedPerson) -> Person:
    """Look up again in this process what the person has, or end it; other processes do within 2 s."""
    if changed.why:
        service.open_credentials.end(changed.credentials, changed.why)
    else:
        service.credentials.rights.forget(changed.credentials)
    return changed.person
