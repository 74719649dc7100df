"""This room is for the Celery application of a drone; making one neither reads settings nor connects."""

import sys
from collections.abc import Callable
from functools import cached_property
from typing import NoReturn

from celery import Celery

from drone.settings import Settings, SettingsProblem
from drone.worker.drone import Drone
from drone.worker.flower import Loader
from drone.worker.inbox import Messaging
from drone.worker.logs import DroneLogging
from drone.worker.runner import Crew
from drone.worker.step import DroneStep
from drone.worker.task import add_tasks
from mcc.dispatch.broker import celery_settings

USAGE = 2


def hired(settings: Settings) -> Crew:
    """The crew that these settings describe; loaded when a worker starts, not when Celery's tools look at the app."""
    from drone.crew import Crew as Hired

    return Hired.from_settings(settings)


class DroneApp(Celery):  # type: ignore[misc]
    """Settings are read when Celery first asks for its configuration; `drone` is there while a worker runs."""

    drone: Drone | None = None
    amqp_cls = Messaging

    def __init__(self, load: Callable[[], Settings], hire: Callable[[Settings], Crew] = hired) -> None:
        super().__init__("drone", set_as_current=False, log=DroneLogging, loader=Loader)
        self.hire = hire
        self._load = load
        self.add_defaults(self._configuration)
        self.steps["worker"].add(DroneStep)
        add_tasks(self)

    @cached_property
    def settings(self) -> Settings:
        try:
            return self._load()
        except SettingsProblem as problem:
            stop(str(problem), USAGE)

    def message_refused(self) -> None:
        """Count a message of which nothing can be made."""
        if self.drone is not None:
            self.drone.message_refused()

    def _configuration(self) -> dict[str, object]:
        return {
            **celery_settings(self.settings.redis_url, self.settings.queues),
            "worker_pool": "drone.worker.pool:TaskPool",
            "worker_consumer": "drone.worker.consumer:Consumer",
            "worker_concurrency": self.settings.slots,
        }


def stop(sentence: str, code: int) -> NoReturn:
    """End the process with a sentence on standard error."""
    print(sentence, file=sys.stderr)
    raise SystemExit(code)
