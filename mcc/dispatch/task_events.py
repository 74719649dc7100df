"""Celery task events for monitors such as Flower: each order appears there as one task with the order's id."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import chain
from threading import Event, Lock

import structlog
from celery.events import EventDispatcher

from mcc.contracts.order import OrderKind, WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.contracts.wire import RUN_ORDER_TASK
from mcc.dispatch.broker import DispatchUnavailable, RedisAt, make_app, translated
from mcc.redaction import Redactor

log = structlog.get_logger("mcc.dispatch.task_events")

TITLE_CHARACTERS = 60
REASON_CHARACTERS = 500
MOST_WAITING = 1_000
"""How many status changes may wait to be sent. Beyond that the oldest are dropped."""

GATHER_SECONDS = 0.1
"""How long status changes are collected before sending: one message of many costs little more than one of one."""

AWAY_SECONDS = 2.0
CLOSING_SECONDS = 0.5

TaskEvent = tuple[str, Mapping[str, object]]
"""Event type and fields, as Celery's workers send them."""


def events_of(
    order: WorkOrder, arguments: str, why: str = "", *, plain: Callable[[str], str] = str
) -> Sequence[TaskEvent]:
    """The events that report an order's current status to monitors.

    `arguments` is shown as the task's arguments. `why` says why a queued order has left its drone; "" for a
    newly queued one. `plain` removes secrets from texts.
    """
    fields: dict[str, object] = {
        "uuid": order.id,
        "name": RUN_ORDER_TASK,
        "args": arguments,
        "kwargs": "{}",
        "retries": max(order.attempt - 1, 0),
    }
    # Redact before cutting: the redactor would not recognise the remaining part of a secret.
    until = f"until {order.not_before:%Y-%m-%d %H:%M} UTC" if order.not_before and order.attempt == 0 else ""
    detail = plain(order.detail or until)[:REASON_CHARACTERS]
    match order.status:
        case OrderStatus.QUEUED if why:
            return [("task-retried", {**fields, "exception": plain(why)[:REASON_CHARACTERS]})]
        case OrderStatus.QUEUED:
            # The service sends this event, which may arrive after the drone has reported the end of the order. It must
            # not clear the exception of that report, so it has no `exception` field.
            return [("task-sent", {**fields, "queue": order.queue})]
        case OrderStatus.RUNNING:
            begun = {**fields, "exception": None}
            return [("task-received", begun), ("task-started", begun)]
        case OrderStatus.WAITING:
            # Celery has no waiting state, and monitors cannot leave a custom state for STARTED again.
            return [("task-retried", {**fields, "exception": f"waiting ({order.reason}): {detail}"})]
        case OrderStatus.SUCCEEDED:
            done = {"result": _spent(order), "runtime": _runtime(order), "exception": None}
            return [("task-succeeded", {**fields, **done})]
        case OrderStatus.FAILED:
            return [("task-failed", {**fields, "exception": f"{order.reason}: {detail}", "runtime": _runtime(order)})]
        case OrderStatus.CANCELLED:
            ending = {"exception": detail, "terminated": order.attempt > 0, "signum": None, "expired": False}
            return [("task-revoked", {**fields, **ending})]


def _title(order: WorkOrder) -> str:
    """The first line of what this order asks for, since all turns of a session share the session's title."""
    return next((line.strip() for line in order.prompt.splitlines() if line.strip()), order.session_title)


def _worker(order: WorkOrder) -> str:
    match order.kind:
        case OrderKind.CHAT:
            return order.agent
        case OrderKind.GENERATE:
            return f"generate {order.blueprint or 'document'}"
        case OrderKind.REVERT:
            return "revert"
        case OrderKind.DELIVER:
            return "deliver"
        case OrderKind.COMPACT:
            return "compact"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _spent(order: WorkOrder) -> str:
    used = order.usage
    counts = (used.model_calls, "model call"), (used.tool_calls, "tool call"), (used.total_tokens, "token")
    return ", ".join(_counted(*one) for one in counts)


def _runtime(order: WorkOrder) -> float | None:
    if order.started_at is None or order.finished_at is None:
        return None
    return (order.finished_at - order.started_at).total_seconds()


