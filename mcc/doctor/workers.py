"""Celery's workers: who answers, and what each works on, asked within a bounded time."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from mcc.contracts.wire import RUN_ORDER_TASK
from mcc.dispatch.broker import make_app
from mcc.dispatch.connection import DispatchUnavailable, translated
from mcc.doctor.snapshot import Node, RunningTask

T = TypeVar("T")
FIRST_SECONDS = 1.0
"""A worker that does not answer a ping in this time is asked once more, for the rest of the time."""


def ask_nodes(redis_url: str, queues: Sequence[str], *, seconds: float, expected: int = 0) -> Sequence[Node]:
    """Every worker that answers; with fewer than `expected` of them a second ping is sent.

    Takes at most about four times `seconds`, whatever Redis does. Raises `DispatchUnavailable`.
    """
    return within(4 * seconds, lambda: _ask(redis_url, queues, seconds, expected))


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`, waited for at most `seconds`. Raises `DispatchUnavailable`, or what `work` raises."""
    answers: list[T] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            answers.append(work())
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="doctor", daemon=True)
    thread.start()
    thread.join(seconds)
    if failures:
        raise failures[0]
    if not answers:
        raise DispatchUnavailable(f"Redis gave no answer within {seconds:g} s; check MCC_REDIS_URL and the server.")
    return answers[0]


def nodes_of(
    pinged: Iterable[str],
    stats: Mapping[str, Any],
    active: Mapping[str, Any],
    queues: Mapping[str, Any],
    now: float,
) -> Sequence[Node]:
    """Celery's answers to `inspect`, each by worker name, as nodes; `now` in seconds since 1970."""
    return [
        Node(
            name=name,
            pid=stats.get(name, {}).get("pid"),
            tasks=tuple(_task(task, now) for task in active.get(name, ())),
            queues=tuple(queue["name"] for queue in queues.get(name, ())),
        )
        for name in sorted(pinged)
    ]


def _ask(redis_url: str, queues: Sequence[str], seconds: float, expected: int) -> Sequence[Node]:
    app = make_app(redis_url, queues, name="mcc.doctor", seconds=seconds)
    try:
        with translated():
            pinged = dict(app.control.inspect(timeout=min(seconds, FIRST_SECONDS)).ping() or {})
            if len(pinged) < expected and seconds > FIRST_SECONDS:
                pinged |= app.control.inspect(timeout=seconds - FIRST_SECONDS).ping() or {}
            if not pinged:
                return []
            each = app.control.inspect(destination=list(pinged), timeout=seconds, limit=len(pinged))
            stats, active, consumed = each.stats() or {}, each.active() or {}, each.active_queues() or {}
    finally:
        app.close()
    return nodes_of(pinged, stats, active, consumed, time.time())


def _task(task: Mapping[str, Any], now: float) -> RunningTask:
    return RunningTask(_order_in(task), now - (task.get("time_start") or now))


def _order_in(task: Mapping[str, Any]) -> str | None:
    match task:
        case {"name": str(name), "args": [str(order_id)]} if name == RUN_ORDER_TASK:
            return order_id
    return None
