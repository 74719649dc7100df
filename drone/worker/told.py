"""This room is for telling viewers: hints at once, text gathered for a moment, nothing kept when Redis is away."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

import structlog

from mcc.contracts.wire import Delta, Hint
from mcc.dispatch.hints import Told

log = structlog.get_logger("drone.told")

GATHER_SECONDS = 0.04
MOST_CHARACTERS = 1_000_000
"""Text that waits to be told; what comes on top is dropped, the journal has it in the end."""


class Publisher(Protocol):
    async def tell(self, told: Iterable[Told]) -> bool: ...


class Teller:
    """Collects hints and text of all orders and publishes them in pipelines, one at a time."""

    def __init__(self, publisher: Publisher, *, gather_seconds: float = GATHER_SECONDS) -> None:
        self._publisher = publisher
        self._gather_seconds = gather_seconds
        self._hints: dict[str, Hint] = {}
        self._deltas: dict[tuple[str, str, str, int, int], list[Delta]] = {}
        self._characters = 0
        self._urgent = asyncio.Event()
        self._gathering: asyncio.TimerHandle | None = None

    def hint(self, hint: Hint) -> None:
        """Tell soon; a newer hint of the same order takes the place of an older one, its status stays told."""
        older = self._hints.get(hint.order_id)
        if older is not None and hint.status is None and older.status is not None:
            hint = hint.model_copy(update={"status": older.status})
        self._hints[hint.order_id] = hint
        self._urgent.set()

    def delta(self, delta: Delta) -> None:
        """Tell within the time of gathering, joined with what came before it in the same try."""
        if self._characters + len(delta.text) > MOST_CHARACTERS:
            return
        self._characters += len(delta.text)
        key = (delta.order_id, delta.record_id, delta.kind, delta.round, delta.attempt)
        self._deltas.setdefault(key, []).append(delta)
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(self._gather_seconds, self._urgent.set)

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await self._urgent.wait()
            try:
                await self.flush()
            except Exception:
                log.exception("viewers could not be told")

    async def flush(self) -> None:
        """Publish what is there: text first, so that no viewer sees it after the entry that ends it."""
        self._urgent.clear()
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        told: list[Told] = [joined for pieces in self._deltas.values() for joined in joined_up(pieces)]
        told.extend(self._hints.values())
        self._deltas, self._hints, self._characters = {}, {}, 0
        if told:
            await self._publisher.tell(told)


def joined_up(pieces: list[Delta]) -> list[Delta]:
    """The same text in fewer messages: pieces that follow each other without a gap become one."""
    runs: list[list[Delta]] = []
    end = -1
    for piece in pieces:
        if piece.offset != end:
            runs.append([])
        runs[-1].append(piece)
        end = piece.offset + len(piece.text)
    return [run[0].model_copy(update={"text": "".join(piece.text for piece in run)}) for run in runs]
