"""The sweep: each MCC and each drone process looks twice a second for lost drones and for orders that nobody holds."""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import structlog

from mcc.dispatch.broker import DispatchUnavailable
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import Publisher, newest_entries, status_hint
from mcc.store.database.errors import StoreUnavailable
from mcc.store.rows.values import Swept
from mcc.store.store import Store

STEADY_SECONDS = 3.0
"""The sweeper's own heartbeats must have succeeded for this long before it may declare drones lost."""

GAP_SECONDS = 2.0
"""A longer gap between two own heartbeats (a suspended machine, a blocked database) restarts that count."""

LOST = "its drone was lost; another one takes over"

log = structlog.get_logger("mcc.dispatch.sweep")


def boot_seconds() -> float:
    """Seconds since boot, including time suspended where the system can measure it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SweepLoop:
    """A thread that every `sweep_seconds` (with jitter) sends a heartbeat, sweeps, publishes and nudges.

    It survives every exception. `nudger` and `publisher` None: there is no Redis, and only the database is swept.
    """

    def __init__(
        self,
        store: Store,
        nudger: Nudger | None,
        publisher: Publisher | None,
        *,
        sweeper: str,
        sweep_seconds: float = 0.5,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._store = store
        self._nudger = nudger
        self._publisher = publisher
        self._sweeper = sweeper
        self._sweep_seconds = sweep_seconds
        self._clock = clock
        self.also: Callable[[], Sequence[str]] | None = None
        """What this process does besides in each round; answers ids of the orders that it changed."""
        self._steady_since: float | None = None
        self._last_beat = 0.0
        self.trouble = ""
        """Why the last round could not use the database; "" when it could."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """End the thread. Waits at most `seconds` for a running round."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def once(self) -> Swept:
        """Run one round. Raises `StoreUnavailable`; an unavailable broker is only logged."""
        swept = self._sweep()
        if self._publisher is not None:
            self._publish(self._publisher, swept)
        try:
            if self._nudger is not None:
                # After the sweep: what it requeued is nudged in the same round.
                self._nudger.nudge_claimable(self._store)
        except DispatchUnavailable as problem:
            log.debug("nudges wait", problem=str(problem))
        return swept

    def _publish(self, publisher: Publisher, swept: Swept) -> None:
        publisher.taken_over(len(swept.requeued))
        why = dict.fromkeys(swept.requeued, LOST)
        for order in map(self._store.orders.get, (*swept.requeued, *swept.ended, *swept.resumed, *swept.besides)):
            publisher.publish([*newest_entries(self._store, order), status_hint(order)])
            publisher.report_status(order, why.get(order.id, ""))

    def _sweep(self) -> Swept:
        try:
            self._store.sweeper.beat(self._sweeper)
        # Without a heartbeat of its own, this process cannot tell whether others are lost or it is cut off itself.
        except BaseException:
            self._steady_since = None
            raise
        now = self._clock()
        if self._steady_since is None or now - self._last_beat > GAP_SECONDS:
            self._steady_since = now
        self._last_beat = now
        steady = now - self._steady_since
        swept = self._store.sweeper.sweep(may_expire=steady >= STEADY_SECONDS, steady_seconds=steady)
        failures = self._store.removal.advance()
        self._store.filling.advance()
        self._store.tallying.advance()
        self._store.order_words.advance()
        if self.also is not None:
            swept = replace(swept, besides=self.also())
        return replace(swept, failures={**swept.failures, **failures}) if failures else swept

    def _run(self) -> None:
        troubled: Mapping[str, str] = {}
        # With jitter, so that the sweeps of many processes do not meet again and again.
        while not self._stopped.wait(self._sweep_seconds * random.uniform(0.8, 1.2)):
            try:
                swept = self.once()
                if self.trouble:
                    log.info("the database is back")
                self.trouble = ""
                if swept.lost or swept.requeued:
                    log.warning(
                        "drones lost", lost=list(swept.lost), cut=list(swept.cut), requeued=list(swept.requeued)
                    )
                if swept.failures != troubled:
                    log.error("orders or sessions cannot be looked after", troubled=dict(swept.failures))
                troubled = swept.failures
            except StoreUnavailable as problem:
                # Once per outage, not twice a second.
                if str(problem) != self.trouble:
                    log.warning("sweep waits for the database", problem=str(problem))
                self.trouble = str(problem)
            except Exception:
                self._steady_since = None
                log.exception("sweep failed")
