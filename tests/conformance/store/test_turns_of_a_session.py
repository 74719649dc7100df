"""What a turn is shown: the earlier turns of its session that were not rolled back."""

from dataclasses import replace
from datetime import timedelta

import sqlalchemy as sa

from benchmarks.backlog.plans import overheard
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl, SteerMode
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import ControlApplied
from mcc.contracts.order import NewFork, WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.store.database.tables import BASES, TEXT_USES, TRANSCRIPTS
from mcc.store.rows.stored_turns import NewBase, StoredTurn
from mcc.store.rows.values import EndedOrder, Ending
from mcc.store.work.transcripts import SessionPast, TurnRow
from tests.conformance.store.scene import Held, Scene


def ended(scene: Scene, prompt: str, session_id: str | None = None) -> WorkOrder:
    order = scene.place(prompt, session_id=session_id)
    scene.hold(order.id, token=prompt).finish()
    return order


def ends(scene: Scene, order: WorkOrder) -> list[TurnRow]:
    """The turns that this one is shown, in their order."""
    turns = [turn.order_id for turn in scene.store.transcripts.past(order).turns]
    return sorted(scene.store.transcripts.ends(turns), key=lambda row: turns.index(row.order_id))


def shown(scene: Scene, order: WorkOrder) -> list[str]:
    return ["\n\n".join((row.prompt, *row.steers)) for row in ends(scene, order)]


def test_the_first_turn_has_an_empty_context(scene: Scene) -> None:
    ended(scene, "another session")
    assert shown(scene, scene.place("first")) == []


def test_the_context_of_a_turn_has_the_earlier_turns_in_sequence(scene: Scene) -> None:
    first = ended(scene, "one")
    second = ended(scene, "two", first.session_id)
    third = scene.place("three", session_id=first.session_id)
    scene.place("four", session_id=first.session_id)
    assert [(row.order_id, row.session_seq, row.prompt, row.status, row.answer) for row in ends(scene, third)] == [
        (first.id, 1, "one", OrderStatus.SUCCEEDED, "the answer"),
        (second.id, 2, "two", OrderStatus.SUCCEEDED, "the answer"),
    ]
    assert shown(scene, second) == ["one"]


def test_a_turn_that_was_rolled_back_is_left_out_and_stays_in_history(scene: Scene) -> None:
    first = ended(scene, "one")
    second = ended(scene, "two", first.session_id)
    scene.store.orders.roll_back(second.id, by=Actor("p"))
    third = scene.place("three", session_id=first.session_id)
    assert shown(scene, third) == ["one"]
    assert [one.id for one in scene.store.orders.list(session_id=first.session_id).items] == [
        third.id,
        second.id,
        first.id,
    ]


def test_failed_and_cancelled_turns_are_shown_with_their_status(scene: Scene) -> None:
    first = scene.place("one")
    held = scene.hold(first.id)
    scene.store.claims.finish(held.ending(OrderStatus.FAILED, reason=FailureReason.MODEL_ERROR))
    second = scene.place("two", session_id=first.session_id)
    scene.store.controls.request(second.id, ControlKind.CANCEL, NewControl(), by=Actor("p"))
    third = scene.place("three", session_id=first.session_id)
    one, two = ends(scene, third)
    assert (one.status, two.status) == (OrderStatus.FAILED, OrderStatus.CANCELLED)
    assert two.answer is None


def test_a_retry_is_not_shown_the_turn_that_it_repeats(scene: Scene) -> None:
    first = ended(scene, "one")
    second = ended(scene, "two", first.session_id)
    again = scene.store.orders.retry(second.id, by=Actor("p")).order
    assert shown(scene, again) == ["one"]


def test_a_retry_of_a_retry_is_shown_neither(scene: Scene) -> None:
    first = ended(scene, "one")
    second = ended(scene, "two", first.session_id)
    again = scene.store.orders.retry(second.id, by=Actor("p")).order
    scene.hold(again.id, token="again").finish()
    third = scene.store.orders.retry(again.id, by=Actor("p")).order
    assert shown(scene, third) == ["one"]


