"""The slots of a turn's subagents, which bound how many of them are at work at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Slot:
    held: bool = True
    waiting: int = 0


class SubagentSlots:
    """The concurrency slots of one tree's subagents. Use on one event loop only.

    An agent that waits for its children lends out its slot. So every taken slot belongs to an agent that can proceed,
    and a tree never deadlocks, however deep it is and however few slots there are.
    """

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._slots: dict[str, _Slot] = {}

    @asynccontextmanager
    async def taken(self, record_id: str) -> AsyncIterator[None]:
        """Context in which this agent has a slot; waits for a free one."""
        await self._free.acquire()
        slot = self._slots[record_id] = _Slot()
        try:
            yield
        finally:
            del self._slots[record_id]
            if slot.held:
                self._free.release()

    @asynccontextmanager
    async def lent(self, record_id: str | None) -> AsyncIterator[None]:
        """Context in which the agent waits for others without its slot; on exit it waits for a slot again.

        An error inside leaves at once, without a slot: the agent then calls `regained` before its next model call.
        """
        slot = self._slots.get(record_id or "")
        if slot is None:
            yield
            return
        slot.waiting += 1
        if slot.held:
            slot.held = False
            self._free.release()
        try:
            yield
        finally:
            slot.waiting -= 1
        await self._return(slot)

    def lacks(self, record_id: str) -> bool:
        """Whether this agent is without its slot because `lent` ended with an error."""
        slot = self._slots.get(record_id)
        return slot is not None and not slot.held and not slot.waiting

    async def regained(self, record_id: str) -> None:
        """Wait until this agent has its slot again, if it lacks it."""
        if self.lacks(record_id):
            await self._return(self._slots[record_id])

    async def _return(self, slot: _Slot) -> None:
        """Take a free slot, unless another call of the same agent lends it out again or has taken it back already."""
        if slot.held or slot.waiting:
            return
        await self._free.acquire()
        # Several calls of one agent may have waited for its slot at once; another has it by now.
        if slot.held or slot.waiting:
            self._free.release()
        else:
            slot.held = True
