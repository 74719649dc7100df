"""This room is for one connection of a caller: whose head must arrive within bounds of time."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0


class BoundedConnection(H11Protocol):
    """As uvicorn's own, and closed when a request's head has not arrived `head_seconds` after it began."""

    head_seconds = HEAD_SECONDS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._too_slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._rest()
        elif self._too_slow is None:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._too_slow = self.loop.call_later(self.head_seconds, self.transport.close)

    def _rest(self) -> None:
        if self._too_slow is not None:
            self._too_slow.cancel()
            self._too_slow = None
