"""This room is for one viewer: when to look again, and the text on its way that it has not been sent."""

import asyncio
from collections import deque

PENDING_DELTAS = 512
"""More text than this that a slow viewer did not take is dropped from the front; the reply brings it whole."""


class Viewer:
    def __init__(self) -> None:
        self._wake = asyncio.Event()
        self._deltas: deque[tuple[int, bytes]] = deque(maxlen=PENDING_DELTAS)

    def wake(self) -> None:
        self._wake.set()

    def offer(self, reached: int, frame: bytes) -> None:
        """Text that came when the journal had `reached` this number: it belongs after that entry."""
        self._deltas.append((reached, frame))
        self._wake.set()

    def heard(self) -> None:
        """From here on a `wake` counts; called before looking."""
        self._wake.clear()

    async def wait(self, seconds: float) -> bool:
        """False when nothing happened for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    def due(self, position: int) -> bytes:
        """The text that may be shown once entry `position` was."""
        ready = []
        while self._deltas and self._deltas[0][0] <= position:
            ready.append(self._deltas.popleft()[1])
        return b"".join(ready)

    def next_stop(self) -> int | None:
        """The entry after which pending text must be shown, before any later one."""
        return self._deltas[0][0] if self._deltas else None
