"""This room is for the lease keeper: a thread that says "still here", and knows when it may no longer be believed."""

import threading
from collections.abc import Callable

import structlog

from drone.worker.slots import Slots
from mcc.contracts.drones import Registration
from mcc.contracts.ids import fresh_id
from mcc.dispatch.sweep import boot_seconds
from mcc.store.errors import StoreUnavailable
from mcc.store.ports import Leases

log = structlog.get_logger("drone.keeper")

MARGIN_SECONDS = 2.0
"""Effects stop this long before the lease does."""


class Keeper:
    """Renews the lease of this process; on its own store connection, so that nothing else can hold it up.

    After a lost lease the process goes on under a new incarnation: `on_lost` is told the old one first.
    `watch` is called before each renewal; it does not return when this process must not say "still here". `refused`
    tells how many messages were refused so far.
    """

    def __init__(
        self,
        leases: Leases,
        registration: Registration,
        slots: Slots,
        *,
        lease_seconds: float,
        renew_seconds: float,
        on_lost: Callable[[str], None],
        watch: Callable[[], None] = lambda: None,
        refused: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._leases = leases
        self._registration = registration
        self._slots = slots
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._trusted_seconds = lease_seconds - min(MARGIN_SECONDS, lease_seconds / 4)
        self._on_lost = on_lost
        self._watch = watch
        self._refused = refused
        self._clock = clock
        self._confirmed_sent = float("-inf")
        self._incarnation: str | None = None
        self._draining = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    @property
    def incarnation(self) -> str | None:
        """Under which orders may be claimed now; None between a lost lease and the next registration."""
        return self._incarnation

    @property
    def trusted(self) -> bool:
        """Whether effects may start: the last confirmed renewal was sent so lately that nobody can have taken over."""
        return self._clock() < self.trusted_until

    @property
    def trusted_until(self) -> float:
        """Seconds since boot, until when effects may go on if no renewal comes; in the past after a lost lease."""
        return self._confirmed_sent + self._trusted_seconds

    @property
    def margin_seconds(self) -> float:
        """So long before the lease can be another's effects stop."""
        return self._lease_seconds - self._trusted_seconds

    def register(self) -> str:
        """Become a new incarnation. Raises `StoreUnavailable`."""
        incarnation = fresh_id()
        sent = self._clock()
        self._leases.register(
            self._registration.model_copy(update={"incarnation": incarnation}), lease_seconds=self._lease_seconds
        )
        self._incarnation, self._confirmed_sent = incarnation, sent
        log.info("registered", drone=self._registration.name, incarnation=incarnation)
        return incarnation

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
        self._watch()
        if self._incarnation is None:
            if not self._draining:
                self.register()
            return
        sent = self._clock()
        if self._leases.renew(
            self._incarnation,
            lease_seconds=self._lease_seconds,
            active=self._slots.active,
            draining=self._draining,
            refused_messages=self._refused(),
        ):
            self._confirmed_sent = sent
        else:
            self._lose(self._incarnation)

    def _lose(self, incarnation: str) -> None:
        log.error("lease lost", drone=self._registration.name, incarnation=incarnation)
        self._incarnation, self._confirmed_sent = None, float("-inf")
        self._on_lost(incarnation)
        if not self._draining:
            self.register()

    def _run(self) -> None:
        while not self._stopped.wait(self._renew_seconds):
            try:
                self.once()
            except StoreUnavailable as problem:
                log.warning("renewal waits for the database", problem=str(problem))
            except Exception:
                log.exception("renewal failed")
