"""Server-sent events over HTTP: endpoints, resuming at an entry, and disconnecting viewers that accept no data."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from pydantic import Field, StringConstraints
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

import mcc
from mcc.api.access.callers import Caller, CallerHere
from mcc.api.access.open_credentials import Ended
from mcc.api.problems import Refusal
from mcc.api.service import API, ERRORS, OrderId, Service, ServiceHere
from mcc.console.files import installed
from mcc.contracts.ids import is_identifier
from mcc.contracts.journal import FACTS
from mcc.contracts.order_lists import MOST_VALUES
from mcc.contracts.shape import Closed, Identifier, to_json
from mcc.contracts.similar import did_you_mean
from mcc.contracts.status import FINAL
from mcc.feed.combined import MOST_ORDERS, CombinedStream
from mcc.feed.feed import Feed
from mcc.feed.firehose import BEHIND_SECONDS, EntryFilters, ReaderTooSlow
from mcc.feed.frames import plain_frame, retry_frame
from mcc.store.database.errors import StoreError, UnknownOrder

RETRY_MILLISECONDS = 1_000
SIGNED_OUT_SECONDS = 1.0

log = logging.getLogger(__name__)

router = APIRouter(prefix=API, tags=["events"])

STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Server-sent events"},
    204: {"description": "The order has ended and the caller has seen all of its entries"},
    **ERRORS,
}

LINES = """{"type":"ping"}
{"order_id":"0190c9a2-0000-7000-8000-000000000000","seq":9,"at":"2030-01-01T06:00:00Z","record_id":null,\
"parent_id":null,"agent":null,"depth":0,"data":{"reason":"paused","message":"paused by ann"},"kind":"order.waiting"}
"""
ALL_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/event-stream": {"schema": {"type": "string"}},
            "application/x-ndjson": {"schema": {"type": "string"}, "example": LINES},
        },
        "description": "Server-sent events, or lines of JSON",
    },
    **ERRORS,
}

Choice = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""A value to choose by."""


class Begun:
    """An iterator whose first piece has been made, so that an error before it is answered as one, not with a torn
    body."""

    def __init__(self, first: bytes | None, rest: AsyncIterator[bytes]) -> None:
        self._first = first
        self._rest = rest

    @classmethod
    async def of(cls, pieces: AsyncIterator[bytes]) -> "Begun":
        """Raises what the first step of `pieces` raises."""
        return cls(await anext(pieces, None), pieces)

    def __aiter__(self) -> "Begun":
        return self

    async def __anext__(self) -> bytes:
        first, self._first = self._first, None
        return await anext(self._rest) if first is None else first

    async def aclose(self) -> None:
        await self._rest.aclose()  # type: ignore[attr-defined]


class TextStream(StreamingResponse):
    """Sends JSON in pieces. When the database fails in between, the connection is closed before the end of the body, so
    that nobody takes the part for the whole; the log gets one line."""

    media_type = "application/json"

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except StoreError as error:
            log.warning("an answer broke off, the database failed: %s", error)


@contextlib.contextmanager
def without_end() -> Iterator[Ended]:
    """The right of whoever has the operator's token."""
    yield asyncio.get_running_loop().create_future()


