"""Where the threads of a process run: together on one processor while they take turns, and its programs on all.

docs/decisions/19 says why.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

HELD_SECONDS, LOOSE_SECONDS = 1.0, 0.05
IDLE, ONE = 0.05, 1.3
"""Of one processor's time: who uses less is left alone, who uses more has work that really runs side by side."""

_TASKS, _OWN = Path("/proc/self/task"), Path("/proc/thread-self/stat")
_PROCESSOR = 36
"""The field of proc(5)'s stat that says where a thread ran last, counted from the one after its name."""


def _given() -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else frozenset()


@dataclass(slots=True)
class Processors:
    """The processors of this process. `every`: those that it was given; `held`: where its threads are kept, or None.

    `clock` and `spent` answer seconds, of the wall and of this process's CPU. Where the system cannot keep a thread
    anywhere (as on macOS), or has given one processor, nothing happens.
    """

    every: frozenset[int] = field(default_factory=_given)
    clock: Callable[[], float] = time.monotonic
    spent: Callable[[], float] = time.process_time
    held: int | None = None

    def hold(self) -> None:
        """Keep all threads, and those that they start, where this one runs now."""
        if len(self.every) > 1:
            self.held = int(_OWN.read_text("ascii").rpartition(")")[2].split()[_PROCESSOR])
            self._move({self.held})

    def let_go(self) -> None:
        """All threads may run on every processor again."""
        if self.held is not None:
            self.held = None
            self._move(self.every)

    def _move(self, to: "set[int] | frozenset[int]") -> None:
        for thread in os.listdir(_TASKS):
            with suppress(OSError):  # It has ended, or a control group was given other processors.
                os.sched_setaffinity(int(thread), to)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """For starting a program: what this thread starts inside may run on every processor."""
        if self.held is None:
            yield
            return
        with suppress(OSError):
            os.sched_setaffinity(0, self.every)
        try:
            yield
        finally:
            with suppress(OSError):
                os.sched_setaffinity(0, self.every if self.held is None else {self.held})

    async def keep_together(self, held_seconds: float = HELD_SECONDS, loose_seconds: float = LOOSE_SECONDS) -> None:
        """Keep the threads of this process together for as long as this runs, on the loop that has the most to do.

        Every `held_seconds` they are let go for `loose_seconds`, in which the scheduler finds the loop its place among
        what else the machine does, and in which it shows whether they need more than one processor.
        """
        try:
            while len(self.every) > 1:
                if await self._share(held_seconds) >= IDLE:
                    self.let_go()
                    if await self._share(loose_seconds) < ONE:
                        self.hold()
        finally:
            self.let_go()

    async def _share(self, seconds: float) -> float:
        """Wait so long. Answers how much of one processor's time this process used meanwhile."""
        began, spent = self.clock(), self.spent()
        await asyncio.sleep(seconds)
        return (self.spent() - spent) / max(self.clock() - began, 1e-9)


PROCESSORS = Processors()
"""Those of this process."""
