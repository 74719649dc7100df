"""This room is for the bodies of the two Celery tasks: do an order, and let a canary land."""

from typing import TYPE_CHECKING, Any

from mcc.contracts.wire import CANARY_TASK, RUN_ORDER_TASK

if TYPE_CHECKING:
    from drone.worker.celery_app import DroneApp

LONGEST_ID = 64


def run_order(task: Any, order_id: object) -> None:
    """Hand the order to the drone and wait. The message grants nothing: the row decides what happens."""
    if not isinstance(order_id, str) or len(order_id) > LONGEST_ID:
        raise ValueError("the argument of this task is the id of an order")
    if task.app.drone is not None:
        task.app.drone.work(order_id)


def land(task: Any, token: object) -> None:
    """A canary came through."""
    if task.app.drone is not None:
        task.app.drone.canary_seen(str(token))


def add_tasks(app: "DroneApp") -> None:
    app.task(run_order, name=RUN_ORDER_TASK, bind=True, ignore_result=True, max_retries=0)
    app.task(land, name=CANARY_TASK, bind=True, ignore_result=True, max_retries=0)
