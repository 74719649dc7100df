"""The step of Celery's worker that starts a drone, calms the garbage collector, and ends the drone in order."""

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog
from celery import bootsteps, signals
from celery.apps.worker import install_worker_term_handler
from celery.worker import state

from drone.settings import Settings
from mcc.contracts.ids import fresh_id
from mcc.contracts.wire import worker_name
from mcc.store.resources import calm, settle

if TYPE_CHECKING:
    from drone.crew import Crew
    from drone.worker.drone import Drone


log = structlog.get_logger("drone.step")

UNREACHABLE = 3
BROKEN = 1
LOOK_SECONDS = 0.1
EXIT_SECONDS = 1.2
"""So long after its orders should have been handed back, a process that still is there ends as it is."""

GONE_SECONDS = 5.0
"""A process that has handed everything back and does not end by itself is ended after this long."""


class DroneStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Starts after the pool and before the consumer, so that a drone polls even when there never was a Redis."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **more: Any) -> None:
        """Before there is a consumer: Celery and Flower know the worker by its drone's name, however it was started."""
        worker.hostname = worker_name(worker.app.settings.name)
        super().__init__(worker, **more)

    def start(self, worker: Any) -> None:
        from drone.worker.drone import CannotStart
        from drone.worker.liveness import canary_queue

        settle()
        drone = self.opened(effective(worker), worker.app.hire)
        try:
            drone.start(pause, stop_worker)
        except CannotStart as problem:
            print(problem, file=sys.stderr)
            raise SystemExit(UNREACHABLE) from problem
        worker.app.drone = drone
        calm()
        self._drain_on_signals(worker, drone)
        queue = f"canary.{fresh_id()}"
        worker.app.amqp.queues.select_add(canary_queue(queue))
        drone.start_canary(queue, restart=lambda: restart_consumer(worker))
        signal.set_wakeup_fd(drone.watch_over(), warn_on_full_buffer=False)
        most_seconds = worker.app.settings.drain_hand_back_seconds + EXIT_SECONDS
        threading.Thread(target=see_off, args=(drone, most_seconds), name="see-off", daemon=True).start()

    def stop(self, worker: Any) -> None:
        drone: Drone | None = worker.app.drone
        if drone is not None:
            drone.drain()
            drone.drained.wait()
            drone.close()
            worker.app.drone = None

    terminate = stop

    def opened(self, settings: Settings, hire: "Callable[[Settings], Crew]") -> "Drone":
        return open_drone(settings, hire)

    def _drain_on_signals(self, worker: Any, drone: "Drone") -> None:
        def shutting_down(**_: Any) -> None:
            drone.drain()

        signals.worker_shutting_down.connect(shutting_down, sender=worker.hostname, weak=False)
        for name in ("SIGTERM", "SIGINT", "SIGQUIT"):
            install_worker_term_handler(worker, sig=name, verbose=False)


def pause(seconds: float) -> None:
    """Wait so long, or until a signal has asked the worker to end: then raise what ends it."""
    for _ in range(math.ceil(seconds / LOOK_SECONDS)):
        state.maybe_shutdown()
        threading.Event().wait(LOOK_SECONDS)


def effective(worker: Any) -> Settings:
    """The settings with what Celery's own command line said: `-c` is the number of slots, `-Q` the queues."""
    queues = tuple(worker.app.amqp.queues.consume_from)
    settings: Settings = worker.app.settings
    return settings.model_copy(update={"slots": worker.concurrency, "queues": queues})


def open_drone(settings: Settings, hire: "Callable[[Settings], Crew]") -> "Drone":
    """The one place where a worker's store is named."""
    from drone.worker.drone import Drone
    from mcc.store.store import open_store

    try:
        store = open_store(settings.database_url)
    except ValueError as problem:
        print(f"MCC_DATABASE_URL: {problem}", file=sys.stderr)
        raise SystemExit(UNREACHABLE) from problem
    return Drone(settings, store, lambda: hire(settings))


def restart_consumer(worker: Any) -> None:
    """Let Celery's consumer connect anew, by failing inside its loop as a lost connection would."""

    def break_off() -> None:
        raise ConnectionResetError("the drone's canary did not come back")

    worker.hub.call_soon(break_off)


def stop_worker() -> None:
    """End the worker with a code that tells a supervisor to start another."""
    state.should_stop = BROKEN


def see_off(drone: "Drone", most_seconds: float) -> None:
    """The process ends once everything is handed back, and at most so long after it was told to: even if Celery hangs
    on a broker that does not answer, or the hand-back on a database."""
    drone.ending.wait()
    over = time.monotonic() + most_seconds
    drone.drained.wait(most_seconds)
    threading.Event().wait(min(GONE_SECONDS, max(0.0, over - time.monotonic())))
    log.warning("the worker did not end in time")
    os._exit(int(state.should_stop or 0))
