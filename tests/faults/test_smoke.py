"""A whole family on SQLite and PostgreSQL: drones killed in the midst of things, a zombie, an empty Redis; no harm."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.faults.assembly import MODEL_OF_MESSAGES
from tests.faults.checker import INVARIANTS, evidence_of, violations
from tests.faults.failpoints import Armed
from tests.faults.family import Family
from tests.faults.members import Member, until
from tests.faults.plan import Plan
from tests.faults.script import prompt_of
from tests.faults.services import REDIS_SERVER

pytestmark = [
    pytest.mark.family,
    pytest.mark.group("killed drones"),
    pytest.mark.skipif(REDIS_SERVER is None, reason="neither redis-server nor valkey-server is on PATH"),
]

KILLED_AT = ("F5", "F7", "F10", "F12", "F16", "F18")
LEASE_SECONDS = 2.0
PROMISES = tuple(name for name in INVARIANTS if name not in ("I14", "I16"))
"""All but how fast it was, which says nothing on a machine that does other things meanwhile."""

ZOMBIE_SECONDS = 5.0
TRIES = 3
FLUSHED = 6


@contextmanager
def family_on(database: str, directory: Path) -> Iterator[Family]:
    """Skips where there is no PostgreSQL."""
    plan = Plan(database="postgres" if database == "postgres" else "sqlite", lease_seconds=LEASE_SECONDS, seed=11)
    with ExitStack() as stack:
        try:
            family = stack.enter_context(Family(plan, directory))
        except psycopg.OperationalError as error:
            pytest.skip(f"no PostgreSQL answers: {str(error).splitlines()[0]}")
        yield family


def killed(family: Family, place: str, seed: int) -> Armed:
    """Place an order with two children; its drone is killed at this place, at the second visit where there is one."""
    nth = 2 if place in ("F7", "F10", "F12") else 1
    armed = family.failpoints.arm(place, "kill9", order=f"killed-{place}", nth=nth)
    family.watch(family.clients.submit(prompt_of(f"killed-{place}", seed, children=2, steps=6)), seed=seed)
    return armed


def stopped(family: Family, key: str) -> tuple[str, Member]:
    """An order whose drone stands still for longer than its lease, with the drone."""
    armed = family.failpoints.arm("F10", "stop", order=key, nth=2, seconds=ZOMBIE_SECONDS)
    order_id = family.clients.submit(prompt_of(key, 21, children=2, steps=6))
    family.watch(order_id)
    until(lambda: family.failpoints.fired(armed), 40.0, lambda: f"F10 is reached by {family.state(order_id)}")
    holder = family.holder(order_id)
    assert holder is not None
    return order_id, holder


def zombie(family: Family) -> Member:
    """A drone whose order was taken over while it stood still.

    One that stood still with SQLite's lock in its hand held up all others instead: then another one is tried.
    """
    for number in range(TRIES):
        order_id, holder = stopped(family, f"stopped-{number}")
        family.quiesce(restarting=True)
        if family.state(order_id).attempt > 1:
            return holder
    raise AssertionError(f"none of {TRIES} orders was taken over from a drone that stood still")


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_no_order_is_lost_or_done_twice_when_drones_are_killed_or_stopped_and_redis_forgets(
    database: str, tmp_path: Path
) -> None:
    with family_on(database, tmp_path / "run") as family:
        kills = [killed(family, place, seed) for seed, place in enumerate(KILLED_AT)]
        family.quiesce(restarting=True)
        assert [one.name for one in kills if not family.failpoints.fired(one)] == []
        family.restart_lost()
        family.provoked_stale = True
        holder = zombie(family)
        until(lambda: "lease lost" in holder.said(), 30.0, f"{holder.name} learns that it was taken for lost")
        for number in range(FLUSHED):
            family.clients.submit(prompt_of(f"flushed-{number}", 30 + number), model=MODEL_OF_MESSAGES)
            family.told("FLUSHALL", "redis")
            family.redis.command("FLUSHALL")
        ended = family.quiesce(restarting=True)
        assert [(one.order_id, one.status, one.reason) for one in ended if one.status != "succeeded"] == []
        found = violations(evidence_of(family.finish()), PROMISES)
    assert not found, "\n".join(map(str, found))
