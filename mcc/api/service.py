"""What the endpoints share: the service, its background notices of committed changes, and helpers for answers."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import Depends, Query, Request
from starlette.responses import Response

from mcc.api.access.credentials import Credentials
from mcc.api.access.open_credentials import OpenCredentials
from mcc.api.access.ownership import Ownership
from mcc.api.access.polls import Polls
from mcc.api.access.scopes import API as API
from mcc.api.catalogue import Catalogue
from mcc.api.doctor_runs import DoctorRuns
from mcc.api.function_rules import FunctionRules
from mcc.api.problems import Refusal
from mcc.api.records import Records
from mcc.api.stuck import StuckOrders
from mcc.api.triggers.taking import TriggerDoor
from mcc.contracts.answers import Problem
from mcc.contracts.drones import DroneStatus
from mcc.contracts.entry import Entry
from mcc.contracts.ids import is_identifier
from mcc.contracts.invisible import escape_invisible_json
from mcc.contracts.order import WorkOrder
from mcc.contracts.shape import to_json
from mcc.contracts.status import OrderStatus
from mcc.contracts.wire import InboxMoved, Wake
from mcc.dispatch.checks import DroneChecks
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import NEWEST, AsyncPublisher, Message, newest_entries, status_hint
from mcc.feed.feed import Feed
from mcc.reading.reader import OrderViews
from mcc.redaction import Redactor
from mcc.resources import Reserve
from mcc.settings import ServiceSettings
from mcc.store.database.errors import BadCursor, StoreError
from mcc.store.rows.values import Page, Placed
from mcc.store.store import BoundedOffload, Offload, Store

if TYPE_CHECKING:
    from mcc.oidc.flow import OidcFlow

BATCH_MESSAGES = 200
"""How many messages are sent to Redis together."""

MOST_PENDING = 1_000
"""How many notices may wait. Further ones are dropped; sweeps and polls find what they would have announced."""

log = logging.getLogger(__name__)


class Notices:
    """Announces committed changes in the background: to viewers of this process, and over Redis to drones and others.

    `nudger` or `publisher` None: there is no Redis, and only viewers of this process are notified.
    """

    def __init__(self, store: Store, feed: Feed, nudger: Nudger | None, publisher: AsyncPublisher | None) -> None:
        self._store = store
        self._feed = feed
        self._nudger = nudger
        self._publisher = publisher
        self._thread = Offload(1, "nudge")
        self._reading = Offload(1, "newest")
        self._pending: set[asyncio.Task[object]] = set()

    @property
    def trouble(self) -> str:
        """Why drones cannot be nudged now; "" when they can, or when there is no Redis at all."""
        return self._nudger.trouble if self._nudger is not None else ""

    def placed(self, order: WorkOrder, entries: Sequence[Entry] = ()) -> None:
        """Announce a queued order, and nudge drones unless it is blocked by an earlier turn of its session.

        The drone that ends that turn nudges for the blocked one. `entries`: its first ones, where they are known; they
        are read otherwise.
        """
        self.status_changed(order, entries)
        if self._nudger is not None and order.status is OrderStatus.QUEUED and order.blocked_by is None:
            self._send(self._nudge(self._nudger, order))

    def placed_together(self, placed: Sequence[Placed]) -> None:
        """Announce orders that were queued in one transaction: each to viewers, but with a single call to drones."""
        hints = [status_hint(answer.order) for answer in placed]
        for hint in hints:
            self._feed.on_hint(hint)
        if self._publisher is not None and placed:
            for answer in placed:
                self._publisher.report_status(answer.order)
            entries = [entry for answer in placed for entry in answer.entries]
            self._send(self._publish_all(self._publisher, [*entries, *hints]))

    def status_changed(self, order: WorkOrder, entries: Sequence[Entry] = ()) -> None:
        hint = status_hint(order)
        self._feed.on_hint(hint)
        if self._publisher is not None:
            self._publisher.report_status(order)
            self._send(self._publisher.publish([hint, *entries[-NEWEST:]]))
            if not entries:
                self._send(self._publish_newest(self._publisher, order))

    def inbox_moved(self, order_id: str) -> None:
        """An item of this order's was settled."""
        self._feed.inbox.changed()
        if self._publisher is not None:
            self._send(self._publisher.publish([InboxMoved(order_id=order_id)]))

    def controlled(self, order_id: str, number: int, incarnations: Iterable[str]) -> None:
        """Wake these drone processes, one of which runs the order: a control with this number waits for it."""
        if self._publisher is not None:
            wake = Wake(order_id=order_id, control_seq=number)
            for incarnation in incarnations:
                self._send(self._publisher.wake(incarnation, wake))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Notices"]:
        """Send notices while the block runs. At its end, what cannot be sent within 0.3 s is dropped."""
        try:
            yield self
        finally:
            if self._pending:
                _, late = await asyncio.wait(self._pending, timeout=0.3)
                for task in late:
                    task.cancel()
            self._thread.close()
            self._reading.close()

    def _send(self, sending: Coroutine[Any, Any, object]) -> None:
        if len(self._pending) >= MOST_PENDING:
            sending.close()
            return
        task = asyncio.create_task(sending)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _publish_all(self, publisher: AsyncPublisher, messages: Sequence[Message]) -> None:
        # Drones first, so that they can begin to work.
        await self._call_drones(publisher)
        for start in range(0, len(messages), BATCH_MESSAGES):
            if not await publisher.publish(messages[start : start + BATCH_MESSAGES]):
                return

    async def _call_drones(self, publisher: AsyncPublisher) -> None:
        try:
            drones = await self._reading(self._store.leases.drones)
        except StoreError as error:
            log.debug("drones were not called (%s); a sweep will nudge them", error)
            return
        await publisher.call(one.incarnation for one in drones if one.status is DroneStatus.UP)

    async def _publish_newest(self, publisher: AsyncPublisher, order: WorkOrder) -> None:
        try:
            await publisher.publish(await self._reading(newest_entries, self._store, order))
        except StoreError as error:
            log.debug("entries of order %s were not published (%s)", order.id, error)

    async def _nudge(self, nudger: Nudger, order: WorkOrder) -> None:
        try:
            await self._thread(
                nudger.nudge, order.id, queue=order.queue, priority=order.priority, last_seq=order.last_seq
            )
        except Exception as error:
            log.warning("order %s was not nudged (%s); a sweep will find it", order.id, error)


