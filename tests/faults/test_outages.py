"""A whole family whose Redis, database or disk goes away: what is accepted is done, and everybody else is told."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.faults.checker import INVARIANTS, evidence_of, violations
from tests.faults.disks import SmallDisk, small_disk
from tests.faults.family import Family
from tests.faults.jsonlines import read
from tests.faults.members import until
from tests.faults.plan import Plan
from tests.faults.postgres import NoPostgres, Postgres, own_postgres
from tests.faults.script import prompt_of
from tests.faults.services import REDIS_SERVER
from tests.faults.tcp import Toxics

pytestmark = [
    pytest.mark.family,
    pytest.mark.group("outages"),
    pytest.mark.skipif(REDIS_SERVER is None, reason="neither redis-server nor valkey-server is on PATH"),
]

PROMISES = tuple(name for name in INVARIANTS if name not in ("I14", "I16"))
SMALL = Plan(
    mccs=2,
    drones=2,
    slots=6,
    settings={"DRONE_CANARY_SECONDS": "5"},
)
LINGER_SECONDS = 0.6
WAITS = "no drone can renew its lease"


@contextmanager
def family_of(plan: Plan, directory: Path) -> Iterator[Family]:
    """Checked in the end for all that is promised."""
    with Family(plan, directory) as family:
        yield family
        family.quiesce(restarting=True)
        found = violations(evidence_of(family.finish()), PROMISES)
    assert not found, "\n".join(map(str, found))


def at_work(family: Family, key: str) -> str:
    """An order that a drone is in the midst of, with a viewer."""
    order_id = family.clients.submit(prompt_of(key, 7, children=1, steps=5, linger_seconds=LINGER_SECONDS))
    family.watch(order_id)
    until(lambda: family.state(order_id).last_seq > 4, 30.0, lambda: f"{key} is begun: {family.state(order_id)}")
    return order_id


def done(family: Family, order_id: str, seconds: float = 40.0) -> None:
    until(
        lambda: family.state(order_id).status == "succeeded",
        seconds,
        lambda: f"the order is done: {family.state(order_id)}, last {family.observer.last_kinds(order_id)}",
    )


def accepted(family: Family, key: str) -> str:
    """Posted once, and accepted at once."""
    order_id = family.clients.post(prompt_of(key, 3, steps=2))
    assert order_id is not None, f"{key} was not accepted"
    return order_id


def refusal(family: Family) -> int:
    """The status with which a new order is answered that cannot be kept now."""
    family.clients.post(prompt_of("refused", 1))
    return int(list(read(family.places.directory / "orders.jsonl"))[-1]["status"])


def waits(family: Family) -> list[int]:
    """How often each drone has said that its lease could not be renewed."""
    return [drone.said().count("renewal waits for the database") for drone in family.drones]


def readiness(family: Family) -> tuple[int, dict[str, object]]:
    answer = httpx.get(f"{family.urls[0]}/readyz", timeout=20)
    return answer.status_code, answer.json()


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Family]:
    plan = replace(SMALL, links=("drone-redis", "mcc-redis"), campaign="Redis and SQLite go away")
    with family_of(plan, tmp_path_factory.mktemp("sqlite") / "run") as family:
        yield family


def both_links(family: Family, method: str) -> None:
    for name in ("drone-redis", "mcc-redis"):
        family.link(name, method)


def slow(family: Family) -> None:
    for name in ("drone-redis", "mcc-redis"):
        family.told("slow", name)
        family.links[name].toxics = Toxics(latency_seconds=0.5)


def ended(family: Family) -> None:
    family.told("kill9", "redis")
    family.redis.member.kill()


def command(*words: str) -> Callable[[Family], None]:
    def given(family: Family) -> None:
        family.told(" ".join(words), "redis")
        family.redis.command(*words)

    return given


def nothing(_: Family) -> None:
    """It needs no mending."""


REDIS: dict[str, tuple[Callable[[Family], None], Callable[[Family], None]]] = {
    "killed and empty": (ended, lambda family: family.redis.start()),
    "flushed": (command("FLUSHALL"), nothing),
    "swallowing everything": (
        lambda family: both_links(family, "blackhole"),
        lambda family: both_links(family, "heal"),
    ),
    "half open": (lambda family: both_links(family, "half_open"), nothing),
    "slow": (slow, lambda family: both_links(family, "heal")),
    "a replica": (command("REPLICAOF", "127.0.0.1", "1"), command("REPLICAOF", "NO", "ONE")),
    "out of memory": (command("CONFIG", "SET", "maxmemory", "1"), command("CONFIG", "SET", "maxmemory", "0")),
    "cutting subscribers off": (command("CLIENT", "KILL", "TYPE", "pubsub"), nothing),
    "standing still": (command("CLIENT", "PAUSE", "5000", "ALL"), nothing),
}


TOLD = ("killed and empty", "a replica", "out of memory")
"""What lasts until it is mended, and is noticed at once."""


def tells_of_redis(family: Family, how: str) -> bool:
    """Whether the service that is asked says this of Redis; orders went to both."""
    return readiness(family)[1].get("redis") == how


@pytest.mark.parametrize("fault", list(REDIS))
def test_whatever_redis_does_orders_are_accepted_read_done_and_seen(on_sqlite: Family, fault: str) -> None:
    spoil, mend = REDIS[fault]
    key = fault.replace(" ", "-")
    running = at_work(on_sqlite, f"{key}-before")
    spoil(on_sqlite)
    meanwhile = [accepted(on_sqlite, f"{key}-{number}") for number in range(3)]
    for order_id in (running, *meanwhile):
        assert on_sqlite.clients.get(f"/orders/{order_id}")[0] == 200
    until(lambda: tells_of_redis(on_sqlite, "degraded") or fault not in TOLD, 15.0, "the service tells")
    assert readiness(on_sqlite)[0] == 200
    for order_id in meanwhile:
        done(on_sqlite, order_id)
    mend(on_sqlite)
    done(on_sqlite, accepted(on_sqlite, f"{key}-after"))
    until(lambda: tells_of_redis(on_sqlite, "ok"), 30.0, "the service tells that all is well")
    done(on_sqlite, running)


def test_viewers_go_on_at_another_service_when_theirs_is_killed(on_sqlite: Family) -> None:
    order_id = at_work(on_sqlite, "killed-service")
    on_sqlite.kill(on_sqlite.mccs[0])
    done(on_sqlite, order_id)
    on_sqlite.restart(on_sqlite.mccs[0])


def test_a_locked_file_delays_orders_refuses_new_ones_and_takes_none_away(on_sqlite: Family) -> None:
    orders = [at_work(on_sqlite, f"locked-{number}") for number in range(2)]
    waited = waits(on_sqlite)
    with closing(sqlite3.connect(on_sqlite.places.private / "mcc.db", isolation_level=None)) as link:
        on_sqlite.told("BEGIN IMMEDIATE", "database")
        link.execute("BEGIN IMMEDIATE")
        until(lambda: refusal(on_sqlite) == 503, 30.0, "an order is refused")
        assert on_sqlite.clients.get(f"/orders/{orders[0]}")[0] == 200
        until(lambda: readiness(on_sqlite)[0] == 503, 30.0, "the service is not ready")
        until(lambda: all(now > before for now, before in zip(waits(on_sqlite), waited, strict=True)), 30.0, WAITS)
        link.execute("ROLLBACK")
    for order_id in orders:
        done(on_sqlite, order_id)
    assert [on_sqlite.state(order_id).attempt for order_id in orders] == [1, 1]
    done(on_sqlite, on_sqlite.clients.submit(prompt_of("refused", 1)))


@pytest.fixture(scope="module")
def own_server() -> Iterator[Postgres]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(own_postgres())
        except NoPostgres as why:
            pytest.skip(str(why))
        yield server


@pytest.fixture(scope="module")
def with_postgres(own_server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Family]:
    plan = replace(SMALL, database="postgres", server=own_server.url, campaign="PostgreSQL goes away")
    with family_of(plan, tmp_path_factory.mktemp("postgres") / "run") as family:
        yield family


def stopped_and_started(family: Family, server: Postgres) -> None:
    server.stop()
    until(lambda: refusal(family) == 503, 30.0, "an order is refused")
    server.start()


def terminated(family: Family, server: Postgres) -> None:
    with psycopg.connect(server.url, autocommit=True) as link:
        link.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


def locked(family: Family, server: Postgres) -> None:
    with psycopg.connect(family.database_url) as link:
        link.execute("LOCK TABLE order_state, journal, orders IN ACCESS EXCLUSIVE MODE")
        assert refusal(family) == 503


def used_up(family: Family, server: Postgres) -> None:
    """All connections are taken, those of the family as well."""
    with psycopg.connect(server.url, autocommit=True) as link, ExitStack() as stack:

        def is_refused() -> bool:
            link.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mcc'")
            while one_more_connection(server, stack):
                pass
            return refusal(family) == 503

        until(is_refused, 30.0, "no connection is left")


def one_more_connection(server: Postgres, stack: ExitStack) -> bool:
    try:
        stack.enter_context(closing(psycopg.connect(server.url, connect_timeout=5)))
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.parametrize("fault", [stopped_and_started, terminated, locked, used_up])
def test_whatever_the_server_does_orders_go_on_when_it_is_back(
    with_postgres: Family, own_server: Postgres, fault: Callable[[Family, Postgres], None]
) -> None:
    orders = [at_work(with_postgres, f"{fault.__name__}-{number}") for number in range(2)]
    with_postgres.told(fault.__name__, "database")
    fault(with_postgres, own_server)
    for order_id in orders:
        done(with_postgres, order_id)
    done(with_postgres, with_postgres.clients.submit(prompt_of(f"{fault.__name__}-after", 3, steps=2)))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "run" / "private", 32) as found:
        yield found


def test_on_a_full_disk_orders_wait_and_go_on_when_there_is_room(tmp_path: Path, disk: SmallDisk) -> None:
    plan = replace(SMALL, campaign="the disk is full", settings={"MCC_DISK_RESERVE_MB": "4"})
    with family_of(plan, tmp_path / "run") as family:
        order_id = at_work(family, "laid-aside")
        family.told("nearly full", "disk")
        disk.fill(leave_bytes=2_000_000)
        until(lambda: family.state(order_id).reason == "disk", 30.0, "it waits for room")
        status, told = family.clients.get(f"/orders/{order_id}")
        assert (status, told["status"]) == (200, "waiting")
        assert readiness(family) == (200, {**readiness(family)[1], "disk": "degraded"})
        assert refusal(family) == 507
        family.told("room again", "disk")
        disk.empty()
        done(family, order_id)
        order_id = at_work(family, "cut-short")
        family.told("full", "disk")
        disk.fill_up()
        until(lambda: "disk" in str(readiness(family)[1].get("detail")), 30.0, "the service says so")
        until(lambda: all(waits(family)), 30.0, WAITS)
        disk.empty()
        done(family, order_id)
        with closing(sqlite3.connect(disk.path / "mcc.db")) as link:
            assert link.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
