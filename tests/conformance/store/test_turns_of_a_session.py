"""What a turn goes on from: the turns before it in its session, unless they were rolled back, as far as they fit."""

from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import EarlierTurn, WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus
from tests.conformance.store.scene import Scene

ALL = 1_000_000


def ended(scene: Scene, prompt: str, session_id: str | None = None) -> WorkOrder:
    order = scene.place(prompt, session_id=session_id)
    scene.hold(order.id, token=prompt).finish()
    return order


def shown(scene: Scene, order: WorkOrder, characters: int = ALL) -> list[str]:
    return [turn.prompt for turn in scene.store.sessions.context(order, characters=characters)]


def test_the_first_turn_goes_on_from_nothing(scene: Scene) -> None:
    ended(scene, "another session")
    assert shown(scene, scene.place("first")) == []


def test_a_turn_goes_on_from_those_before_it_in_their_order(scene: Scene) -> None:
    first = ended(scene, "one")
    second = ended(scene, "two", first.session_id)
    third = scene.place("three", session_id=first.session_id)
    scene.place("four", session_id=first.session_id)
    assert scene.store.sessions.context(third, characters=ALL) == [
        EarlierTurn(session_seq=1, prompt="one", status=OrderStatus.SUCCEEDED, answer="the answer"),
        EarlierTurn(session_seq=2, prompt="two", status=OrderStatus.SUCCEEDED, answer="the answer"),
    ]
    assert shown(scene, second) == ["one"]


def test_a_turn_that_was_rolled_back_is_left_out_and_stays_in_history(scene: Scene) -> None:
    first = ended(scene, "one")
    second = ended(scene, "two", first.session_id)
    scene.store.orders.roll_back(second.id, principal="p")
    third = scene.place("three", session_id=first.session_id)
    assert shown(scene, third) == ["one"]
    assert [one.id for one in scene.store.orders.list(session_id=first.session_id).items] == [
        third.id,
        second.id,
        first.id,
    ]


def test_turns_that_failed_or_were_cancelled_are_shown_as_what_they_are(scene: Scene) -> None:
    first = scene.place("one")
    held = scene.hold(first.id)
    scene.store.claims.finish(held.ending(OrderStatus.FAILED, reason=FailureReason.MODEL_ERROR))
    second = scene.place("two", session_id=first.session_id)
    scene.store.controls.request(second.id, ControlKind.CANCEL, NewControl(), principal="p")
    third = scene.place("three", session_id=first.session_id)
    one, two = scene.store.sessions.context(third, characters=ALL)
    assert (one.status, two.status) == (OrderStatus.FAILED, OrderStatus.CANCELLED)
    assert two.answer is None


def test_a_retry_is_not_shown_the_turn_that_it_repeats(scene: Scene) -> None:
    first = ended(scene, "one")
    second = ended(scene, "two", first.session_id)
    again = scene.store.orders.retry(second.id, principal="p").order
    assert shown(scene, again) == ["one"]


def test_the_newest_turns_that_fit_are_shown(scene: Scene) -> None:
    first = ended(scene, "a" * 50)
    ended(scene, "b" * 50, first.session_id)
    third = scene.place("three", session_id=first.session_id)
    each = 50 + len("the answer")
    assert shown(scene, third, 2 * each) == ["a" * 50, "b" * 50]
    assert shown(scene, third, 2 * each - 1) == ["b" * 50]
    assert shown(scene, third, each - 1) == []