class EventStream(Response):
    """Sends `events` until they end, the database fails, the viewer disconnects, it accepts no data for
    `send_seconds`, or the sign-in or token that it came by has ended: the last event is then `signed_out`."""

    media_type = "text/event-stream"
    opening = retry_frame(RETRY_MILLISECONDS)

    def __init__(
        self,
        events: AsyncIterator[bytes],
        send_seconds: float,
        right: Callable[[], AbstractContextManager[Ended]] = without_end,
    ) -> None:
        """`right` answers a future that is done when the viewer may watch no longer."""
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]  # Starlette has set it to 0 for the missing body.
        self._events = events
        self._send_seconds = send_seconds
        self._right = right
        self._begun = False
        self._sending_since: float | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send_all(send))
        leaving = asyncio.create_task(_disconnected(receive))
        both, ended = {sending, leaving}, set[asyncio.Future[Any]]()
        with self._right() as right_ended:
            try:
                while not ended and (left := self._seconds_left()) > 0:
                    waited: set[asyncio.Future[Any]] = {*both, right_ended}
                    ended, _ = await asyncio.wait(waited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                # Both, whichever ended: a send that hangs would hold the connection, and a listener on it would stay
                # for good.
                for task in both:
                    task.cancel()
                await asyncio.wait(both)
            if not sending.cancelled():
                sending.result()
            elif ended == {right_ended} and self._begun:
                why = self.signed_out(right_ended.result())
                # A viewer that accepts nothing is not waited for: the connection is closed either way.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SIGNED_OUT_SECONDS):
                        await self._send_body(send, why, more=False)

    def signed_out(self, why: str) -> bytes:
        return plain_frame("signed_out", {"why": why})

    def _seconds_left(self) -> float:
        """How long the current `send` may still take."""
        if self._sending_since is None:
            return self._send_seconds
        return self._sending_since + self._send_seconds - asyncio.get_running_loop().time()

    async def _send_all(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        try:
            await self._send_timed(send, start)
            self._begun = True
            if self.opening:
                await self._send_body(send, self.opening)
            try:
                async for chunk in self._events:
                    await self._send_body(send, chunk)
            except StoreError as error:
                # The stream ends in good order, and a viewer that reconnects is answered 503.
                log.warning("an event stream ended, the database failed: %s", error)
            except ReaderTooSlow as error:
                # Closed before the end of the body: what was not sent must not look like nothing.
                log.info("a stream of entries was cut: %s", error)
                return
            await self._send_body(send, b"", more=False)
        finally:
            await self._events.aclose()  # type: ignore[attr-defined]

    async def _send_body(self, send: Send, body: bytes, *, more: bool = True) -> None:
        await self._send_timed(send, {"type": "http.response.body", "body": body, "more_body": more})

    async def _send_timed(self, send: Send, message: dict[str, object]) -> None:
        # One timestamp, which `__call__` watches, instead of a timer for every chunk.
        self._sending_since = asyncio.get_running_loop().time()
        await send(message)
        self._sending_since = None


class LineStream(EventStream):
    """As lines of JSON; the last one is `{"type": "signed_out", "why"}` where the right has ended."""

    media_type = "application/x-ndjson"
    opening = b""

    def signed_out(self, why: str) -> bytes:
        return to_json({"type": "signed_out", "why": why}) + b"\n"


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@router.get("/orders/{order_id}/events", responses=STREAM)
async def order_events(
    order_id: OrderId,
    service: ServiceHere,
    caller: CallerHere,
    after: Annotated[str | None, Query(max_length=100)] = None,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> Response:
    """The order's journal as it grows. Entries have ids; the events `model.delta`, `thinking.delta`,
    `tool_call.delta`, `tool.progress`, `generation.progress`, `order.waits` (what it waits for, each time that this
    changes) and `ping` have none.

    `Last-Event-ID` or `after` resumes after that entry. The stream ends after the final entry; resuming there is
    answered with 204, which stops an EventSource. 410 when the journal was pruned: the record is kept.
    """
    start = _number(last_event_id or after or "0")
    end = await service.feed.reached(order_id)
    if end is None:
        raise UnknownOrder("There is no such order.")
    if end.status in FINAL and start >= end.seq:
        return Response(status_code=204)
    if start > end.seq:
        raise Refusal(400, f"This order's journal has {end.seq} entries so far; there is no entry {start}.")
    if end.status in FINAL:
        await service.offload(service.store.journal.check, order_id)
    _refuse_too_many(service.feed)
    return stream_to(service, caller, service.feed.stream(order_id, start, end.seq))


@router.get("/stream", responses={200: STREAM[200], **ERRORS})
async def combined(
    service: ServiceHere, caller: CallerHere, orders: Annotated[str, Query(max_length=MOST_ORDERS * 60)] = ""
) -> Response:
    """All that a page shows, in one stream: `hello` with the version of the service and the build of the page; the
    `snapshot` and `order.status` as at `/events`; `inbox`; and the journals of up to 16 `orders`, each `ID:AFTER`, with
    commas between them, as at `/orders/{order_id}/events`.

    Entries have the id `ORDER:SEQ`. Text on its way comes joined, at most five times a second and agent. `end`: an
    order's journal has been sent whole; `gone`: 404 there is no such order, 410 its journal was pruned, 400 its journal
    is shorter than that. `signed_out`: the sign-in or the token has ended, and why. There is no resuming by
    `Last-Event-ID`: open another stream with the new positions. 503 when too many are open, or the database does not
    answer.
    """
    after = _positions(orders)
    _refuse_too_many(service.feed)
    hello = plain_frame("hello", {"version": mcc.__version__, "build": installed().build})
    return stream_to(service, caller, await Begun.of(CombinedStream(service.feed, after).events(hello)))


class EntriesAsked(Closed):
    """Which entries are asked for; repeated = or, different = and."""

    kind: Annotated[tuple[Choice, ...], Field(max_length=MOST_VALUES)] = ()
    label: Annotated[tuple[Choice, ...], Field(max_length=MOST_VALUES)] = ()
    agent: Annotated[tuple[Choice, ...], Field(max_length=MOST_VALUES)] = ()
    session_id: Annotated[tuple[Identifier, ...], Field(max_length=MOST_VALUES)] = ()
    who: Annotated[tuple[Choice, ...], Field(max_length=MOST_VALUES)] = ()
    door: Annotated[tuple[Choice, ...], Field(max_length=MOST_VALUES)] = ()

    def filters(self) -> EntryFilters:
        """Raises `Refusal`: a kind that no entry has would be waited for for ever."""
        if unknown := sorted(set(self.kind) - FACTS.keys()):
            raise Refusal(422, f"There are no entries of the kind {unknown[0]!r}{did_you_mean(unknown[0], FACTS)}.")
        return EntryFilters(self.kind, self.label, self.agent, self.session_id, self.who, self.door)


@router.get("/events", responses=ALL_EVENTS)
async def all_events(
    service: ServiceHere,
    caller: CallerHere,
    asked: Annotated[EntriesAsked, Query()],
    accept: Annotated[str, Header()] = "",
) -> Response:
    """Status changes of all orders, or all of their entries. As server-sent events: first `snapshot`, then one
    `order.status` for each change; and `inbox`, how many items wait for a person (`pending`) and which have `changed`.
    There is no resuming: a new connection starts with a new snapshot.

    With `Accept: application/x-ndjson` the entries of all orders as they are committed, one a line as
    `/orders/{order_id}/journal` has them; those of one order in their order. They can be filtered by `kind` (of the
    entry) and by `label, agent, session_id, who` (its principal) and `door` of the order; repeated = or, different =
    and. The first line is `{"type": "ping"}`: what is committed from then on is told; more of them come while nothing
    happens. `{"type": "signed_out", "why"}` is the last line where the sign-in or the token has ended. Live only:
    nothing is repeated, and a reader that is 10 s behind is cut, its body without an end. Webhooks and
    `/orders/{order_id}/journal` tell what was missed.

    503 when too many streams are open, or the database does not answer.
    """
    filters = asked.filters()
    wants_lines = any(kind.partition(";")[0].strip().lower() == LineStream.media_type for kind in accept.split(","))
    if not wants_lines and filters != EntryFilters():
        raise Refusal(400, f"Filters are for entries: ask for them with 'Accept: {LineStream.media_type}'.")
    _refuse_too_many(service.feed)
    if not wants_lines:
        return stream_to(service, caller, await Begun.of(service.feed.statuses.stream()))
    lines = await Begun.of(service.feed.firehose.lines(filters))
    return LineStream(lines, min(service.feed.pace.send_seconds, BEHIND_SECONDS), _right_of(service, caller))


def stream_to(service: Service, caller: Caller, events: AsyncIterator[bytes]) -> EventStream:
    """The events, for as long as the caller may watch them."""
    return EventStream(events, service.feed.pace.send_seconds, _right_of(service, caller))


def _right_of(service: Service, caller: Caller) -> Callable[[], AbstractContextManager[Ended]]:
    held = caller.right
    return without_end if held is None else lambda: service.open_credentials.watched(held.id)


def _positions(orders: str) -> Mapping[str, int]:
    """By order, the number of the last entry that the viewer has. Raises `Refusal`."""
    parts = [part.partition(":") for part in orders.split(",") if part]
    if len(parts) > MOST_ORDERS:
        raise Refusal(400, f"One stream has at most {MOST_ORDERS} orders.")
    if not all(is_identifier(order_id) for order_id, _, _ in parts):
        raise Refusal(400, "Name orders as ID:AFTER, with commas between them.")
    return {order_id: _number(after or "0") for order_id, _, after in parts}


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise Refusal(400, "The place to resume from (Last-Event-ID, or after) is the number of an entry.")
    return int(text)


def _refuse_too_many(feed: Feed) -> None:
    if feed.viewers >= feed.pace.most_viewers:
        raise Refusal(503, f"{feed.pace.most_viewers:,} event streams are open already.", {"Retry-After": "5"})
