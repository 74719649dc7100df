"""Housekeeping: the service packs what has ended and removes what is older than the retention, a little at a time."""

import threading
from collections.abc import Callable, Collection
from dataclasses import asdict
from datetime import timedelta

import structlog

from mcc.store.errors import StoreError
from mcc.store.retention import Cleared
from mcc.store.store import Store
from mcc.store.values import KEEPER

ANNOUNCED = "retention.announced"
"""Kind of the audit note which says since when it is known what would be removed."""

NOTICE = timedelta(days=1)
"""Nothing is removed sooner after it was first said what would be."""

FIRST_SECONDS, ROUND_SECONDS = 20.0, 3_600.0
PACKED_AFTER = timedelta(hours=1)
"""Journals are packed so long after their orders ended, when hardly anybody reads them any more."""

PAUSE_SECONDS = 0.05
"""Between two small steps, so that orders which are worked on hardly notice."""

log = structlog.get_logger("mcc.dispatch.housekeeping")


class Housekeeping:
    """A thread that once an hour packs journals and clears what ended more than `days` ago; 0: nothing is cleared.

    `watched`: the orders whose journals somebody reads now, which wait for the next round.
    """

    def __init__(
        self,
        store: Store,
        days: float,
        watched: Callable[[], Collection[str]] = tuple,
        *,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._store = store
        self._days = days
        self._watched = watched
        self._pause_seconds = pause_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 1.0) -> None:
        """End the thread; waits at most `seconds` for a step that is under way."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def once(self) -> Cleared:
        """One round; in the first day after an upgrade it only says what the first one will remove.

        Raises `StoreUnavailable`.
        """
        store, total = self._store, Cleared()
        now = store.database.clock.now()
        for _ in store.packing.pack(now - PACKED_AFTER):
            if self._stopped.wait(self._pause_seconds):
                return total
        if not self._days:
            return total
        before = now - timedelta(days=self._days)
        noted = store.audit.first(ANNOUNCED)
        if noted is None:
            self._announce(store.retention.look(before))
        if noted is None or now < noted.at + NOTICE:
            return total
        for step in store.retention.clear(before, besides=self._watched()):
            total += step
            if self._stopped.wait(self._pause_seconds):
                break
        return total

    def _announce(self, found: Cleared) -> None:
        detail = {"days": self._days, "orders": found.orders, "entries": found.entries, "bytes": found.bytes}
        self._store.audit.note(ANNOUNCED, principal=KEEPER, detail=detail)
        if found.orders:
            log.warning(
                "journals of orders that ended long ago will be removed from tomorrow on; records and answers stay",
                orders=found.orders,
                bytes=found.bytes,
                days=self._days,
                advice="MCC_RETENTION_DAYS=0 keeps them",
            )

    def _run(self) -> None:
        pause = FIRST_SECONDS
        while not self._stopped.wait(pause):
            pause = ROUND_SECONDS
            try:
                cleared = self.once()
                if cleared != Cleared():
                    log.info("old journals were removed", **asdict(cleared))
            except StoreError as problem:
                log.warning("old journals cannot be removed now", problem=str(problem))
            except Exception:
                log.exception("housekeeping failed")
