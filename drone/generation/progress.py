"""Progress reports of a running generation, at a limited rate."""

import asyncio
import time
from collections.abc import Callable

from drone.agent.turns.turn import Turn
from mcc.contracts.wire import GenerationProgress
from mcc.documents.blueprint import Blueprint
from mcc.documents.staleness import assessed
from mcc.documents.state import DocumentState

PAUSE_SECONDS = 0.25
"""Least time between two reports."""


class GenerationTracker:
    """The progress of one generation. `clock` answers monotonic seconds. For one event loop only."""

    def __init__(self, blueprint: Blueprint, turn: Turn, clock: Callable[[], float] = time.monotonic) -> None:
        self._blueprint = blueprint
        self._turn = turn
        self._clock = clock
        self._state: DocumentState | None = None
        self._running = 0
        self._ended = 0
        self._seconds = 0.0
        self._reported_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def update(self, state: DocumentState) -> None:
        """Note the document's state, unless a later one is known."""
        # Agents read side by side, so that an older state may come later.
        if self._state is None or state.version >= self._state.version:
            self._state = state

    def agent_started(self) -> float:
        """Count a starting agent; pass the answered time to `agent_ended`."""
        self._running += 1
        self._changed()
        return self._clock()

    def agent_ended(self, since: float) -> None:
        self._running -= 1
        self._ended += 1
        self._seconds += self._clock() - since
        self._changed()

    def close(self) -> None:
        """Send a last report at once."""
        if self._timer is not None:
            self._timer.cancel()
        self._report()

    def _changed(self) -> None:
        """Report a change now, or once `PAUSE_SECONDS` have passed since the last report."""
        if self._timer is not None:
            return
        wait = 0.0 if self._reported_at is None else self._reported_at + PAUSE_SECONDS - self._clock()
        if wait > 0:
            self._timer = asyncio.get_running_loop().call_later(wait, self._report)
        else:
            self._report()

    def _report(self) -> None:
        self._timer, self._reported_at = None, self._clock()
        if self._state is None:
            return
        counts, spent = assessed(self._blueprint, self._state).counts, self._turn.budget.spent
        waiting = counts.pending + counts.stale
        self._turn.journal.progress(
            GenerationProgress(
                document_id=self._state.id,
                done=counts.done,
                running=self._running,
                pending=counts.pending,
                stale=counts.stale,
                failed=counts.failed,
                conflicts=counts.conflicts,
                output_tokens=spent.output_tokens,
                cost_usd=spent.cost_usd,
                seconds_left=self._seconds_left(waiting),
            )
        )

    def _seconds_left(self, waiting: int) -> float | None:
        """An estimate from the average time per agent so far; None before the first has ended."""
        if not self._ended:
            return None
        together = max(1, min(self._turn.budget.limits.concurrency, waiting))
        return round(self._seconds / self._ended * waiting / together, 1)
