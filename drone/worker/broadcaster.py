"""Publishes hints, entries and streamed text to viewers through Redis; discards them while Redis is unreachable."""

import asyncio
from collections import deque
from collections.abc import Sequence

import structlog

from mcc.contracts.entry import Entry
from mcc.contracts.order import WorkOrder
from mcc.contracts.wire import Delta, Hint, InboxMoved, Progress
from mcc.dispatch.publisher import AsyncPublisher, Message, Packed, packed, status_hint
from mcc.dispatch.work_metrics import WorkMetrics

log = structlog.get_logger("drone.broadcaster")

GATHER_SECONDS = 0.04
MOST_CHARACTERS = 1_000_000
"""Bound on the text that waits to be published. Text beyond it is dropped: the journal will hold the whole reply."""

MOST_ENTRIES = 1_000
"""Bound on the entries that wait to be published. The oldest are dropped: the journal holds them."""


class Broadcaster:
    """Collects hints, entries and text of all orders and publishes them in Redis pipelines, one pipeline at a time."""

    metrics: WorkMetrics | None = None
    """Where model calls of committed entries are counted."""

    def __init__(self, publisher: AsyncPublisher, *, gather_seconds: float = GATHER_SECONDS) -> None:
        self._publisher = publisher
        self._gather_seconds = gather_seconds
        self._entries: deque[Packed] = deque(maxlen=MOST_ENTRIES)
        self._hints: dict[str, Hint] = {}
        self._inbox: set[str] = set()
        self._deltas: dict[tuple[object, ...], list[Delta]] = {}
        self._progress: dict[str, Progress] = {}
        self._characters = 0
        self._urgent = asyncio.Event()
        self._gathering: asyncio.TimerHandle | None = None

    def hint(self, hint: Hint) -> None:
        """Publish soon. A hint replaces a waiting older one of the same order and takes over its status if it has none
        itself."""
        older = self._hints.get(hint.order_id)
        if older is not None and hint.status is None and older.status is not None:
            hint = hint.model_copy(update={"status": older.status})
        self._hints[hint.order_id] = hint
        self._urgent.set()

    def inbox_moved(self, order_id: str) -> None:
        """Publish soon that something was asked of a person in this order, or settled."""
        self._inbox.add(order_id)
        self._urgent.set()

    def entries(self, entries: Sequence[Entry]) -> None:
        """Publish these committed entries soon."""
        if self.metrics is not None:
            self.metrics.committed(entries)
        self._entries.extend(map(packed, entries))
        self._urgent.set()

    def moved(self, order: WorkOrder, entries: Sequence[Entry], why: str = "") -> None:
        """Publish that this drone moved the order to its current status, with the entries of that move.

        `why`: the reason, where this drone handed the order back.
        """
        self.entries(entries)
        self.hint(status_hint(order))
        self._publisher.report_status(order, why)

    def delta(self, delta: Delta) -> None:
        """Publish within `gather_seconds`, joined with the preceding text of the same attempt at a reply."""
        if self._characters + len(delta.text) > MOST_CHARACTERS:
            return
        self._characters += len(delta.text)
        attempt = (delta.round, delta.attempt, delta.index)
        key = (delta.order_id, delta.record_id, delta.kind, *attempt, delta.call_id)
        self._deltas.setdefault(key, []).append(delta)
        # The first piece starts the timer and later ones do not put it off: steady text would otherwise never be
        # published.
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(self._gather_seconds, self._urgent.set)

    def progress(self, progress: Progress) -> None:
        """Publish soon; replaces waiting progress of the same order."""
        self._progress[progress.order_id] = progress
        self._urgent.set()

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._urgent.wait()
            try:
                await self.flush()
            except Exception:
                log.exception("hints could not be published")

    async def flush(self) -> None:
        """Publish everything that waits: text first, so that no viewer sees text after the entry that completes it, and
        hints last."""
        # Cleared before the messages are taken: what arrives while they are published sets it again.
        self._urgent.clear()
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        messages: list[Message] = [joined for pieces in self._deltas.values() for joined in joined_up(pieces)]
        messages.extend(self._entries)
        self._entries.clear()
        messages.extend(self._progress.values())
        messages.extend(self._hints.values())
        messages.extend(InboxMoved(order_id=order_id) for order_id in self._inbox)
        # Taken before they are published: messages that fail are not tried again, since viewers read the journal
        # anyway.
        self._deltas, self._hints, self._progress, self._characters = {}, {}, {}, 0
        self._inbox = set()
        if messages:
            await self._publisher.publish(messages)


def joined_up(pieces: list[Delta]) -> list[Delta]:
    """The same text in fewer messages: pieces that adjoin without a gap become one."""
    runs: list[list[Delta]] = []
    end = -1
    for piece in pieces:
        if piece.offset != end:
            runs.append([])
        runs[-1].append(piece)
        end = piece.offset + len(piece.text)
    return [run[0].model_copy(update={"text": "".join(piece.text for piece in run)}) for run in runs]
