"""Orders that compact a session: one at a time, in no list, beside its turns, with what they leave to it."""

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import Actor
from mcc.contracts.compaction import CompactionOutcome
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.ids import compaction_session_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import NewFork, OrderKind, WorkOrder
from mcc.contracts.sessions import NewSession
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.contracts.usage import Usage
from mcc.store.database.errors import CannotRepeat, ControlNotTaken, NothingToCompact, UnknownOrder, UnknownSession
from mcc.store.database.tables import BASES, SESSIONS
from mcc.store.rows.stored_turns import NewBase, PlannedCompaction, StoredTurn
from mcc.store.rows.values import Ending, Placed
from tests.conformance.store.scene import Held, Scene, at_once, replied, started


def turn(scene: Scene, prompt: str, session_id: str | None = None, base: NewBase | None = None) -> WorkOrder:
    """An ended turn, which has left its messages, and a base."""
    order = scene.place(prompt, session_id=session_id)
    held = scene.hold(order.id, token=prompt)
    stored = StoredTurn(order.id, order.session_id, order.session_seq, f'["{prompt}"]'.encode(), 1)
    scene.store.claims.finish(replace(held.ending(), turn=stored, base=base))
    return order


def ask(scene: Scene, session_id: str) -> WorkOrder:
    return scene.store.compactions.ask(session_id, by=Actor("ann")).order


def with_base(held: Held, order: WorkOrder, through: int, text: str) -> Ending:
    """The ending of an order that compacts, with its base."""
    base = NewBase(text, "summary", (), session_id=order.compacts, through_seq=through)
    return replace(held.ending(), base=base)


def compacted(scene: Scene, session_id: str, through: int, text: str = '["short"]') -> WorkOrder:
    order = ask(scene, session_id)
    scene.store.claims.finish(with_base(scene.hold(order.id, token=order.id), order, through, text))
    return order


def test_the_order_is_made_by_the_store_from_the_last_turn(scene: Scene) -> None:
    session = scene.store.sessions.open(NewSession(limits=Limits(cost_usd=0.25)), by=Actor("p"))
    first = scene.place("one", session_id=session.id, model="fast", thinking="high", workspace="/work/a", labels=["x"])
    scene.store.controls.request(first.id, ControlKind.CANCEL, NewControl(), by=Actor("p"))
    placed = scene.store.compactions.ask(session.id, by=Actor("ann"))
    order = placed.order
    assert placed.created and (order.kind, order.compacts) == (OrderKind.COMPACT, session.id)
    assert (order.agent, order.model, order.thinking) == ("master", "fast", "high")
    assert (order.workspace, order.labels, order.prompt) == (None, (), "")
    assert order.session_id == compaction_session_id(session.id) and order.status is OrderStatus.QUEUED
    assert order.limits == Limits(output_tokens=24_000, wall_seconds=600, cost_usd=0.25)


def test_one_at_a_time_and_only_when_a_turn_has_ended_since(scene: Scene) -> None:
    empty = scene.store.sessions.open(NewSession(), by=Actor("p"))
    with pytest.raises(NothingToCompact):
        ask(scene, empty.id)
    with pytest.raises(UnknownSession):
        ask(scene, compaction_session_id(empty.id))
    session_id = turn(scene, "one").session_id
    order = ask(scene, session_id)
    again = scene.store.compactions.ask(session_id, by=Actor("ann"))
    assert not again.created and again.order.id == order.id
    scene.store.claims.finish(with_base(scene.hold(order.id, token="c"), order, 1, '["short"]'))
    with pytest.raises(NothingToCompact):
        ask(scene, session_id)
    turn(scene, "two", session_id)
    assert (second := ask(scene, session_id)).id != order.id and second.session_seq == 2


