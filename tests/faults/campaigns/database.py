"""Harm to the database: links that break, locks, commits reported as failed, a server that ends."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg

from tests.faults.campaigns.ground import Ground
from tests.faults.campaigns.soundness import sound
from tests.faults.campaigns.stage import Stage, pause
from tests.faults.failpoints import Action
from tests.faults.family import Family
from tests.faults.members import until
from tests.faults.plan import Plan
from tests.faults.postgres import NoPostgres, Postgres, own_postgres

LINKS = ("drone-pg", "mcc-pg")
COMMITS = ("F1", "F4", "F18")
"""Places at which a commit happens and can be reported as failed."""

UNAVAILABLE, NOTICED_SECONDS = 503, 20.0
MOST_HARMS = 3
"""So many are drawn unless all are wanted."""


def database_suffers(stage: Stage) -> None:
    """Commits of unknown outcome at every place, then harm of the kind's own; nothing is lost, nothing done twice."""
    family = stage.family
    placed = []
    for place in COMMITS:
        action: Action = stage.dice.choice(("exec_and_error", "raise"))
        family.failpoints.arm(place, action, order=place, unavailable=True)
        placed.append(stage.submit(place))
    for place in stage.dice.sample(("F9", "F10", "F13", "F15"), 2):
        family.failpoints.arm(place, "raise", order=place, unavailable=True)
        placed.append(stage.submit(place, children=1))
    harms = harms_here(stage)
    count = len(harms) if stage.whole else min(MOST_HARMS, len(harms))
    for number, name in enumerate(stage.dice.sample(sorted(harms), count)):
        placed += stage.crowd(f"during-{number}", 3, linger_seconds=0.4)
        family.told(name, "database of all")
        harms[name](stage)
    with stage.timed("all done after the last harm to the database"):
        stage.quiet()
    stage.succeeded(placed, "only the database had trouble")
    sound(stage)


def harms_here(stage: Stage) -> Mapping[str, Callable[[Stage], None]]:
    """By name, what can be done to the database of this family."""
    if stage.family.plan.database == "sqlite":
        return OF_SQLITE
    return {**OF_POSTGRES, **OF_OWN_SERVER} if stage.ground.postgres else OF_POSTGRES


@contextmanager
def own_server(
    directory: Path, plan: Plan, made: Callable[[], AbstractContextManager[Postgres]] = own_postgres
) -> Iterator[Ground]:
    """The family's PostgreSQL is its own, which may be stopped; where none can be made, it is the one of all others."""
    if plan.database == "sqlite":
        yield Ground(plan)
        return
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(made())
        except NoPostgres as why:
            yield Ground(plan, missing=dict.fromkeys(OF_OWN_SERVER, str(why)))
            return
        yield Ground(replace(plan, server=server.url), postgres=server)


def _terminated(stage: Stage) -> None:
    with _server(stage.family) as link:
        for _ in range(3):
            link.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            pause(stage.dice.uniform(0.3, 1.5))


def _table_locked(stage: Stage) -> None:
    """For longer than a lease: drones must stop, and must not all be taken for lost by one another."""
    with _server(stage.family) as link, link.transaction():
        link.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        link.execute("LOCK TABLE order_state, drones IN ACCESS EXCLUSIVE MODE")
        pause(stage.family.plan.lease_seconds * 1.5)


def _refused(stage: Stage) -> None:
    """As while a server restarts."""
    for link in LINKS:
        stage.family.link(link, "reset_peers")
        stage.family.link(link, "down")
    pause(stage.dice.uniform(0.5, 2.0) * stage.family.plan.lease_seconds)
    for link in LINKS:
        stage.family.link(link, "up")


def _unheard(stage: Stage) -> None:
    for link in LINKS:
        stage.family.link(link, "blackhole")
    pause(stage.family.plan.lease_seconds * 1.5)
    for link in LINKS:
        stage.family.link(link, "up")


def _half_open(stage: Stage) -> None:
    """Connections of drones die without a word; new ones work."""
    stage.family.link("drone-pg", "half_open")
    pause(stage.family.plan.lease_seconds)


OF_POSTGRES: Mapping[str, Callable[[Stage], None]] = {
    "backends terminated": _terminated,
    "tables locked": _table_locked,
    "server refuses": _refused,
    "server unheard": _unheard,
    "connections half open": _half_open,
}


def _stopped(stage: Stage) -> None:
    """As by a power cut; it recovers when it starts again."""
    server = _own(stage)
    server.stop()
    try:
        _is_noticed(stage)
        pause(stage.dice.uniform(0.0, 1.5) * stage.family.plan.lease_seconds)
    finally:
        server.start()


def _used_up(stage: Stage) -> None:
    """Somebody else takes every connection that there may be, those of the family as soon as it gives one up."""
    with psycopg.connect(_own(stage).url, autocommit=True) as link, contextlib.ExitStack() as taken:
        count = 0
        end = time.monotonic() + stage.family.plan.lease_seconds * 1.5
        while time.monotonic() < end:
            link.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mcc'")
            while _one_more(_own(stage), taken):
                count += 1
            pause(0.05)
        _is_noticed(stage)
    stage.measured["connections taken from PostgreSQL"].append(count)


def _one_more(server: Postgres, taken: contextlib.ExitStack) -> bool:
    try:
        taken.enter_context(closing(psycopg.connect(server.url, connect_timeout=5)))
    except psycopg.OperationalError:
        return False
    return True


def _is_noticed(stage: Stage) -> None:
    """A client is told that its order cannot be kept now."""
    until(lambda: stage.posted("refused") == UNAVAILABLE, NOTICED_SECONDS, "an order is refused")


def _own(stage: Stage) -> Postgres:
    assert stage.ground.postgres is not None
    return stage.ground.postgres


OF_OWN_SERVER: Mapping[str, Callable[[Stage], None]] = {
    "server stopped at once": _stopped,
    "connections used up": _used_up,
}


def _held_briefly(stage: Stage) -> None:
    _held(stage, stage.family.plan.lease_seconds / 2)


def _held_for_long(stage: Stage) -> None:
    _held(stage, stage.family.plan.lease_seconds * 2)


def _held(stage: Stage, seconds: float) -> None:
    """Somebody else's write transaction."""
    with contextlib.closing(sqlite3.connect(stage.family.places.private / "mcc.db", timeout=30.0)) as link:
        link.isolation_level = None
        link.execute("BEGIN IMMEDIATE")
        pause(seconds)
        link.execute("ROLLBACK")


OF_SQLITE: Mapping[str, Callable[[Stage], None]] = {
    "write lock held briefly": _held_briefly,
    "write lock held for longer than a lease": _held_for_long,
}


@contextmanager
def _server(family: Family) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    with psycopg.connect(family.database_url, autocommit=True) as link:
        yield link
