"""One real service with its database, whose orders a drone driven by hand brings to their ends; and who judges it."""

import contextlib
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa

from mcc.local.presence import LocalService
from mcc.store.database.errors import StoreError
from mcc.store.database.migrate import upgrade
from mcc.store.store import open_store
from mcc.testing.hand_drone import HandDrone
from tests.faults.doors.cutting import CuttingProxy
from tests.faults.members import Launched, Member, clean_environment, until
from tests.faults.services import Background
from tests.ports import free_port

READY_SECONDS, QUIET_SECONDS = 60.0, 120.0
NOBODY = "redis://127.0.0.1:1/0"
"""Orders need no Redis, and a service that is started again is ready sooner without."""


Rows = Callable[..., list[tuple[Any, ...]]]


@dataclass
class DoorTally:
    """What became of one door. `twice`: keys with a second order, or ends that were told as two; `lost`: ends that did
    not come."""

    door: str
    seed: int
    cut: int = 0
    killed: int = 0
    orders: int = 0
    ends: int = 0
    twice: int = 0
    lost: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def wish(self, holds: bool, sentence: str) -> None:
        if not holds:
            self.problems.append(sentence)

    @property
    def line(self) -> str:
        fate = f"{len(self.problems)} violations" if self.problems else "kept"
        return (
            f"{self.door:11}seed {self.seed:<6}{self.cut:6} cut{self.killed:4} killed{self.orders:6} orders"
            f"{self.ends:6} ends{self.twice:3} twice{self.lost:3} lost{self.seconds:8.1f} s  {fate}"
        )


class DoorHouse:
    """The service of `python -m tests.faults doors`; on leaving, nothing of it is left."""

    def __init__(self, directory: Path, settings: str, environment: Mapping[str, str]) -> None:
        """`settings`: of mcc.toml; `environment`: what the service is told beside."""
        self.directory = directory
        self.token = secrets.token_hex(24)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database_url = f"sqlite:///{directory / 'mcc.db'}"
        upgrade(self.database_url)
        (directory / "mcc.toml").write_text(settings)
        told = {
            **clean_environment(directory),
            "MCC_DATA_DIR": str(directory),
            "MCC_CONFIG": str(directory / "mcc.toml"),
            "MCC_DATABASE_URL": self.database_url,
            "MCC_REDIS_URL": NOBODY,
            "MCC_TOKEN": self.token,
            "MCC_SWEEP_SECONDS": "0.2",
            **environment,
        }
        arguments = [sys.executable, "-m", "mcc.cli.main", "serve", "--port", str(self.port)]
        self.service = Member("service", Launched(arguments), told, directory / "service.log")
        self.background = Background()
        self._engine = sa.create_engine(self.database_url)
        self._finisher = Finisher(self.database_url, self.rows)
        self._one_at_a_time = threading.Lock()
        self._is_up = False

    def __enter__(self) -> "DoorHouse":
        self.service.start()
        self._ready()
        self._finisher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finisher.stop()
        self.background.close()
        self.service.end()
        self._engine.dispose()

    def kill(self) -> bool:
        """SIGKILL, unless it just starts. Somebody has to `revive` it."""
        with self._one_at_a_time:
            was_up, self._is_up = self._is_up, False
            if was_up:
                self.service.kill()
        return was_up

    def revive(self) -> None:
        """Start the service again if it is gone, and wait until it answers."""
        if not self.service.runs:
            self.service.end()
            self.service.start()
            self._ready()

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        with self._engine.connect() as link:
            return [tuple(row) for row in link.execute(sa.text(query), values)]

    @contextlib.contextmanager
    def proxy(self, target: tuple[str, int], seed: str, **named: Any) -> Iterator[CuttingProxy]:
        """A cutting proxy that can kill the service."""
        proxy = CuttingProxy(target, seed, self.kill, **named)
        self.background.run(proxy.start())
        try:
            yield proxy
        finally:
            self.background.run(proxy.stop())

    def client(self, port: int | None = None) -> httpx.Client:
        """Of the API, or by way of the proxy at `port`; each request is a connection of its own."""
        url = f"http://127.0.0.1:{port or self.port}"
        headers = {"Authorization": f"Bearer {self.token}"}
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=20.0, limits=limits, trust_env=False)

    def quiet(self) -> None:
        """Every order has ended."""
        open_ones = "SELECT count(*) FROM order_state WHERE status NOT IN ('succeeded', 'failed', 'cancelled')"
        until(lambda: self.rows(open_ones)[0][0] == 0, QUIET_SECONDS, "every order has ended")

    def judge(self, tally: DoorTally) -> None:
        """One end in each order's journal."""
        self.quiet()
        judge_ends(self.rows, tally)

    def _ready(self) -> None:
        local = LocalService("127.0.0.1", self.port, self.token)

        until(local.is_ready, READY_SECONDS, lambda: f"the service answers: {self.service.said()[-2_000:]}")
        self._is_up = True


class Finisher:
    """A thread with a drone driven by hand, which brings every queued order to its end."""

    def __init__(self, database_url: str, rows: Rows) -> None:
        self._store = open_store(database_url)
        self._rows = rows
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="finisher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(20.0)
        self._store.close()

    def _run(self) -> None:
        drone: HandDrone | None = None
        while not self._stopped.wait(0.05):
            # What fails while the database is locked, or is not claimable yet, is tried again.
            with contextlib.suppress(StoreError, sa.exc.SQLAlchemyError, AssertionError):
                drone = drone or HandDrone(self._store)
                for (order_id,) in self._rows("SELECT order_id FROM order_state WHERE status = 'queued' LIMIT 50"):
                    held = drone.claim(order_id)
                    held.start()
                    held.finish()


def judge_ends(rows: Rows, tally: DoorTally) -> None:
    """Each order's journal has one end. `rows` asks its database."""
    ends = rows(
        "SELECT o.id, (SELECT count(*) FROM journal j WHERE j.order_id = o.id AND j.kind = 'order.finished')"
        " FROM orders o"
    )
    tally.orders, tally.ends = len(ends), sum(count for _, count in ends)
    for order_id, count in ends:
        if count != 1:
            tally.twice, tally.lost = tally.twice + (count > 1), tally.lost + (count < 1)
            tally.problems.append(f"order {order_id} has {count} ends")


def answered(work: Callable[[], httpx.Response]) -> httpx.Response | None:
    """The answer; None where the connection ended before it was whole."""
    try:
        return work()
    except httpx.HTTPError:
        return None
