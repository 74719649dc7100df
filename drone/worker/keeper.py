"""The lease keeper: a thread that renews a drone's lease and knows until when that lease can be trusted."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from mcc.contracts.drones import NOTHING_COUNTED, DrainRequest, DroneCounters, Registration
from mcc.contracts.ids import fresh_id
from mcc.dispatch.sweep import boot_seconds
from mcc.store.database.errors import StoreUnavailable
from mcc.store.work.leases import Leases

log = structlog.get_logger("drone.keeper")

MARGIN_SECONDS = 2.0
"""Effects stop this long before the lease expires; under a lease shorter than 8 s, a quarter of it before."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Duration of a lease and interval of its renewals. `clock` counts seconds since boot. `helpless_seconds`: for how
    long renewals may fail although the database answers."""

    lease_seconds: float
    renew_seconds: float
    clock: Callable[[], float] = boot_seconds
    helpless_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a drone reports with each renewal: the number of taken slots, and its counters."""

    active: int = 0
    counters: DroneCounters = NOTHING_COUNTED


class Counting:
    """The `DroneCounters` of this process, counted since its start. Thread-safe."""

    def __init__(self) -> None:
        self._counters = DroneCounters()
        self._lock = threading.Lock()

    def add(self, counter: str) -> None:
        """Count one more. `counter` is a field of `DroneCounters`; raises AttributeError for other names."""
        with self._lock:
            more = {counter: getattr(self._counters, counter) + 1}
            self._counters = self._counters.model_copy(update=more)

    @property
    def counters(self) -> DroneCounters:
        return self._counters


class Keeper:
    """Renews the one lease that covers all orders of this process (docs/decisions/10), in a thread of its own.

    `leases` should have a store connection that nothing else uses, so that nothing else can delay a renewal.
    `heartbeat` is called before each renewal; it does not return when this process must not appear alive. After a lost
    lease, the keeper calls `on_lost` with the old incarnation, then registers a new one. When renewals fail for
    `helpless_seconds` although the database answers others, it calls `on_helpless`: a new process may do better.
    """

    def __init__(
        self,
        leases: Leases,
        registration: Registration,
        heartbeat: Callable[[], Heartbeat],
        times: LeaseTimes,
        on_lost: Callable[[str], None],
        on_helpless: Callable[[], None],
    ) -> None:
        self._leases = leases
        self._registration = registration
        self._heartbeat = heartbeat
        self._times = times
        self._trusted_seconds = times.lease_seconds - min(MARGIN_SECONDS, times.lease_seconds / 4)
        self._on_lost = on_lost
        self._on_helpless = on_helpless
        self.on_drain: Callable[[DrainRequest | None], None] = lambda drain: None
        """Called with what an operator tells this drone, whenever that changes."""
        self._drain: DrainRequest | None = None
        self._failing_since: float | None = None
        self._confirmed_sent = float("-inf")
        self._incarnation: str | None = None
        self._draining = False
        self._described = True
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    @property
    def incarnation(self) -> str | None:
        """The incarnation under which orders may be claimed; None between a lost lease and the next registration."""
        return self._incarnation

    @property
    def trusted(self) -> bool:
        """Whether effects may start: the last confirmed renewal is so recent that no drone can have taken over."""
        return self._times.clock() < self.trusted_until

    @property
    def trusted_until(self) -> float:
        """Until when effects may continue without another renewal, in seconds since boot; in the past after a lost
        lease."""
        return self._confirmed_sent + self._trusted_seconds

    @property
    def margin_seconds(self) -> float:
        """Effects stop this long before another drone can take the orders over."""
        return self._times.lease_seconds - self._trusted_seconds

    def register(self) -> str:
        """Register a new incarnation and answer it. Raises `StoreUnavailable`."""
        incarnation = fresh_id()
        sent = self._times.clock()
        self._leases.register(
            self._registration.model_copy(update={"incarnation": incarnation}),
            lease_seconds=self._times.lease_seconds,
            drain=self._drain,
        )
        self._incarnation, self._confirmed_sent = incarnation, sent
        log.info("registered", drone=self._registration.name, incarnation=incarnation)
        return incarnation

    def describe(self, registration: Registration) -> None:
        """Replace the registration of this process in the database after the next renewal."""
        self._registration, self._described = registration, False

    def start(self) -> None:
        self._thread.start()

    def drain(self) -> None:
        """Report this drone as draining from the next renewal on."""
        self._draining = True

    def stop(self, seconds: float = 2.0) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def leave(self) -> None:
        """End the lease because the process exits in good order. Raises `StoreUnavailable`."""
        if self._incarnation is not None:
            self._leases.leave(self._incarnation)

    def once(self) -> None:
        """Renew once, or register when there is no incarnation. Raises `StoreUnavailable`."""
        heartbeat = self._heartbeat()
        if self._incarnation is None:
            if not self._draining:
                self.register()
            return
        # Trust counts from before the request: the database renews at an unknown moment after that.
        sent = self._times.clock()
        renewal = self._leases.renew(
            self._incarnation,
            lease_seconds=self._times.lease_seconds,
            active=heartbeat.active,
            draining=self._draining or self._drain is not None,
            counters=heartbeat.counters,
        )
        if renewal is None:
            self._lose(self._incarnation)
            return
        self._confirmed_sent = sent
        self._describe(self._incarnation)
        if renewal.drain != self._drain:
            self._drain = renewal.drain
            self.on_drain(renewal.drain)

    def _describe(self, incarnation: str) -> None:
        if not self._described:
            # Set first: another thread may bring a newer description while this one is written.
            self._described = True
            self._leases.describe(self._registration.model_copy(update={"incarnation": incarnation}))

    def _lose(self, incarnation: str) -> None:
        log.error("lease lost", drone=self._registration.name, incarnation=incarnation)
        # Distrusted before `on_lost`: no effect may start under this lease while its orders are being stopped.
        self._incarnation, self._confirmed_sent = None, float("-inf")
        self._on_lost(incarnation)
        # A new incarnation instead of reviving the old: other drones may have claimed its orders (docs/decisions/10).
        if not self._draining:
            self.register()

    def renew(self) -> None:
        """As `once`, and survives any error: without this thread, all orders of the process would be lost."""
        try:
            self.once()
            self._failing_since = None
        except StoreUnavailable as problem:
            log.warning("renewal waits for the database", problem=str(problem))
            self._failed()
        except Exception:
            log.exception("renewal failed")

    def _failed(self) -> None:
        now = self._times.clock()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since >= self._times.helpless_seconds and self._leases.answers():
            self._failing_since = None
            self._on_helpless()

    def _run(self) -> None:
        while not self._stopped.wait(self._times.renew_seconds):
            self.renew()
