"""The installation that is examined: its settings, and its store, Redis and Celery workers, each asked once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from mcc.contracts.drones import DroneStatus
from mcc.dispatch.connection import DispatchUnavailable
from mcc.doctor.redis import RedisSeen, look_at
from mcc.doctor.snapshot import Node, Thresholds
from mcc.doctor.workers import ask_nodes, within
from mcc.settings import Settings
from mcc.store.errors import StoreError, StoreUnavailable
from mcc.store.store import Store, open_store

START_DRONES = "start one: mcc up, or drone work"


@dataclass(frozen=True)
class Installation:
    """`redis_url` is the configured one, else that of the family that runs here, else "".

    `seconds`: how long to wait for a part that does not answer. `stuck_seconds` None: as the orders' own limits allow.
    """

    settings: Settings
    environment: Mapping[str, str]
    redis_url: str
    seconds: float
    stuck_seconds: float | None = None

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(self.settings.lease_seconds, self.settings.renew_seconds, stuck_seconds=self.stuck_seconds)

    @cached_property
    def unreachable(self) -> str:
        """Why the database cannot be asked; "" when it can. Raises ValueError for an address of no database."""
        store = open_store(self.settings.database_url)
        try:
            store.schema_problem()
        except StoreUnavailable as problem:
            return str(problem)
        finally:
            store.close()
        return ""

    @cached_property
    def redis(self) -> RedisSeen | DispatchUnavailable | None:
        """What Redis holds, or why Redis could not be asked; None: there is none."""
        if not self.redis_url:
            return None
        try:
            return within(4 * self.seconds, lambda: look_at(self.redis_url, self.settings.queues, seconds=self.seconds))
        except DispatchUnavailable as problem:
            return problem

    @cached_property
    def nodes(self) -> Sequence[Node] | DispatchUnavailable | None:
        """Celery's workers, or why they could not be asked; None: there is no Redis."""
        if self.redis is None or isinstance(self.redis, DispatchUnavailable):
            return self.redis
        if self.redis.refusal:
            return DispatchUnavailable("not asked: Redis refuses to be written")
        try:
            return ask_nodes(self.redis_url, self.settings.queues, seconds=self.seconds, expected=self._drones_up())
        except DispatchUnavailable as problem:
            return problem

    @property
    def answering(self) -> Sequence[Node] | None:
        """The workers that answered; None when they could not be asked."""
        return None if isinstance(self.nodes, DispatchUnavailable) else self.nodes

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The store, at this version's schema. Raises `StoreError`, and ValueError for an address of no database."""
        if self.settings.has_own_database and not (self.settings.data_dir / "mcc.db").exists():
            raise StoreUnavailable(f"there is no database in {self.settings.data_dir} yet")
        if self.unreachable:
            raise StoreUnavailable(self.unreachable)
        store = open_store(self.settings.database_url)
        try:
            if problem := store.schema_problem():
                raise StoreUnavailable(problem)
            yield store
        finally:
            store.close()

    def _drones_up(self) -> int:
        try:
            with self.store() as store:
                return sum(drone.status is not DroneStatus.SILENT for drone in store.leases.drones())
        except (StoreError, ValueError):
            return 0
