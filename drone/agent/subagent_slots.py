"""Slots: how many subagents of a tree work at the same time. More of them wait in line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Slot:
    held: bool = True
    waiting: int = 0


class SubagentSlots:
    """The slots of one tree. Use on one event loop only.

    An agent that waits for agents of its own lends them its slot. So every slot that is taken belongs to an agent
    that can go on, and a tree never stands still, however deep it is and however few slots there are.
    """

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._slots: dict[str, _Slot] = {}

    @asynccontextmanager
    async def taken(self, record_id: str) -> AsyncIterator[None]:
        """A slot for this agent, once there is one."""
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
        """The agent waits for others inside of this; it goes on once there is a slot for it again.

        What raises inside goes on without: the agent has `regained` it before it asks its model again.
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
        """Whether this agent's lending ended with an error, so that its slot did not come back."""
        slot = self._slots.get(record_id)
        return slot is not None and not slot.held and not slot.waiting

    async def regained(self, record_id: str) -> None:
        """Return once this agent has its slot again, when it lacks it."""
        if self.lacks(record_id):
            await self._return(self._slots[record_id])

    async def _return(self, slot: _Slot) -> None:
        """Another call of the same agent may wait by now, or have taken the slot back already."""
        if slot.held or slot.waiting:
            return
        await self._free.acquire()
        if slot.held or slot.waiting:
            self._free.release()
        else:
            slot.held = True
