"""Workspaces of orders: one writes there at a time, while it runs under its claim, and readers hold nothing."""

from collections.abc import Callable

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.database.errors import AnotherWorkspace, StoreFenced, WorkspaceNeeded
from mcc.store.rows.values import Claim, Parking, WorkspaceHold
from mcc.store.work.workspaces import PATIENCE_SECONDS, WorkspaceTaken
from tests.conformance.store.scene import Held, Scene, at_once

TREE = WorkspaceHold("key")
ANOTHER = WorkspaceHold("another")


def claim(
    scene: Scene, order_id: str, hold: WorkspaceHold | None, token: str = "token", drone: str = ""
) -> Claim | None:
    incarnation = drone or scene.drone()
    return scene.store.claims.claim(
        order_id, incarnation=incarnation, claim_token=token, drone="d", alone=True, workspace=hold
    )


def reader(scene: Scene, hold: WorkspaceHold | None = TREE, order_id: str = "") -> Held:
    """A running order that has not written yet; a new one if none is named."""
    made = claim(scene, order_id or scene.place().id, hold, token=str(len(order_id)))
    assert made
    return Held(scene, made.order.id, made.epoch, made.attempt, made.last_seq, made.control_seq)


def acquire(one: Held, hold: WorkspaceHold = TREE) -> WorkspaceTaken | None:
    return one.scene.store.workspaces.acquire(one.order_id, one.epoch, hold)


def writer(scene: Scene, hold: WorkspaceHold = TREE) -> Held:
    one = reader(scene, hold)
    assert acquire(one, hold) is None
    return one


def is_free(scene: Scene, hold: WorkspaceHold) -> bool:
    """Whether another order may write in the workspace; that order is finished at once."""
    other = reader(scene, hold)
    taken = acquire(other, hold)
    other.finish()
    return taken is None


def test_one_writes_while_others_read(scene: Scene) -> None:
    first = writer(scene)
    assert reader(scene) and not is_free(scene, TREE)
    assert acquire(reader(scene)) == WorkspaceTaken(first.order_id, waits=False)
    assert acquire(first) is None


def test_who_reads_holds_nothing(scene: Scene) -> None:
    for _ in range(3):
        reader(scene)
    assert locks(scene) == 0 and is_free(scene, TREE)


def test_a_directory_that_gets_a_marker_while_an_order_writes_there_is_the_same(scene: Scene) -> None:
    writer(scene, WorkspaceHold("path", lasting=False, by_path="path"))
    assert not is_free(scene, WorkspaceHold("marked", by_path="path"))
    assert is_free(scene, WorkspaceHold("marked", by_path="another path"))


def test_a_directory_that_is_reached_by_two_paths_is_the_same(scene: Scene) -> None:
    one = writer(scene, WorkspaceHold("marked", by_path="path"))
    assert not is_free(scene, WorkspaceHold("marked", by_path="link"))
    one.finish()
    assert is_free(scene, WorkspaceHold("marked", by_path="link"))


UPPER = ("outer", "root")
"""The keys above a directory `inner`."""


@pytest.mark.parametrize("first", ["inner", "outer"])
def test_a_writer_of_a_directory_excludes_others_above_and_below_it(scene: Scene, first: str) -> None:
    below = WorkspaceHold("inner", by_path="inner-path", above=UPPER)
    over = WorkspaceHold("marked", by_path="outer", above=("root",))
    earlier, later = (below, over) if first == "inner" else (over, below)
    working = writer(scene, earlier)
    assert not is_free(scene, later)
    working.finish()
    assert is_free(scene, later)


def test_two_that_write_side_by_side_below_one_directory_do_not_meet(scene: Scene) -> None:
    writer(scene, WorkspaceHold("one", above=UPPER))
    assert is_free(scene, WorkspaceHold("two", above=UPPER))
    assert is_free(scene, WorkspaceHold("deeper", above=("two", *UPPER)))
    assert not is_free(scene, WorkspaceHold("root"))


