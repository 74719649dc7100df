"""Notes over HTTP: agents' notes are listed with their source, and a person removes some."""

from typing import Any

import httpx
import pytest

from mcc.contracts.ids import call_id
from mcc.contracts.notes import NewNote, Note
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


@pytest.mark.parametrize("params", [{}, {"kind": "memory"}, {"project": "p", "kind": "song", "name": "x"}])
async def test_what_names_no_note_is_refused(api: httpx.AsyncClient, params: dict[str, str]) -> None:
    assert (await api.delete(NOTES, params=params)).status_code == 422
