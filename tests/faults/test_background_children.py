"""Real processes: drones are killed while subagents work in the background; each report reaches its parent once."""

from functools import partial
from pathlib import Path

import pytest

from tests.faults.checker import evidence_of, violations
from tests.faults.family import Family
from tests.faults.members import until
from tests.faults.plan import Plan
from tests.faults.script import prompt_of
from tests.faults.services import REDIS_SERVER

pytestmark = [
    pytest.mark.family,
    pytest.mark.group("killed drones"),
    pytest.mark.skipif(REDIS_SERVER is None, reason="neither redis-server nor valkey-server is on PATH"),
]

ORDERS, CHILDREN = 10, 3
KILLS = 2
PROMISES = ("I1", "I2", "I3", "I4", "I6", "I7", "I8", "I9", "I10")


def _is_held(family: Family, order_id: str) -> bool:
    return family.holder(order_id) is not None


def test_a_drone_killed_while_subagents_work_in_the_background_loses_no_report(tmp_path: Path) -> None:
    with Family(Plan(database="sqlite", lease_seconds=2.0), tmp_path) as family:
        prompts = [prompt_of(f"order-{n}", n, children=CHILDREN, steps=6, background=True) for n in range(ORDERS)]
        order_ids = [*map(family.clients.submit, prompts)]
        for order_id in order_ids[:KILLS]:
            until(partial(_is_held, family, order_id), 60.0, lambda: "an order has a drone")
            if (holder := family.holder(order_id)) is not None:
                family.kill(holder)
            family.restart_lost()
        family.quiesce(240.0, 90.0, restarting=True)
        family.finish()
        evidence = evidence_of(tmp_path, family.database_url)
    assert {order.status for order in evidence.orders.values()} == {"succeeded"}
    assert violations(evidence, PROMISES) == []
    entries = [entry for order in evidence.orders.values() for entry in order.entries]
    assert sum(len(entry.data.get("background", ())) for entry in entries) == ORDERS * CHILDREN
    assert sum(entry.kind == "agent.delivered" for entry in entries) == ORDERS * CHILDREN
    assert any(entry.kind == "order.requeued" for entry in entries)
