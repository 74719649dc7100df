"""Orders with journals of an unknown version, as they exist during a rolling deploy.

Any version may end such an order until an agent has begun; after that, only one that can read its open calls.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import Actor
from mcc.contracts.control import Control, ControlKind, NewControl
from mcc.contracts.journal import JOURNAL_VERSION
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.store.database.errors import ControlsPending
from mcc.store.database.tables import JOURNAL, STATE
from mcc.store.rows.values import Parking
from tests.conformance.store.scene import Held, Scene, started

UNKNOWN = 99
ENDED = ["order.queued", "control.applied", "order.finished"]


def of_version(scene: Scene, order_id: str, version: int = UNKNOWN) -> None:
    change = sa.update(STATE).where(STATE.c.order_id == order_id).values(journal_version=version)
    scene.store.database.write(lambda connection: connection.execute(change))


def version_of(scene: Scene, order_id: str) -> int:
    wanted = sa.select(STATE.c.journal_version).where(STATE.c.order_id == order_id)
    return int(scene.store.database.read(lambda connection: connection.scalar(wanted)) or 0)


def newer(scene: Scene, **fields: object) -> WorkOrder:
    """An order placed by a service of another version."""
    order = scene.place(**fields)  # type: ignore[arg-type]
    of_version(scene, order.id)
    return order


def begun(scene: Scene, **fields: object) -> Held:
    """An order in which an agent has begun, under a drone of another version."""
    held = scene.running(**fields)  # type: ignore[arg-type]
    held.write(started())
    of_version(scene, held.order_id)
    return held


def handed_back(scene: Scene, held: Held) -> None:
    scene.store.claims.hand_back([(held.order_id, held.epoch)], drone="drone-1", message="told to stop")


def parked(scene: Scene, held: Held) -> None:
    waiting = Parking(
        held.order_id, held.epoch, held.last_seq, held.control_seq, WaitingReason.PAUSED, "it is paused", None
    )
    scene.store.claims.park(waiting)


def cancel(scene: Scene, order_id: str) -> Control:
    return scene.store.controls.request(order_id, ControlKind.CANCEL, NewControl(), by=Actor("x"))


def honoured(scene: Scene, order_id: str) -> Sequence[str]:
    """Let a drone that can read the journal claim the order, which it can only cancel; answers the entries' kinds."""
    of_version(scene, order_id, JOURNAL_VERSION)
    held = scene.hold(order_id, token="of another version")
    with pytest.raises(ControlsPending):
        held.finish()
    [asked] = scene.store.controls.pending({order_id: held.control_seq})
    assert asked.kind is ControlKind.CANCEL
    held.control_seq = asked.number
    held.finish(OrderStatus.CANCELLED)
    return scene.kinds(order_id)


def test_no_drone_of_this_version_claims_them(scene: Scene) -> None:
    order = newer(scene)
    assert scene.store.claims.claimable(["default"], 10) == []
    assert scene.claim(order.id, scene.drone()) is None
    assert scene.kinds(order.id) == ["order.queued"]


@pytest.mark.parametrize("hours", [None, 1])
def test_an_order_that_no_agent_has_begun_is_cancelled_at_once(scene: Scene, hours: int | None) -> None:
    order = newer(scene, not_before=hours and scene.clock.now() + timedelta(hours=hours))
    assert cancel(scene, order.id).applied_seq == 2
    assert scene.status(order.id) is OrderStatus.CANCELLED
    assert scene.kinds(order.id) == ENDED
    assert scene.store.orders.record(order.id) is None
    of_version(scene, order.id, JOURNAL_VERSION)
    assert scene.fold(order.id).finished, "those who know its version read these entries as well"


def test_an_order_that_no_agent_has_begun_expires(scene: Scene) -> None:
    order = newer(scene, expires_at=scene.clock.now() + timedelta(seconds=1))
    waiting = newer(scene, not_before=scene.clock.now() + timedelta(hours=1))
    scene.clock.advance(2)
    assert list(scene.store.sweeper.sweep(may_expire=True).ended) == [order.id]
    seen = scene.store.orders.get(order.id)
    assert (seen.status, seen.reason) == (OrderStatus.FAILED, FailureReason.EXPIRED)
    assert scene.kinds(order.id) == ["order.queued", "order.finished"]
    assert scene.status(waiting.id) is OrderStatus.WAITING


@pytest.mark.parametrize("when_busy", ["interrupt", "rollback"])
def test_an_order_that_no_agent_has_begun_makes_way_for_another_turn(scene: Scene, when_busy: str) -> None:
    first = newer(scene)
    placed = scene.placed(session_id=first.session_id, when_busy=when_busy)
    assert scene.status(first.id) is OrderStatus.CANCELLED
    assert scene.kinds(first.id) == ENDED
    assert placed.order.blocked_by is None
    assert scene.store.orders.get(first.id).left_out is (when_busy == "rollback")


