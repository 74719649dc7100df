"""What a drone replaces in Celery's worker: the thread pool, the consumer, and the mailbox of remote commands."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import structlog
from celery.concurrency.base import apply_target
from celery.concurrency.thread import ApplyResult
from celery.concurrency.thread import TaskPool as ThreadsPool
from celery.worker.consumer import Consumer as CelerysConsumer
from celery.worker.consumer.control import Control as CelerysControl
from celery.worker.control import Panel

from drone.worker.drone import Drone
from drone.worker.redis_transport import LOGGED_CHARACTERS
from mcc.contracts.wire import CANARY_TASK

log = structlog.get_logger("drone.components")

OBEYED = frozenset(
    {
        "active",
        "active_queues",
        "clock",
        "conf",
        "enable_events",
        "ping",
        "query_task",
        "registered",
        "reserved",
        "revoked",
        "scheduled",
        "stats",
    }
)
"""What `mcc doctor` and Flower ask, and what makes Flower see anything.

Whoever can publish in Redis can send any of Celery's commands. The others change what a worker does: the queues that it
reads, its pace, its size, whether it runs at all. Those are settings, and the end of a drone is a signal.
"""


def handlers() -> Mapping[str, Callable[..., Any]]:
    """Celery's remote commands, those that a drone does not obey answered with a sentence."""
    told = {name: handler if name in OBEYED else _refusal(name) for name, handler in Panel.data.items()}
    return {**told, "revoke": revoke, "stats": partial(_without_canaries, Panel.data["stats"])}


def revoke(state: Any, task_id: object, terminate: object = False, **_: Any) -> Mapping[str, str]:
    """Flower's *Terminate* cancels an order that is at work here, however it was claimed: the task has its id.

    *Revoke* alone would make workers drop the order's messages, for hours, and not end it.
    """
    if not terminate:
        refused: Mapping[str, str] = _refusal("revoke")(state)
        return refused
    drone: Drone | None = state.app.drone
    for order_id in task_id if isinstance(task_id, list) else [task_id]:
        if drone is not None and isinstance(order_id, str):
            drone.cancel(order_id, "celery")
    return {"ok": "what is at work here is cancelled"}


def _without_canaries(stats: Callable[..., Any], state: Any, **more: Any) -> Any:
    """A drone's messages to itself are nobody's tasks."""
    told = stats(state, **more)
    return {**told, "total": {name: count for name, count in told["total"].items() if name != CANARY_TASK}}


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(state: Any, **_: Any) -> Mapping[str, str]:
        log.warning("a remote command is not obeyed", command=name)
        return {"error": f"A drone does not obey {name}: change its settings, or send its process a signal."}

    return refuse


class Control(CelerysControl):  # type: ignore[misc]
    """The mailbox of remote commands."""

    def __init__(self, consumer: Any, **more: Any) -> None:
        super().__init__(consumer, **more)
        self.box.node.handlers = handlers()


def _replaced(step: str) -> str:
    return "drone.worker.components:Control" if step == "celery.worker.consumer.control:Control" else step


class Consumer(CelerysConsumer):  # type: ignore[misc]
    """Refused are: no task, a task of another name, a content type that is not JSON, a body that cannot be read."""

    class Blueprint(CelerysConsumer.Blueprint):  # type: ignore[misc]
        default_steps = tuple(map(_replaced, CelerysConsumer.Blueprint.default_steps))

    def on_unknown_message(self, body: Any, message: Any) -> None:
        self.app.message_refused()
        super().on_unknown_message(body, message)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        self.app.message_refused()
        super().on_unknown_task(body, message, exc)

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        self.app.message_refused()
        super().on_invalid_task(body, message, exc)

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        self.app.message_refused()
        super().on_decode_error(message, exc)


class TaskPool(ThreadsPool):  # type: ignore[misc]
    """Its threads only wait: the work is done on one event loop (docs/decisions/02)."""

    def on_apply(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        callback: Callable[..., Any] | None = None,
        accept_callback: Callable[..., Any] | None = None,
        **_: Any,
    ) -> ApplyResult:
        started = self.executor.submit(apply_target, self._counted(target), args, kwargs, callback, accept_callback)
        return ApplyResult(started)

    def _counted(self, target: Callable[..., Any]) -> Callable[..., Any]:
        """`target`, which raises only for a message without arguments; such messages are counted as refused."""

        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return target(*args, **kwargs)
            except (TypeError, ValueError) as problem:
                log.warning("a message without arguments was dropped", problem=repr(problem)[:LOGGED_CHARACTERS])
                self.app.message_refused()
                raise

        return run

    def on_stop(self) -> None:
        if (drone := self._drone()) is not None:
            drone.drain()
        super().on_stop()

    def _drone(self) -> Drone | None:
        drone: Drone | None = self.app.drone
        return drone
