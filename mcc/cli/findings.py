"""This room is for the patient: what is looked at, and a look that fails without keeping the others back."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mcc.doctor.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcc.dispatch.errors import DispatchUnavailable
    from mcc.doctor.chart import Node, Patience
    from mcc.doctor.redis_seen import RedisSeen
    from mcc.settings import Settings


@dataclass(frozen=True)
class Patient:
    """What is looked at. `redis_url` is the configured one, else that of the family that runs here; may be empty.

    `seconds`: how long to wait for what does not answer. `stuck_seconds`: None = what the orders' own limits allow.
    Redis and Celery are asked once, and the database is knocked at once, when a look first needs to know.
    """

    settings: "Settings"
    environment: Mapping[str, str]
    redis_url: str
    seconds: float
    stuck_seconds: float | None = None

    @property
    def patience(self) -> "Patience":
        from mcc.doctor.chart import Patience

        return Patience(
            lease_seconds=self.settings.lease_seconds,
            renew_seconds=self.settings.renew_seconds,
            stuck_seconds=self.stuck_seconds,
        )

    @cached_property
    def unreachable(self) -> str:
        """Why the database cannot be asked; "" when it can. Raises ValueError for an address of no database."""
        from mcc.store.errors import StoreUnavailable
        from mcc.store.sql import open_store

        store = open_store(self.settings.database_url)
        try:
            store.schema_problem()
        except StoreUnavailable as problem:
            return str(problem)
        finally:
            store.close()
        return ""

    @cached_property
    def redis(self) -> "RedisSeen | DispatchUnavailable | None":
        """What Redis holds, or why it could not be asked; None: there is none."""
        from mcc.dispatch.errors import DispatchUnavailable
        from mcc.doctor.celery_seen import within
        from mcc.doctor.redis_seen import look_at

        if not self.redis_url:
            return None
        try:
            return within(
                4 * self.seconds,
                lambda: look_at(self.redis_url, self.settings.queues, seconds=self.seconds),
            )
        except DispatchUnavailable as problem:
            return problem

    @cached_property
    def nodes(self) -> "Sequence[Node] | DispatchUnavailable | None":
        """Celery's workers, or why they could not be asked; None: there is no Redis."""
        from mcc.dispatch.errors import DispatchUnavailable
        from mcc.doctor.celery_seen import ask_nodes

        if self.redis is None or isinstance(self.redis, DispatchUnavailable):
            return self.redis
        if self.redis.refusal:
            return DispatchUnavailable("not asked: Redis refuses to be written")
        try:
            return ask_nodes(self.redis_url, self.settings.queues, seconds=self.seconds, expected=self._drones_up())
        except DispatchUnavailable as problem:
            return problem

    def _drones_up(self) -> int:
        from mcc.cli.services import opened
        from mcc.contracts.drones import DroneStatus
        from mcc.store.errors import StoreError

        try:
            with opened(self) as store:
                return sum(drone.status is not DroneStatus.SILENT for drone in store.leases.drones())
        except (StoreError, ValueError):
            return 0


Look = Callable[[Patient], Iterable[Finding]]


def safely(what: str, look: Look, patient: Patient) -> list[Finding]:
    """A look that itself fails is a finding, so that the others are still made."""
    try:
        return list(look(patient))
    except Exception as error:
        return [Finding(what, "broken", f"could not be looked at: {type(error).__name__}: {error}", "report this")]
