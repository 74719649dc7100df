"""The lease keeper: a thread that renews the lease of a drone, and knows until when the lease can be trusted."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from mcc.contracts.drones import NOTHING_COUNTED, DroneCounters, Registration
from mcc.contracts.ids import fresh_id
from mcc.dispatch.sweep import boot_seconds
from mcc.store.errors import StoreUnavailable
from mcc.store.leases import Leases

log = structlog.get_logger("drone.keeper")

MARGIN_SECONDS = 2.0
"""Effects stop this long before the lease does."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """For how long a lease is taken, and how often it is renewed, by a clock of seconds since the machine started."""

    lease_seconds: float
    renew_seconds: float
    clock: Callable[[], float] = boot_seconds


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a drone says of itself with a renewal: how many slots are taken, and what it has counted."""

    active: int = 0
    counters: DroneCounters = NOTHING_COUNTED


class Keeper:
    """Renews the lease of this process, one for all orders that it holds (docs/decisions/10), in a thread of its own.

    `leases` should have a store connection that nothing else uses, so that nothing else can hold a renewal up.
    `heartbeat` is called before each renewal; it does not return when this process must not seem alive. After a lost
    lease the process goes on under a new incarnation: `on_lost` is called with the old one first.
    """

    def __init__(
        self,
        leases: Leases,
        registration: Registration,
        heartbeat: Callable[[], Heartbeat],
        times: LeaseTimes,
        on_lost: Callable[[str], None],
    ) -> None:
        self._leases = leases
        self._registration = registration
        self._heartbeat = heartbeat
        self._times = times
        self._trusted_seconds = times.lease_seconds - min(MARGIN_SECONDS, times.lease_seconds / 4)
        self._on_lost = on_lost
        self._confirmed_sent = float("-inf")
        self._incarnation: str | None = None
        self._draining = False
        self._described = True
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    @property
    def incarnation(self) -> str | None:
        """The one under which orders may be claimed now; None between a lost lease and the next registration."""
        return self._incarnation

    @property
    def trusted(self) -> bool:
        """Whether effects may start: the last confirmed renewal was sent so lately that nobody can have taken over."""
        return self._times.clock() < self.trusted_until

    @property
    def trusted_until(self) -> float:
        """Seconds since boot, until when effects may go on if no renewal comes; in the past after a lost lease."""
        return self._confirmed_sent + self._trusted_seconds

    @property
    def margin_seconds(self) -> float:
        """Effects stop this long before another process can take the lease over."""
        return self._times.lease_seconds - self._trusted_seconds

    def register(self) -> str:
        """Become a new incarnation. Raises `StoreUnavailable`."""
        incarnation = fresh_id()
        sent = self._times.clock()
        self._leases.register(
            self._registration.model_copy(update={"incarnation": incarnation}), lease_seconds=self._times.lease_seconds
        )
        self._incarnation, self._confirmed_sent = incarnation, sent
        log.info("registered", drone=self._registration.name, incarnation=incarnation)
        return incarnation

    def describe(self, registration: Registration) -> None:
        """From the next renewal on this is what the process says of itself."""
        self._registration, self._described = registration, False

    def start(self) -> None:
        self._thread.start()

    def drain(self) -> None:
        """Say "draining" from the next renewal on."""
        self._draining = True

    def stop(self, seconds: float = 2.0) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def leave(self) -> None:
        """The process ends in good order. Raises `StoreUnavailable`."""
        if self._incarnation is not None:
            self._leases.leave(self._incarnation)

    def once(self) -> None:
        """One renewal, or one registration when there is no incarnation. Raises `StoreUnavailable`."""
        heartbeat = self._heartbeat()
        if self._incarnation is None:
            if not self._draining:
                self.register()
            return
        # Trust counts from the moment of asking: the database renews later than that, nobody here knows how much.
        sent = self._times.clock()
        if self._leases.renew(
            self._incarnation,
            lease_seconds=self._times.lease_seconds,
            active=heartbeat.active,
            draining=self._draining,
            counters=heartbeat.counters,
        ):
            self._confirmed_sent = sent
            self._describe(self._incarnation)
        else:
            self._lose(self._incarnation)

    def _describe(self, incarnation: str) -> None:
        if not self._described:
            self._described = True
            self._leases.describe(self._registration.model_copy(update={"incarnation": incarnation}))

    def _lose(self, incarnation: str) -> None:
        log.error("lease lost", drone=self._registration.name, incarnation=incarnation)
        # Distrusted before anybody is told: nothing may begin under it while its orders are being stopped.
        self._incarnation, self._confirmed_sent = None, float("-inf")
        self._on_lost(incarnation)
        # A new incarnation, not the old one revived: others may have claimed its orders (docs/decisions/10).
        if not self._draining:
            self.register()

    def _run(self) -> None:
        while not self._stopped.wait(self._times.renew_seconds):
            try:
                self.once()
            except StoreUnavailable as problem:
                log.warning("renewal waits for the database", problem=str(problem))
            except Exception:
                # Whatever it was: without this thread, all orders of the process would be lost.
                log.exception("renewal failed")
