"""This room is for `drone work`: a Celery worker in this process, without Celery's banner."""

import logging
from collections.abc import Callable

from drone.settings import Settings
from drone.worker.celery_app import DroneApp, hired
from drone.worker.logs import set_up
from drone.worker.runner import Crew
from mcc.redaction.logs import log_crashes


def work(settings: Settings, hire: Callable[[Settings], Crew] = hired) -> int:
    """Serve orders until told to stop; the exit code: 0 ended in order, 3 the database cannot be used, else broken."""
    set_up(settings.log_level, lambda: settings.redactor)
    log_crashes(logging.getLogger("drone"))
    app = DroneApp(lambda: settings, hire)
    worker = app.Worker(
        hostname=f"{settings.name}@drone",
        loglevel=settings.log_level.upper(),
        queues=",".join(settings.queues),
        quiet=True,
        without_gossip=True,
        without_mingle=True,
    )
    worker.start()
    return int(worker.exitcode or 0)