def test_of_many_that_ask_at_once_one_makes_the_order(scene: Scene) -> None:
    session_id = turn(scene, "one").session_id
    asked = at_once(*[lambda: scene.store.compactions.ask(session_id, by=Actor("ann"))] * 6)
    placed = [one for one in asked if isinstance(one, Placed)]
    assert len(placed) == 6, asked
    assert len({one.order.id for one in placed}) == 1 and [one.created for one in placed].count(True) == 1


def test_one_that_freed_nothing_can_be_asked_for_again(scene: Scene) -> None:
    session_id = turn(scene, "one").session_id
    order = ask(scene, session_id)
    scene.hold(order.id, token="c").finish()
    assert ask(scene, session_id).id != order.id


def test_no_turn_waits_for_it_and_it_waits_for_none(scene: Scene) -> None:
    session_id = turn(scene, "one").session_id
    order = ask(scene, session_id)
    following = scene.place("two", session_id=session_id)
    assert following.session_seq == 2 and following.blocked_by is None
    running = scene.hold(following.id, token="two")
    assert scene.store.compactions.next_turn(session_id) == (2, 2)
    held = scene.hold(order.id, token="c")
    scene.store.claims.finish(with_base(held, order, 1, '["short"]'))
    assert scene.store.transcripts.past(following).base is not None
    running.finish()
    assert scene.store.compactions.next_turn(session_id) == (3, None)


def test_its_session_and_order_are_in_no_list_but_that_of_its_kind(scene: Scene) -> None:
    first = turn(scene, "one")
    order = ask(scene, first.session_id)
    orders = scene.store.orders
    assert [one.id for one in scene.store.sessions.list().items] == [first.session_id]
    for listed in (orders.list(), orders.list(part=order.id[:8]), orders.list(kind=OrderKind.CHAT)):
        assert order.id not in [one.id for one in listed.items]
    assert first.id in [one.id for one in orders.list(kind=OrderKind.CHAT).items]
    assert [one.id for one in orders.list(status=OrderStatus.QUEUED).items] == []
    assert [one.id for one in orders.list(kind=OrderKind.GENERATE).items] == []
    assert [one.id for one in orders.list(kind=OrderKind.COMPACT).items] == [order.id]
    for read in (scene.store.sessions.get, scene.store.sessions.turns):
        with pytest.raises(UnknownSession):
            read(order.session_id)
    with pytest.raises(UnknownSession):
        scene.place("more", session_id=order.session_id)


def test_it_is_neither_steered_nor_repeated(scene: Scene) -> None:
    order = compacted(scene, turn(scene, "one").session_id, 1)
    with pytest.raises(CannotRepeat):
        scene.store.orders.retry(order.id, by=Actor("p"))
    with pytest.raises(CannotRepeat):
        scene.store.orders.fork(order.id, NewFork(after=1), by=Actor("p"))
    turn(scene, "two", order.compacts)
    running = scene.hold(ask(scene, str(order.compacts)).id, token="c")
    with pytest.raises(ControlNotTaken):
        scene.store.controls.request(running.order_id, ControlKind.STEER, NewControl(message="x"), by=Actor("p"))


def test_what_it_spends_is_in_the_usage_of_the_session(scene: Scene) -> None:
    session_id = turn(scene, "one").session_id
    before = scene.store.sessions.get(session_id).usage
    held = scene.hold(ask(scene, session_id).id, token="c")
    held.write(started(), replied("short"))
    held.finish()
    spent = scene.store.orders.get(held.order_id).usage
    assert spent.model_calls == 1
    assert scene.store.sessions.get(session_id).usage == before.plus(spent) != Usage()


def newest(scene: Scene, session_id: str) -> str | None:
    """The text of the base that the next turn of the session is shown."""
    order = scene.place("next", session_id=session_id)
    digest = scene.store.transcripts.past(order).base
    scene.store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor("p"))
    return None if digest is None else scene.store.texts.kept(digest)


