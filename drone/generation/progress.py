"""How far a generation is, told now and then while it goes on."""

import asyncio
import time
from collections.abc import Callable

from drone.agent.turn import Turn
from mcc.contracts.wire import GenerationProgress
from mcc.documents.blueprint import Blueprint
from mcc.documents.staleness import assessed
from mcc.documents.state import State

PAUSE_SECONDS = 0.25
"""It is told four times a second at most."""


class Progress:
    """Of one generation. `clock` answers monotonic seconds. Use on one event loop only."""

    def __init__(self, blueprint: Blueprint, turn: Turn, clock: Callable[[], float] = time.monotonic) -> None:
        self._blueprint = blueprint
        self._turn = turn
        self._clock = clock
        self._state: State | None = None
        self._running = 0
        self._ended = 0
        self._seconds = 0.0
        self._told_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def saw(self, state: State) -> None:
        """The document is at this version now."""
        if self._state is None or state.version >= self._state.version:
            self._state = state

    def began(self) -> float:
        """An agent begins; `ended` wants the answer."""
        self._running += 1
        self._move()
        return self._clock()

    def ended(self, since: float) -> None:
        self._running -= 1
        self._ended += 1
        self._seconds += self._clock() - since
        self._move()

    def close(self) -> None:
        """Tell how it ended."""
        if self._timer is not None:
            self._timer.cancel()
        self._tell()

    def _move(self) -> None:
        """Something has changed: tell it now or, shortly after the last time, a little later."""
        if self._timer is not None:
            return
        wait = 0.0 if self._told_at is None else self._told_at + PAUSE_SECONDS - self._clock()
        if wait > 0:
            self._timer = asyncio.get_running_loop().call_later(wait, self._tell)
        else:
            self._tell()

    def _tell(self) -> None:
        self._timer, self._told_at = None, self._clock()
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
        """As long as the nodes that wait take, if each takes as long as one did so far."""
        if not self._ended:
            return None
        together = max(1, min(self._turn.budget.limits.concurrency, waiting))
        return round(self._seconds / self._ended * waiting / together, 1)
