"""Viewers of one order: their positions in its journal, their wake-ups, and text that waits to be sent to them."""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from mcc.contracts.waits import WaitsFor
from mcc.contracts.wire import Delta, OrderWaits, Progress
from mcc.feed.frames import SharedJournal, plain_frame
from mcc.feed.joining import JoinedText

PENDING_DELTAS = 512
"""How many text deltas may wait for a slow viewer. Older ones are dropped; the reply's entry has the whole text."""

WAITS, PROGRESS = "order.waits", "generation.progress"
"""The events that say what an order waits for (`OrderWaits`), and how far a generation is (`GenerationProgress`)."""


class Waker:
    """The wake-ups of one stream."""

    def __init__(self) -> None:
        self._woken = False
        self._waiting: asyncio.Future[bool] | None = None

    def wake(self) -> None:
        self._woken = True
        self._settle(True)

    def rearm(self) -> None:
        """Forget earlier wake-ups. Called before reading, so that a `wake` during the read ends the next `wait`."""
        self._woken = False

    async def wait(self, seconds: float) -> bool:
        """Wait for a wake-up. False when there was none within `seconds`."""
        if self._woken:
            return True
        # A bare future is cheaper than asyncio.Event with a timeout, and every entry comes here once per viewer.
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_later(seconds, self._settle, False)
        try:
            return await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def _settle(self, woken: bool) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(woken)


class Viewer(Waker):
    """One viewer of an order: its position in the journal, its wake-ups, and text deltas not yet sent to it."""

    def __init__(self, position: int = 0) -> None:
        super().__init__()
        self.position = position
        """The number of the last entry sent to this viewer."""
        self.told: WaitsFor | None = None
        """What the order waits for, as this viewer was told last."""
        self._deltas: deque[tuple[int, bytes]] = deque(maxlen=PENDING_DELTAS)

    def offer(self, reached: int, frame: bytes) -> None:
        """Queue a text delta that arrived when the journal had `reached` this number; it is sent after that entry."""
        self._deltas.append((reached, frame))
        self.wake()

    def tell(self, reached: int, waits: WaitsFor | None) -> None:
        """Queue what the order waits for, unless this viewer has been told the same."""
        if waits != self.told:
            self.told = waits
            self.offer(reached, plain_frame(WAITS, OrderWaits(waits_for=waits)))

    def take_text(self, position: int) -> bytes:
        """Remove and answer the text deltas that may be sent once entry `position` has been."""
        ready = []
        while self._deltas and self._deltas[0][0] <= position:
            ready.append(self._deltas.popleft()[1])
        return b"".join(ready)

    def next_stop(self) -> int | None:
        """The entry after which pending text must be sent, before any later entry; None without pending text."""
        return self._deltas[0][0] if self._deltas else None


class ViewerPart(Viewer):
    """The part of one order in a stream of several things: what happens to the order wakes that stream. Its events that
    are not entries name their order."""

    def __init__(self, order_id: str, position: int, stream: Waker) -> None:
        super().__init__(position)
        self.order_id = order_id
        self._stream = stream

    def wake(self) -> None:
        self._stream.wake()

    def tell(self, reached: int, waits: WaitsFor | None) -> None:
        if waits != self.told:
            self.told = waits
            self.offer(reached, plain_frame(WAITS, {"order_id": self.order_id, "waits_for": waits}))


@dataclass(slots=True)
class WatchedOrder:
    """An order that has viewers in this process."""

    journal: SharedJournal
    viewers: set[Viewer] = field(default_factory=set)
    parts: set[ViewerPart] = field(default_factory=set)
    joined: JoinedText = field(init=False)
    _waits: str | None = None
    _fetching: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        self.joined = JoinedText(self._offer_to_parts)

    def __iter__(self) -> Iterator[Viewer]:
        """All that watch the order, alone or as a part."""
        yield from self.viewers
        yield from self.parts

    def pass_on(self, message: Delta | Progress) -> None:
        """Text of an unfinished reply, or progress: at once to viewers of this order alone, joined to the others."""
        reached = self.journal.reached
        if self.viewers:
            event = (PROGRESS, message.data) if isinstance(message, Progress) else (message.kind, message)
            frame = plain_frame(*event)
            for viewer in self.viewers:
                viewer.offer(reached, frame)
        if not self.parts:
            return
        if isinstance(message, Delta):
            self.joined.add(message)
        else:
            self._offer_to_parts(plain_frame(PROGRESS, message))

    def _offer_to_parts(self, frames: bytes) -> None:
        for part in self.parts:
            part.offer(self.journal.reached, frames)

    def wake(self) -> None:
        for viewer in self:
            viewer.wake()

    def tell(self, waits: WaitsFor | None) -> None:
        """Tell the viewers what the order waits for, once two looks have found the same: of an order that is claimed at
        once there is nothing to tell."""
        kind = None if waits is None else waits.kind
        if kind is None or kind == self._waits:
            for viewer in self:
                viewer.tell(self.journal.reached, waits)
        self._waits = kind

    def retry_behind(self) -> None:
        """Wake viewers that are behind, unless a fetch is running, which wakes them at its end."""
        if not self._is_fetching():
            self.wake_behind()

    def wake_behind(self) -> None:
        """Wake the viewers that have not been sent every entry known to exist."""
        for viewer in self:
            if viewer.position < self.journal.reached:
                viewer.wake()

    def grew(self, reached: int) -> None:
        """The journal has grown to entry `reached`: fetch the new entries once, then wake the viewers to send them."""
        # What was said before the new entries comes before them.
        self.joined.flush()
        before, self.journal.reached = self.journal.reached, reached
        if not self._is_fetching():
            self._fetching = asyncio.create_task(self._fetch(before))

    def _is_fetching(self) -> bool:
        return self._fetching is not None and not self._fetching.done()

    async def _fetch(self, position: int) -> None:
        # Hints that arrive during a read only raise `reached`; the loop goes on to it, so that one fetch runs at a
        # time.
        known = position
        while known < self.journal.reached:
            # A journal that cannot be read now ends the loop as well; polling tries again.
            position, known = known, self.journal.reached
            try:
                await self.journal.after(position)
            finally:
                self.wake_behind()
