"""Text on its way, joined: a page that shows many agents needs each one's newest text a few times a second."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mcc.contracts.wire import Delta
from mcc.feed.frames import plain_frame

JOIN_SECONDS = 0.2


@dataclass(slots=True)
class _Run:
    """Pieces that adjoin without a gap; `end`: the offset after the last one."""

    first: Delta
    texts: list[str]
    end: int

    def takes(self, piece: Delta) -> bool:
        return piece.offset == self.end and _place(piece) == _place(self.first)


def _place(piece: Delta) -> tuple[object, ...]:
    return piece.kind, piece.epoch, piece.round, piece.attempt, piece.index, piece.call_id


class JoinedText:
    """The text of one order, handed to `send` as frames at most every `JOIN_SECONDS`; made once for all viewers."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._runs: dict[str, list[_Run]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, piece: Delta) -> None:
        """Hand this on soon, as one event with the text before it where that adjoins."""
        runs = self._runs.setdefault(piece.record_id, [])
        if runs and runs[-1].takes(piece):
            runs[-1].texts.append(piece.text)
            runs[-1].end += len(piece.text)
        else:
            runs.append(_Run(piece, [piece.text], piece.offset + len(piece.text)))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(JOIN_SECONDS, self.flush)

    def flush(self) -> None:
        """Hand on at once what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._runs = self._runs, {}
        frames = [
            plain_frame(run.first.kind, run.first.model_copy(update={"text": "".join(run.texts)}))
            for runs in waiting.values()
            for run in runs
        ]
        if frames:
            self._send(b"".join(frames))
