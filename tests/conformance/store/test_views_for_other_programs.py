"""The views that other programs read: what they say is what the store says."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mcc.contracts.status import FailureReason, OrderStatus
from tests.conformance.store.scene import Scene, started


def rows(scene: Scene, view: str) -> list[dict[str, Any]]:
    with scene.store.database.engine.connect() as connection:
        return [dict(row) for row in connection.execute(sa.text(f"SELECT * FROM {view}")).mappings()]


def test_an_order_is_a_row_with_what_it_was_asked_for_and_how_it_ended(scene: Scene) -> None:
    held = scene.running("Explain „it“", agent="scout", workspace="/srv/work", queue="default", priority=2)
    held.write(started())
    held.scene.store.claims.finish(held.ending(OrderStatus.FAILED, reason=FailureReason.MODEL_ERROR))
    order = scene.store.orders.get(held.order_id)
    (row,) = rows(scene, "mcc_orders")
    wanted = ("id", "session_id", "session_seq", "agent", "prompt", "workspace", "status", "reason", "queue", "attempt")
    assert {name: row[name] for name in wanted} == {name: getattr(order, name) for name in wanted}
    for name in ("created_at", "started_at", "finished_at"):
        told = row[name] if isinstance(row[name], datetime) else datetime.fromisoformat(row[name])
        assert abs((told - getattr(order, name)).total_seconds()) < 1, name


def test_the_load_counts_what_drones_could_claim_and_what_runs(scene: Scene) -> None:
    scene.running("runs")
    busy = scene.running("first of a session")
    session = scene.store.orders.get(busy.order_id).session_id
    scene.place("waits for the turn before", session_id=session)
    for _ in range(3):
        scene.place("can begin")
    scene.place("elsewhere", queue="slow")
    load = {row["queue"]: (row["claimable"], row["running"]) for row in rows(scene, "mcc_load")}
    assert load == {"default": (3, 2), "slow": (1, 0)}
    claimable = scene.store.claims.claimable(["default", "slow"], 100)
    assert sum(one for one, _ in load.values()) == len(claimable)