@pytest.mark.parametrize("text", ['["a"]', '["b"]', '["c"]'])
def test_its_base_counts_before_that_of_the_turn_itself(scene: Scene, text: str) -> None:
    first = turn(scene, "one", base=NewBase('["long"]', "rollup", ()))
    assert newest(scene, first.session_id) == '["long"]'
    compacted(scene, first.session_id, 1, text)
    assert newest(scene, first.session_id) == text


def test_a_roll_up_of_a_turn_that_was_placed_later_does_not_hide_it(scene: Scene) -> None:
    session_id = turn(scene, "one").session_id
    order = ask(scene, session_id)
    turn(scene, "two", session_id, NewBase('["one", "two"]', "rollup", ()))
    scene.store.claims.finish(with_base(scene.hold(order.id, token="c"), order, 2, '["short"]'))
    past = scene.store.transcripts.past(scene.place("next", session_id=session_id))
    assert past.base is not None and scene.store.texts.kept(past.base) == '["short"]'


def test_a_turn_that_has_begun_before_does_not_hide_it_behind_a_base_of_what_it_was_shown(scene: Scene) -> None:
    first = turn(scene, "one", base=NewBase('["long"]', "rollup", ()))
    order = ask(scene, first.session_id)
    second = scene.place("two", session_id=first.session_id)
    shown = scene.store.transcripts.past(second).base
    assert shown is not None and scene.store.transcripts.is_base(second, shown)
    assert not scene.store.transcripts.is_base(second, "f" * 64)
    running = scene.hold(second.id, token="two")
    scene.store.claims.finish(with_base(scene.hold(order.id, token="c"), order, 1, '["short"]'))
    stored = StoredTurn(second.id, first.session_id, 2, b'["two"]', 1)
    rolled = NewBase('["long", "two"]', "rollup", (), over=shown)
    scene.store.claims.finish(replace(running.ending(), turn=stored, base=rolled))
    assert newest(scene, first.session_id) == '["short"]'


def test_a_rollback_voids_it_and_a_turn_rolled_back_meanwhile_keeps_it_out(scene: Scene) -> None:
    first = turn(scene, "one")
    compacted(scene, first.session_id, 1)
    scene.store.orders.roll_back(first.id, by=Actor("p"))
    assert newest(scene, first.session_id) is None
    second = turn(scene, "two", first.session_id)
    order = ask(scene, first.session_id)
    held = scene.hold(order.id, token="c")
    scene.store.orders.roll_back(second.id, by=Actor("p"))
    base = NewBase('["two"]', "summary", (second.id,), session_id=first.session_id, through_seq=second.session_seq)
    scene.store.claims.finish(replace(held.ending(), base=base))
    assert newest(scene, first.session_id) is None


LATER = timedelta(seconds=240)


def quiet_turn(scene: Scene, prompt: str, session_id: str | None = None, tokens: int = 40_000) -> WorkOrder:
    """An ended turn, after which its session is compacted if nobody speaks for so long."""
    order = scene.place(prompt, session_id=session_id, model="fast")
    held = scene.hold(order.id, token=prompt)
    stored = StoredTurn(order.id, order.session_id, order.session_seq, b"[]", 1)
    planned = PlannedCompaction(scene.clock.now() + LATER, 60_000, tokens)
    scene.store.claims.finish(replace(held.ending(), turn=stored, compaction=planned))
    return order


def of_kind(scene: Scene) -> list[WorkOrder]:
    return [*scene.store.orders.list(kind=OrderKind.COMPACT).items]


def test_a_turn_that_ends_places_the_order_for_a_time_without_words(scene: Scene) -> None:
    session = scene.store.sessions.open(NewSession(limits=Limits(cost_usd=0.25)), by=Actor("p"))
    first = quiet_turn(scene, "one", session.id)
    (order,) = of_kind(scene)
    assert (order.compacts, order.status, order.reason) == (session.id, OrderStatus.WAITING, WaitingReason.NOT_BEFORE)
    assert (order.agent, order.model, order.not_before) == ("master", "fast", scene.clock.now() + LATER)
    assert order.limits == Limits(output_tokens=18_000, wall_seconds=600, cost_usd=0.25)
    following = scene.place("two", session_id=session.id)
    assert (first.session_seq, following.session_seq, following.status) == (1, 2, OrderStatus.QUEUED)


