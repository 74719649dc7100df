"""A whole family that reaches PostgreSQL through PgBouncer: orders run, and no error of it is ever seen."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.faults.checker import INVARIANTS, evidence_of, violations
from tests.faults.family import Family
from tests.faults.pgbouncer import Mode, NoPgBouncer
from tests.faults.plan import Plan
from tests.faults.script import prompt_of
from tests.faults.services import REDIS_SERVER

pytestmark = [
    pytest.mark.family,
    pytest.mark.group("fail-over"),
    pytest.mark.skipif(REDIS_SERVER is None, reason="neither redis-server nor valkey-server is on PATH"),
]

ORDERS, READS = 12, 30
PROMISES = tuple(name for name in INVARIANTS if name not in ("I14", "I16"))
RIDDLES = ("prepared statement", "08P01", "26000", "42P05", "Traceback", "unsupported startup parameter")


@contextmanager
def family_behind(mode: Mode, directory: Path, **settings: str) -> Iterator[Family]:
    """Skips where there is no PostgreSQL, or no PgBouncer."""
    plan = Plan(
        "postgres",
        drones=2,
        lease_seconds=30.0,  # a busy machine takes none away: each order is done at the first attempt
        pooler=mode,
        settings=settings,
        campaign=f"PgBouncer, {mode} mode",
    )
    with ExitStack() as stack:
        try:
            family = stack.enter_context(Family(plan, directory))
        except psycopg.OperationalError as error:
            pytest.skip(f"no PostgreSQL answers: {str(error).splitlines()[0]}")
        except NoPgBouncer as why:
            pytest.skip(str(why))
        yield family


@pytest.mark.parametrize(
    ("mode", "settings"),
    [("transaction", {}), ("session", {"MCC_DATABASE_POOLER": "session"})],
    ids=["transaction", "session"],
)
def test_orders_run_through_a_pooler_without_an_error(mode: Mode, settings: dict[str, str], tmp_path: Path) -> None:
    with family_behind(mode, tmp_path / "run", **settings) as family:
        for number in range(ORDERS):
            family.clients.submit(prompt_of(f"pooled-{number}", number, children=number % 2, steps=3))
        answers = [family.clients.get("/orders")[0] for _ in range(READS)]
        states = family.quiesce()
        said = "".join(member.said() for member in family.members)
        found = violations(evidence_of(family.finish()), PROMISES)
    assert answers == [200] * READS
    assert [(state.status, state.attempt) for state in states] == [("succeeded", 1)] * ORDERS
    assert [riddle for riddle in RIDDLES if riddle in said] == []
    assert not found, "\n".join(map(str, found))
