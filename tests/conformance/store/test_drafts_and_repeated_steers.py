"""Drafts of people about orders; a steer that is asked for twice with one key is one steer."""

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import IdempotencyConflict, OrderIsFinal, UnknownOrder
from tests.conformance.store.scene import Scene, at_once

NOBODY = "01900000-0000-7000-8000-000000000000"


def test_drafts_are_those_of_a_person_and_an_order(scene: Scene) -> None:
    order, other = scene.place().id, scene.place().id
    drafts = scene.store.drafts
    assert drafts.read(order, "a") is None
    drafts.keep(order, "a", {"note": "nul \x00 half \ud83d"})
    drafts.keep(order, "b", {"note": "b"})
    scene.clock.advance(5)
    drafts.keep(order, "a", {"note": "nul \x00 half \ud83d", "comments": [1]})
    assert drafts.read(order, "a") == ({"note": "nul \x00 half \ud83d", "comments": [1]}, scene.clock.now())
    assert (drafts.read(order, "b") or ({},))[0] == {"note": "b"} and drafts.read(other, "a") is None
    drafts.keep(order, "a", {})
    assert drafts.read(order, "a") is None
    for unknown in (NOBODY, "nonsense"):
        with pytest.raises(UnknownOrder):
            drafts.keep(unknown, "a", {"note": "x"})
        with pytest.raises(UnknownOrder):
            drafts.read(unknown, "a")


def steer(scene: Scene, order_id: str, message: str, key: str | None) -> tuple[str, bool]:
    control, is_new = scene.store.controls.request_once(
        order_id, ControlKind.STEER, NewControl(message=message), by=Actor("someone"), key=key
    )
    return control.id, is_new


def test_a_key_is_answered_with_the_steer_that_was_made_with_it(scene: Scene) -> None:
    held = scene.running()
    first, is_new = steer(scene, held.order_id, "look", "k")
    assert is_new and steer(scene, held.order_id, "look", "k") == (first, False)
    assert steer(scene, held.order_id, "look", None)[1] and steer(scene, held.order_id, "look", "l")[1]
    with pytest.raises(IdempotencyConflict):
        steer(scene, held.order_id, "something else", "k")
    held.control_seq = 3
    held.finish(OrderStatus.SUCCEEDED)
    assert steer(scene, held.order_id, "look", "k") == (first, False)
    with pytest.raises(OrderIsFinal):
        steer(scene, held.order_id, "look", "m")


def test_a_key_of_an_order_is_no_key_of_a_steer(scene: Scene) -> None:
    held = scene.running()
    scene.placed("another", key="k")
    with pytest.raises(IdempotencyConflict):
        steer(scene, held.order_id, "look", "k")
    assert not scene.store.controls.of_order(held.order_id)


def test_of_requests_at_once_with_one_key_one_makes_the_steer(scene: Scene) -> None:
    held = scene.running()
    answers = at_once(*(lambda: steer(scene, held.order_id, "look", "k") for _ in range(4)))
    made = [answer for answer in answers if isinstance(answer, tuple)]
    assert len(made) == 4 and len({control for control, _ in made}) == 1
    assert sum(is_new for _, is_new in made) == 1
