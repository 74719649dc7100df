"""Workspace locks: one writer or several readers, for as long as the order runs under its claim."""

from collections.abc import Callable

import pytest

from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.database.errors import AnotherWorkspace, WorkspaceNeeded
from mcc.store.rows.values import Claim, Parking, WorkspaceHold
from tests.conformance.store.scene import Held, Scene, at_once

WRITER, READER = WorkspaceHold("key", exclusive=True), WorkspaceHold("key", exclusive=False)
ANOTHER = WorkspaceHold("another", exclusive=True)


def claim(
    scene: Scene, order_id: str, hold: WorkspaceHold | None, token: str = "token", drone: str = ""
) -> Claim | None:
    incarnation = drone or scene.drone()
    return scene.store.claims.claim(
        order_id, incarnation=incarnation, claim_token=token, drone="d", alone=True, workspace=hold
    )


def held(scene: Scene, hold: WorkspaceHold | None) -> Held:
    order = scene.place()
    made = claim(scene, order.id, hold)
    assert made
    return Held(scene, order.id, made.epoch, made.attempt, made.last_seq, made.control_seq)


def is_free(scene: Scene, hold: WorkspaceHold) -> bool:
    """Whether another order can claim the workspace; that order is finished at once."""
    order = scene.place()
    made = claim(scene, order.id, hold)
    if made is None:
        return False
    Held(scene, order.id, made.epoch, made.attempt, made.last_seq, made.control_seq).finish()
    return True


def test_one_writes_or_several_read(scene: Scene) -> None:
    reader = held(scene, READER)
    assert is_free(scene, READER) and not is_free(scene, WRITER)
    reader.finish()
    held(scene, WRITER)
    assert not is_free(scene, READER) and not is_free(scene, WRITER)


def test_a_directory_that_gets_a_marker_while_an_order_works_there_is_the_same(scene: Scene) -> None:
    held(scene, WorkspaceHold("path", exclusive=True, lasting=False, by_path="path"))
    assert not is_free(scene, WorkspaceHold("marked", exclusive=False, by_path="path"))
    assert is_free(scene, WorkspaceHold("marked", exclusive=True, by_path="another path"))


def test_a_directory_that_is_reached_by_two_paths_is_the_same(scene: Scene) -> None:
    one = held(scene, WorkspaceHold("marked", exclusive=True, by_path="path"))
    assert not is_free(scene, WorkspaceHold("marked", exclusive=False, by_path="link"))
    one.finish()
    assert is_free(scene, WorkspaceHold("marked", exclusive=True, by_path="link"))


UPPER = ("outer", "root")
"""The keys above a directory `inner`."""