def test_other_workspaces_and_none_do_not_matter(scene: Scene) -> None:
    writer(scene)
    reader(scene, None)
    assert is_free(scene, ANOTHER)


def test_an_order_that_does_not_run_under_this_epoch_acquires_nothing(scene: Scene) -> None:
    one = reader(scene)
    for epoch in (one.epoch - 1, one.epoch + 1):
        with pytest.raises(StoreFenced):
            scene.store.workspaces.acquire(one.order_id, epoch, TREE)
    hand_back(one)
    with pytest.raises(StoreFenced):
        acquire(one)
    assert locks(scene) == 0


def test_a_lock_of_a_reader_that_an_earlier_version_wrote_is_in_nobodys_way(scene: Scene) -> None:
    one = writer(scene)
    scene.store.database.write(lambda it: it.exec_driver_sql("UPDATE workspace_locks SET exclusive = false"))
    assert is_free(scene, TREE)
    one.finish()


def test_an_order_that_wrote_is_claimed_as_one_that_writes(scene: Scene) -> None:
    one = writer(scene)
    hand_back(one)
    again = claim(scene, one.order_id, TREE, token="next")
    assert again is not None and again.writes
    fresh = claim(scene, scene.place().id, TREE)
    assert fresh is not None and not fresh.writes


def test_the_line_is_first_come_first_served(scene: Scene) -> None:
    first, second, third = writer(scene), reader(scene), reader(scene)
    for one in (second, third):
        scene.clock.advance(1)
        assert acquire(one) == WorkspaceTaken(first.order_id, waits=False)
    first.finish()
    assert acquire(third) == WorkspaceTaken(second.order_id, waits=True)
    assert acquire(reader(scene)) == WorkspaceTaken(second.order_id, waits=True)
    assert acquire(second) is None
    second.finish()
    assert acquire(third) is None


BELOW, OVER = WorkspaceHold("inner", by_path="inner-path", above=("outer", "root")), WorkspaceHold("outer")
BESIDE = WorkspaceHold("beside", above=("outer", "root"))


@pytest.mark.parametrize(("earlier", "later"), [(OVER, BELOW), (BELOW, OVER)])
@pytest.mark.parametrize("held", [BELOW, OVER, BESIDE])
def test_who_waits_for_a_directory_comes_before_later_ones_above_and_below_it(
    scene: Scene, held: WorkspaceHold, earlier: WorkspaceHold, later: WorkspaceHold
) -> None:
    first, waits = writer(scene, held), reader(scene, earlier)
    if acquire(waits, earlier) is None:
        assert (held, earlier) == (BESIDE, BELOW)
        return
    stand_in_line(waits)
    scene.clock.advance(1)
    behind = reader(scene, later)
    assert acquire(behind, later) is not None
    first.finish()
    assert acquire(behind, later) == WorkspaceTaken(waits.order_id, waits=True)
    assert not is_free(scene, later)
    assert is_free(scene, ANOTHER)
    stand_in_line(behind)
    assert list(scene.store.workspaces.wake()) == [waits.order_id]
    again = reader(scene, earlier, waits.order_id)
    assert acquire(again, earlier) is None
    assert not scene.store.workspaces.wake()
    again.finish()
    assert list(scene.store.workspaces.wake()) == [behind.order_id]
    assert acquire(reader(scene, later, behind.order_id), later) is None


def test_who_waits_below_is_not_before_one_that_waits_beside_it(scene: Scene) -> None:
    first, waits = writer(scene, BELOW), reader(scene, BELOW)
    assert acquire(waits, BELOW) == WorkspaceTaken(first.order_id, waits=False)
    assert is_free(scene, BESIDE) and not is_free(scene, WorkspaceHold("root"))


def cancel(one: Held) -> None:
    one.scene.store.controls.request(one.order_id, ControlKind.CANCEL, NewControl(), by=Actor("x"))


