"""The service clears by itself: it says first what would go, and removes from the next day on."""

import pytest

from mcc.contracts.order import NewOrder
from mcc.contracts.shape import now
from mcc.dispatch.housekeeping import ANNOUNCED, Housekeeping
from mcc.store.errors import Pruned
from mcc.store.store import Store
from mcc.testing import FakeClock, temporary_store
from mcc.testing.hand_drone import HandDrone

DAY = 86_400


def test_the_first_day_only_says_what_would_go() -> None:
    store, clock, order_id = an_old_order()
    keeper = Housekeeping(store, 30, pause_seconds=0)
    for _ in range(2):
        assert keeper.once().orders == 0
    noted = store.audit.first(ANNOUNCED)
    assert noted is not None and noted.detail["orders"] == 1
    clock.advance(DAY - 1)
    assert keeper.once().orders == 0
    clock.advance(2)
    assert keeper.once().orders == 1
    with pytest.raises(Pruned):
        store.journal.read(order_id)


def test_another_start_does_not_begin_the_day_anew() -> None:
    store, clock, _ = an_old_order()
    Housekeeping(store, 30, pause_seconds=0).once()
    clock.advance(DAY + 1)
    assert Housekeeping(store, 30, pause_seconds=0).once().orders == 1


def test_what_somebody_watches_waits() -> None:
    store, clock, order_id = an_old_order()
    watching = {order_id}
    keeper = Housekeeping(store, 30, lambda: watching, pause_seconds=0)
    keeper.once()
    clock.advance(DAY + 1)
    assert keeper.once().orders == 0
    watching.clear()
    assert keeper.once().orders == 1


def test_a_retention_of_0_removes_nothing() -> None:
    store, _, order_id = an_old_order()
    keeper = Housekeeping(store, 0)
    keeper.start()
    keeper.stop()
    assert store.audit.first(ANNOUNCED) is None
    assert store.journal.read(order_id)


def an_old_order() -> tuple[Store, FakeClock, str]:
    """A store with an order that ended 60 days ago."""
    clock = FakeClock(now())
    store = temporary_store(clock)
    held = HandDrone(store).claim(store.orders.place(NewOrder(prompt="p"), principal="t").order.id)
    held.start()
    held.finish()
    clock.advance(60 * DAY)
    return store, clock, held.id
