"""The part of a service's sweep that fires schedules."""

import logging
from collections.abc import Callable, Sequence

from mcc.api.schedules.preparing import Preparing
from mcc.contracts.schedules import RunOutcome
from mcc.resources import Reserve
from mcc.store.database.errors import StoreUnavailable
from mcc.store.doors.firing import DueRun, FiredRun
from mcc.store.store import Store

MOST_STEPS = 50
"""Steps of one round, about half a second: a sweep that pauses for two cannot tell whether drones are lost."""
ZONES_SECONDS = 60.0
"""How often it is looked whether an older version has planned a schedule by its own tables of the zones."""

log = logging.getLogger(__name__)


class ScheduleFires:
    """Fires what is due, a round at a time. `counted` hears of the outcome of each run, and of how many instants were
    missed."""

    def __init__(
        self,
        store: Store,
        preparing: Preparing,
        reserve: Reserve,
        counted: Callable[[RunOutcome, int], None] = lambda outcome, count: None,
    ) -> None:
        self._store = store
        self._preparing = preparing
        self._reserve = reserve
        self._counted = counted
        self._zones_at = float("-inf")
        self._full = ""

    def once(self) -> Sequence[str]:
        """Fire what is due; answers ids of orders that were placed, and of those that were cancelled for them. One that
        fails is told in the log, and does not keep the others from being fired. Raises `StoreUnavailable`."""
        uptime = self._store.database.clock.uptime()
        if uptime >= self._zones_at:
            self._store.firing.by_newer_zones()
            self._zones_at = uptime + ZONES_SECONDS
        changed: list[str] = []
        failed: set[str] = set()
        steps = 0
        while steps < MOST_STEPS:
            planned = [due for due in self._store.firing.due() if due.schedule_id not in failed]
            # With a full disk nothing is accepted; what is due then is caught up with.
            if not planned or self._is_full():
                break
            for due in planned:
                steps += 1
                try:
                    fired = self._fire(due)
                except StoreUnavailable:
                    raise
                except Exception:
                    failed.add(due.schedule_id)
                    log.exception("schedule %s (%s) cannot be fired", due.spec.name, due.schedule_id)
                    continue
                if fired is not None and fired.run is not None:
                    changed += (*fired.cancelled, *filter(None, [fired.run.order_id]))
        return changed

    def _fire(self, due: DueRun) -> FiredRun | None:
        fired = self._store.firing.fire(due, self._preparing.prepared(due))
        if fired is not None and due.step is not None and due.step.missed is not None:
            missed = due.step.missed
            self._counted("missed", missed.count)
            log.warning(
                "schedule %s has missed %s instants from %s to %s",
                due.spec.name,
                missed.count,
                missed.since,
                missed.until,
            )
        if fired is not None and fired.run is not None:
            self._counted(fired.run.outcome, 1)
        return fired

    def _is_full(self) -> bool:
        shortage = self._reserve.shortage() or ""
        if shortage and not self._full:
            log.warning("schedules wait: %s", shortage)
        self._full = shortage
        return bool(shortage)