def pause(one: Held) -> None:
    one.scene.store.claims.park(
        Parking(one.order_id, one.epoch, one.last_seq, one.control_seq, WaitingReason.PAUSED, "paused")
    )


def expire(one: Held) -> None:
    one.scene.clock.advance(2 * 86_400)
    one.scene.store.sweeper.sweep(may_expire=False)


def withdraw(one: Held) -> None:
    one.scene.store.workspaces.leave(one.order_id, one.epoch)


@pytest.mark.parametrize("why", [cancel, expire])
def test_a_parked_order_that_ends_leaves_the_line(scene: Scene, why: Callable[[Held], object]) -> None:
    first, waits, behind = writer(scene), reader(scene), reader(scene)
    for one in (waits, behind):
        scene.clock.advance(1)
        assert acquire(one) is not None
    stand_in_line(waits)
    why(waits)
    assert in_line(scene) == [behind.order_id]
    first.finish()
    assert acquire(behind) is None


def stand_in_line(one: Held) -> None:
    reason, message = WaitingReason.WORKSPACE, "it waits"
    parking = Parking(one.order_id, one.epoch, one.last_seq, one.control_seq, reason, message, in_line=True)
    one.scene.store.claims.park(parking)


def lose_sight(one: Held) -> None:
    """No drone sees its workspace any more."""
    reason, message = WaitingReason.WORKSPACE, "nobody sees it"
    one.scene.store.claims.park(Parking(one.order_id, one.epoch, one.last_seq, one.control_seq, reason, message))


@pytest.mark.parametrize("why", [cancel, expire])
def test_a_parked_order_that_ends_is_in_nobodys_way_above_it(scene: Scene, why: Callable[[Held], object]) -> None:
    first, waits = writer(scene, BELOW), reader(scene, BELOW)
    assert acquire(waits, BELOW) is not None
    stand_in_line(waits)
    first.finish()
    assert locks(scene) == len(BELOW.above) and not scene.store.examiner.look().locks
    why(waits)
    assert locks(scene) == 0 and is_free(scene, OVER)


@pytest.mark.parametrize("why", [pause, lose_sight, withdraw, Held.finish])
def test_a_running_order_that_wants_no_more_is_in_nobodys_way_above_it(
    scene: Scene, why: Callable[[Held], object]
) -> None:
    first, waits = writer(scene, BELOW), reader(scene, BELOW)
    assert acquire(waits, BELOW) is not None
    first.finish()
    assert not is_free(scene, OVER)
    why(waits)
    assert locks(scene) == 0 and is_free(scene, OVER)


@pytest.mark.parametrize("why", [pause, lose_sight, withdraw, Held.finish])
def test_a_running_order_that_wants_no_more_leaves_the_line(scene: Scene, why: Callable[[Held], object]) -> None:
    first, waits, behind = writer(scene), reader(scene), reader(scene)
    for one in (waits, behind):
        scene.clock.advance(1)
        assert acquire(one) is not None
    why(waits)
    assert in_line(scene) == [behind.order_id]
    first.finish()
    assert acquire(behind) is None


def in_line(scene: Scene) -> list[str]:
    asked = "SELECT order_id FROM order_state WHERE wants_key IS NOT NULL ORDER BY wants_at, order_id"
    return list(scene.store.database.read(lambda one: one.exec_driver_sql(asked).scalars().all()))


def _line(scene: Scene, many: int = 2) -> tuple[Held, list[Held]]:
    """One that writes, and parked ones in its line."""
    first, waiting = writer(scene), [reader(scene) for _ in range(many)]
    for one in waiting:
        scene.clock.advance(1)
        assert acquire(one) is not None
        stand_in_line(one)
    return first, waiting


