"""Celery's consumer in a drone: it counts the messages that it refuses, and obeys few remote commands."""

from collections.abc import Callable, Mapping
from typing import Any

import structlog
from celery.worker.consumer import Consumer as CelerysConsumer
from celery.worker.consumer.control import Control as CelerysControl
from celery.worker.control import Panel

log = structlog.get_logger("drone.consumer")

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
        "revoke",
        "revoked",
        "scheduled",
        "stats",
        "terminate",
    }
)
"""What `mcc doctor` and Flower ask, what makes Flower see anything, and its *Terminate*, which cancels an order.

Whoever can publish in Redis can send any of Celery's commands. The others change what a worker does: the queues that it
reads, its pace, its size, whether it runs at all. Those are settings, and the end of a drone is a signal.
"""


def handlers() -> Mapping[str, Callable[..., Any]]:
    """Celery's remote commands, those that a drone does not obey answered with a sentence."""
    return {name: handler if name in OBEYED else _refusal(name) for name, handler in Panel.data.items()}


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


def _ours(step: str) -> str:
    return "drone.worker.consumer:Control" if step == "celery.worker.consumer.control:Control" else step


class Consumer(CelerysConsumer):  # type: ignore[misc]
    """Refused are: no task, a task of another name, a content type that is not JSON, a body that cannot be read."""

    class Blueprint(CelerysConsumer.Blueprint):  # type: ignore[misc]
        default_steps = tuple(map(_ours, CelerysConsumer.Blueprint.default_steps))

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
