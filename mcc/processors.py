"""CPU affinity: pins the threads of a process to one processor, and lets the programs it starts use all of them.

docs/decisions/19 explains why.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PINNED_SECONDS, FREE_SECONDS = 1.0, 0.05
IDLE, ONE = 0.05, 1.3
"""CPU use in processors. A process below `IDLE` is not worth pinning; one at `ONE` or more has work that really runs in
parallel, and pinning would slow it down."""

_TASKS, _OWN = Path("/proc/self/task"), Path("/proc/thread-self/stat")
_PROCESSOR = 36
"""Index of the field `processor` in /proc/PID/stat (see proc(5)), counted from the field after the thread's name."""


def _available() -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else frozenset()


@dataclass(slots=True)
class Processors:
    """The processors of this process: `available` are those it may use, `pinned_to` the one its threads are pinned to.

    `clock` and `cpu_clock` give seconds of wall time and of this process's CPU time. On a system without thread
    affinity (macOS), or with one available processor, every method is a no-op.
    """

    available: frozenset[int] = field(default_factory=_available)
    clock: Callable[[], float] = time.monotonic
    cpu_clock: Callable[[], float] = time.process_time
    pinned_to: int | None = None

    def pin(self) -> None:
        """Pin all threads to the processor that runs the calling thread. Threads started later inherit it."""
        if len(self.available) > 1:
            self.pinned_to = int(_OWN.read_text("ascii").rpartition(")")[2].split()[_PROCESSOR])
            self._move({self.pinned_to})

    def unpin(self) -> None:
        """Let all threads run on every available processor again."""
        if self.pinned_to is not None:
            self.pinned_to = None
            self._move(self.available)

    def _move(self, to: "set[int] | frozenset[int]") -> None:
        for thread in os.listdir(_TASKS):
            with suppress(OSError):  # The thread has ended, or the control group's processors have changed.
                os.sched_setaffinity(int(thread), to)

    @contextmanager
    def all_available(self) -> Iterator[None]:
        """Unpin the calling thread inside the block, so that a program it starts there may use every processor."""
        if self.pinned_to is None:
            yield
            return
        with suppress(OSError):
            os.sched_setaffinity(0, self.available)
        try:
            yield
        finally:
            # `keep_together` may have unpinned the threads meanwhile, or pinned them elsewhere.
            with suppress(OSError):
                os.sched_setaffinity(0, self.available if self.pinned_to is None else {self.pinned_to})

    async def keep_together(self, pinned_seconds: float = PINNED_SECONDS, free_seconds: float = FREE_SECONDS) -> None:
        """Keep the threads of this process on one processor until cancelled. Run this on the busiest event loop.

        Every `pinned_seconds` the threads are unpinned for `free_seconds`, so that the scheduler can move the loop to
        the best processor, and to measure whether the process needs more than one.
        """
        try:
            while len(self.available) > 1:
                if await self._cpu_use(pinned_seconds) >= IDLE:
                    self.unpin()
                    if await self._cpu_use(free_seconds) < ONE:
                        self.pin()
        finally:
            self.unpin()

    async def _cpu_use(self, seconds: float) -> float:
        """Wait `seconds`. Answers the CPU use of this process meanwhile, in processors."""
        # Side processes, which have no loop, would take a third of their start for loading it.
        from asyncio import sleep

        began, spent = self.clock(), self.cpu_clock()
        await sleep(seconds)
        return (self.cpu_clock() - spent) / max(self.clock() - began, 1e-9)


PROCESSORS = Processors()
"""The processors of this process."""
