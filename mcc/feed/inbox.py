"""What waits for a person, told to the viewers of all orders: how many items, and which have changed."""

import asyncio
import logging
from collections.abc import Callable

from mcc.contracts.wire import InboxChange, InboxEvent
from mcc.feed.frames import plain_frame
from mcc.feed.statuses import StatusStream
from mcc.store.database.errors import StoreError
from mcc.store.store import Offload, Store

SETTLE_SECONDS = 0.02
"""Changes within this time are read together."""

log = logging.getLogger(__name__)


class InboxWatch:
    """Compares the pending items with those of before, once something has changed, and at intervals in case that was
    not heard. Nothing is read while nobody watches.

    `hints_are_heard` tells whether hints from Redis arrive; without them the database is polled four times as often.
    """

    def __init__(
        self,
        store: Store,
        offload: Offload,
        statuses: StatusStream,
        hints_are_heard: Callable[[], bool],
        poll_seconds: float,
    ) -> None:
        self._store = store
        self._offload = offload
        self._statuses = statuses
        self._hints_are_heard = hints_are_heard
        self._poll_seconds = poll_seconds
        self._wake = asyncio.Event()
        self._known: dict[str, InboxChange] | None = None
        self._joined = 0

    def changed(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            pause = self._poll_seconds if self._hints_are_heard() else self._poll_seconds / 4
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
                await asyncio.sleep(SETTLE_SECONDS)
            except TimeoutError:
                pass
            # Before reading: what changes during the read wakes the next round.
            self._wake.clear()
            if self._statuses.viewers:
                await self.look()
            else:
                self._known = None

    async def look(self) -> None:
        """Read what is pending, and tell the viewers where that has changed, or where one of them is new."""
        known, joined = self._known or {}, self._statuses.joined
        try:
            count, pending = await self._offload(self._store.inbox.pending)
            gone = await self._offload(self._store.inbox.changes, known.keys() - {item.id for item in pending})
        except StoreError as error:
            log.warning("the database cannot say what waits for a person: %s", error)
            return
        fresh = [] if self._known is None else [item for item in pending if item.id not in known]
        # An item beyond those that are read is still pending, and comes again once others are settled.
        settled = [item for item in gone if item.status != "pending"]
        self._known = {item.id: item for item in pending}
        if fresh or settled or joined != self._joined:
            self._joined = joined
            self._statuses.tell(plain_frame("inbox", InboxEvent(pending=count, changed=(*fresh, *settled))))
