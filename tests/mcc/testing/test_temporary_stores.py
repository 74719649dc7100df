"""A temporary store runs the product's SQL, starts empty, has a file of its own, and leaves nothing behind."""

from pathlib import Path

from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.testing import FakeClock, temporary_store


def test_it_is_empty_and_has_the_schema_of_this_version() -> None:
    store = temporary_store()
    assert store.schema_problem() is None and store.orders.list().items == []
    store.close()


def test_two_know_nothing_of_each_other() -> None:
    one, other = temporary_store(), temporary_store()
    one.orders.place(NewOrder(prompt="x"), by=Actor("test"))
    assert len(one.orders.list().items) == 1 and other.orders.list().items == []
    one.close()
    other.close()


def test_its_database_goes_by_the_clock_that_it_is_given() -> None:
    clock = FakeClock()
    store = temporary_store(clock)
    new = NewOrder.model_validate({"prompt": "x", "not_before": clock.now().replace(hour=13)})
    order = store.orders.place(new, by=Actor("test")).order
    assert store.claims.claimable(("default",), 1) == []
    clock.advance(3_600)
    store.sweeper.sweep(may_expire=True)
    assert [one.order_id for one in store.claims.claimable(("default",), 1)] == [order.id]
    store.close()


def test_its_file_goes_with_the_last_who_holds_it() -> None:
    store = temporary_store()
    file = Path(str(store.database.url.database))
    store.orders.place(NewOrder(prompt="x"), by=Actor("test"))
    store.close()
    assert len(store.orders.list().items) == 1
    store.close()
    del store
    assert not list(file.parent.glob(f"{file.name}*"))