class TaskEvents:
    """Sends events from a thread of its own: callers neither wait nor see errors, and what cannot be sent is dropped.

    `worker` is the worker name of this process in monitors. `works` False: this process runs no orders. Monitors take
    every sender of task events for a worker, so it then reports itself offline. `titles` False hides
    session titles.
    """

    def __init__(
        self,
        redis: RedisAt,
        worker: str,
        redactor: Callable[[], Redactor],
        *,
        titles: bool = True,
        works: bool = True,
    ) -> None:
        self._app = make_app(redis, ["default"], name="mcc.task_events", seconds=1.0)
        self._worker = worker
        self._redactor = redactor
        self._titles = titles
        self._works = works
        self._waiting: deque[tuple[WorkOrder, str]] = deque(maxlen=MOST_WAITING)
        self._lock = Lock()
        self._is_due = False
        self._away_until = 0.0
        self._dispatcher: EventDispatcher | None = None
        self._closing = Event()
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="task-events")

    def report(self, order: WorkOrder, why: str = "") -> None:
        """Queue an event for the order's current status; RUNNING is reported only by a process that works."""
        if order.status is OrderStatus.RUNNING and not self._works:
            return
        with self._lock:
            self._waiting.append((order, why))
            # One task sends all that waits: a burst of changes needs no thread pool queue of its own.
            if self._is_due:
                return
            self._is_due = True
        with suppress(RuntimeError):
            self._sender.submit(self._gather)

    def close(self) -> None:
        """Send what waits, if that takes no longer than `CLOSING_SECONDS`, and stop."""
        self._closing.set()
        with suppress(RuntimeError):
            wait([self._sender.submit(self._send)], CLOSING_SECONDS)
        self._sender.shutdown(wait=False, cancel_futures=True)
        self._app.close()

    def shown(self, order: WorkOrder, plain: Callable[[str], str]) -> str:
        """The task arguments shown in monitors, redacted with `plain`: what the order asks for, who does it, the model,
        and the id last, since monitors cut the list and show the id in a column of its own."""
        title = (_title(order),) if self._titles else ()
        texts = (*title, _worker(order), order.model or "default")
        return repr((*(plain(text)[:TITLE_CHARACTERS] for text in texts), order.id))

    def _gather(self) -> None:
        self._closing.wait(GATHER_SECONDS)
        self._send()

    def _send(self) -> None:
        with self._lock:
            orders, self._is_due = list(self._waiting), False
            self._waiting.clear()
        if not orders or time.monotonic() < self._away_until:
            return
        try:
            with translated():
                self._publish(orders)
        except DispatchUnavailable as problem:
            self._away_until = time.monotonic() + AWAY_SECONDS
            self._dispatcher = None
            log.debug("monitors are not told", problem=str(problem))
        except Exception:
            self._dispatcher = None
            log.exception("monitors could not be told")

    def _publish(self, orders: Sequence[tuple[WorkOrder, str]]) -> None:
        """Send all events as one message, as Celery's own workers do."""
        dispatcher = self._dispatcher = self._dispatcher or self._connected()
        as_worker = False
        for kind, fields in self._events(orders):
            dispatcher.send(kind, **fields)
            as_worker = as_worker or kind != "task-sent"
        dispatcher.flush(errors=False)
        if as_worker and not self._works:
            dispatcher.send("worker-offline")

    def _events(self, orders: Sequence[tuple[WorkOrder, str]]) -> Sequence[TaskEvent]:
        """The events of all these orders, without secrets."""
        texts: list[str] = []

        def noted(text: str) -> str:
            texts.append(text)
            return text

        def events(plain: Callable[[str], str]) -> Sequence[TaskEvent]:
            each = (events_of(order, self.shown(order, plain), why, plain=plain) for order, why in orders)
            return list(chain.from_iterable(each))

        made, redact = events(noted), self._redactor().text
        # One search through all texts takes a hundredth of the time of one through each; few hold a secret.
        together = "\n".join(texts)
        return made if redact(together) is together else events(redact)

    def _connected(self) -> EventDispatcher:
        return EventDispatcher(
            self._app.connection_for_write(),
            hostname=self._worker,
            app=self._app,
            buffer_while_offline=False,
            buffer_group=frozenset({"task"}),
            buffer_limit=2 * MOST_WAITING + 1,
        )
