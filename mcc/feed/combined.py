"""One stream for all that a page shows: statuses of all orders, the inbox, and the journals of several orders.

It reads the same pages of journals, and the same statuses, as the streams of one kind.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from mcc.contracts.status import FINAL
from mcc.feed.feed import Feed, chunk_of
from mcc.feed.frames import PING, plain_frame
from mcc.feed.viewers import ViewerPart, Waker, WatchedOrder
from mcc.store.rows.values import Reached

UNKNOWN, PRUNED, BEYOND = 404, 410, 400
"""Why nothing is told of an order, as HTTP says it: there is none, its journal is no longer kept, its journal is
shorter."""

MOST_ORDERS = 16


@dataclass(slots=True)
class _Watched:
    part: ViewerPart
    order: WatchedOrder


class CombinedStream:
    """`after`: by order, the number of the last entry that the viewer has, at most `MOST_ORDERS`."""

    def __init__(self, feed: Feed, after: Mapping[str, int]) -> None:
        self._feed = feed
        self._after = after
        self._waker = Waker()
        self._watched: list[_Watched] = []

    async def events(self, hello: bytes) -> AsyncIterator[bytes]:
        """SSE bytes: `hello`, the snapshot, then what happens. Entries have the id `ORDER:SEQ`. An order whose journal
        has been sent whole is told by `end`, one of which nothing can be told by `gone`.

        The first step raises `StoreUnavailable` when the database cannot say how far the orders are.
        """
        feed = self._feed
        with feed.statuses.viewed(self._waker.wake) as statuses:
            try:
                ends = await feed.ends(self._after) if self._after else {}
                yield hello + await feed.statuses.snapshot_for(statuses)
                feed.inbox.changed()
                for order_id, after in self._after.items():
                    if told := await self._begin(order_id, after, ends.get(order_id)):
                        yield told
                while not feed.is_closing:
                    self._waker.rearm()
                    is_idle = True
                    for frame in statuses.take():
                        if frame is None:
                            return
                        is_idle = False
                        yield frame
                    for watched in tuple(self._watched):
                        if chunk := await self._next_of(watched):
                            is_idle = False
                            yield chunk
                    if is_idle and not await self._waker.wait(feed.pace.ping_seconds):
                        yield PING
            finally:
                for watched in tuple(self._watched):
                    self._leave(watched)

    async def _begin(self, order_id: str, after: int, end: Reached | None) -> bytes:
        """Watch the order, or say why not."""
        if end is None:
            return _gone(order_id, UNKNOWN)
        if after > end.seq:
            return _gone(order_id, BEYOND)
        if end.status in FINAL:
            if after == end.seq:
                return _end(order_id)
            if await self._feed.is_pruned(order_id):
                return _gone(order_id, PRUNED)
        order = self._feed.join(order_id)
        part = ViewerPart(order_id, after, self._waker)
        order.parts.add(part)
        self._watched.append(_Watched(part, order))
        if end.seq > order.journal.reached:
            order.journal.reached = end.seq
            order.wake_behind()
        return b""

    async def _next_of(self, watched: _Watched) -> bytes:
        """What is to be sent of one order now; empty when there is nothing."""
        part, journal = watched.part, watched.order.journal
        # Text first: it follows the last entry that was sent, and comes before the next one.
        text = part.take_text(part.position)
        frames = chunk_of(await journal.after(part.position), part.next_stop())
        # The same bytes as in the order's own stream, but for the id: it must say whose entry it is.
        named = b"id: %s:" % part.order_id.encode()
        sent = text + b"".join(named + frame.data.removeprefix(b"id: ") for frame in frames)
        if frames:
            part.position = frames[-1].seq
            if frames[-1].final:
                self._leave(watched)
                return sent + _end(part.order_id)
        elif journal.pruned:
            self._leave(watched)
            return sent + _gone(part.order_id, PRUNED)
        return sent

    def _leave(self, watched: _Watched) -> None:
        self._watched.remove(watched)
        watched.order.parts.discard(watched.part)
        self._feed.leave(watched.part.order_id)


def _end(order_id: str) -> bytes:
    return plain_frame("end", {"order_id": order_id})


def _gone(order_id: str, status: int) -> bytes:
    return plain_frame("gone", {"order_id": order_id, "status": status})
