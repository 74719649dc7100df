"""Housekeeping: announces first what it would delete, and deletes from the next day on."""

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import now
from mcc.dispatch.housekeeping import ANNOUNCED, Housekeeping
from mcc.store.database.errors import JournalPruned
from mcc.store.database.tables import JOURNAL
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
    with pytest.raises(JournalPruned):
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


def test_a_retention_of_0_packs_and_removes_nothing() -> None:
    store, clock, order_id = an_old_order()
    before = store.journal.read(order_id)
    keeper = Housekeeping(store, 0, pause_seconds=0)
    for _ in range(2):
        assert keeper.once().orders == 0
        clock.advance(2 * DAY)
    assert store.audit.first(ANNOUNCED) is None
    assert store.journal.read(order_id) == before
    assert rows(store) == 0


def test_an_order_that_ended_within_the_hour_keeps_its_rows() -> None:
    store, clock, _ = an_old_order(days=0)
    keeper = Housekeeping(store, 30, pause_seconds=0)
    keeper.once()
    assert rows(store) > 0
    clock.advance(3_601)
    keeper.once()
    assert rows(store) == 0


def rows(store: Store) -> int:
    statement = sa.select(sa.func.count()).select_from(JOURNAL)
    return int(store.database.read(lambda connection: connection.scalar(statement)) or 0)


def an_old_order(days: int = 60) -> tuple[Store, FakeClock, str]:
    """A store with an order that ended `days` ago."""
    clock = FakeClock(now())
    store = temporary_store(clock)
    held = HandDrone(store).claim(store.orders.place(NewOrder(prompt="p"), by=Actor("t")).order.id)
    held.start()
    held.finish()
    clock.advance(days * DAY)
    return store, clock, held.id
