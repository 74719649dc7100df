"""Who was refused is noted in the audit, at most once a minute for each principal and route."""

import asyncio

import httpx

from mcc.api.access.callers import Caller
from mcc.api.access.refused import KEPT, RefusedNotes
from mcc.contracts.callers import SCOPES_OF, Actor, Role
from mcc.contracts.people import AuditNote
from mcc.store.database.errors import StoreUnavailable
from mcc.store.store import Store
from tests.mcc.api.people_scene import ORDERS, PEOPLE, member
from tests.mcc.api.signing import V1
from tests.waiting import eventually


def caller(principal: str) -> Caller:
    return Caller(principal, SCOPES_OF[Role.VIEWER], "api")


class Clock:
    at = 0.0


async def noted_by(refusals: RefusedNotes) -> None:
    """Until all is written."""
    while refusals._writing:
        await asyncio.wait(set(refusals._writing))


async def test_it_is_noted_once_a_minute_for_each_principal_and_route() -> None:
    clock, notes = Clock(), list[tuple[str, str]]()

    async def note(who: Actor, route: str) -> None:
        notes.append((who.principal, route))

    refusals = RefusedNotes(note, monotonic=lambda: clock.at)
    for principal, method in (("ann", "GET"), ("ann", "GET"), ("bob", "GET"), ("ann", "POST")):
        refusals(caller(principal), {"method": method})
    clock.at = 59.9
    refusals(caller("ann"), {"method": "GET"})
    await noted_by(refusals)
    assert notes == [("ann", "GET "), ("bob", "GET "), ("ann", "POST ")]
    clock.at = 60.0
    refusals(caller("ann"), {"method": "GET"})
    await noted_by(refusals)
    assert notes[3:] == [("ann", "GET ")]


async def test_no_more_is_remembered_than_is_bounded_and_a_database_that_is_away_is_no_error() -> None:
    async def away(who: Actor, route: str) -> None:
        raise StoreUnavailable("away")

    refusals = RefusedNotes(away)
    for number in range(KEPT + 5):
        refusals(caller(str(number)), {"method": "GET"})
    await noted_by(refusals)
    assert len(refusals._noted) == KEPT


def refusals(store: Store) -> list[AuditNote]:
    return [note for note in store.audit.list() if note.kind == "refused"]


async def test_a_refusal_is_in_the_audit_by_route_and_what_is_allowed_is_not(
    api: httpx.AsyncClient, store: Store
) -> None:
    viewer = await member(api, "Vi", "viewer")
    for _ in range(3):
        assert (await viewer.post(ORDERS, json={"prompt": "x"})).status_code == 403
        assert (await viewer.get(f"{PEOPLE}/anybody")).status_code == 403
        assert (await viewer.get(ORDERS)).status_code == 200
    principal = (await viewer.get(f"{V1}/me")).json()["principal"]
    # They are written beside the answers.
    await eventually(lambda: len(refusals(store)) == 2)
    notes = refusals(store)
    assert {note.principal for note in notes} == {principal}
    assert {note.detail["route"] for note in notes} == {"POST /api/v1/orders", "GET /api/v1/people/{person_id}"}
