"""What says that a drone can do no more work: threads that never come back, and work that waits and waits for one."""

from collections.abc import Callable

from drone.agent.threads import Pools
from drone.worker.loop import Stall
from mcc.dispatch.sweep import boot_seconds

LOOK_SECONDS = 1.0
MOST_LEFT_BEHIND = 16
"""Threads that go on with calls which nobody waits for: twice what one order can leave behind of its tools."""


class Health:
    """The state of a drone's threads, as seen by somebody who looks once a second."""

    def __init__(self, pools: Pools, wedged_seconds: float, clock: Callable[[], float] = boot_seconds) -> None:
        self._pools = pools
        self._wedged_seconds = wedged_seconds
        self._clock = clock
        self._stall = Stall(2 * LOOK_SECONDS, clock)

    def trouble(self) -> str | None:
        """Why this drone should make room for another one, as a part of a sentence; None while it should not.

        It is wedged when work has waited for so long without any other having ended. An order that holds up only itself
        does not count.
        """
        waits = self._pools.keep_waiting()
        stuck_seconds = self._stall.look(self._pools.ended if waits else -self._clock())
        left_behind = self._pools.left_behind()
        if left_behind >= MOST_LEFT_BEHIND:
            return f"{left_behind} of its threads go on with calls that were given up"
        if stuck_seconds > self._wedged_seconds:
            return f"it is wedged: work waits for a thread, and none has ended any for {stuck_seconds:.0f} s"
        return None
