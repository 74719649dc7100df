"""The tasks that Celery's monitors show for orders: Flower keeps exactly this `State`."""

import base64
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
import redis
from celery.events.state import State, Task

from mcc.contracts.ids import fresh_id
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.contracts.usage import Usage
from mcc.dispatch.broker import RedisAt
from mcc.dispatch.task_events import TaskEvents, events_of
from mcc.redaction import Redactor

SECRET = "s3cret-of-the-operator-0123456789"
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def an_order(**fields: Any) -> WorkOrder:
    given = {"id": fresh_id(), "session_id": fresh_id(), "session_seq": 1, "prompt": "p", "created_at": BEGUN}
    return WorkOrder(**{**given, "status": "queued", "session_title": "Explain it", **fields})


class Monitor:
    """The task that a monitor shows after these status changes, each reported by the process that makes it."""

    def __init__(self) -> None:
        self.state = State()
        self._clock = count(1)

    def hears(self, order: WorkOrder, why: str = "", worker: str = "d1@drone") -> Task:
        for kind, fields in events_of(order, "(args)", why):
            tick = next(self._clock)
            seen = {
                "type": kind,
                "hostname": worker,
                "timestamp": tick,
                "local_received": tick,
                "clock": tick,
                "pid": 1,
            }
            self.state.event({**seen, "utcoffset": 0, **fields})
        (task,) = self.state.tasks.values()
        return task


ORDER = an_order()
QUEUED = ORDER
RUNNING = ORDER.model_copy(update={"status": OrderStatus.RUNNING, "attempt": 1})
PARKED = RUNNING.model_copy(
    update={"status": OrderStatus.WAITING, "reason": WaitingReason.PAUSED, "detail": "a person paused it"}
)
AGAIN = RUNNING.model_copy(update={"attempt": 2})
ENDED = {"started_at": BEGUN, "finished_at": BEGUN + timedelta(seconds=3)}
USED = Usage(model_calls=2, tool_calls=1)
SUCCEEDED = AGAIN.model_copy(update={**ENDED, "status": OrderStatus.SUCCEEDED, "usage": USED})
FAILED = AGAIN.model_copy(
    update={**ENDED, "status": OrderStatus.FAILED, "reason": FailureReason.LIMIT_REACHED, "detail": "50 rounds"}
)
CANCELLED = AGAIN.model_copy(update={**ENDED, "status": OrderStatus.CANCELLED, "detail": "no longer wanted"})


@pytest.mark.parametrize(
    "before",
    [(), (QUEUED,), (QUEUED, RUNNING), (QUEUED, RUNNING, PARKED), (QUEUED, RUNNING, PARKED, QUEUED, AGAIN)],
    ids=["unseen", "queued", "running", "parked", "again"],
)
@pytest.mark.parametrize(
    ("end", "state", "exception"),
    [
        (SUCCEEDED, "SUCCESS", None),
        (FAILED, "FAILURE", "limit_reached: 50 rounds"),
        (CANCELLED, "REVOKED", "no longer wanted"),
    ],
)
def test_a_task_ends_as_its_order_wherever_that_was_before(
    before: Sequence[WorkOrder], end: WorkOrder, state: str, exception: str | None
) -> None:
    monitor = Monitor()
    for order in before:
        monitor.hears(order)
    task = monitor.hears(end)
    assert (task.state, task.exception) == (state, exception)
    assert (task.name, task.args) == ("mcc.orders.run", "(args)")
    late = monitor.hears(QUEUED)
    assert (late.state, late.exception) == (state, exception), "a late word of its queue changes nothing"
    assert len(monitor.state.tasks) == 1


def test_a_task_goes_the_way_of_its_order_and_back() -> None:
    monitor = Monitor()
    states = []
    for order, why, worker in (
        (QUEUED, "", "mcc@host"),
        (RUNNING, "", "d1@drone"),
        (PARKED, "", "d1@drone"),
        (QUEUED, "", "mcc@host"),
        (AGAIN, "", "d2@drone"),
        (QUEUED, "drone d2 was told to stop", "d2@drone"),
        (AGAIN, "", "d3@drone"),
    ):
        task = monitor.hears(order, why, worker)
        states.append((task.state, task.exception, task.worker and task.worker.hostname))
    assert states == [
        ("PENDING", None, None),
        ("STARTED", None, "d1@drone"),
        ("RETRY", "waiting (paused): a person paused it", "d1@drone"),
        ("PENDING", "waiting (paused): a person paused it", "d1@drone"),
        ("STARTED", None, "d2@drone"),
        ("RETRY", "drone d2 was told to stop", "d2@drone"),
        ("STARTED", None, "d3@drone"),
    ]
    done = monitor.hears(SUCCEEDED, worker="d3@drone")
    assert (done.result, done.runtime, done.retries) == ("2 model calls, 1 tool call, 0 tokens", 3.0, 1)