def test_the_first_in_line_is_woken_once_its_workspace_is_free(scene: Scene) -> None:
    first, (second, third) = _line(scene)
    assert not scene.store.workspaces.wake()
    first.finish()
    assert list(scene.store.workspaces.wake()) == [second.order_id]
    assert (scene.status(second.order_id), scene.status(third.order_id)) == (OrderStatus.QUEUED, OrderStatus.WAITING)
    assert not scene.store.workspaces.wake()
    later = reader(scene)
    assert acquire(later) == WorkspaceTaken(second.order_id, waits=True)
    later.finish()
    again = reader(scene, TREE, second.order_id)
    assert acquire(again) is None
    again.finish()
    assert list(scene.store.workspaces.wake()) == [third.order_id]


def test_each_sweep_wakes_the_first_in_line_of_each_free_workspace(scene: Scene) -> None:
    first, (second, _) = _line(scene)
    other = writer(scene, ANOTHER)
    elsewhere = reader(scene, ANOTHER)
    assert acquire(elsewhere, ANOTHER) is not None
    stand_in_line(elsewhere)
    first.finish()
    other.finish()
    scene.clock.advance(PATIENCE_SECONDS)
    woken = scene.store.sweeper.sweep(may_expire=False).resumed
    assert sorted(woken) == sorted([second.order_id, elsewhere.order_id])


def test_who_is_woken_and_not_claimed_goes_to_the_end_of_the_line_behind_one_at_work(scene: Scene) -> None:
    first, (second,) = _line(scene, 1)
    scene.clock.advance(1)
    third = reader(scene)
    assert acquire(third) is not None
    first.finish()
    assert list(scene.store.workspaces.wake()) == [second.order_id]
    scene.clock.advance(PATIENCE_SECONDS - 1)
    scene.store.sweeper.sweep(may_expire=False)
    assert in_line(scene) == [second.order_id, third.order_id]
    assert acquire(third) == WorkspaceTaken(second.order_id, waits=True)
    scene.clock.advance(1)
    scene.store.sweeper.sweep(may_expire=False)
    assert in_line(scene) == [third.order_id, second.order_id]
    assert acquire(third) is None


@pytest.mark.parametrize(("earlier", "later"), [(OVER, BELOW), (BELOW, OVER)])
def test_who_is_woken_and_not_claimed_lets_one_at_work_above_or_below_go_first(
    scene: Scene, earlier: WorkspaceHold, later: WorkspaceHold
) -> None:
    first, woken = writer(scene, earlier), reader(scene, earlier)
    assert acquire(woken, earlier) is not None
    stand_in_line(woken)
    first.finish()
    assert list(scene.store.workspaces.wake()) == [woken.order_id]
    scene.clock.advance(1)
    at_work = reader(scene, later)
    assert acquire(at_work, later) == WorkspaceTaken(woken.order_id, waits=True)
    scene.clock.advance(PATIENCE_SECONDS)
    scene.store.sweeper.sweep(may_expire=False)
    assert acquire(at_work, later) is None


@pytest.mark.parametrize("queue", ["default", "slow"])
def test_who_is_woken_and_not_claimed_lets_another_queue_go_first(scene: Scene, queue: str) -> None:
    first, second, third = writer(scene), reader(scene), reader(scene, TREE, scene.place(queue=queue).id)
    for one in (second, third):
        scene.clock.advance(1)
        assert acquire(one) is not None
        stand_in_line(one)
    first.finish()
    assert list(scene.store.workspaces.wake()) == [second.order_id]
    scene.clock.advance(PATIENCE_SECONDS)
    scene.store.sweeper.sweep(may_expire=False)
    woken = scene.store.sweeper.sweep(may_expire=False).resumed
    assert list(woken) == ([third.order_id] if queue == "slow" else [])


def test_those_in_line_are_not_taken_for_ones_whose_workspace_nobody_sees(scene: Scene) -> None:
    _, (second, third) = _line(scene)
    lost = reader(scene, ANOTHER)
    lose_sight(lost)
    waiting = scene.store.claims.waiting(WaitingReason.WORKSPACE, 5)
    assert [one.order_id for one in waiting] == [lost.order_id]
    assert in_line(scene) == [second.order_id, third.order_id]