@pytest.mark.parametrize(("inner", "outer"), [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("first", ["inner", "outer"])
def test_a_writer_of_a_directory_excludes_others_above_and_below_it(
    scene: Scene, inner: bool, outer: bool, first: str
) -> None:
    below = WorkspaceHold("inner", exclusive=inner, by_path="inner-path", above=UPPER)
    over = WorkspaceHold("marked", exclusive=outer, by_path="outer", above=("root",))
    earlier, later = (below, over) if first == "inner" else (over, below)
    working = held(scene, earlier)
    assert is_free(scene, later) is not (inner or outer)
    working.finish()
    assert is_free(scene, later)


def test_two_that_write_side_by_side_below_one_directory_do_not_meet(scene: Scene) -> None:
    held(scene, WorkspaceHold("one", exclusive=True, above=UPPER))
    assert is_free(scene, WorkspaceHold("two", exclusive=True, above=UPPER))
    assert is_free(scene, WorkspaceHold("deeper", exclusive=True, above=("two", *UPPER)))
    assert not is_free(scene, WorkspaceHold("root", exclusive=False))


def test_other_workspaces_and_none_do_not_matter(scene: Scene) -> None:
    held(scene, WRITER)
    held(scene, None)
    assert is_free(scene, WorkspaceHold("another", exclusive=True))


def test_a_claim_that_does_not_get_its_workspace_changes_nothing(scene: Scene) -> None:
    held(scene, WRITER)
    order = scene.place()
    assert claim(scene, order.id, READER) is None
    found = scene.store.orders.get(order.id)
    assert (found.status, found.attempt, found.last_seq) == (OrderStatus.QUEUED, 0, 1)
    assert scene.kinds(order.id) == ["order.queued"]
    assert claim(scene, order.id, None) is not None


def test_the_same_token_again_gives_the_same_claim_and_one_lock(scene: Scene) -> None:
    order, drone = scene.place(), scene.drone()
    first = claim(scene, order.id, WRITER, drone=drone)
    assert first and claim(scene, order.id, WRITER, drone=drone) == first
    Held(scene, order.id, first.epoch, first.attempt, first.last_seq, 0).finish()
    assert is_free(scene, WRITER)


def test_orders_whose_workspace_is_taken_need_not_hide_those_behind_them(scene: Scene) -> None:
    held(scene, WRITER)
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
    one.scene.store.controls.request(one.order_id, ControlKind.CANCEL, NewControl(), principal="x")
    hand_back(one)


def lose(one: Held) -> None:
    one.scene.lose()


@pytest.mark.parametrize("end", [Held.finish, park, hand_back, hand_back_cancelled, lose])
def test_whatever_ends_the_holding_frees_the_workspace(scene: Scene, end: Callable[[Held], object]) -> None:
    one = held(scene, WRITER)
    end(one)
    assert is_free(scene, WRITER)
    assert locks(scene) == 0


def locks(scene: Scene) -> int:
    counted = "SELECT count(*) FROM workspace_locks"
    return int(scene.store.database.read(lambda one: one.exec_driver_sql(counted).scalar_one()))


def test_a_drone_that_takes_over_an_order_takes_over_its_workspace(scene: Scene) -> None:
    one = held(scene, WRITER)
    scene.lose()
    assert claim(scene, one.order_id, WRITER, token="next")
    assert not is_free(scene, READER)


@pytest.mark.parametrize("hold", [WRITER, READER])
def test_of_many_that_claim_at_once_as_many_win_as_go_together(scene: Scene, hold: WorkspaceHold) -> None:
    pairs = [(scene.place().id, scene.drone(f"drone-{number}")) for number in range(6)]
    answers = at_once(*(lambda pair=pair: claim(scene, pair[0], hold, drone=pair[1]) for pair in pairs))
    assert not any(isinstance(answer, Exception) for answer in answers), answers
    assert sum(isinstance(answer, Claim) for answer in answers) == (1 if hold.exclusive else 6)


def test_readers_and_a_writer_at_once_leave_readers_or_the_writer(scene: Scene) -> None:
    for number in range(4):
        key = f"key-{number}"
        holds = [WorkspaceHold(key, exclusive=index == 0) for index in range(4)]
        pairs = [(scene.place().id, hold, scene.drone()) for hold in holds]
        answers = at_once(*(lambda one=one: claim(scene, one[0], one[1], drone=one[2]) for one in pairs))
        won = [isinstance(answer, Claim) for answer in answers]
        assert won in ([True, False, False, False], [False, True, True, True]), answers


def test_a_lock_counts_only_while_its_order_runs_under_its_epoch(scene: Scene) -> None:
    one = held(scene, WRITER)
    database = scene.store.database
    statement = "UPDATE workspace_locks SET epoch = epoch - 1"
    database.write(lambda connection: connection.exec_driver_sql(statement))
    assert is_free(scene, WRITER)
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
    first = claim_if_workspace_known(scene, order.id, READER)
    assert first is not None and first.attempt == 1
    scene.store.claims.hand_back([(order.id, first.epoch)], drone="d", message="m")
    with pytest.raises(WorkspaceNeeded) as again:
        claim_if_workspace_known(scene, order.id)
    assert again.value.begun


def test_an_order_that_names_none_is_claimed_all_the_same(scene: Scene) -> None:
    assert claim_if_workspace_known(scene, scene.place().id) is not None


def _waits(scene: Scene, hold: WorkspaceHold, reason: WaitingReason, found: str | None = None) -> Held:
    """An order that began in this workspace and waits."""
    one = held(scene, hold)
    scene.store.claims.park(
        Parking(one.order_id, one.epoch, one.last_seq, one.control_seq, reason, "it waits", found=found)
    )
    return one


def test_an_order_that_has_begun_somewhere_is_not_claimed_for_another_place(scene: Scene) -> None:
    order_id = _waits(scene, WRITER, WaitingReason.WORKSPACE).order_id
    (found,) = scene.store.claims.waiting(WaitingReason.WORKSPACE, 5)
    assert found.key == "key"
    assert scene.store.claims.resume(order_id, WaitingReason.WORKSPACE, "seen again")
    before = scene.kinds(order_id)
    with pytest.raises(AnotherWorkspace) as told:
        claim(scene, order_id, ANOTHER, "b")
    assert told.value.found == ANOTHER.key
    assert scene.kinds(order_id) == before and scene.status(order_id) is OrderStatus.QUEUED
    assert is_free(scene, ANOTHER)
    assert claim(scene, order_id, WRITER, "c") is not None


def test_a_resume_lets_an_order_go_on_in_the_directory_that_was_found(scene: Scene) -> None:
    order_id = _waits(scene, WRITER, WaitingReason.WORKSPACE, found=ANOTHER.key).order_id
    scene.store.controls.request(order_id, ControlKind.RESUME, NewControl(), principal="p")
    with pytest.raises(AnotherWorkspace):
        claim(scene, order_id, WorkspaceHold("a third one", exclusive=True), "a")
    made = claim(scene, order_id, ANOTHER, "b")
    assert made is not None
    assert scene.store.claims.hand_back([(order_id, made.epoch)], drone="d", message="bye")
    with pytest.raises(AnotherWorkspace):
        claim(scene, order_id, WRITER, "c")


@pytest.mark.parametrize("reason", [WaitingReason.WORKSPACE, WaitingReason.PAUSED])
def test_a_resume_accepts_nothing_that_was_not_found(scene: Scene, reason: WaitingReason) -> None:
    order_id = _waits(scene, WRITER, reason).order_id
    scene.store.controls.request(order_id, ControlKind.RESUME, NewControl(), principal="p")
    with pytest.raises(AnotherWorkspace):
        claim(scene, order_id, ANOTHER, "b")
    assert claim(scene, order_id, WRITER, "c") is not None


def test_a_key_that_does_not_last_is_not_remembered(scene: Scene) -> None:
    order_id = _waits(scene, WorkspaceHold("here", exclusive=True, lasting=False), WaitingReason.WORKSPACE).order_id
    (found,) = scene.store.claims.waiting(WaitingReason.WORKSPACE, 5)
    assert found.key is None
    assert scene.store.claims.resume(order_id, WaitingReason.WORKSPACE, "seen again")
    assert claim(scene, order_id, WorkspaceHold("there", exclusive=True), "b") is not None