def shown(order: WorkOrder, **options: Any) -> str:
    events = TaskEvents(RedisAt("redis://127.0.0.1:1/0"), "d1@drone", lambda: Redactor([SECRET]), **options)
    try:
        return events.shown(order, Redactor([SECRET]).text)
    finally:
        events.close()


def test_arguments_begin_with_what_people_read_and_end_with_the_id() -> None:
    order = an_order(agent="scout", model="fast", prompt="\n" + "t" * 100 + "\nand more")
    assert shown(order) == repr(("t" * 60, "scout", "fast", order.id))
    assert shown(order, titles=False) == repr(("scout", "fast", order.id))


def test_turns_of_a_session_are_told_apart_by_what_each_asks_for() -> None:
    first, second = (an_order(prompt=prompt, session_title="Explain it") for prompt in ("Explain it", "Now mend it"))
    assert shown(first).startswith("('Explain it', 'master', 'default'")
    assert shown(second).startswith("('Now mend it', 'master', 'default'")


def test_an_order_that_generates_is_named_as_such_and_one_without_a_prompt_by_its_session() -> None:
    document = fresh_id()
    made = {"kind": "generate", "blueprint": "course", "document_id": document, "session_id": document}
    assert shown(an_order(**made, prompt="", session_title="Tides")).startswith("('Tides', 'generate course', ")
    assert shown(an_order(**made, prompt="", session_title="Tides"), titles=False).startswith("('generate course', ")


def test_no_secret_is_shown_not_even_a_part_of_one() -> None:
    order = an_order(prompt=f"{'t' * 45} {SECRET}", status="failed", reason="internal", detail=f"{SECRET}!")
    assert SECRET[:6] not in shown(order)
    ((_, told),) = events_of(order, "", plain=Redactor([SECRET]).text)
    assert told["exception"] == "internal: [redacted]!"


def test_what_happened_at_once_is_one_message_and_a_service_is_no_worker(redis_url: str) -> None:
    service = TaskEvents(RedisAt(redis_url), "mcc@host", Redactor, works=False)
    with redis.Redis.from_url(redis_url) as client, client.pubsub() as heard:
        heard.psubscribe("*celeryev*")
        assert heard.get_message(timeout=5)
        service.report(RUNNING)
        service.report(an_order(status="cancelled", detail="no longer wanted"))
        told = [events_in(heard.get_message(timeout=5)) for _ in range(2)]
    assert [[event["type"] for event in message] for message in told] == [["task-revoked"], ["worker-offline"]]
    assert {event["hostname"] for message in told for event in message} == {"mcc@host"}
    service.close()


def test_of_orders_told_at_once_the_one_with_a_secret_shows_none_and_the_others_all(redis_url: str) -> None:
    service = TaskEvents(RedisAt(redis_url), "mcc@host", lambda: Redactor([SECRET]), works=False)
    with redis.Redis.from_url(redis_url) as client, client.pubsub() as heard:
        heard.psubscribe("*celeryev*")
        assert heard.get_message(timeout=5)
        for prompt in ("Explain it", f"Say {SECRET} aloud"):
            service.report(an_order(prompt=prompt))
        first, second = events_in(heard.get_message(timeout=5))
    assert first["args"].startswith("('Explain it', 'master'")
    assert second["args"].startswith("('Say [redacted] aloud', 'master'")
    service.close()


def events_in(message: Any) -> list[dict[str, Any]]:
    """The events in a message as kombu publishes it."""
    body = json.loads(base64.b64decode(json.loads(message["data"])["body"]))
    return body if isinstance(body, list) else [body]


def test_a_redis_that_is_away_keeps_nobody_waiting() -> None:
    events = TaskEvents(RedisAt("redis://127.0.0.1:1/0"), "d1@drone", Redactor)
    began = time.monotonic()
    for _ in range(2_000):
        events.report(RUNNING)
    assert time.monotonic() - began < 2
    events.close()
    events.report(RUNNING)
