"""Steering through the real family: a child is told, a child is cancelled, an order rests; all with receipts."""

from collections.abc import Iterator

import pytest

from mcc.client import Conflict
from mcc.contracts.control import Control
from mcc.contracts.entry import Entry
from mcc.contracts.fold import Fold
from mcc.contracts.journal import AgentStarted
from mcc.contracts.order import WorkOrder
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.contracts.status import OrderStatus
from tests.journey.conftest import ON_SQLITE, House
from tests.journey.script import BELL, EAST, HARBOUR, PATROL, WEST

pytestmark = [pytest.mark.group("turns"), ON_SQLITE]


class Patrol:
    """A master and two children that walk for seconds, watched from the beginning."""

    def __init__(self, house: House) -> None:
        self.orders = house.mcc.orders
        self.order = self.orders.submit(PATROL, workspace=house.workspace, model=HARBOUR)
        self.entries: list[Entry] = []
        self._watching: Iterator[Entry] = self.orders.watch(self.order.id)
        self.children: dict[str, str] = {}
        while len(self.children) < 2:
            entry = self.next()
            if isinstance(entry.data, AgentStarted) and entry.record_id and entry.depth == 1:
                self.children[entry.data.prompt] = entry.record_id

    def next(self) -> Entry:
        entry = next(self._watching)
        self.entries.append(entry)
        return entry

    def until(self, kind: str, record_id: str | None = None) -> Entry:
        while (entry := self.next()).kind != kind or record_id not in (None, entry.record_id):
            pass
        return entry

    def end(self) -> WorkOrder:
        self.entries.extend(self._watching)
        order = self.orders.get(self.order.id)
        record = self.orders.record(order.id)
        assert Fold.of(order.id, self.entries).record() == record
        assert not any(control.open for control in self.controls())
        return order

    def controls(self) -> list[Control]:
        return list(self.orders.controls(self.order.id))

    def child(self, prompt: str) -> ChatRecord:
        history = self.orders.record(self.order.id).subagent_history
        return next(child for child in history if child.id == self.children[prompt])


def test_a_child_is_given_another_task_and_its_sibling_hears_nothing_of_it(house: House) -> None:
    patrol = Patrol(house)
    patrol.orders.steer(
        patrol.order.id, BELL, record_id=patrol.children[EAST], redirect=True, remove_tools=["read_file"], reason="fog"
    )
    applied = patrol.until("control.applied")
    assert applied.record_id == patrol.children[EAST]
    order = patrol.end()
    assert (order.status, order.answer) == (OrderStatus.SUCCEEDED, "The patrol is back.")
    assert (patrol.child(EAST).answer, patrol.child(WEST).answer) == ("The bell rang.", f"All is quiet: {WEST}.")
    (control,) = patrol.controls()
    assert (control.applied_seq, control.mode, control.remove_tools) == (applied.seq, "redirect", ("read_file",))
    (step,) = [step for step in patrol.child(EAST).steps if step.kind == "steer"]
    assert (step.seq, step.message, step.reason) == (applied.seq, BELL, "fog")
    assert not [step for step in patrol.child(WEST).steps if step.kind == "steer"]


def test_a_child_is_cancelled_its_sibling_goes_on_and_what_comes_later_for_it_is_refused(house: House) -> None:
    patrol = Patrol(house)
    east = patrol.children[EAST]
    patrol.orders.pause(patrol.order.id, record_id=east)
    patrol.until("control.applied")
    patrol.orders.steer(patrol.order.id, BELL, record_id=east)
    patrol.orders.cancel(patrol.order.id, record_id=east, reason="fog")
    ended = patrol.until("agent.finished")
    assert ended.record_id == east
    patrol.orders.resume(patrol.order.id, record_id=east)
    order = patrol.end()
    assert (order.status, order.answer) == (OrderStatus.SUCCEEDED, "The patrol is back.")
    assert (patrol.child(EAST).status, patrol.child(EAST).error) == (
        RecordStatus.CANCELLED,
        "a person cancelled it: fog",
    )
    assert (patrol.child(WEST).status, patrol.child(WEST).answer) == (RecordStatus.COMPLETED, f"All is quiet: {WEST}.")
    pause, steer, cancel, resume = patrol.controls()
    assert pause.applied_seq is not None and cancel.applied_seq is not None
    assert steer.refused is not None and resume.refused is not None
    calls = [entry for entry in patrol.entries if entry.record_id == east and entry.seq > cancel.applied_seq]
    assert not [entry for entry in calls if entry.kind in ("model.started", "tool.started")]


def test_an_order_rests_and_goes_on_with_receipts_for_all_of_it(house: House) -> None:
    patrol = Patrol(house)
    paused = patrol.orders.pause(patrol.order.id, reason="lunch")
    at = patrol.until("control.applied")
    record = patrol.orders.record(patrol.order.id)
    assert record.status is RecordStatus.WAITING
    assert {child.status for child in record.subagent_history} == {RecordStatus.WAITING}
    patrol.orders.pause(patrol.order.id)
    patrol.orders.steer(patrol.order.id, BELL, record_id=patrol.children[WEST])
    patrol.orders.resume(patrol.order.id)
    resumed = patrol.until("control.applied")
    while resumed.record_id is not None:
        resumed = patrol.until("control.applied")
    order = patrol.end()
    assert order.status is OrderStatus.SUCCEEDED
    rest = [entry.kind for entry in patrol.entries if at.seq < entry.seq < resumed.seq]
    assert "model.started" not in rest and "tool.started" not in rest
    first, second, steer, resume = patrol.controls()
    assert (first.id, first.applied_seq, first.reason) == (paused.id, at.seq, "lunch")
    assert second.refused == "It is paused already."
    assert resume.applied_seq == resumed.seq and steer.applied_seq is not None and steer.applied_seq > resumed.seq
    with pytest.raises(Conflict, match="succeeded"):
        patrol.orders.pause(patrol.order.id)
