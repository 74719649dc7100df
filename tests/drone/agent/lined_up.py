"""An order's access to its workspace that a test opens and closes."""

import asyncio
from collections.abc import Callable, Sequence

from drone.agent.ports.write_access import HoldRefused, KnownFiles, SharedWriting, WriteHold


class LinedUp:
    """`WriteAccess` that refuses until it is `free`. `refused` is called after each refusal."""

    def __init__(self, *, free: bool = False, changed: Sequence[str] = ()) -> None:
        self.free = free
        self.asked = 0
        self.withdrawn = asyncio.Event()
        self.known: KnownFiles = {}
        self.refused: Callable[[int], None] = lambda times: None
        self._changed = changed

    def writing(self) -> SharedWriting:
        return SharedWriting(self, ask_seconds=0.0)

    async def acquire(self) -> WriteHold | HoldRefused:
        self.asked += 1
        if self.free:
            return WriteHold("the key", 2.5, "order-2")
        self.refused(self.asked)
        return HoldRefused("It waits for the workspace, in which order-2 writes")

    def withdraw(self) -> None:
        self.withdrawn.set()

    async def changed(self, known: KnownFiles) -> Sequence[str]:
        self.known = known
        return self._changed
