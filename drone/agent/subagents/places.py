"""This room is for places: how many subagents of a tree work at the same time. More of them wait in line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Place:
    held: bool = True
    waiting: int = 0


class Places:
    """The places of one tree. Use on one event loop only.

    An agent that waits for agents of its own lends them its place. So every place that is taken belongs to an agent
    that can go on, and a tree never stands still, however deep it is and however few places there are.
    """

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._places: dict[str, _Place] = {}

    @asynccontextmanager
    async def taken(self, record_id: str) -> AsyncIterator[None]:
        """A place for this agent, once there is one."""
        await self._free.acquire()
        place = self._places[record_id] = _Place()
        try:
            yield
        finally:
            del self._places[record_id]
            if place.held:
                self._free.release()

    @asynccontextmanager
    async def lent(self, record_id: str | None) -> AsyncIterator[None]:
        """The agent waits for others inside of this; it goes on once there is a place for it again.

        What raises inside goes on without: the agent has `regained` it before it asks its model again.
        """
        place = self._places.get(record_id or "")
        if place is None:
            yield
            return
        place.waiting += 1
        if place.held:
            place.held = False
            self._free.release()
        try:
            yield
        finally:
            place.waiting -= 1
        await self._return(place)

    def lacks(self, record_id: str) -> bool:
        """Whether this agent's lending ended with an error, so that its place did not come back."""
        place = self._places.get(record_id)
        return place is not None and not place.held and not place.waiting

    async def regained(self, record_id: str) -> None:
        """Return once this agent has its place again, when it lacks it."""
        if self.lacks(record_id):
            await self._return(self._places[record_id])

    async def _return(self, place: _Place) -> None:
        """Another call of the same agent may wait by now, or have taken the place back already."""
        if place.held or place.waiting:
            return
        await self._free.acquire()
        if place.held or place.waiting:
            self._free.release()
        else:
            place.held = True
