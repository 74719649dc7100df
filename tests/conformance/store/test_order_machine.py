"""Random sequences of actions: one holder, one running turn per session, one end, no gaps in the journal."""

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.entry import Origin
from mcc.contracts.ids import child_record_id
from mcc.contracts.order import WorkOrder
from mcc.contracts.order_facts import OrderClaimed
from mcc.contracts.status import FINAL, MOVES, OrderStatus, WaitingReason
from mcc.store.database.errors import ControlsPending, OrderIsFinal, SessionBusy, StoreFenced
from mcc.store.rows.transitions import cancels_order
from mcc.store.rows.values import Batch, Claim, Parking
from mcc.testing import FakeClock, temporary_store
from tests.conformance.store.scene import LEASE_SECONDS, Held, Scene, called, ended, returned, started

ENDED_WELL = (OrderStatus.SUCCEEDED, OrderStatus.CANCELLED)
SETTINGS = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


class OrderMachine(RuleBasedStateMachine):
    """Drones that run, stall, die and come back as zombies; each acts on the last answers it got."""

    orders = Bundle("orders")
    drones = Bundle("drones")
    holds = Bundle("holds")

    @initialize(target=drones)
    def begin(self) -> str:
        self.clock = FakeClock()
        self.scene = Scene(temporary_store(self.clock), self.clock, "machine")
        self.seen: dict[str, OrderStatus] = {}
        self.held: list[Held] = []
        self.lost: set[str] = set()
        self.holder: dict[tuple[str, int], str] = {}
        self.tokens = 0
        self.begun: set[str] = set()
        self.token: dict[tuple[str, int], str] = {}
        return self.scene.drone()

    def teardown(self) -> None:
        if hasattr(self, "scene"):
            self.scene.store.close()

    @rule(target=drones)
    def start(self) -> str:
        return self.scene.drone()

    @rule(target=orders, way=st.sampled_from(["enqueue", "interrupt", "rollback", "steer", "reject"]), data=st.data())
    def accept(self, way: str, data: st.DataObject) -> object:
        sessions = [None, *sorted({order.session_id for order in self._all()})]
        later = data.draw(st.sampled_from([None, None, None, 5, 60]))
        fields: dict[str, Any] = {"session_id": data.draw(st.sampled_from(sessions)), "when_busy": way}
        if later is not None:
            fields["not_before" if later == 5 else "expires_at"] = self.clock.now() + timedelta(seconds=later)
        try:
            placed = self.scene.placed("p", **fields)
        except SessionBusy:
            return multiple()
        assert placed.created == (placed.receipt is None)
        return placed.order.id

    @rule(target=holds, drone=drones)
    def deliver(self, drone: str) -> object:
        """Claim the best claimable order for a drone; a live drone must get it, since no other competes."""
        ready = self.scene.store.claims.claimable(["default"], 1)
        held = self._claim(ready[0].order_id, drone) if ready else None
        assert not ready or held or not self._lives(drone)
        return held or multiple()

    @rule(target=holds, order=orders, drone=drones)
    def duplicate(self, order: str, drone: str) -> object:
        """Claim any order, as a drone does after a stale or repeated message."""
        return self._claim(order, drone) or multiple()

    @rule(held=holds)
    def claim_again(self, held: Held) -> None:
        """Repeat a claim with its token, as after a lost answer."""
        drone = self.holder[(held.order_id, held.epoch)]
        valid, token = self._is_held(held), self.token[(held.order_id, held.epoch)]
        again = self.scene.claim(held.order_id, drone, token=token)
        if valid:
            assert again and (again.epoch, again.last_seq) == (held.epoch, held.last_seq)
        elif again is not None and (again.order.id, again.epoch) not in self.holder:
            self._keep(again, drone, token)
        assert again is None or self.holder[(again.order.id, again.epoch)] == drone

    def _claim(self, order: str, drone: str) -> Held | None:
        self.tokens += 1
        token = f"{drone}-{self.tokens}"
        claim = self.scene.claim(order, drone, token=token)
        return self._keep(claim, drone, token) if claim else None

    def _keep(self, claim: Claim, drone: str, token: str) -> Held:
        order = claim.order.id
        held = Held(self.scene, order, claim.epoch, claim.attempt, claim.last_seq, claim.control_seq)
        assert (order, claim.epoch) not in self.holder, "an epoch was given twice"
        self.holder[(order, claim.epoch)] = drone
        self.token[(order, claim.epoch)] = token
        self.held.append(held)
        return held

    @rule(drone=drones)
    def renew(self, drone: str) -> None:
        renewed = self.scene.store.leases.renew(drone, lease_seconds=LEASE_SECONDS, active=1)
        assert (renewed is not None) == (drone not in self.lost)

    @rule(seconds=st.sampled_from([1, 5, 13, 100]))
    def expire(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(held=holds, far=st.integers(1, 4))
    def step(self, held: Held, far: int) -> None:
        """Append as a present or former holder; only the present one may."""
        valid, root = self._is_held(held), held.origin
        if held.order_id not in self.begun:
            answer = held.write(started())
            self.begun |= {held.order_id} if valid else set()
        else:
            record = child_record_id(f"{root.record_id}/{held.last_seq}")
            child = Origin(record_id=record, parent_id=root.record_id, agent="explore", depth=1)
            answer = held.write(*[started(), called(record), returned(record), ended()][:far], origin=child)
        assert not answer.culprits
        assert bool(answer.fenced) != valid

    @rule(drone=consumes(drones))
    def crash(self, drone: str) -> None:
        """End the renewals of a drone, which may still try to write."""

    @rule(held=holds)
    def hand_back(self, held: Held) -> None:
        valid = self._is_held(held)
        answer = self.scene.store.claims.hand_back([(held.order_id, held.epoch)], drone="d", message="m")
        assert list(answer) == ([held.order_id] if valid else [])

    @rule(held=holds, reason=st.sampled_from(list(WaitingReason)), seconds=st.sampled_from([None, 5, 60]))
    def park(self, held: Held, reason: WaitingReason, seconds: int | None) -> None:
        """Park the order, after reading its controls."""
        valid, parked_before = self._is_held(held), self._was_parked(held)
        for control in self.scene.store.controls.pending({held.order_id: held.control_seq}):
            held.control_seq = max(held.control_seq, control.number)
        until = self.clock.now() + timedelta(seconds=seconds) if seconds else None
        asked = Parking(held.order_id, held.epoch, held.last_seq, held.control_seq, reason, "m", until)
        try:
            assert self.scene.store.claims.park(asked) == held.last_seq + 1
            assert valid or parked_before
        except StoreFenced:
            assert not valid and not parked_before
        except ControlsPending:
            assert valid and self.scene.store.controls.pending({held.order_id: 0})

    @rule(order=orders, reason=st.sampled_from(list(WaitingReason)))
    def wake(self, order: str, reason: WaitingReason) -> None:
        before = self.scene.store.orders.get(order)
        resumed = self.scene.store.claims.resume(order, reason, "m")
        assert resumed == (before.status is OrderStatus.WAITING and before.reason is reason)

    @rule(order=orders, node=st.booleans(), kind=st.sampled_from(list(ControlKind)))
    def ask(self, order: str, node: bool, kind: ControlKind) -> None:
        record = "01890000-0000-7000-8000-000000000000" if node else None
        try:
            self.scene.store.controls.request(order, kind, NewControl(record_id=record), by=Actor("x"))
        except OrderIsFinal:
            assert self.scene.status(order) in FINAL

    @rule(order=orders)
    def cancel(self, order: str) -> None:
        self.ask(order, False, ControlKind.CANCEL)

    @rule(held=holds, honest=st.booleans())
    def finish(self, held: Held, honest: bool) -> None:
        """End the order; `honest`: read the controls first and obey a cancel."""
        valid = self._is_held(held)
        status = OrderStatus.SUCCEEDED
        if honest:
            for control in self.scene.store.controls.pending({held.order_id: held.control_seq}):
                held.control_seq = max(held.control_seq, control.number)
            if any(cancels_order(one) for one in self.scene.store.controls.of_order(held.order_id)):
                status = OrderStatus.CANCELLED
        if not valid:
            with pytest.raises(StoreFenced):
                held.finish(status)
            return
        try:
            held.last_seq = held.finish(status)
        except ControlsPending:
            assert not honest or self.scene.store.controls.of_order(held.order_id)[-1].number > held.control_seq

    @rule(may_expire=st.booleans(), steady=st.sampled_from([math.inf, math.inf, 3.0]))
    def sweep(self, may_expire: bool, steady: float) -> None:
        swept = self.scene.store.sweeper.sweep(may_expire=may_expire, steady_seconds=steady)
        assert may_expire or not swept.lost
        assert set(swept.cut) <= set(swept.lost) and not swept.failures
        self.lost |= set(swept.lost)

    def _is_held(self, held: Held) -> bool:
        """Whether the journal says so: its last claim is this one, and no later entry ended it."""
        last = 0
        for entry in self.scene.store.journal.read(held.order_id, limit=100_000):
            if isinstance(entry.data, OrderClaimed):
                last = entry.data.epoch
            elif entry.kind in ("order.requeued", "order.handed_back", "order.waiting", "order.finished"):
                last = 0
        return last == held.epoch

    def _was_parked(self, held: Held) -> bool:
        following = self.scene.store.journal.read(held.order_id, after=held.last_seq, limit=1)
        return [entry.kind for entry in following] == ["order.waiting"]

    def _lives(self, drone: str) -> bool:
        return any(one.incarnation == drone and one.status != "silent" for one in self.scene.store.leases.drones())

    def _all(self) -> list[WorkOrder]:
        return list(self.scene.store.orders.list(limit=1_000).items)

    @invariant()
    def one_holder(self) -> None:
        if not hasattr(self, "scene"):
            return
        probes = [Batch(held.order_id, held.epoch, held.last_seq, ()) for held in self.held]
        accepted = [one.order_id for one in probes if not self.scene.store.journal.append([one]).fenced]
        assert len(accepted) == len(set(accepted))

    @invariant()
    def orders_are_sound(self) -> None:
        if not hasattr(self, "scene"):
            return
        busy: dict[str, str] = {}
        for order in self._all():
            if order.status in (OrderStatus.RUNNING, OrderStatus.WAITING):
                assert order.session_id not in busy, "two turns of one session at once"
                busy[order.session_id] = order.id
            assert (order.reason is None) == (order.status in (OrderStatus.QUEUED, OrderStatus.RUNNING, *ENDED_WELL))
            self._moved(order)
            self._told(order)

    def _moved(self, order: WorkOrder) -> None:
        before = self.seen.get(order.id)
        assert before not in FINAL or before == order.status, "an end was not the end"
        self.seen[order.id] = order.status
        direct = before in (None, order.status) or (before, order.status) in {
            (move.source, move.target) for move in MOVES
        }
        assert direct or before is OrderStatus.RUNNING or order.status in FINAL

    def _told(self, order: WorkOrder) -> None:
        fold = self.scene.fold(order.id)
        assert fold.last_seq == order.last_seq
        kinds = self.scene.kinds(order.id)
        assert kinds.count("order.finished") == (order.status in FINAL)
        if order.status in FINAL:
            assert kinds[-1] == "order.finished" and fold.finished and fold.finished.status == order.status
            assert self.scene.store.orders.record(order.id) == fold.record()
            assert not any(one.open for one in self.scene.store.controls.of_order(order.id))


def test_every_history_of_drones_and_callers_keeps_the_promises() -> None:
    run_state_machine_as_test(OrderMachine, settings=SETTINGS)
