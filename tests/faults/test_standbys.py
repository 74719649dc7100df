"""A whole family whose primary fails over to a standby behind one address, which first leads to a server that only
reads."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.faults.checker import INVARIANTS, evidence_of, violations
from tests.faults.family import Family
from tests.faults.members import until
from tests.faults.plan import Plan
from tests.faults.postgres import NoPostgres
from tests.faults.script import prompt_of
from tests.faults.services import REDIS_SERVER
from tests.faults.standby import Pair, pair

pytestmark = [
    pytest.mark.family,
    pytest.mark.group("fail-over"),
    pytest.mark.skipif(REDIS_SERVER is None, reason="neither redis-server nor valkey-server is on PATH"),
]

PROMISES = tuple(name for name in INVARIANTS if name not in ("I14", "I16"))
CONSISTENT = ("I1", "I5", "I6")
"""What holds of every order that is there: its journal, state and outcome are one story."""

MISLED_SECONDS = 6.0
"""For how long the address leads to the former primary, which only reads."""

BACK_SECONDS = 15.0
"""How soon after the server can be written work must go on."""


class Load:
    """A client that posts orders all the time."""

    def __init__(self, family: Family) -> None:
        self.accepted: list[float] = []
        self._family = family
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stopped.wait(0.5):
            if self._family.clients.post(prompt_of(f"load-{number}", number, steps=3)):
                self.accepted.append(time.monotonic())
            number += 1


@contextmanager
def family_on(servers: Pair, directory: Path) -> Iterator[Family]:
    plan = Plan("postgres", mccs=1, drones=2, server=servers.url, campaign="a standby is promoted")
    with Family(plan, directory) as family:
        yield family


@contextmanager
def servers_of(*, synchronous: bool) -> Iterator[Pair]:
    """Skips where there is no PostgreSQL to be made."""
    with ExitStack() as stack:
        try:
            servers = stack.enter_context(pair(synchronous=synchronous))
        except NoPostgres as why:
            pytest.skip(str(why))
        yield servers


def test_work_goes_on_when_a_standby_is_promoted_under_load_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    with servers_of(synchronous=True) as servers, family_on(servers, tmp_path / "run") as family:
        with Load(family) as load:
            until(lambda: len(load.accepted) >= 5, 30.0, "orders are accepted")
            family.told("fail-over", "postgres")
            servers.fail_over()
            misled = time.monotonic()
            until(lambda: time.monotonic() > misled + MISLED_SECONDS, 30.0, "the address leads to the former primary")
            before = len(load.accepted)
            servers.lead_to(servers.primary)
            writable = time.monotonic()
            until(lambda: len(load.accepted) > before, BACK_SECONDS, "an order is accepted again")
            new = family.clients.submit(prompt_of("after", 1, steps=2), seconds=BACK_SECONDS)
            until(lambda: family.state(new).final, BACK_SECONDS, lambda: f"an order is done: {family.state(new)}")
            assert time.monotonic() < writable + BACK_SECONDS
        family.quiesce(restarting=True)
        assert all(member.runs for member in family.members)
        found = violations(evidence_of(family.finish()), PROMISES)
    assert not found, "\n".join(map(str, found))


def test_what_an_asynchronous_standby_had_not_received_is_gone_and_contradicted_by_nothing(tmp_path: Path) -> None:
    with servers_of(synchronous=False) as servers, family_on(servers, tmp_path / "run") as family:
        begun = family.clients.submit(prompt_of("begun", 1, steps=24, linger_seconds=0.5))
        over = family.clients.submit(prompt_of("over", 3, steps=6, linger_seconds=0.5))
        both = (begun, over)
        until(lambda: all(family.state(one).last_seq > 3 for one in both), 30.0, "two orders are begun")
        servers.wire.blackhole()
        reached = family.state(begun).last_seq
        lost = [family.clients.submit(prompt_of(f"lost-{number}", number)) for number in range(3)]
        until(lambda: all(family.state(one).final for one in (over, *lost)), 30.0, "orders are done unseen")
        until(lambda: family.state(begun).last_seq > reached, 30.0, "the other goes on unseen")
        servers.fail_over()
        servers.lead_to(servers.primary)
        after = family.clients.submit(prompt_of("after", 2, steps=2))
        states = {state.order_id: state for state in family.quiesce(restarting=True)}
        assert [family.clients.get(f"/orders/{one}")[0] for one in lost] == [404] * 3
        assert {states[one].status for one in (begun, over, after)} == {"succeeded"}
        found = violations(evidence_of(family.finish()), CONSISTENT)
    assert not found, "\n".join(map(str, found))
