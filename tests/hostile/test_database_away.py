"""A drone that is started before its database: it waits, says so, and can be told to stop waiting."""

import signal
import sqlite3

import pytest

from drone.worker.loop import schema_problem
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import StoreUnavailable
from mcc.store.store import Store
from tests.drone.worker.test_celery_worker import Site
from tests.waiting import until


class Away(Store):
    """A store that is away for so many questions; `time` goes on by a second with each pause."""

    def __init__(self, questions: int, answer: str | None = None) -> None:
        self.questions = questions
        self.answer = answer
        self.time = 0.0

    def schema_problem(self) -> str | None:
        self.questions -= 1
        if self.questions >= 0:
            raise StoreUnavailable("nobody listens there")
        return self.answer

    def pause(self, seconds: float) -> None:
        self.time += seconds

    def clock(self) -> float:
        return self.time


@pytest.mark.parametrize("answer", [None, "run `mcc db upgrade`"])
def test_what_the_database_says_counts_as_soon_as_it_says_anything(answer: str | None) -> None:
    store = Away(3, answer)
    assert schema_problem(store, store.pause, patience_seconds=60, clock=store.clock) == answer
    assert store.time == 3


def test_nobody_waits_for_ever() -> None:
    store = Away(10_000)
    with pytest.raises(StoreUnavailable, match="nobody listens"):
        schema_problem(store, store.pause, patience_seconds=60, clock=store.clock)
    assert store.time == 60


def test_a_wait_can_be_broken_off() -> None:
    def stop(_: float) -> None:
        raise SystemExit(0)

    with pytest.raises(SystemExit):
        schema_problem(Away(10_000), stop, patience_seconds=60)


def test_a_drone_waits_for_its_database_and_ends_in_order_when_told_to(site: Site) -> None:
    with sqlite3.connect(site.folder / "mcc.db", isolation_level=None) as holder:
        site.store.close()
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        patient, leaving = site.drone("d1", ready=False), site.drone("d2", ready=False)
        until(lambda: all("this drone waits for it" in site.log(name) for name in ("d1", "d2")), "both say so")
        leaving.send_signal(signal.SIGTERM)
        assert leaving.wait(30) == 0, site.log("d2")
        holder.execute("ROLLBACK")
        holder.execute("PRAGMA locking_mode=NORMAL")
        holder.execute("SELECT count(*) FROM orders")
    holder.close()
    site.wait(site.place("hello"), OrderStatus.SUCCEEDED)
    assert patient.poll() is None
