"""Retention removes old journals and keeps everything that is still used, wherever it is interrupted."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import islice

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.journal import ControlApplied, ToolFinished
from mcc.contracts.order import NewFork
from mcc.contracts.shape import to_json
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import ForkOfPruned, JournalPruned
from mcc.store.database.tables import BLOBS, DRONES, JOURNAL, ORDERS
from mcc.store.upkeep.retention import Cleared, Retention, empty
from tests.conformance.store.scene import Held, Scene, called, ended, replied, returned, started

DAY = 86_400
LONG = "x" * 50_000


def ended_order(scene: Scene, prompt: str = "do it", content: str = "text", **fields: object) -> Held:
    """A succeeded order with five entries or more."""
    held = scene.running(prompt, **fields)
    master = held.origin.record_id or ""
    held.write(started(), replied(), called(master), returned(master, content=content), ended())
    held.finish()
    return held


def steps(scene: Scene, days: float = 30) -> Iterator[Cleared]:
    return scene.store.retention.clear(scene.clock.now() - timedelta(days=days))


def clear(scene: Scene, days: float = 30) -> Cleared:
    return sum(steps(scene, days), Cleared())


def count(scene: Scene, table: sa.Table) -> int:
    statement = sa.select(sa.func.count()).select_from(table)
    return int(scene.store.database.read(lambda connection: connection.scalar(statement)) or 0)


def test_the_journal_of_an_order_goes_and_its_record_and_answer_stay(scene: Scene) -> None:
    held = ended_order(scene)
    record, order = scene.store.orders.record(held.order_id), scene.store.orders.get(held.order_id)
    scene.clock.advance(31 * DAY)
    cleared = clear(scene)
    assert (cleared.orders, cleared.entries) == (1, held.last_seq)
    assert count(scene, JOURNAL) == 1
    assert scene.store.orders.record(held.order_id) == record is not None
    assert scene.store.orders.get(held.order_id) == order
    for after in (0, 2, 100):
        with pytest.raises(JournalPruned, match=held.order_id):
            scene.store.journal.read(held.order_id, after=after)
    assert clear(scene) == Cleared()


def test_unfinished_and_recent_orders_are_left_alone(scene: Scene) -> None:
    running, queued = scene.running(), scene.place()
    running.write(started(), replied())
    scene.clock.advance(20 * DAY)
    fresh = ended_order(scene)
    scene.clock.advance(29 * DAY)
    assert clear(scene).orders == 0
    assert len(scene.kinds(running.order_id)) == running.last_seq
    assert (len(scene.kinds(fresh.order_id)), len(scene.kinds(queued.id))) == (fresh.last_seq + 1, 1)
    scene.clock.advance(DAY)
    assert clear(scene).orders == 1
    assert scene.status(running.order_id) is OrderStatus.RUNNING


def test_an_order_that_is_being_watched_is_not_pruned(scene: Scene) -> None:
    held = ended_order(scene)
    scene.clock.advance(31 * DAY)
    before = scene.clock.now()
    assert sum(scene.store.retention.clear(before, besides={held.order_id}), Cleared()).orders == 0
    assert len(scene.kinds(held.order_id)) == held.last_seq + 1


def test_a_look_counts_what_would_be_removed_and_changes_nothing(scene: Scene) -> None:
    held = ended_order(scene)
    scene.clock.advance(31 * DAY)
    found = scene.store.retention.look(scene.clock.now() - timedelta(days=30))
    assert len(scene.kinds(held.order_id)) == held.last_seq + 1
    cleared = clear(scene)
    assert (found.orders, found.entries) == (cleared.orders, cleared.entries) == (1, held.last_seq)
    assert 0 < found.bytes <= cleared.bytes


def test_long_texts_go_with_the_last_order_that_needs_them(scene: Scene) -> None:
    first = ended_order(scene, content=LONG)
    kept = scene.store.texts.keep("a set-up", owner=first.order_id)
    scene.clock.advance(31 * DAY)
    second = ended_order(scene, content=LONG)
    scene.store.texts.keep("a set-up", owner=second.order_id)
    clear(scene)
    assert scene.store.texts.kept(kept) == "a set-up"
    results = [entry.data for entry in scene.store.journal.read(second.order_id)]
    assert [one.content for one in results if isinstance(one, ToolFinished)] == [LONG]
    scene.clock.advance(31 * DAY)
    assert clear(scene).texts == 1
    with pytest.raises(KeyError):
        scene.store.texts.kept(kept)
    assert LONG in to_json(scene.store.orders.record(second.order_id)).decode()


def test_an_unused_text_is_removed_after_a_day(scene: Scene) -> None:
    orphan = scene.store.texts.keep("nobody's")
    clear(scene)
    assert scene.store.texts.kept(orphan) == "nobody's"
    scene.clock.advance(DAY + 1)
    assert clear(scene) == Cleared(texts=1, bytes=len('"nobody\'s"'))


def test_a_pruned_turn_is_in_the_context_of_later_ones(scene: Scene) -> None:
    held = scene.running("first")
    said = scene.store.controls.request(
        held.order_id, ControlKind.STEER, NewControl(message="and hurry"), by=Actor("someone")
    )
    held.write(started(), ControlApplied(control_id=said.id, control="steer", message="and hurry"), ended())
    held.control_seq = 1
    held.finish()
    scene.clock.advance(31 * DAY)
    session = scene.store.orders.get(held.order_id).session_id
    later = scene.place("second", session_id=session)
    assert [turn.order_id for turn in scene.store.transcripts.past(later).turns] == [held.order_id]
    (before,) = scene.store.transcripts.ends([held.order_id])
    assert clear(scene).orders == 1
    assert scene.store.transcripts.ends([held.order_id]) == [replace(before, pruned=True)]
    assert before.steers == ["and hurry"]


def test_a_pruned_order_is_retried_and_not_forked(scene: Scene) -> None:
    held = ended_order(scene)
    scene.clock.advance(31 * DAY)
    clear(scene)
    with pytest.raises(ForkOfPruned, match="retry it"):
        scene.store.orders.fork(held.order_id, NewFork(after=2), by=Actor("someone"))
    again = scene.store.orders.retry(held.order_id, by=Actor("someone")).order
    assert (again.prompt, again.status) == ("do it", OrderStatus.QUEUED)


def test_copied_entries_outlive_the_source_and_the_fork_itself(scene: Scene) -> None:
    source = scene.running()
    setup, master = scene.store.texts.keep("a set-up", owner=source.order_id), source.origin.record_id or ""
    begun = started().model_copy(update={"setup_digest": setup})
    source.write(begun, replied(), called(master), returned(master, content=LONG), ended())
    source.finish()
    scene.clock.advance(31 * DAY)
    fork = scene.store.orders.fork(source.order_id, NewFork(after=6), by=Actor("someone")).order
    clear(scene)
    assert LONG.encode() in to_json(scene.store.journal.read(fork.id))
    assert scene.store.texts.kept(setup) == "a set-up"
    scene.hold(fork.id).finish()
    scene.clock.advance(31 * DAY)
    assert clear(scene).orders == 1
    again = scene.store.orders.retry(fork.id, by=Actor("someone")).order
    assert [one.kind for one in scene.store.journal.read(again.id)][:5] == [
        "order.queued", "agent.started", "model.replied", "tool.started", "tool.finished"
    ]  # fmt: skip
    assert LONG.encode() in to_json(scene.store.journal.read(again.id))
    assert scene.store.texts.kept(setup) == "a set-up"


@pytest.mark.parametrize("done", range(5))
def test_a_run_that_is_broken_off_is_finished_by_the_next_one(scene: Scene, done: int) -> None:
    """Interrupt after each transaction: no journal is read incomplete, and nothing is left behind."""
    held = scene.running()
    master = held.origin.record_id or ""
    held.write(started(), *(replied(round_number=number) for number in (1, 2, 3)))
    held.write(called(master), returned(master, content=LONG), ended())
    held.finish()
    record = to_json(scene.store.orders.record(held.order_id))
    setup = scene.store.texts.keep("a set-up", owner=held.order_id)
    scene.clock.advance(31 * DAY)
    retention = Retention(scene.store.database, chunk=4)
    total = sum(islice(retention.clear(scene.clock.now() - timedelta(days=30)), done), Cleared())
    if total.entries:
        for after in (0, 2):
            with pytest.raises(JournalPruned):
                scene.store.journal.read(held.order_id, after=after)
    assert to_json(scene.store.orders.record(held.order_id)) == record
    total += clear(scene)
    assert (total.orders, total.entries, total.texts, count(scene, JOURNAL)) == (1, held.last_seq, 1, 1)
    with pytest.raises(KeyError):
        scene.store.texts.kept(setup)
    assert to_json(scene.store.orders.record(held.order_id)) == record


def test_the_last_guard_is_in_the_statement_itself(scene: Scene) -> None:
    """An unfinished order keeps its entries, even if a caller wants them removed."""
    held = scene.running()
    held.write(started(), replied())
    removed = scene.store.database.write(lambda connection: empty(connection, held.order_id, 0, 100))
    assert removed.entries == 0
    assert len(scene.kinds(held.order_id)) == held.last_seq


def test_incarnations_that_are_gone_go_and_those_that_orders_name_keep_their_names(scene: Scene) -> None:
    held = ended_order(scene)
    idle = scene.drone("idle", sandbox="s" * 3_000)
    scene.store.leases.leave(idle)
    scene.clock.advance(20)
    scene.store.sweeper.sweep(may_expire=True)
    live = scene.drone("live")
    scene.clock.advance(2 * DAY)
    scene.store.leases.renew(live, lease_seconds=12, active=0)
    assert clear(scene).drones == 1
    assert count(scene, DRONES) == 2
    assert scene.store.orders.get(held.order_id).drone == "drone-1"


def test_journals_of_a_later_version_are_left_to_it(scene: Scene) -> None:
    held = ended_order(scene)
    newer = sa.text("UPDATE order_state SET journal_version = 999")
    scene.store.database.write(lambda connection: connection.execute(newer))
    scene.clock.advance(31 * DAY)
    assert clear(scene).orders == 0
    assert count(scene, JOURNAL) == held.last_seq + 1
    assert count(scene, ORDERS) == 1 and count(scene, BLOBS) == 0
