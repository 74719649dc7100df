"""Two processes make conflicting changes at the same moment: exactly one of them wins."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.control import Control, ControlKind, NewControl
from mcc.contracts.journal import AgentStep
from mcc.contracts.status import FINAL, OrderStatus, WaitingReason
from mcc.store.database.errors import ControlsPending, OrderIsFinal, StoreFenced
from mcc.store.rows.transcript_rows import leave_out
from mcc.store.rows.values import Appended, Claim, Parking, Swept
from mcc.store.store import open_store
from mcc.testing import FakeClock
from tests.conformance.store.scene import LEASE_SECONDS, Held, Scene, at_once, started
from tests.conformance.store.test_turns_of_a_session import bases, ended, with_base

ROUNDS = 8


@pytest.fixture
def scenes(database_url: str, clock: FakeClock) -> Iterator[tuple[Scene, Scene]]:
    """Two stores with separate connections to one database."""
    one, other = (Scene(open_store(database_url, clock=clock), clock, "sql") for _ in range(2))
    yield one, other
    for scene in (one, other):
        scene.store.close()


def often(act: Callable[[], None]) -> None:
    for _ in range(ROUNDS):
        act()


def park(scene: Scene, held: Held) -> int:
    reason = WaitingReason.PAUSED
    parking = Parking(held.order_id, held.epoch, held.last_seq, held.control_seq, reason, "m")
    return scene.store.claims.park(parking)


def ask(scene: Scene, held: Held, kind: ControlKind) -> Control:
    return scene.store.controls.request(held.order_id, kind, NewControl(), by=Actor("x"))


def test_of_two_claims_at_once_one_counts(scenes: tuple[Scene, Scene]) -> None:
    one, other = scenes

    def once() -> None:
        order, drones = one.place(), [one.drone(), one.drone()]
        answers = at_once(lambda: one.claim(order.id, drones[0], "a"), lambda: other.claim(order.id, drones[1], "b"))
        assert [isinstance(answer, Claim) for answer in answers].count(True) == 1, answers
        assert one.kinds(order.id) == ["order.queued", "order.claimed"]

    often(once)


def test_of_a_parking_and_an_append_at_once_one_counts(scenes: tuple[Scene, Scene]) -> None:
    one, other = scenes

    def once() -> None:
        held = one.running()
        batch = held.batch(AgentStep(name="n", message="m"))
        parked, appended = at_once(lambda: park(one, held), lambda: other.store.journal.append([batch]))
        assert isinstance(appended, Appended)
        assert isinstance(parked, StoreFenced) == (not appended.fenced), (parked, appended)
        assert one.fold(held.order_id).last_seq == one.store.orders.get(held.order_id).last_seq == 3

    often(once)


def test_of_a_parking_and_an_end_at_once_one_counts(scenes: tuple[Scene, Scene]) -> None:
    one, other = scenes

    def once() -> None:
        held = one.running()
        ending = held.ending()
        parked, ended = at_once(lambda: park(one, held), lambda: other.store.claims.finish(ending))
        assert isinstance(parked, StoreFenced) != isinstance(ended, StoreFenced), (parked, ended)
        assert one.kinds(held.order_id)[2:] == (["order.finished"] if isinstance(ended, int) else ["order.waiting"])

    often(once)


@pytest.mark.parametrize("kind", [ControlKind.CANCEL, ControlKind.RESUME, ControlKind.STEER])
def test_a_control_that_comes_with_a_parking_is_not_lost(scenes: tuple[Scene, Scene], kind: ControlKind) -> None:
    """Either the holder has to read the control first, or the control finds a waiting order; it never gets lost."""
    one, other = scenes

    def once() -> None:
        held = one.running()
        parked, asked = at_once(lambda: park(one, held), lambda: ask(other, held, kind))
        assert isinstance(asked, Control)
        status = one.status(held.order_id)
        if isinstance(parked, ControlsPending):
            assert status is OrderStatus.RUNNING and asked.open
        else:
            expected = {ControlKind.CANCEL: OrderStatus.CANCELLED, ControlKind.RESUME: OrderStatus.QUEUED}
            assert isinstance(parked, int) and status is expected.get(kind, OrderStatus.WAITING), parked
        one.fold(held.order_id)

    often(once)


def test_of_a_parking_and_a_sweep_at_once_one_counts(scenes: tuple[Scene, Scene]) -> None:
    one, other = scenes

    def once() -> None:
        held = one.running()
        one.clock.advance(LEASE_SECONDS + 1)
        parked, swept = at_once(lambda: park(one, held), lambda: other.store.sweeper.sweep(may_expire=True))
        assert isinstance(swept, Swept)
        assert isinstance(parked, StoreFenced) == (held.order_id in swept.requeued), (parked, swept)
        assert one.kinds(held.order_id)[2:] in (["order.waiting"], ["order.requeued"])

    often(once)


def test_a_resume_at_once_with_a_cancel_takes_nothing_from_it(scenes: tuple[Scene, Scene]) -> None:
    one, other = scenes

    def once() -> None:
        held = one.running()
        park(one, held)
        resumed, asked = at_once(
            lambda: one.store.claims.resume(held.order_id, WaitingReason.PAUSED, "m"),
            lambda: ask(other, held, ControlKind.CANCEL),
        )
        assert isinstance(resumed, bool) and isinstance(asked, Control) and asked.applied_seq
        assert one.status(held.order_id) is OrderStatus.CANCELLED
        assert one.kinds(held.order_id).count("order.resumed") == int(resumed)

    often(once)


def test_of_two_resumes_at_once_one_counts(scenes: tuple[Scene, Scene]) -> None:
    one, other = scenes

    def once() -> None:
        held = one.running()
        park(one, held)
        resumed = at_once(
            *(
                lambda scene=scene: scene.store.claims.resume(held.order_id, WaitingReason.PAUSED, "m")
                for scene in scenes
            )
        )
        assert sorted(map(bool, resumed)) == [False, True], resumed
        assert other.kinds(held.order_id)[-1] == "order.resumed"

    often(once)


def test_the_end_and_a_hand_back_and_a_cancel(scenes: tuple[Scene, Scene]) -> None:
    one, other = scenes

    def once() -> None:
        held = one.running()
        held.write(started())
        ending = held.ending()
        ended, back, asked = at_once(
            lambda: one.store.claims.finish(ending),
            lambda: other.store.claims.hand_back([(held.order_id, held.epoch)], drone="d", message="m"),
            lambda: ask(other, held, ControlKind.CANCEL),
        )
        assert isinstance(ended, int | StoreFenced | ControlsPending), ended
        assert not isinstance(back, Exception), back
        assert isinstance(asked, Control | OrderIsFinal), asked
        assert one.status(held.order_id) in FINAL
        assert one.kinds(held.order_id).count("order.finished") == 1
        assert not any(control.open for control in one.store.controls.of_order(held.order_id))

    often(once)


def test_an_order_does_not_stay_with_a_drone_that_is_lost_as_it_claims(scenes: tuple[Scene, Scene]) -> None:
    """Whichever comes first, the order does not stay with the lost drone."""
    one, other = scenes

    def once() -> None:
        order, drone = one.place(), one.drone()
        one.clock.advance(LEASE_SECONDS + 1)
        one.store.leases.renew(drone, lease_seconds=0.0001, active=0)
        at_once(lambda: one.claim(order.id, drone), lambda: other.store.sweeper.sweep(may_expire=True))
        other.clock.advance(1)
        other.store.sweeper.sweep(may_expire=True)
        assert one.status(order.id) is OrderStatus.QUEUED
        one.fold(order.id)

    often(once)


def test_of_a_rollback_and_an_end_at_once_no_base_with_the_turn_counts(scenes: tuple[Scene, Scene]) -> None:
    one, other = scenes
    first = ended(one, "one")
    second = one.place("two", session_id=first.session_id)
    ending = with_base(one, one.hold(second.id), first.session_id, first)
    with ThreadPoolExecutor(1) as pool:

        def roll_back(connection: Connection) -> Future[int]:
            leave_out(connection, first.id, one.clock.now(), Actor("p"))
            finishing = pool.submit(other.store.claims.finish, ending)
            # It waits for this transaction; if it did not, it would be done by then.
            wait([finishing], timeout=0.5)
            return finishing

        one.store.database.write(roll_back).result()
    assert not any(counts for _, counts in bases(one))
    assert one.status(second.id) is OrderStatus.SUCCEEDED
