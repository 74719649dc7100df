"""Notes over HTTP: agents' notes are listed with their source, and a person removes some."""

from typing import Any

import httpx
import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.ids import call_id
from mcc.contracts.notes import NewNote, Note
from mcc.contracts.order import NewOrder
from mcc.store.store import Store
from mcc.store.work.notes import Writing
from mcc.testing.hand_drone import HandDrone
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.api.test_orders_over_http import ORDERS, is_problem

NOTES = "/api/v1/notes"


@pytest.fixture
async def note(api: httpx.AsyncClient, store: Store) -> Note:
    placed = (await api.post(ORDERS, json={"prompt": "look"})).json()
    held = HandDrone(store).claim(placed["id"])
    held.start("look")
    call = call_id(held.id, 1, 0)
    writing = Writing(held.id, held.claim.epoch, held.master, call, "project-1", "/srv/shop")
    return store.notes.write(writing, NewNote(kind="memory", name="build", text="make check"))


def named(note: Note) -> dict[str, Any]:
    return {"project": note.project, "kind": note.kind, "name": note.name}


async def test_notes_are_listed_with_who_wrote_them(
    api: httpx.AsyncClient, note: Note, document: dict[str, Any]
) -> None:
    answer = await api.get(NOTES)
    check(document, answer, NOTES)
    [item] = answer.json()["items"]
    assert (item["name"], item["workspace"], item["order_id"]) == ("build", "/srv/shop", note.order_id)
    assert (await api.get(NOTES, params={"kind": "plan"})).json()["items"] == []
    assert (await api.get(NOTES, params={"project": "other"})).json()["items"] == []


async def test_a_person_takes_a_note_away_and_its_history_says_so(api: httpx.AsyncClient, note: Note) -> None:
    gone = await api.delete(NOTES, params=named(note))
    assert (gone.status_code, gone.json()["deleted"], gone.json()["principal"]) == (200, True, "operator")
    assert (await api.get(NOTES)).json()["items"] == []
    history = (await api.get(f"{NOTES}/history", params=named(note))).json()["items"]
    assert [(one["version"], one["deleted"], one["text"]) for one in history] == [
        (2, True, ""),
        (1, False, "make check"),
    ]
    is_problem(await api.delete(NOTES, params=named(note)), 404)


@pytest.fixture
def waiting(store: Store, note: Note) -> Note:
    """A later version of the same note that waits for a person."""
    held = HandDrone(store).claim(store.orders.place(NewOrder(prompt="look"), by=Actor("someone")).order.id)
    held.start("look")
    call = call_id(held.id, 1, 0)
    writing = Writing(held.id, held.claim.epoch, held.master, call, "project-1", tainted=True, pending=True)
    return store.notes.write(writing, NewNote(kind="memory", name="build", text="make all"))


async def decided(api: httpx.AsyncClient, note: Note, said: str, **more: object) -> httpx.Response:
    asked = {"project": note.project, "name": note.name, "version": note.version, "decision": said, **more}
    return await api.post(f"{NOTES}/decide", json=asked)


async def test_a_note_that_waits_is_in_the_inbox_and_not_among_those_that_count(
    api: httpx.AsyncClient, waiting: Note, document: dict[str, Any]
) -> None:
    answer = await api.get("/api/v1/inbox", params={"status": "pending"})
    check(document, answer, "/api/v1/inbox")
    [item] = answer.json()["items"]
    assert (item["kind"], item["name"], item["version"], item["text"]) == ("note", "build", 2, "make all")
    assert (item["order_id"], item["tainted"], item["deletes"]) == (waiting.order_id, True, False)
    assert [one["text"] for one in (await api.get(NOTES)).json()["items"]] == ["make check"]
    [pending] = (await api.get(NOTES, params={"state": "pending"})).json()["items"]
    assert (pending["state"], pending["tainted"], pending["decided_by"]) == ("pending", True, None)
    assert (await api.get("/api/v1/approvals")).json()["items"] == []
    assert 'mcc_pending_items{kind="note"} 1.0' in (await api.get("/metrics")).text


@pytest.mark.parametrize(
    ("decision", "state", "status"), [("accept", "accepted", "approved"), ("reject", "rejected", "denied")]
)
async def test_a_person_decides_about_a_note(
    api: httpx.AsyncClient, waiting: Note, document: dict[str, Any], decision: str, state: str, status: str
) -> None:
    answer = await decided(api, waiting, decision)
    check(document, answer, f"{NOTES}/decide")
    assert (answer.status_code, answer.json()["state"], answer.json()["decided_by"]) == (200, state, "operator")
    assert (await decided(api, waiting, decision)).json() == answer.json(), "the same again changes nothing"
    is_problem(await decided(api, waiting, "reject" if decision == "accept" else "accept"), 409)
    [item] = (await api.get("/api/v1/inbox")).json()["items"]
    assert (item["status"], item["by"]) == (status, "operator")
    [current] = (await api.get(NOTES)).json()["items"]
    assert current["text"] == ("make all" if decision == "accept" else "make check")


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"version": 9}, 404),
        ({"name": "x"}, 404),
        ({"version": 0}, 422),
        ({"decision": "perhaps"}, 422),
        ({"kind": "task"}, 422),
    ],
)
async def test_a_decision_about_nothing_is_refused(
    api: httpx.AsyncClient, waiting: Note, more: dict[str, object], status: int
) -> None:
    is_problem(await decided(api, waiting, "accept", **more), status)


@pytest.mark.parametrize("params", [{}, {"kind": "memory"}, {"project": "p", "kind": "song", "name": "x"}])
async def test_what_names_no_note_is_refused(api: httpx.AsyncClient, params: dict[str, str]) -> None:
    assert (await api.delete(NOTES, params=params)).status_code == 422
