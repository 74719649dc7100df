"""Calls and questions that wait for a person, in a real family: a drone runs the order, or was killed meanwhile."""

import os
import signal
from typing import Any

import pytest

from mcc.client import Conflict
from mcc.contracts.approvals import AnyItem, ApprovalItem, LateAnswer
from mcc.contracts.journal import ToolFinished, ToolStarted
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus
from tests.journey.conftest import House
from tests.journey.script import HARBOUR, PILOT, ROPES, SEND_PILOT

pytestmark = pytest.mark.group("turns")

ASK = {"permission": {"list_files": "ask"}, "on_ask": "wait"}


def place(house: House, prompt: str, **fields: Any) -> WorkOrder:
    return house.mcc.orders.submit(prompt, model=HARBOUR, workspace=str(house.workspace), **fields)


def asked(house: House, order: WorkOrder) -> AnyItem:
    """What the order asks, as soon as it does."""
    kinds = ("approval.requested", "question.asked")
    next(entry for entry in house.mcc.orders.watch(order.id) if entry.kind in kinds)
    [item] = house.mcc.inbox.list(order_id=order.id).items
    return item


def ended(house: House, order: WorkOrder) -> WorkOrder:
    for _ in house.mcc.orders.watch(order.id):
        pass
    return house.mcc.orders.get(order.id)


def calls(house: House, order: WorkOrder) -> list[tuple[int, ToolStarted | ToolFinished]]:
    entries = house.mcc.orders.watch(order.id)
    wanted = [(entry.seq, entry.data) for entry in entries if isinstance(entry.data, ToolStarted | ToolFinished)]
    return [(seq, data) for seq, data in wanted if data.name == "list_files"]


def test_an_approved_call_runs_once_also_when_its_drone_is_killed_before_the_decision(house: House) -> None:
    order = place(house, ROPES, **ASK)
    item = asked(house, order)
    name = house.mcc.orders.get(order.id).drone
    os.kill(next(drone.pid for drone in house.mcc.drones.list() if drone.name == name), signal.SIGKILL)
    assert house.mcc.inbox.approve(item.id, note="Count them.").status == "approved"
    assert ended(house, order).status is OrderStatus.SUCCEEDED
    (began, started), (_, finished) = calls(house, order)
    assert isinstance(started, ToolStarted) and started.approval_id == item.id
    assert isinstance(finished, ToolFinished) and not finished.is_error
    [used] = house.mcc.inbox.list(status=None, order_id=order.id).items
    assert isinstance(used, ApprovalItem) and (used.status, used.used_seq) == ("used", began)
    with pytest.raises(Conflict):
        house.mcc.inbox.deny(item.id)


def test_what_a_child_asks_is_in_the_same_inbox_and_a_denial_is_told_to_it(house: House) -> None:
    order = place(house, SEND_PILOT, **ASK)
    item = asked(house, order)
    assert isinstance(item, ApprovalItem) and (item.agent, item.depth, item.tool) == ("explore", 1, "list_files")
    house.mcc.inbox.deny(item.id, note="They are wet.")
    assert ended(house, order).status is OrderStatus.SUCCEEDED
    *_, (_, finished) = calls(house, order)
    assert isinstance(finished, ToolFinished) and finished.outcome == "denied" and "They are wet." in finished.content


def test_a_question_is_answered_and_one_of_a_cancelled_order_is_void(house: House) -> None:
    order = place(house, PILOT)
    house.mcc.inbox.answer(asked(house, order).id, "Bo")
    assert ended(house, order).status is OrderStatus.SUCCEEDED
    other = place(house, PILOT)
    item = asked(house, other)
    house.mcc.orders.cancel(other.id)
    assert ended(house, other).status is OrderStatus.CANCELLED
    late = house.mcc.inbox.answer(item.id, "Ann")
    assert isinstance(late, LateAnswer) and late.became == "next_turn"
    [void] = house.mcc.inbox.list(status=None, order_id=other.id).items
    assert void.status == "void"


def test_where_nobody_is_asked_the_call_is_denied_and_the_order_goes_on(house: House) -> None:
    order = place(house, ROPES, **{**ASK, "on_ask": "deny"})
    assert ended(house, order).status is OrderStatus.SUCCEEDED
    *_, (_, finished) = calls(house, order)
    assert isinstance(finished, ToolFinished) and "nobody is asked" in finished.content
    assert house.mcc.inbox.list(status=None, order_id=order.id).items == ()
