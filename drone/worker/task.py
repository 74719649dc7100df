"""This room is for the bodies of the two Celery tasks: do an order, and let a canary land."""

from typing import TYPE_CHECKING, Any

import structlog
from celery import Task

from mcc.contracts.ids import is_identifier
from mcc.contracts.wire import CANARY_TASK, RUN_ORDER_TASK

if TYPE_CHECKING:
    from drone.worker.celery_app import DroneApp


log = structlog.get_logger("drone.task")


class TaskBroke(Exception):
    """What Celery is told of an error of ours; the log has the whole of it."""


class OrderTask(Task):  # type: ignore[misc]
    """One that fails because it names nothing that could be an order was a message that nobody can use."""

    def on_failure(self, exc: Exception, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        if kwargs or not isinstance(args, list | tuple) or len(args) != 1 or not may_name_an_order(args[0]):
            self.app.message_refused()


def may_name_an_order(argument: object) -> bool:
    return isinstance(argument, str) and is_identifier(argument)


def run_order(task: Any, order_id: object) -> None:
    """Hand the order to the drone and wait. The message grants nothing: the row decides what happens."""
    if not may_name_an_order(order_id):
        raise ValueError("the argument of this task is the id of an order")
    if task.app.drone is None:
        return
    try:
        task.app.drone.work(order_id)
    except Exception as problem:
        log.exception("the task of an order broke", order_id=order_id)
        said = task.app.settings.redactor.text(f"{type(problem).__name__}: {problem}")
        raise TaskBroke(said) from None  # Celery tells whoever watches it, words and traceback


def land(task: Any, token: object) -> None:
    """A canary came through."""
    if task.app.drone is not None:
        task.app.drone.canary_seen(str(token))


def add_tasks(app: "DroneApp") -> None:
    app.task(run_order, base=OrderTask, name=RUN_ORDER_TASK, bind=True, ignore_result=True, max_retries=0)
    app.task(land, name=CANARY_TASK, bind=True, ignore_result=True, max_retries=0)
