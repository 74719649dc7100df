"""Which orders have new entries, on every database."""

from datetime import timedelta

from mcc.store.lists.movements import MovementStore, OrderTraits
from tests.conformance.store.scene import Scene, started


def test_what_runs_or_is_named_moves_and_with_a_time_what_was_placed_or_has_ended_since(scene: Scene) -> None:
    movements = MovementStore(scene.store.database)
    queued, ended = scene.place().id, scene.running()
    ended.write(started())
    scene.clock.advance(60)
    since = movements.now()
    running = scene.running()
    fresh = scene.place().id
    ended.finish()
    assert movements.at_work() == {running.order_id: running.last_seq}
    assert movements.heads((), None) == {running.order_id: running.last_seq}
    assert movements.heads([queued], None) == {running.order_id: running.last_seq, queued: 1}
    wide = movements.heads((), since)
    assert wide == {running.order_id: running.last_seq, fresh: 1, ended.order_id: wide[ended.order_id]}
    assert wide[ended.order_id] == len(scene.kinds(ended.order_id))
    assert movements.heads((), movements.now() + timedelta(seconds=1)).keys() == {running.order_id}


def test_a_position_is_the_last_entry_before_a_time(scene: Scene) -> None:
    movements = MovementStore(scene.store.database)
    held = scene.running()
    at = held.last_seq
    scene.clock.advance(1)
    since = movements.now()
    held.write(started())
    fresh = scene.place().id
    assert movements.positions([held.order_id, fresh], since) == {held.order_id: at}
    assert movements.positions([], since) == {}
    assert [entry.seq for entry in movements.entries(held.order_id, at, 10)] == [held.last_seq]


def test_traits_are_those_that_the_order_was_placed_with(scene: Scene) -> None:
    order = scene.place(labels=("a", "b"), agent="master")
    told = MovementStore(scene.store.database).traits([order.id, "01900000-0000-7000-8000-000000000000"])
    assert told == {
        order.id: OrderTraits(
            order.session_id, "master", ("a", "b"), str(order.principal), order.door, order.created_at
        )
    }