def test_steering_messages_are_part_of_a_turns_prompt(scene: Scene) -> None:
    first = scene.place("one")
    held = scene.hold(first.id)
    child = Origin(record_id="c", parent_id=held.origin.record_id, agent="explore", depth=1)
    held.write(_steer("look at the tests", SteerMode.INJECT))
    held.write(_steer("only for the child", SteerMode.INJECT), origin=child)
    held.write(ControlApplied(control_id=fresh_id(), control="pause"))
    held.write(_steer("x" * 100_000, SteerMode.REDIRECT))
    held.finish()
    second = scene.place("two", session_id=first.session_id)
    assert shown(scene, second) == ["one\n\nlook at the tests\n\n" + "x" * 100_000]


def _steer(message: str, mode: SteerMode) -> ControlApplied:
    return ControlApplied(control_id=fresh_id(), control="steer", mode=mode.value, message=message)


def test_the_session_of_a_fork_continues_the_context_of_its_source(scene: Scene) -> None:
    first = ended(scene, "one")
    second = ended(scene, "two", first.session_id)
    fork = scene.store.orders.fork(second.id, NewFork(after=1, prompt="three"), by=Actor("p")).order
    assert shown(scene, fork) == ["one"]
    scene.hold(fork.id, token="fork").finish()
    assert shown(scene, scene.place("four", session_id=fork.session_id)) == ["one", "three"]


def test_a_long_session_is_read_to_its_beginning(scene: Scene) -> None:
    first = ended(scene, "1")
    for number in range(2, 46):
        ended(scene, str(number), first.session_id)
    last = scene.place("last", session_id=first.session_id)
    assert shown(scene, last) == [str(number) for number in range(1, 46)]


def test_the_turn_that_follows_is_the_earliest_queued_one_of_the_session(scene: Scene) -> None:
    first = scene.place("one")
    second, third = (scene.place(prompt, session_id=first.session_id) for prompt in ("two", "three"))
    scene.place("of another session")
    held = scene.hold(first.id)
    assert third.id != second.id
    for expected in (second, third):
        (done,) = scene.store.claims.finish_together([held.ending()])
        assert isinstance(done, EndedOrder) and (found := done.following) is not None and found.order_id == expected.id
        assert (found.queue, found.priority, found.last_seq) == (expected.queue, expected.priority, expected.last_seq)
        held = scene.hold(expected.id, token=expected.id)
    (done,) = scene.store.claims.finish_together([held.ending()])
    assert isinstance(done, EndedOrder) and done.following is None


def with_base(scene: Scene, held: Held, session_id: str, *turns: WorkOrder) -> Ending:
    """The ending of a turn that leaves a base with these turns and itself."""
    ids = [*(turn.id for turn in turns), held.order_id]
    text = f'["{held.order_id}"]'
    turn = StoredTurn(held.order_id, session_id, len(ids), text.encode(), 1)
    return replace(held.ending(), turn=turn, base=NewBase(text, "rollup", tuple(ids)))


def bases(scene: Scene) -> list[tuple[int, bool]]:
    """By the turn that made it, whether a base counts."""
    rows = scene.store.database.read(lambda one: one.execute(sa.select(BASES).order_by(BASES.c.through_seq)).all())
    return [(row.through_seq, row.voided_at is None) for row in rows]


def own(scene: Scene, digest: str, owner: str) -> None:
    use = sa.insert(TEXT_USES).values(digest=digest, owner=owner)
    scene.store.database.write(lambda one: one.execute(use))


