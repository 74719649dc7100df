"""Real drones with real tools that are killed, suspended beyond their lease, told to end, or hang."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import redis

from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.reaper import Process
from mcc.contracts.journal import Outcome, ToolFinished
from mcc.contracts.status import OrderStatus
from tests.drone.sandbox.machine import asleep
from tests.drone.worker.forked import WITH_TOOLS, Running
from tests.drone.worker.real_redis import SERVER, WHY_NOT, RealRedis
from tests.drone.worker.test_celery_worker import Site
from tests.drone.worker.tool_drone import MASTER
from tests.waiting import until

pytestmark = [
    pytest.mark.group("fenced drones"),
    pytest.mark.skipif(SERVER is None, reason=WHY_NOT),
    pytest.mark.skipif(
        (found := Bubblewrap.found()) is None or found.problem() is not None, reason="there is no sandbox here"
    ),
]
NAP = str(300_000 + os.getpid())
"""Seconds that no other test process sleeps for: tests run side by side."""


def sleepers() -> list[Process]:
    return asleep(NAP)


class Bedroom(Site):
    """A site with drones that nap."""

    def sleepy(self, name: str, **more: Any) -> Running:
        master = self.folder / "prompts" / "master" / "system.md"
        master.parent.mkdir(parents=True, exist_ok=True)
        master.write_text(MASTER)
        told: dict[str, Any] = {
            "MCC_PROMPTS_DIR": str(master.parent.parent),
            "NAP": NAP,
            "STARTS": str(self.folder / "starts"),
        }
        return self.drone(name, program=WITH_TOOLS, **told, **more)

    @property
    def starts(self) -> list[int]:
        """The processes that started a nap, in order."""
        file = self.folder / "starts"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def napping(self, number: int = 2) -> None:
        until(lambda: len(sleepers()) >= number, f"{number} processes nap")

    def stand_still(self, drone: Running) -> None:
        """Suspend it while it holds no lock of the database; otherwise no other process could write meanwhile."""
        until(lambda: self._stopped(drone), "it stands still outside of a transaction")

    def _stopped(self, drone: Running) -> bool:
        drone.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{drone.pid}/task")
        until(
            lambda: all(_state(one) == "T" for one in threads.iterdir()),
            "all of its threads stand still",
        )
        with closing(sqlite3.connect(self.folder / "mcc.db", timeout=0, isolation_level=None)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                drone.send_signal(signal.SIGCONT)
                return False
            database.execute("ROLLBACK")
        return True

    def outcomes(self, order_id: str) -> list[Outcome]:
        facts = [entry.data for entry in self.store.journal.read(order_id)]
        return [fact.outcome for fact in facts if isinstance(fact, ToolFinished)]


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def bedroom(tmp_path: Path, real_redis: RealRedis) -> Iterator[Bedroom]:
    with redis.Redis.from_url(real_redis.url) as client:
        client.flushall()
    with ExitStack() as stack:
        yield Bedroom(tmp_path, real_redis, stack)
    until(lambda: not sleepers(), "no tool is left behind")


def test_a_drone_suspended_beyond_its_lease_does_nothing_more_and_registers_again(bedroom: Bedroom) -> None:
    first = bedroom.sleepy("d1")
    order = bedroom.place("nap")
    bedroom.napping()
    bedroom.stand_still(first)
    second = bedroom.sleepy("d2")
    ended = bedroom.wait(order, OrderStatus.SUCCEEDED)
    assert not sleepers(), "its tools were ended while it stood still"
    assert bedroom.outcomes(order) == [Outcome.OUTCOME_UNKNOWN]
    first.send_signal(signal.SIGCONT)
    until(lambda: "fenced" in bedroom.log("d1"), "it noticed")
    until(lambda: bedroom.log("d1").count("registered") == 2, "it registered anew")
    assert bedroom.get(order).last_seq == ended.last_seq
    assert bedroom.starts == [first.pid]
    second.send_signal(signal.SIGTERM)
    assert second.wait(15) == 0
    again = bedroom.place("nap")
    bedroom.napping()
    assert bedroom.claimed_by(again) == ["d1"]
    assert bedroom.starts == [first.pid, first.pid]
    assert first.poll() is None


def test_tools_of_a_drone_that_is_killed_die_with_it_and_the_idempotent_one_runs_again(bedroom: Bedroom) -> None:
    first = bedroom.sleepy("d1")
    order = bedroom.place("nap_again")
    bedroom.napping()
    before = sleepers()
    first.kill()
    until(lambda: not any(process.there for process in before), "the tools are gone")
    second = bedroom.sleepy("d2")
    bedroom.napping()
    assert bedroom.starts == [first.pid, second.pid]
    assert bedroom.claimed_by(order) == ["d1", "d2"]


def test_a_drone_told_to_end_kills_its_tools_and_hands_its_orders_back(bedroom: Bedroom) -> None:
    first = bedroom.sleepy("d1", DRONE_DRAIN_CANCEL_SECONDS="0.3", DRONE_DRAIN_HAND_BACK_SECONDS="3")
    order = bedroom.place("nap")
    bedroom.napping()
    first.send_signal(signal.SIGTERM)
    assert first.wait(15) == 0
    assert not sleepers()
    assert bedroom.kinds(order)[-2:] == ["tool.started", "order.handed_back"]
    bedroom.sleepy("d2")
    ended = bedroom.wait(order, OrderStatus.SUCCEEDED)
    assert bedroom.outcomes(order) == [Outcome.OUTCOME_UNKNOWN]
    assert "not known" in (ended.answer or "")
    assert bedroom.starts == [first.pid]


def test_tools_stop_while_the_lease_cannot_be_renewed_and_go_on_when_it_can(bedroom: Bedroom) -> None:
    drone = bedroom.sleepy("d1", DRONE_LEASE_SECONDS="4")
    order = bedroom.place("nap")
    bedroom.napping()
    with closing(sqlite3.connect(bedroom.folder / "mcc.db", isolation_level=None)) as lock:
        lock.execute("BEGIN IMMEDIATE")
        until(lambda: all(process.stopped for process in sleepers()), "the tools are held back")
        assert len(sleepers()) == 2
        lock.execute("ROLLBACK")
    until(lambda: not any(process.stopped for process in sleepers()), "they go on")
    assert len(sleepers()) == 2
    assert (bedroom.get(order).status, bedroom.get(order).attempt) == (OrderStatus.RUNNING, 1)
    assert drone.poll() is None


def test_a_drone_whose_loop_hangs_says_where_and_ends(bedroom: Bedroom) -> None:
    hanging = bedroom.drone("d1", DRONE_WEDGED_SECONDS="1")
    order = bedroom.place("block 600")
    assert hanging.wait(60) == 1
    log = bedroom.log("d1")
    assert "the event loop hangs" in log and "hold_up" in log
    sweeper = bedroom.store.sweeper
    until(lambda: order in sweeper.sweep(may_expire=True).requeued, "its lease ran out")
