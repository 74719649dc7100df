"""The installation to examine: its settings, and its store, Redis and Celery workers, each queried once."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from mcc.contracts.drones import DroneStatus
from mcc.contracts.wire import RUN_ORDER_TASK
from mcc.dispatch.broker import DispatchUnavailable, RedisAt, make_app, translated
from mcc.dispatch.fit import known_installation
from mcc.doctor.redis import RedisSeen, look_at
from mcc.findings.snapshot import CeleryNode, RunningTask, Thresholds
from mcc.settings import ServiceSettings
from mcc.store.database.errors import StoreError, StoreUnavailable, Unfit
from mcc.store.store import Store, open_store

T = TypeVar("T")
FIRST_SECONDS = 1.0
"""How long the first ping waits; missing workers are pinged once more, for the rest of the time."""


def ask_nodes(at: RedisAt, queues: Sequence[str], *, seconds: float, expected: int = 0) -> Sequence[CeleryNode]:
    """The Celery workers that answer within `seconds`. With fewer than `expected`, a second ping is sent.

    Takes at most about four times `seconds`, even if Redis hangs. Raises `DispatchUnavailable`.
    """
    return within(4 * seconds, lambda: _ask(at, queues, seconds, expected))


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`, run in a thread. Raises `DispatchUnavailable` after `seconds`, or what `work` raises."""
    answers: list[T] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            answers.append(work())
        except Exception as error:
            failures.append(error)

    # A daemon thread, since a hanging connection cannot be interrupted: the program must end without it.
    thread = threading.Thread(target=run, name="doctor", daemon=True)
    thread.start()
    thread.join(seconds)
    if failures:
        raise failures[0]
    if not answers:
        raise DispatchUnavailable(f"Redis gave no answer within {seconds:g} s; check MCC_REDIS_URL and the server.")
    return answers[0]


def nodes_of(
    pinged: Iterable[str],
    stats: Mapping[str, Any],
    active: Mapping[str, Any],
    queues: Mapping[str, Any],
    now: float,
) -> Sequence[CeleryNode]:
    """Nodes made of Celery's answers to `inspect`, each a mapping by worker name. `now`: seconds since 1970."""
    return [
        CeleryNode(
            name=name,
            pid=stats.get(name, {}).get("pid"),
            tasks=tuple(
                RunningTask(_order_in(task), now - (task.get("time_start") or now)) for task in active.get(name, ())
            ),
            queues=tuple(queue["name"] for queue in queues.get(name, ())),
        )
        for name in sorted(pinged)
    ]


def _ask(at: RedisAt, queues: Sequence[str], seconds: float, expected: int) -> Sequence[CeleryNode]:
    app = make_app(at, queues, name="mcc.doctor", seconds=seconds)
    try:
        with translated():
            # Celery waits out the whole timeout however fast the answers come, so a short ping goes first.
            pinged = dict(app.control.inspect(timeout=min(seconds, FIRST_SECONDS)).ping() or {})
            if len(pinged) < expected and seconds > FIRST_SECONDS:
                pinged |= app.control.inspect(timeout=seconds - FIRST_SECONDS).ping() or {}
            if not pinged:
                return []
            # With the limit, each question ends when the last of those that are up has answered.
            each = app.control.inspect(destination=list(pinged), timeout=seconds, limit=len(pinged))
            stats, active, consumed = each.stats() or {}, each.active() or {}, each.active_queues() or {}
    finally:
        app.close()
    return nodes_of(pinged, stats, active, consumed, time.time())


def _order_in(task: Mapping[str, Any]) -> str | None:
    match task:
        case {"name": str(name), "args": [str(order_id)]} if name == RUN_ORDER_TASK:
            return order_id
    return None


START_DRONES = "start one: mcc up, or drone work"


@dataclass(frozen=True)
class Installation:
    """An installation and how to query it. `redis_url`: the configured one, else that of the service that runs here,
    else "".

    `seconds`: how long to wait for a part that does not answer. `stuck_seconds`: from what silence on an order counts
    as stuck; None = as its own limits allow.
    """

    settings: ServiceSettings
    environment: Mapping[str, str]
    redis_url: str
    seconds: float
    stuck_seconds: float | None = None

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(self.settings.lease_seconds, self.settings.renew_seconds, stuck_seconds=self.stuck_seconds)

    @property
    def redis_at(self) -> RedisAt:
        """Where the installation has its place in Redis."""
        return RedisAt(self.redis_url, self.settings.redis_prefix)

    @cached_property
    def unreachable(self) -> str:
        """Why the database cannot be reached; "" when it can. Raises ValueError for an invalid address."""
        store = open_store(self.settings.database)
        try:
            store.schema_problem()
        except Unfit:
            # It answers; what it lacks is a finding of its own.
            return ""
        except StoreUnavailable as problem:
            return str(problem)
        finally:
            store.close()
        return ""

    @cached_property
    def redis(self) -> RedisSeen | DispatchUnavailable | None:
        """What Redis holds, or why it could not be queried; None: there is no Redis."""
        if not self.redis_url:
            return None
        try:
            installation, queues = self._id(), self.settings.queues
            return within(4 * self.seconds, lambda: look_at(self.redis_at, queues, installation, seconds=self.seconds))
        except DispatchUnavailable as problem:
            return problem

    @cached_property
    def nodes(self) -> Sequence[CeleryNode] | DispatchUnavailable | None:
        """Celery's workers, or why they could not be queried; None: there is no Redis."""
        if self.redis is None or isinstance(self.redis, DispatchUnavailable):
            return self.redis
        # A question to workers is a message: a Redis that takes none would only be waited for.
        if self.redis.refusal or self.redis.unfit:
            return DispatchUnavailable("not asked: Redis cannot be used")
        try:
            return ask_nodes(self.redis_at, self.settings.queues, seconds=self.seconds, expected=self._drones_up())
        except DispatchUnavailable as problem:
            return problem

    @property
    def answering(self) -> Sequence[CeleryNode] | None:
        """The workers that answered; None when they could not be queried."""
        return None if isinstance(self.nodes, DispatchUnavailable) else self.nodes

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The store, with this version's schema. Raises `StoreError`, and ValueError for an invalid address."""
        if self.settings.has_own_database and not (self.settings.data_dir / "mcc.db").exists():
            raise StoreUnavailable(f"there is no database in {self.settings.data_dir} yet")
        if self.unreachable:
            raise StoreUnavailable(self.unreachable)
        store = open_store(self.settings.database)
        try:
            if problem := store.schema_problem():
                raise StoreUnavailable(problem)
            yield store
        finally:
            store.close()

    def models_at_work(self) -> frozenset[str]:
        """Names of the models that live drones registered without a problem; none where the database is unavailable."""
        try:
            with self.store() as store:
                models = [model for drone in store.leases.registrations() for model in drone.models]
        except (StoreError, ValueError):
            return frozenset()
        return frozenset(model.name for model in models if model.problem is None)

    def _id(self) -> str | None:
        """The id by which Redis knows this installation; None where the database does not say."""
        try:
            with self.store() as store:
                return known_installation(store)
        except (StoreError, ValueError):
            return None

    def _drones_up(self) -> int:
        try:
            with self.store() as store:
                return sum(drone.status is not DroneStatus.SILENT for drone in store.leases.drones())
        except (StoreError, ValueError):
            return 0