def behind_a_base(scene: Scene, count: int) -> tuple[SessionPast, list[str]]:
    """What a turn is shown after so many others, of which all but the last are in a base and are stored nowhere else;
    and the statements that found it."""
    turns: list[WorkOrder] = []
    for number in range(1, count + 1):
        order = scene.place(str(number), session_id=turns[0].session_id if turns else None)
        ending = with_base(scene, scene.hold(order.id, token=order.id), order.session_id, *turns)
        scene.store.claims.finish(ending if number == count - 1 else replace(ending, base=None))
        turns.append(order)
    before = sa.delete(TRANSCRIPTS).where(TRANSCRIPTS.c.order_id.in_([turn.id for turn in turns[:-1]]))
    scene.store.database.write(lambda one: one.execute(before))
    after = scene.place("next", session_id=turns[0].session_id)
    with overheard(scene.store.database) as sent:
        past = scene.store.transcripts.past(after)
        assert past.base is not None
        scene.store.texts.kept(past.base)
    assert [turn.order_id for turn in past.turns] == [turns[-1].id] and past.turns[0].messages is not None
    return past, [statement for statement, _ in sent]


def test_a_turn_opens_from_its_base_and_the_turns_after_it_alone_however_many_there_were(scene: Scene) -> None:
    _, few = behind_a_base(scene, 4)
    _, many = behind_a_base(scene, 40)
    assert many == few, "as many statements, whatever the length"
    assert not any("journal" in statement.lower().replace("journal_version", "") for statement in many)


def test_of_pruned_turns_the_newest_two_bases_stay_and_what_later_turns_may_read(scene: Scene) -> None:
    turns: list[WorkOrder] = []
    named = "a" * 64
    for number in range(1, 6):
        order = scene.place(str(number), session_id=turns[0].session_id if turns else None)
        held = scene.hold(order.id, token=str(number))
        if number < 5:
            scene.store.claims.finish(with_base(scene, held, order.session_id, *turns))
        else:
            text = f'[{{"artifact":"{named}"}}]'.encode()
            turn = StoredTurn(order.id, order.session_id, number, text, 1)
            scene.store.claims.finish(replace(held.ending(), turn=turn))
            own(scene, named, order.id)
        turns.append(order)
    scene.clock.advance(31 * 86_400)
    for _ in scene.store.retention.clear(scene.clock.now() - timedelta(days=30)):
        pass
    assert [through for through, _ in bases(scene)] == [3, 4]
    owners = (turns[0].session_id, turns[-1].id)
    uses = sa.select(TEXT_USES.c.owner, TEXT_USES.c.digest).where(TEXT_USES.c.owner.in_(owners))
    kept = [*scene.store.database.read(lambda one: one.execute(uses).all())]
    assert sorted(owner == turns[-1].id for owner, _ in kept) == [False, False, True]


def test_a_base_that_sums_up_a_turn_is_passed_over_once_a_later_turn_repeats_that_one(scene: Scene) -> None:
    turns: list[WorkOrder] = []
    for number, reason in enumerate(("rollup", "summary", "rollup"), start=1):
        order = scene.place(str(number), session_id=turns[0].session_id if turns else None)
        ending = with_base(scene, scene.hold(order.id, token=str(number)), order.session_id, *turns)
        assert ending.base is not None
        scene.store.claims.finish(replace(ending, base=replace(ending.base, reason=reason)))
        turns.append(order)
    session_id = turns[0].session_id
    rows = scene.store.database.read(lambda one: one.execute(sa.select(BASES).order_by(BASES.c.through_seq)).all())
    digests = [row.digest for row in rows]

    def base_of_next() -> tuple[str | None, list[str]]:
        past = scene.store.transcripts.past(scene.place("next", session_id=session_id))
        return past.base, [turn.order_id for turn in past.turns]

    third = scene.store.orders.retry(turns[2].id, by=Actor("p")).order
    scene.hold(third.id, token="third").finish()
    assert base_of_next() == (digests[2], [third.id]), "the turn itself stands in that base, and is left out of it"
    for order in scene.store.orders.list(session_id=session_id, status=OrderStatus.QUEUED).items:
        scene.hold(order.id, token=order.id).finish()
    second = scene.store.orders.retry(turns[1].id, by=Actor("p")).order
    scene.hold(second.id, token="second").finish()
    base, shown_turns = base_of_next()
    assert base == digests[0] and turns[1].id not in shown_turns and second.id in shown_turns
