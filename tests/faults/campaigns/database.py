"""This room is for harm to the database: links that break, locks, commits that are reported as failed, a full disk."""

import contextlib
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.faults.campaigns.stage import Skipped, Stage, pause
from tests.faults.disks import SmallDisk
from tests.faults.failpoints import Action
from tests.faults.family import Family
from tests.faults.jsonlines import read
from tests.faults.members import until
from tests.faults.script import prompt_of

LINKS = ("drone-pg", "mcc-pg")
COMMITS = ("F1", "F4", "F18")
"""Places at which a commit happens and can be reported as failed."""

DISK_MEGABYTES, RESERVE_MEGABYTES = 64, 8
FULL_SECONDS = 6.0


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
    harms = OF_SQLITE if family.plan.database == "sqlite" else OF_POSTGRES
    for number, name in enumerate(stage.dice.sample(sorted(harms), len(harms) if stage.whole else 2)):
        placed += stage.crowd(f"during-{number}", 3, linger_seconds=0.4)
        family.told(name, "database of all")
        harms[name](stage)
    with stage.timed("all done after the last harm to the database"):
        stage.quiet()
    stage.succeeded(placed, "only the database had trouble")


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


@contextmanager
def small_disk(directory: Path) -> Iterator[None]:
    """What the processes keep, database included, lies on a small disk of its own; copied back before that goes."""
    private = directory / "private"
    private.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "tmpfs", str(private)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["cp", "-a", str(private), str(directory / "copied")], check=True)
        subprocess.run(["umount", "-l", str(private)], check=True)
        private.rmdir()
        (directory / "copied").rename(private)


def disk_full(stage: Stage) -> None:
    """The disk of the database is filled for some seconds: orders wait, none fails, nothing is corrupt."""
    family = stage.family
    placed = stage.crowd("before", 4, linger_seconds=0.5)
    disk = SmallDisk(family.places.private)
    family.told("disk full", "database of all")
    disk.fill_up()
    answers = [family.clients.get("/orders")[0]]
    end = time.monotonic() + FULL_SECONDS
    while time.monotonic() < end:
        answers.append(_posted(stage, len(answers)))
        pause(0.5)
    disk.empty()
    stage.wish(answers[0] == 200, f"reading answered {answers[0]} while the disk was full")
    refused = sorted(set(answers[1:]) - {201, 503, 507})
    stage.wish(not refused, f"posting answered {refused} while the disk was full")
    placed.append(stage.submit("after"))
    until(lambda: family.state(placed[-1]).attempt > 0, 60.0, "an order is claimed once there is room again")
    stage.quiet()
    stage.succeeded(placed, "the disk was full for some seconds")
    with contextlib.closing(sqlite3.connect(family.places.private / "mcc.db")) as link:
        verdict = link.execute("PRAGMA integrity_check").fetchone()[0]
    stage.wish(verdict == "ok", f"the database is damaged: {verdict}")


def _posted(stage: Stage, number: int) -> int:
    """The status that a client gets for a new order."""
    stage.family.clients.post(prompt_of(f"full-{number}", number, steps=2, children=0))
    return int(read(stage.family.places.directory / "orders.jsonl")[-1]["status"])
