"""Housekeeping: packs the journals of ended orders, deletes those older than the retention, and what webhooks were
sent, in small steps."""

import threading
from collections.abc import Callable, Collection
from dataclasses import asdict
from datetime import timedelta

import structlog

from mcc.contracts.callers import Actor
from mcc.store.database.errors import StoreError
from mcc.store.rows.values import KEEPER
from mcc.store.store import Store
from mcc.store.upkeep.retention import Cleared

ANNOUNCED = "retention.announced"
"""Kind of the audit note that records when the first deletion was announced."""

NOTICE = timedelta(days=1)
"""The time between that announcement and the first deletion."""

FIRST_SECONDS, ROUND_SECONDS = 20.0, 3_600.0
PACKED_AFTER = timedelta(hours=1)
"""How long after the end of an order its journal is packed. By then hardly anybody still reads it."""

PAUSE_SECONDS = 0.05
"""Pause between two steps, so that running orders hardly notice them."""

log = structlog.get_logger("mcc.dispatch.housekeeping")


class Housekeeping:
    """A thread that packs journals once an hour, and deletes journals of orders that ended more than `days` ago.

    `days` 0 deletes nothing. `watched` answers the orders whose journals have viewers; those wait for the next round.
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
        """End the thread. Waits at most `seconds` for a running step."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def once(self) -> Cleared:
        """Run one round. Until a day after the first announcement it only announces what will be deleted.

        Answers what was deleted. Raises `StoreUnavailable`.
        """
        store, total = self._store, Cleared()
        now = store.database.clock.now()
        for _ in store.packing.pack(now - PACKED_AFTER):
            if self._stopped.wait(self._pause_seconds):
                return total
        while store.webhooks.lists.remove_old():
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
        self._store.audit.note(ANNOUNCED, by=Actor(KEEPER), detail=detail)
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