def test_it_begins_when_its_time_has_come_and_a_turn_that_ends_before_moves_it(scene: Scene) -> None:
    session_id = quiet_turn(scene, "one").session_id
    (order,) = of_kind(scene)
    scene.clock.advance(200)
    quiet_turn(scene, "two", session_id)
    scene.clock.advance(100)
    assert scene.store.sweeper.sweep(may_expire=False).resumed == ()
    assert [one.id for one in of_kind(scene)] == [order.id], "one at a time"
    scene.clock.advance(150)
    assert scene.store.sweeper.sweep(may_expire=False).resumed == (order.id,)
    # One that is due, and not claimed yet, waits on after another turn.
    quiet_turn(scene, "three", session_id)
    assert scene.claim(order.id, scene.drone()) is None
    scene.clock.advance(241)
    assert scene.claim(order.id, scene.drone()) is not None
    quiet_turn(scene, "four", session_id)
    assert [one.status for one in of_kind(scene)] == [OrderStatus.RUNNING]


def test_who_asks_does_not_wait_for_the_time_without_words(scene: Scene) -> None:
    session_id = quiet_turn(scene, "one").session_id
    (waiting,) = of_kind(scene)
    placed = scene.store.compactions.ask(session_id, by=Actor("ann"))
    assert placed.created and placed.order.status is OrderStatus.QUEUED and placed.order.not_before is None
    ended = scene.store.orders.get(waiting.id)
    assert ended.status is OrderStatus.CANCELLED and ended.detail is not None and "at once" in ended.detail
    quiet_turn(scene, "two", session_id)
    assert {one.id for one in of_kind(scene)} == {placed.order.id, waiting.id}, "one unfinished at a time"
    held = scene.hold(placed.order.id, token="c")
    assert not scene.store.compactions.ask(session_id, by=Actor("ann")).created
    held.finish()


@pytest.mark.parametrize("status", [OrderStatus.SUCCEEDED, OrderStatus.FAILED])
@pytest.mark.parametrize(
    ("left", "tokens", "is_placed"),
    [
        (40_000, 41_000, False),
        (37_000, 38_000, False),
        (40_000, 45_000, True),
        (40_000, 30_000, True),
        (20_000, 21_000, True),
    ],
)
def test_one_that_freed_little_is_not_placed_again_while_the_session_stays_as_it_is(
    scene: Scene, left: int, tokens: int, is_placed: bool, status: OrderStatus
) -> None:
    session_id = quiet_turn(scene, "one").session_id
    (order,) = of_kind(scene)
    scene.clock.advance(300)
    scene.store.sweeper.sweep(may_expire=False)
    ending = scene.hold(order.id, token="c").ending(status)
    result = CompactionOutcome(tokens_before=40_000, tokens_after=left).model_dump()
    scene.store.claims.finish(replace(ending, outcome=ending.outcome.model_copy(update={"result": result})))
    quiet_turn(scene, "two", session_id, tokens)
    assert (len(of_kind(scene)) == 2) is is_placed
    # Nor is it in any later turn, and one that is asked for is placed in any case.
    quiet_turn(scene, "three", session_id, tokens)
    assert (len(of_kind(scene)) == 2) is is_placed
    assert scene.store.compactions.ask(session_id, by=Actor("ann")).order.status is OrderStatus.QUEUED


def test_one_that_ended_without_a_word_of_what_it_freed_is_placed_again(scene: Scene) -> None:
    session_id = quiet_turn(scene, "one").session_id
    scene.clock.advance(300)
    scene.store.sweeper.sweep(may_expire=False)
    scene.hold(of_kind(scene)[0].id, token="c").finish(OrderStatus.FAILED)
    quiet_turn(scene, "two", session_id)
    assert len(of_kind(scene)) == 2