def test_the_same_token_again_gives_the_same_claim(scene: Scene) -> None:
    order, drone = scene.place(), scene.drone()
    first = claim(scene, order.id, TREE, drone=drone)
    assert first and claim(scene, order.id, TREE, drone=drone) == first


def test_orders_that_cannot_be_claimed_here_need_not_hide_those_behind_them(scene: Scene) -> None:
    busy, free = [scene.place() for _ in range(3)], scene.place()
    claims = scene.store.claims
    assert [one.order_id for one in claims.claimable(["default"], 1)] == [busy[0].id]
    besides = {one.id for one in busy}
    assert [one.order_id for one in claims.claimable(["default"], 1, besides=besides)] == [free.id]
    assert len(claims.claimable(["default"], 10, besides={"nonsense"})) == 4


def park(one: Held) -> None:
    reason, message = WaitingReason.RATE_LIMIT, "later"
    one.scene.store.claims.park(Parking(one.order_id, one.epoch, one.last_seq, one.control_seq, reason, message))


def hand_back(one: Held) -> None:
    one.scene.store.claims.hand_back([(one.order_id, one.epoch)], drone="d", message="m")


def hand_back_cancelled(one: Held) -> None:
    one.scene.store.controls.request(one.order_id, ControlKind.CANCEL, NewControl(), by=Actor("x"))
    hand_back(one)


def lose(one: Held) -> None:
    one.scene.lose()


@pytest.mark.parametrize("end", [Held.finish, park, hand_back, hand_back_cancelled, lose])
def test_whatever_ends_the_holding_frees_the_workspace(scene: Scene, end: Callable[[Held], object]) -> None:
    one = writer(scene)
    end(one)
    assert is_free(scene, TREE)
    assert locks(scene) == 0


def locks(scene: Scene) -> int:
    counted = "SELECT count(*) FROM workspace_locks"
    return int(scene.store.database.read(lambda one: one.exec_driver_sql(counted).scalar_one()))


def test_a_lost_order_keeps_its_place_in_the_line(scene: Scene) -> None:
    first, waits = writer(scene), reader(scene)
    assert acquire(waits) is not None
    hand_back(waits)
    assert in_line(scene) == [waits.order_id]
    first.finish()
    assert not is_free(scene, TREE)
    assert acquire(reader(scene, TREE, waits.order_id)) is None


def test_of_many_that_want_to_write_at_once_one_does(scene: Scene) -> None:
    held = [reader(scene) for _ in range(6)]
    answers = at_once(*(lambda one=one: acquire(one) for one in held))
    assert not any(isinstance(answer, Exception) for answer in answers), answers
    assert sum(answer is None for answer in answers) == 1


def test_of_those_that_want_directories_within_one_another_at_once_one_writes(scene: Scene) -> None:
    for number in range(4):
        below, over = WorkspaceHold(f"in-{number}", above=(f"out-{number}",)), WorkspaceHold(f"out-{number}")
        pairs = [(reader(scene, hold), hold) for hold in (below, over, below, over)]
        answers = at_once(*(lambda pair=pair: acquire(*pair) for pair in pairs))
        assert not any(isinstance(answer, Exception) for answer in answers), answers
        assert sum(answer is None for answer in answers) == 1


def test_a_lock_counts_only_while_its_order_runs_under_its_epoch(scene: Scene) -> None:
    one = writer(scene)
    database = scene.store.database
    statement = "UPDATE workspace_locks SET epoch = epoch - 1"
    database.write(lambda connection: connection.exec_driver_sql(statement))
    assert is_free(scene, TREE)
    one.finish()
    assert locks(scene) == 0


def claim_if_workspace_known(scene: Scene, order_id: str, hold: WorkspaceHold | None = None) -> Claim | None:
    return scene.store.claims.claim(
        order_id, incarnation=scene.drone(), claim_token="token", drone="d", workspace=hold, workspace_optional=False
    )


