"""Lists of orders by label and status: right, page by page, and fast when either filter alone matches many orders."""

import sqlite3
from pathlib import Path

from benchmarks.backlog.plans import overheard
from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.contracts.status import OrderStatus
from mcc.store.rows.values import BatchOrder
from mcc.store.store import open_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.store import migrated_copy
from tests.conformance.store.scene import Scene

LABELS = ((), ("even",), ("third",), ("even", "third"), ("even",), ("other",))
ENDS = (None, OrderStatus.SUCCEEDED, None, OrderStatus.FAILED, OrderStatus.SUCCEEDED)


def paged(scene: Scene, label: str, status: OrderStatus, limit: int) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = scene.store.orders.list(label=label, status=status, limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        found += [order.id for order in page.items]
        if (cursor := page.next_cursor) is None:
            return found


def test_all_orders_with_both_are_listed_newest_first_on_pages_of_any_size(scene: Scene) -> None:
    drone = scene.drone()
    for number in range(30):
        order = scene.place(labels=LABELS[number % len(LABELS)])
        if (end := ENDS[number % len(ENDS)]) is not None:
            scene.hold(order.id, drone, token=order.id).finish(end)
    everything = scene.store.orders.list(limit=100).items
    for label in ("even", "third", "other", "nobody's"):
        for status in OrderStatus:
            wanted = [one.id for one in everything if label in one.labels and one.status is status]
            for limit in (1, 2, 50):
                assert paged(scene, label, status, limit) == wanted, (label, status, limit)


def steps_of_the_list(path: Path) -> int:
    """Instructions that SQLite's virtual machine executes: a cost that does not depend on the machine's load."""
    store = open_store(f"sqlite:///{path}")
    try:
        with overheard(store.database) as sent:
            found = store.orders.list(label="nightly", status=OrderStatus.SUCCEEDED).items
        assert len(found) == 3
    finally:
        store.close()
    taken = 0

    def step() -> int:
        nonlocal taken
        taken += 1
        return 0

    with sqlite3.connect(path) as connection:
        connection.set_progress_handler(step, 1)
        for statement, parameters in sent:
            connection.execute(statement, parameters).fetchall()
    connection.close()
    return taken


def test_a_long_run_of_orders_that_match_only_one_filter_is_skipped(tmp_path: Path) -> None:
    path = migrated_copy(tmp_path / "mcc.db")
    store = open_store(f"sqlite:///{path}")
    nightly = BatchOrder(NewOrder(prompt="Do it.", labels=("nightly",)))
    try:
        drone = HandDrone(store)
        for placed in store.orders.place_all([nightly] * 3, by=Actor("operator")):
            held = drone.claim(placed.order.id)
            held.start()
            held.finish()
        store.orders.place_all([nightly] * 20, by=Actor("operator"))
        few = steps_of_the_list(path)
        store.orders.place_all([nightly] * 400, by=Actor("operator"))
        many = steps_of_the_list(path)
    finally:
        store.close()
    assert many <= few * 1.1, f"{few} steps with 20 newer orders of the label, {many} with 420"