def test_a_turn_whose_session_was_deleted_places_none(scene: Scene) -> None:
    order = scene.place("one")
    held = scene.hold(order.id, token="one")
    scene.store.removal.begin(order.session_id, by=Actor("p"))
    planned = PlannedCompaction(scene.clock.now(), 60_000, 40_000)
    scene.store.claims.finish(replace(held.ending(), compaction=planned))
    assert of_kind(scene) == []


def test_one_that_was_placed_while_its_session_was_deleted_goes_as_well(scene: Scene) -> None:
    first = quiet_turn(scene, "one")
    scene.store.removal.begin(first.session_id, by=Actor("p"))
    # As if the turn had ended in that moment.
    undone = sa.update(SESSIONS).where(SESSIONS.c.compacts.is_not(None)).values(deleted_at=None)
    scene.store.database.write(lambda connection: connection.execute(undone))
    scene.clock.advance(25 * 3_600)
    for _ in range(4):
        assert scene.store.removal.advance() == {}
    with scene.store.database.engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(SESSIONS)).scalar_one() == 0


def test_many_turns_end_while_somebody_asks_and_one_order_is_left(scene: Scene) -> None:
    sessions = [turn(scene, f"{number}").session_id for number in range(4)]
    held = [scene.hold(scene.place("next", session_id=one).id, token=one) for one in sessions]
    planned = PlannedCompaction(scene.clock.now() + LATER, 60_000, 40_000)
    endings = [replace(one.ending(), compaction=planned) for one in held]
    done = at_once(
        lambda: scene.store.claims.finish_together(endings[:2]),
        lambda: scene.store.claims.finish_together(endings[2:]),
        *(lambda one=one: scene.store.compactions.ask(one, by=Actor("ann")) for one in sessions),
    )
    assert not [one for one in done if isinstance(one, BaseException)]
    unfinished = [one.compacts for one in of_kind(scene) if one.status is not OrderStatus.CANCELLED]
    assert sorted(str(one) for one in unfinished) == sorted(sessions)


def test_the_usage_of_a_session_names_what_compacted_it(scene: Scene) -> None:
    session_id = turn(scene, "one").session_id
    held = scene.hold(ask(scene, session_id).id, token="c")
    held.write(started(), replied("short"))
    held.finish()
    last = turn(scene, "two", session_id)
    listed = scene.store.sessions.usage(session_id)
    assert [(one.turn, one.compaction, one.usage.model_calls) for one in listed] == [
        (1, False, 0),
        (1, True, 1),
        (2, False, 0),
    ]
    assert (listed[1].order_id, listed[2].order_id) == (held.order_id, last.id)


def test_a_deleted_session_goes_with_the_orders_that_compact_it(scene: Scene) -> None:
    first = turn(scene, "one")
    done = compacted(scene, first.session_id, 1)
    turn(scene, "two", first.session_id)
    order = ask(scene, first.session_id)
    held = scene.hold(order.id, token="c")
    scene.store.removal.begin(first.session_id, by=Actor("p"))
    assert scene.store.removal.advance() == {}
    # The one that runs is told to end, and may still leave its base.
    assert any(control.kind is ControlKind.CANCEL for control in scene.store.controls.of_order(order.id))
    held.control_seq = scene.store.controls.of_order(order.id)[-1].number
    base = NewBase('["x"]', "summary", (), session_id=first.session_id, through_seq=2)
    scene.store.claims.finish(replace(held.ending(OrderStatus.CANCELLED), base=base))
    scene.clock.advance(25 * 3_600)
    for _ in range(4):
        assert scene.store.removal.advance() == {}
    with scene.store.database.engine.connect() as connection:
        for table in (SESSIONS, BASES):
            assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() == 0
    for gone in (first.id, done.id, order.id):
        with pytest.raises(UnknownOrder):
            scene.store.orders.get(gone)