def test_an_order_that_names_a_workspace_can_be_kept_from_being_claimed_without_one(scene: Scene) -> None:
    order = scene.place(workspace="/srv/work")
    with pytest.raises(WorkspaceNeeded) as needed:
        claim_if_workspace_known(scene, order.id)
    assert (needed.value.order.id, needed.value.order.workspace) == (order.id, "/srv/work")
    assert not needed.value.begun
    found = scene.store.orders.get(order.id)
    assert (found.status, found.attempt, found.last_seq) == (OrderStatus.QUEUED, 0, 1)
    first = claim_if_workspace_known(scene, order.id, TREE)
    assert first is not None and first.attempt == 1
    scene.store.claims.hand_back([(order.id, first.epoch)], drone="d", message="m")
    with pytest.raises(WorkspaceNeeded) as again:
        claim_if_workspace_known(scene, order.id)
    assert again.value.begun


def test_an_order_that_names_none_is_claimed_all_the_same(scene: Scene) -> None:
    assert claim_if_workspace_known(scene, scene.place().id) is not None


def _waits(scene: Scene, hold: WorkspaceHold, reason: WaitingReason, found: str | None = None) -> Held:
    """An order that began in this workspace and waits."""
    one = reader(scene, hold)
    scene.store.claims.park(
        Parking(one.order_id, one.epoch, one.last_seq, one.control_seq, reason, "it waits", found=found)
    )
    return one


def test_an_order_that_has_begun_somewhere_is_not_claimed_for_another_place(scene: Scene) -> None:
    order_id = _waits(scene, TREE, WaitingReason.WORKSPACE).order_id
    (found,) = scene.store.claims.waiting(WaitingReason.WORKSPACE, 5)
    assert found.key == "key"
    assert scene.store.claims.resume(order_id, WaitingReason.WORKSPACE, "seen again")
    before = scene.kinds(order_id)
    with pytest.raises(AnotherWorkspace) as told:
        claim(scene, order_id, ANOTHER, "b")
    assert told.value.found == ANOTHER.key
    assert scene.kinds(order_id) == before and scene.status(order_id) is OrderStatus.QUEUED
    assert claim(scene, order_id, TREE, "c") is not None


def test_a_resume_lets_an_order_go_on_in_the_directory_that_was_found(scene: Scene) -> None:
    order_id = _waits(scene, TREE, WaitingReason.WORKSPACE, found=ANOTHER.key).order_id
    scene.store.controls.request(order_id, ControlKind.RESUME, NewControl(), by=Actor("p"))
    with pytest.raises(AnotherWorkspace):
        claim(scene, order_id, WorkspaceHold("a third one"), "a")
    made = claim(scene, order_id, ANOTHER, "b")
    assert made is not None
    assert scene.store.claims.hand_back([(order_id, made.epoch)], drone="d", message="bye")
    with pytest.raises(AnotherWorkspace):
        claim(scene, order_id, TREE, "c")


@pytest.mark.parametrize("reason", [WaitingReason.WORKSPACE, WaitingReason.PAUSED])
def test_a_resume_accepts_nothing_that_was_not_found(scene: Scene, reason: WaitingReason) -> None:
    order_id = _waits(scene, TREE, reason).order_id
    scene.store.controls.request(order_id, ControlKind.RESUME, NewControl(), by=Actor("p"))
    with pytest.raises(AnotherWorkspace):
        claim(scene, order_id, ANOTHER, "b")
    assert claim(scene, order_id, TREE, "c") is not None


def test_a_key_that_does_not_last_is_not_remembered(scene: Scene) -> None:
    order_id = _waits(scene, WorkspaceHold("here", lasting=False), WaitingReason.WORKSPACE).order_id
    (found,) = scene.store.claims.waiting(WaitingReason.WORKSPACE, 5)
    assert found.key is None
    assert scene.store.claims.resume(order_id, WaitingReason.WORKSPACE, "seen again")
    assert claim(scene, order_id, WorkspaceHold("there"), "b") is not None
