"""A drone loses an order at any moment of its delivery: the next one goes on, and nothing is pushed or opened twice."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from drone.sandbox.bubblewrap import Bubblewrap
from mcc.contracts.approvals import ApprovalItem, NewDecision
from mcc.contracts.callers import Actor
from mcc.contracts.git_delivery import DeliveryStarted
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import FINAL, FailureReason, OrderStatus, WaitingReason
from tests.drone.delivery.forge import Failing, FakeForge
from tests.drone.delivery.scenario import Scenario, scenario
from tests.drone.tools.git_scene import Scene

EVERY = "DELIVERY_CUTS"
"""Set to `all`: the order is lost at each request to the forge and to the git server."""

PUSHING = 9
"""By the number of its request, when the commit is on its way to the git server."""


def points() -> Sequence[tuple[str, int]]:
    if os.environ.get(EVERY) == "all":
        return [(server, number) for server in ("forge", "git") for number in range(1, 13)]
    return [("forge", 2), ("forge", 3), ("git", PUSHING)]


@pytest.mark.parametrize(("server", "number"), points())
async def test_a_delivery_that_is_cut_off_is_finished_by_the_next_drone(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge, server: str, number: int
) -> None:
    async with scenario(tmp_path, sandbox, served, github) as here:
        order = here.place()
        here.halt_at(order, number, forge=server == "forge")
        cut = await here.worked(order)
        if cut.status in FINAL and EVERY in os.environ:
            pytest.skip("there are no so many requests")
        assert cut.status is OrderStatus.RUNNING and here.hand_back()
        ended = await here.worked(order)
        assert ended.status is OrderStatus.SUCCEEDED and ended.delivery is not None and ended.attempt == 2
        assert ended.delivery.request is not None and len(github.requests) == 1
        assert here.on_remote(here.branch_of(order)) == ended.delivery.commit
        assert here.served.git("rev-list", "--count", here.branch_of(order), "^main") == "1"
        assert here.bench.kinds(order.id).count("order.finished") == 1
        assert here.bench.kinds(order.id).count("tool.started") == 1


async def test_a_request_that_was_merged_before_the_takeover_is_not_opened_again(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, github) as here:
        order = here.place()
        # What opens the request is carried out, and its answer lost.
        github.failing = []
        here.forge.hear = lambda count: github.failing.append(Failing(0, after=True)) if count == 3 else None
        waiting = await here.worked(order)
        assert (waiting.reason, len(github.requests)) == (WaitingReason.DELIVERY, 1)
        github.requests[1]["state"] = "merged"
        here.bench.store.claims.resume(order.id, WaitingReason.DELIVERY, "again")
        ended = await here.worked(order)
        assert ended.status is OrderStatus.SUCCEEDED and len(github.requests) == 1
        assert ended.delivery is not None and ended.delivery.request is not None
        assert (ended.delivery.request.state, ended.delivery.request.created) == ("merged", True)


async def asked(here: Scenario, order: WorkOrder) -> ApprovalItem:
    waiting = await here.worked(order)
    assert (waiting.status, waiting.reason) == (OrderStatus.WAITING, WaitingReason.APPROVAL)
    (item,) = here.bench.store.inbox.list("pending").items
    assert isinstance(item, ApprovalItem)
    return item


def decide(here: Scenario, item: ApprovalItem, decision: Literal["approve", "deny"]) -> None:
    here.bench.store.approvals.decide(item.id, NewDecision(decision=decision), by=Actor("test"))


async def test_a_person_sees_the_diff_and_what_goes_where_and_the_order_goes_on_once_they_approve(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, github, park_after_seconds=0.0) as here:
        order = here.place(permission={}, on_ask="wait")
        item = await asked(here, order)
        assert item.tool == "deliver" and item.effects == "irreversible" and item.preview is not None
        assert item.preview.kind == "diff" and "+Mend it" in item.preview.text
        assert item.arguments["files"] == ["work.txt"] and item.arguments["project"] == "team/shop"
        assert item.arguments["branch"] == here.branch_of(order) and here.on_remote(here.branch_of(order)) == ""
        decide(here, item, "approve")
        ended = await here.worked(order)
        assert (
            ended.status is OrderStatus.SUCCEEDED and ended.delivery is not None and ended.delivery.request is not None
        )
        assert here.bench.store.inbox.list("pending").items == []


async def test_what_changed_after_it_was_approved_is_asked_about_again(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, github, park_after_seconds=0.0) as here:
        order = here.place(permission={}, on_ask="wait")
        item = await asked(here, order)
        decide(here, item, "approve")
        (checkout,) = (tmp_path / "data" / "sessions").glob("*/shop")
        (checkout / "more.txt").write_text("of somebody\n")
        again = await asked(here, order)
        assert again.id != item.id and again.arguments["files"] == ["more.txt", "work.txt"]
        decide(here, again, "deny")
        ended = await here.worked(order)
        assert ended.reason is FailureReason.NOT_DELIVERED and here.on_remote(here.branch_of(order)) == ""
        begun = [entry.data for entry in here.journal(order) if isinstance(entry.data, DeliveryStarted)]
        assert {fact.step for fact in begun} == {"commit"}