PAGE_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of the running service.

    `offload` runs database reads, `write` changes, each in threads of its own, so that readers do not wait behind
    writers of a locked database. `slow` runs reads that may take long, few at a time.

    `trouble` answers why the database cannot be written now, "" when it can. `redactor` removes the secrets that the
    service knows. `stuck`: the orders that make no progress. `reader` answers what people read of one
    order. `checks` None: there is no Redis. `open_credentials` ends event streams
    with their sign-in or token. `ownership` says whose things are. `provider` None: nobody signs in by one. `triggers`
    takes deliveries from outside.
    """

    settings: ServiceSettings
    store: Store
    offload: BoundedOffload
    write: BoundedOffload
    reserve: Reserve
    trouble: Callable[[], str]
    feed: Feed
    records: Records
    notices: Notices
    catalogue: Catalogue
    slow: BoundedOffload
    function_rules: FunctionRules
    credentials: Credentials
    open_credentials: OpenCredentials
    ownership: Ownership
    stuck: StuckOrders
    reader: OrderViews
    triggers: TriggerDoor
    redactor: Callable[[], Redactor] = Redactor
    checks: DroneChecks | None = None
    doctor: DoctorRuns = field(default_factory=DoctorRuns)
    polls: Polls = field(default_factory=Polls)
    provider: "OidcFlow | None" = None


@dataclass(frozen=True, slots=True)
class Window:
    """Which items of a complete list are wanted: `limit` of them (None: all) after the first `skip`."""

    skip: int = 0
    limit: int | None = None


async def _service(request: Request) -> Service:
    return cast(Service, request.app.state.service)


async def _order_id(order_id: str) -> str:
    # A malformed id cannot be in the database, so it is not looked up.
    if not is_identifier(order_id):
        raise Refusal(404, "There is no such order.")
    return order_id


async def _session_id(session_id: str) -> str:
    if not is_identifier(session_id):
        raise Refusal(404, "There is no such session.")
    return session_id


ServiceHere = Annotated[Service, Depends(_service)]
OrderId = Annotated[str, Depends(_order_id)]
SessionId = Annotated[str, Depends(_session_id)]
Limit = Annotated[int, Query(ge=1, le=PAGE_LIMIT)]
Cursor = Annotated[str | None, Query(max_length=500)]


async def _window(cursor: Cursor = None, limit: Annotated[int | None, Query(ge=1, le=PAGE_LIMIT)] = None) -> Window:
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
        raise BadCursor("this cursor is not one that a page of this list gave; begin without one")
    return Window(int(cursor or 0), limit)


WindowHere = Annotated[Window, Depends(_window)]


ERRORS: Mapping[int | str, dict[str, Any]] = {"default": {"model": Problem, "description": "An error"}}
"""For OpenAPI: every other answer is a problem."""


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as a JSON response. The encoder takes any text, lone surrogates included; bytes are sent as they are.

    Characters that nobody sees, or that a terminal obeys, are \\u escapes: what is read from it by eye is all of it.
    """
    body = value if isinstance(value, bytes) else escape_invisible_json(to_json(value))
    return Response(body, status, headers=dict(headers or {}), media_type="application/json")


def page(found: Page[Any]) -> Response:
    return answer({"items": found.items, "next_cursor": found.next_cursor})


def whole(items: Sequence[object], window: Window = Window()) -> Response:
    """A complete list, or the window of it that is wanted; its cursor is the number of items before the page."""
    end = len(items) if window.limit is None else window.skip + window.limit
    return answer({"items": items[window.skip : end], "next_cursor": str(end) if end < len(items) else None})


def answers(model: Any, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: the model of a successful answer, and that errors are problems."""
    return {status: {"model": model}, **ERRORS}
