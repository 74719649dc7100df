"""Deleted sessions: unknown at once, cancelled, removed with all their rows, whoever goes on after a crash."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import NewFork, NewOrder, WorkOrder
from mcc.contracts.sessions import NewSession, NewSessionFork
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import UnknownOrder, UnknownSession
from mcc.store.database.tables import BLOBS, METADATA, TEXT_USES
from mcc.store.rows.stored_turns import NewBase, StoredTurn
from mcc.store.rows.transcript_rows import drop_old_bases
from mcc.store.store import Store
from mcc.store.upkeep.session_removal import DELETED, KEPT_TABLES, SessionRemoval
from tests.conformance.store.scene import Held, Scene, replied, started


def removed(store: Store) -> None:
    assert store.removal.advance() == {}


def rows_of(store: Store, ids: set[str]) -> dict[str, int]:
    """How many rows name one of these ids, by table; tables without any are left out."""
    counts: dict[str, int] = {}
    with store.database.engine.connect() as connection:
        for table in METADATA.sorted_tables:
            columns = [table.c[name] for name in ("order_id", "session_id", "owner") if name in table.c]
            columns += [table.c.id] if table.name in ("orders", "sessions") else []
            if columns and table.name not in KEPT_TABLES:
                named = sa.or_(*(column.in_(ids) for column in columns))
                count = connection.execute(sa.select(sa.func.count()).select_from(table).where(named)).scalar_one()
                counts |= {table.name: count} if count else {}
    return counts


def filled(scene: Scene) -> WorkOrder:
    order = scene.store.orders.place(
        NewOrder(prompt="one", labels=("nightly",)), by=Actor("p"), idempotency_key="k"
    ).order
    held = scene.hold(order.id, token="t")
    held.write(started(), replied("y" * 300_000))
    held.finish()
    scene.store.sessions.read(order.session_id, 1, principal="p")
    return order


def test_a_deleted_session_is_unknown_and_nothing_of_it_is_left_but_a_note(scene: Scene) -> None:
    order, other = filled(scene), scene.place("other")
    store = scene.store
    store.removal.begin(order.session_id, by=Actor("someone"))
    for read in (store.sessions.get, store.sessions.turns, store.sessions.usage):
        with pytest.raises(UnknownSession):
            read(order.session_id)
    with pytest.raises(UnknownSession):
        store.removal.begin(order.session_id, by=Actor("p"))
    with pytest.raises(UnknownSession):
        scene.place("two", session_id=order.session_id)
    assert [one.id for one in store.sessions.list().items] == [other.session_id]
    removed(store)
    with pytest.raises(UnknownOrder):
        store.orders.get(order.id)
    # The long text is young: it stays with the session's row until it is a day old.
    assert set(rows_of(store, {order.id, order.session_id})) <= {"sessions", "session_reads", "text_uses"}
    scene.clock.advance(25 * 3_600)
    removed(store)
    assert rows_of(store, {order.id, order.session_id}) == {}
    note = store.audit.first(DELETED)
    assert note is not None
    assert (note.principal, note.detail) == ("someone", {"session_id": order.session_id, "turns": 1})
    assert store.orders.get(other.id).status is OrderStatus.QUEUED


def test_long_texts_that_nobody_else_uses_go_with_the_session(scene: Scene) -> None:
    order = filled(scene)
    store = scene.store
    with store.database.engine.connect() as connection:
        owned = sa.select(TEXT_USES.c.digest).where(TEXT_USES.c.owner == order.id)
        digests = connection.execute(owned).scalars().all()
    assert digests
    store.removal.begin(order.session_id, by=Actor("p"))
    scene.clock.advance(25 * 3_600)
    removed(store)
    with store.database.engine.connect() as connection:
        assert connection.execute(sa.select(BLOBS.c.digest).where(BLOBS.c.digest.in_(digests))).all() == []


def test_what_runs_is_cancelled_and_removed_once_it_has_ended(scene: Scene) -> None:
    first = scene.place("one")
    held = scene.hold(first.id)
    second = scene.place("two", session_id=first.session_id)
    scene.store.removal.begin(first.session_id, by=Actor("p"))
    removed(scene.store)
    assert scene.store.orders.get(second.id).status is OrderStatus.CANCELLED
    for _ in range(3):
        removed(scene.store)
    (cancel,) = scene.store.controls.of_order(first.id)
    assert (cancel.kind, cancel.reason) == (ControlKind.CANCEL, "its session was deleted")
    assert scene.store.orders.get(first.id).status is OrderStatus.RUNNING
    held.control_seq = cancel.number
    held.finish(OrderStatus.CANCELLED)
    removed(scene.store)
    assert rows_of(scene.store, {first.id, second.id, first.session_id}) == {}


def test_another_process_finishes_what_a_killed_one_began(scene: Scene) -> None:
    order = filled(scene)
    scene.store.removal.begin(order.session_id, by=Actor("p"))
    scene.clock.advance(25 * 3_600)
    for _ in range(50):
        # Each of these takes one step and is gone.
        SessionRemoval(scene.store.database, steps=1).advance()
    assert rows_of(scene.store, {order.id, order.session_id}) == {}


def ends_with_base(held: Held, session_id: str, seq: int) -> None:
    """End a turn as a drone does that leaves a fork what it began with."""
    turn = StoredTurn(held.order_id, session_id, seq, b"[]", 1)
    base = NewBase('["of the source"]', "fork", (), session_id=session_id)
    held.scene.store.claims.finish(replace(held.ending(), turn=turn, begun_with=base))


def test_what_a_fork_begins_with_stays_until_a_turn_has_left_a_base(scene: Scene) -> None:
    first = scene.place("one")
    scene.hold(first.id).finish()
    fork = scene.store.sessions.fork(first.session_id, NewSessionFork(turn=1), by=Actor("p"))
    turn = scene.place("two", session_id=fork.id)
    scene.store.removal.begin(first.session_id, by=Actor("p"))
    removed(scene.store)
    assert [ended.order_id for ended in scene.store.transcripts.past(turn).turns] == [first.id]
    with pytest.raises(UnknownOrder):
        scene.store.orders.fork(first.id, NewFork(after=1), by=Actor("p"))
    ends_with_base(scene.hold(turn.id, token="two"), fork.id, turn.session_seq)
    removed(scene.store)
    with pytest.raises(UnknownOrder):
        scene.store.orders.get(first.id)
    past = scene.store.transcripts.past(scene.place("three", session_id=fork.id))
    assert past.base is not None and [ended.order_id for ended in past.turns] == [turn.id]


def test_a_fork_whose_first_turn_the_store_ended_keeps_its_source_until_another_has_left_its_base(scene: Scene) -> None:
    first = scene.place("one")
    scene.hold(first.id).finish()
    fork = scene.store.sessions.fork(first.session_id, NewSessionFork(turn=1), by=Actor("p"))
    second = scene.place("two", session_id=fork.id)
    scene.store.controls.request(second.id, ControlKind.CANCEL, NewControl(), by=Actor("p"))
    assert scene.store.orders.get(second.id).status is OrderStatus.CANCELLED
    scene.store.removal.begin(first.session_id, by=Actor("p"))
    removed(scene.store)
    third = scene.place("three", session_id=fork.id)
    assert [ended.order_id for ended in scene.store.transcripts.past(third).turns] == [first.id, second.id]
    assert scene.store.transcripts.rests_on_source(fork.id)
    ends_with_base(scene.hold(third.id, token="three"), fork.id, third.session_seq)
    assert not scene.store.transcripts.rests_on_source(fork.id)
    removed(scene.store)
    with pytest.raises(UnknownOrder):
        scene.store.orders.get(first.id)


def test_what_a_fork_began_with_is_taken_back_by_no_rollback_and_goes_with_no_journal(scene: Scene) -> None:
    first = scene.place("one")
    held = scene.hold(first.id)
    held.write(started().model_copy(update={"tainted": True}))
    held.finish()
    fork = scene.store.sessions.fork(first.session_id, NewSessionFork(turn=1), by=Actor("p"))
    second = scene.place("two", session_id=fork.id)
    held = scene.hold(second.id, token="two")
    held.write(started().model_copy(update={"tainted": True}))
    ends_with_base(held, fork.id, second.session_seq)
    scene.store.removal.begin(first.session_id, by=Actor("p"))
    removed(scene.store)
    began_with = scene.store.transcripts.past(scene.place("three", session_id=fork.id)).base
    for again in (scene.store.orders.retry(second.id, by=Actor("p")).order, second):
        past = scene.store.transcripts.past(scene.store.orders.get(again.id))
        assert (past.base, past.turns, past.tainted) == (began_with, [], True)
    scene.store.orders.roll_back(second.id, by=Actor("p"))
    with scene.store.database.engine.begin() as connection:
        drop_old_bases(connection, second.id)
    past = scene.store.transcripts.past(scene.place("four", session_id=fork.id))
    assert (past.base, past.turns, past.tainted) == (began_with, [], True)
    assert began_with is not None and scene.store.texts.kept(began_with) == '["of the source"]'


def test_a_session_without_turns_is_deleted_at_once(scene: Scene) -> None:
    session = scene.store.sessions.open(NewSession(title="Talk"), by=Actor("p"))
    scene.store.removal.begin(session.id, by=Actor("p"))
    removed(scene.store)
    assert rows_of(scene.store, {session.id}) == {}
