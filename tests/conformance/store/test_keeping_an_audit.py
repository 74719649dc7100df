"""The audit, on every store."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from mcc.contracts.callers import Actor
from mcc.store.database.errors import BadEntry
from tests.conformance.store.scene import Scene


def test_a_note_is_read_back_unchanged(scene: Scene) -> None:
    order = scene.place()
    detail = {"sentence": "half a pair \ud83d and NUL \x00", "orders": 3, "nested": {"list": [1, None, True]}}
    made = scene.store.audit.note("doctor.nudged", by=Actor("ann"), order_id=order.id, detail=detail)
    (note,) = scene.store.audit.of_order(order.id)
    assert (note.id, note.kind, note.principal, note.order_id) == (made, "doctor.nudged", "ann", order.id)
    assert note.detail == detail and note.at == scene.clock.now()


def test_notes_of_an_order_are_listed_oldest_first_without_those_of_others(scene: Scene) -> None:
    one, other = scene.place(), scene.place()
    for kind in ("first", "second", "third"):
        scene.store.audit.note(kind, by=Actor("ann"), order_id=one.id, detail={})
    scene.store.audit.note("fourth", by=Actor("ann"), order_id=other.id, detail={})
    scene.store.audit.note("of no order", by=Actor("ann"), order_id=None, detail={})
    assert [note.kind for note in scene.store.audit.of_order(one.id)] == ["first", "second", "third"]
    assert [note.kind for note in scene.store.audit.of_order("\0 unheard of")] == []


def test_the_list_is_newest_first_and_within_its_limit(scene: Scene) -> None:
    for number in range(5):
        scene.store.audit.note(f"kind {number}", by=Actor("ann"), order_id=None, detail={"number": number})
    assert [note.kind for note in scene.store.audit.list(3)] == ["kind 4", "kind 3", "kind 2"]
    assert [note.order_id for note in scene.store.audit.list()] == [None] * 5


def test_a_detail_that_is_not_json_is_refused_and_nothing_is_noted(scene: Scene) -> None:
    with pytest.raises(BadEntry):
        scene.store.audit.note("kind", by=Actor("ann"), detail={"what": object()})
    assert scene.store.audit.list() == []


def test_what_is_noted_once_is_the_same_note_for_all_who_ask_at_once(scene: Scene) -> None:
    at_once = Barrier(6)

    def noted(number: int) -> tuple[str, ...]:
        at_once.wait()
        note = scene.store.audit.note_once("named", by=Actor("ann"), detail={"number": number})
        first = scene.store.audit.first("named")
        return note.id, "" if first is None else first.id

    with ThreadPoolExecutor(6) as threads:
        ids = {each for pair in threads.map(noted, range(6)) for each in pair}
    assert len(ids) == 1 == len(scene.store.audit.list())
