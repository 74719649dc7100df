"""Looking at the database of a running family from outside: who holds what, and how far it is."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import psutil
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from mcc.contracts.status import FINAL
from tests.faults.jsonlines import JsonLines

TICK_SECONDS = 0.05
_FINAL = frozenset(status.value for status in FINAL)


@dataclass(frozen=True, slots=True)
class State:
    """One order as its row says."""

    order_id: str
    status: str
    reason: str | None
    last_seq: int
    attempt: int
    epoch: int
    incarnation: str | None
    takeovers: int

    @property
    def final(self) -> bool:
        return self.status in _FINAL


class Observer:
    """Plain SQL on a connection of its own. Safe for several threads."""

    def __init__(self, database_url: str) -> None:
        url = make_url(database_url)
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        self._engine = sa.create_engine(url, pool_size=2, pool_pre_ping=True)

    def states(self) -> list[State]:
        """All orders, by their ids."""
        columns = "order_id, status, reason, last_seq, attempt, epoch, incarnation, takeovers"
        query = f"SELECT {columns} FROM order_state ORDER BY 1"
        return [State(*row) for row in self._rows(query)]

    def drone_of(self, incarnation: str) -> str | None:
        """The name under which a process registered."""
        rows = self._rows("SELECT name FROM drones WHERE incarnation = :incarnation", incarnation=incarnation)
        return str(rows[0][0]) if rows else None

    def last_kinds(self, order_id: str, most: int = 6) -> list[str]:
        """The kinds of the newest entries of an order, the newest first."""
        query = f"SELECT kind FROM journal WHERE order_id = :order_id ORDER BY seq DESC LIMIT {most}"
        return [str(row[0]) for row in self._rows(query, order_id=order_id)]

    def results(self, order_id: str) -> list[str]:
        """What came of the calls of an order so far: each the JSON of its `tool.finished`."""
        query = "SELECT data_json FROM journal WHERE order_id = :order_id AND kind = 'tool.finished' ORDER BY seq"
        return [str(row[0]) for row in self._rows(query, order_id=order_id)]

    def count(self, kind: str) -> int:
        """How many entries of this kind all journals hold."""
        return int(self._rows("SELECT count(*) FROM journal WHERE kind = :kind", kind=kind)[0][0])

    def tool_seconds(self, order_id: str) -> list[float]:
        """From the start of each finished tool call to its end, losses of drones included."""
        query = "SELECT kind, at, data_json FROM journal WHERE order_id = :order_id AND kind LIKE 'tool.%' ORDER BY seq"
        began: dict[str, float] = {}
        took = []
        for kind, at, data in self._rows(query, order_id=order_id):
            call_id = json.loads(data)["call_id"]
            if kind == "tool.started":
                began.setdefault(call_id, at / 1e6)
            else:
                took.append(at / 1e6 - began[call_id])
        return took

    def specs(self) -> dict[str, str]:
        """Order id and the JSON of what was asked."""
        return {str(row[0]): str(row[1]) for row in self._rows("SELECT id, spec_json FROM orders")}

    def close(self) -> None:
        """No connection is open from here on; the next question opens one."""
        self._engine.dispose()

    def _rows(self, query: str, **values: str) -> list[tuple[Any, ...]]:
        with self._engine.connect() as link:
            return [tuple(row) for row in link.execute(sa.text(query), values)]


class LeaseSamples:
    """Who holds which order."""

    seconds = 0.2

    def __init__(self, observer: Observer, log: JsonLines) -> None:
        self._observer = observer
        self._log = log

    def take(self) -> None:
        now = time.time()
        for state in self._observer.states():
            if state.status == "running":
                self._log.write(
                    {"t": now, "order_id": state.order_id, "epoch": state.epoch, "incarnation": state.incarnation}
                )


class ResourceSamples:
    """Memory and open files of processes, which `pids` tells by name."""

    seconds = 2.0

    def __init__(self, pids: Callable[[], Mapping[str, int]], log: JsonLines) -> None:
        self._pids = pids
        self._log = log

    def take(self) -> None:
        now = time.time()
        for name, pid in self._pids().items():
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                rss, fds = process.memory_info().rss, process.num_fds()
                self._log.write({"t": now, "name": name, "rss_bytes": rss, "fds": fds})


class Samples(Protocol):
    @property
    def seconds(self) -> float: ...

    def take(self) -> None: ...


class Sampler:
    """A thread that takes samples of several kinds, each every so many seconds, whatever fails meanwhile."""

    def __init__(self, *kinds: Samples) -> None:
        self._due = dict.fromkeys(kinds, 0.0)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samples", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(10.0)

    def _run(self) -> None:
        while not self._stopped.wait(TICK_SECONDS):
            now = time.monotonic()
            for kind in [kind for kind, due in self._due.items() if due <= now]:
                self._due[kind] = now + kind.seconds
                with contextlib.suppress(sa.exc.SQLAlchemyError):
                    kind.take()