def test_one_whose_journal_has_entries_of_unknown_kinds_is_cancelled_too(scene: Scene) -> None:
    order = newer(scene)
    entry = {
        "order_id": order.id,
        "seq": 2,
        "epoch": 0,
        "at": 1,
        "kind": "order.praised",
        "depth": 0,
        "data_json": "{}",
    }
    further = sa.update(STATE).where(STATE.c.order_id == order.id).values(last_seq=2)
    scene.store.database.write(lambda connection: connection.execute(sa.insert(JOURNAL).values(entry)))
    scene.store.database.write(lambda connection: connection.execute(further))
    assert cancel(scene, order.id).applied_seq == 3
    assert scene.store.orders.get(order.id).last_seq == 4
    assert scene.status(order.id) is OrderStatus.CANCELLED


def test_an_order_that_agents_have_begun_is_cancelled_by_a_drone_that_can_read_its_journal(scene: Scene) -> None:
    held = begun(scene)
    handed_back(scene, held)
    before = scene.kinds(held.order_id)
    assert cancel(scene, held.order_id).open
    assert scene.kinds(held.order_id) == before and scene.status(held.order_id) is OrderStatus.QUEUED
    kinds = honoured(scene, held.order_id)
    assert kinds[-2:] == ["agent.finished", "order.finished"]


def test_a_waiting_order_that_agents_have_begun_is_queued_to_be_cancelled(scene: Scene) -> None:
    held = begun(scene)
    parked(scene, held)
    assert cancel(scene, held.order_id).open
    assert scene.kinds(held.order_id)[-1] == "order.resumed" and scene.status(held.order_id) is OrderStatus.QUEUED
    assert honoured(scene, held.order_id)[-1] == "order.finished"


@pytest.mark.parametrize("laid_aside", [handed_back, parked])
@pytest.mark.parametrize("when_busy", ["interrupt", "rollback"])
def test_another_turn_waits_until_an_order_that_agents_have_begun_is_cancelled(
    scene: Scene, laid_aside: Callable[[Scene, Held], None], when_busy: str
) -> None:
    held = begun(scene)
    laid_aside(scene, held)
    first = scene.store.orders.get(held.order_id)
    placed = scene.placed(session_id=first.session_id, when_busy=when_busy)
    assert placed.interrupted == first.id and placed.order.blocked_by == first.id
    assert "order.finished" not in scene.kinds(first.id)
    assert scene.status(first.id) is OrderStatus.QUEUED
    assert honoured(scene, first.id)[-1] == "order.finished"
    assert [one.order_id for one in scene.store.claims.claimable(["default"], 10)] == [placed.order.id]


def test_an_order_of_a_lost_drone_that_agents_have_begun_is_left_to_a_drone_that_can_read_its_journal(
    scene: Scene,
) -> None:
    plain, asked, bare = begun(scene), begun(scene), scene.running()
    of_version(scene, bare.order_id)
    for held in (asked, bare):
        cancel(scene, held.order_id)
    scene.lose()
    statuses = [scene.status(held.order_id) for held in (plain, asked, bare)]
    assert statuses == [OrderStatus.QUEUED, OrderStatus.QUEUED, OrderStatus.CANCELLED]
    assert "order.finished" not in scene.kinds(asked.order_id)
    assert plain.write(started()).fenced == {plain.order_id}
    assert honoured(scene, asked.order_id)[-1] == "order.finished"


def test_an_order_that_agents_have_begun_does_not_expire_here(scene: Scene) -> None:
    held = begun(scene)
    parked(scene, held)
    scene.clock.advance(25 * 3_600)
    assert list(scene.store.sweeper.sweep(may_expire=True).ended) == []
    of_version(scene, held.order_id, JOURNAL_VERSION)
    assert list(scene.store.sweeper.sweep(may_expire=True).ended) == [held.order_id]
    assert scene.kinds(held.order_id)[-2:] == ["agent.finished", "order.finished"]


def test_a_claim_makes_an_order_one_of_this_version(scene: Scene) -> None:
    order = scene.place()
    held = scene.hold(order.id)
    assert version_of(scene, order.id) == JOURNAL_VERSION
    handed_back(scene, held)
    assert version_of(scene, order.id) == JOURNAL_VERSION, "what follows is written in the shapes of this version"


def test_a_claim_that_fails_leaves_the_version_alone(scene: Scene) -> None:
    order = newer(scene)
    assert scene.claim(order.id, scene.drone()) is None
    assert version_of(scene, order.id) == UNKNOWN


def test_the_end_of_one_of_a_newer_version_does_not_make_it_an_older_one(scene: Scene) -> None:
    order = newer(scene)
    cancel(scene, order.id)
    assert scene.status(order.id) is OrderStatus.CANCELLED and version_of(scene, order.id) == UNKNOWN
