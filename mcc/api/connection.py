"""One connection of a caller, whose head must arrive within bounds of time and size."""

import asyncio
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from mcc.api.problems import problem

HEAD_SECONDS = 10.0
LINGER_BYTES = 1024 * 1024


class BoundedConnection(H11Protocol):
    """As uvicorn's own, and closed when a request's head has not arrived `head_seconds` after it began.

    What cannot be read as a request is answered with a problem. What else the caller sends is then thrown away, up to
    `LINGER_BYTES`: closed with bytes unread, the connection would be reset before the caller has read the answer.
    """

    head_seconds = HEAD_SECONDS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._too_slow: asyncio.TimerHandle | None = None
        self._thrown_away: int | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self._thrown_away is not None:
            self._throw_away(data)
            return
        super().data_received(data)
        if self._thrown_away is not None:
            return
        if self.conn.their_state is not h11.IDLE:
            self._rest()
        elif self._too_slow is None:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Called while the error of h11 is handled, which says what is wrong."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        detail = "The head of the request is too large." if status == 431 else "This is no HTTP request."
        answer = problem(status, detail, headers={"Connection": "close"})
        for event in (
            h11.Response(status_code=status, headers=answer.raw_headers),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.write_eof()
        self._thrown_away = 0
        self._rest()
        self._watch()

    def _throw_away(self, data: bytes) -> None:
        self._thrown_away = (self._thrown_away or 0) + len(data)
        if self._thrown_away > LINGER_BYTES:
            self.transport.close()

    def _watch(self) -> None:
        self._too_slow = self.loop.call_later(self.head_seconds, self.transport.close)

    def _rest(self) -> None:
        if self._too_slow is not None:
            self._too_slow.cancel()
            self._too_slow = None
