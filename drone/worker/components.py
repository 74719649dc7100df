"""A drone's parts of Celery's worker: the step that starts and ends the drone, thread pool, consumer, mailbox."""

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from celery import bootsteps, signals
from celery.apps.worker import install_worker_term_handler
from celery.concurrency.base import apply_target
from celery.concurrency.thread import ApplyResult
from celery.concurrency.thread import TaskPool as ThreadsPool
from celery.worker import state
from celery.worker.consumer import Consumer as CelerysConsumer
from celery.worker.consumer.control import Control as CelerysControl
from celery.worker.control import Panel

from drone.settings import Settings
from drone.worker.redis_transport import LOGGED_CHARACTERS
from mcc.contracts.ids import fresh_id
from mcc.contracts.wire import CANARY_TASK, worker_name
from mcc.resources import tune_allocator, tune_collector

if TYPE_CHECKING:
    from drone.crew import Crew
    from drone.worker.drone import DroneProcess, GivenUp

log = structlog.get_logger("drone.components")

UNREACHABLE = 3
BROKEN = 1
LOOK_SECONDS = 0.1
EXIT_SECONDS = 1.2
"""A process that still runs this long after its orders should have been handed back exits at once."""

GONE_SECONDS = 5.0
"""A process that has handed everything back and still runs exits after this long."""


class DroneStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Starts after the pool and before the consumer, so that a drone polls even without any Redis."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **more: Any) -> None:
        """Names the worker after its drone, however it was started; before the consumer exists, so that Celery and
        Flower use that name."""
        worker.hostname = worker_name(worker.app.settings.name)
        super().__init__(worker, **more)

    def start(self, worker: Any) -> None:
        from drone.worker.drone import DroneCannotStart
        from drone.worker.liveness import canary_queue

        tune_allocator()
        drone = self.opened(effective(worker), worker.app.hire)
        # Before the start: it may wait for a database, for Redis and for the sandbox's programs.
        self._drain_on_signals(worker, drone)
        most_seconds = worker.app.settings.drain_hand_back_seconds + EXIT_SECONDS
        threading.Thread(target=exit_in_time, args=(drone, most_seconds), name="exit-in-time", daemon=True).start()
        try:
            drone.start(pause, stop_worker)
        except DroneCannotStart as problem:
            state.maybe_shutdown()
            print(problem, file=sys.stderr)
            raise SystemExit(UNREACHABLE) from problem
        worker.app.drone = drone
        tune_collector()
        # A queue for this start alone, so that no other process takes its canaries.
        queue = f"canary.{fresh_id()}"
        worker.app.amqp.queues.select_add(canary_queue(queue))
        drone.start_canary(queue, restart=lambda: restart_consumer(worker))
        signal.set_wakeup_fd(drone.watch_over(), warn_on_full_buffer=False)

    def stop(self, worker: Any) -> None:
        drone: DroneProcess | None = worker.app.drone
        if drone is not None:
            drone.drain()
            drone.drained.wait()
            drone.close()
            worker.app.drone = None

    # A cold shutdown hands orders back as well.
    terminate = stop

    def opened(self, settings: Settings, hire: "Callable[[Settings], Crew]") -> "DroneProcess":
        return open_drone(settings, hire)

    def _drain_on_signals(self, worker: Any, drone: "DroneProcess") -> None:
        def shutting_down(**_: Any) -> None:
            drone.drain()

        signals.worker_shutting_down.connect(shutting_down, sender=worker.hostname, weak=False)
        # One end for all three: Celery's own handler of SIGQUIT does not wait for running tasks.
        for name in ("SIGTERM", "SIGINT", "SIGQUIT"):
            install_worker_term_handler(worker, sig=name, verbose=False)


def pause(seconds: float) -> None:
    """Wait for so many seconds; if a signal tells the worker to end, raise the exception that ends it."""
    state.maybe_shutdown()
    for _ in range(math.ceil(seconds / LOOK_SECONDS)):
        threading.Event().wait(LOOK_SECONDS)
        state.maybe_shutdown()


def effective(worker: Any) -> Settings:
    """The settings, overridden by Celery's own command line: `-c` is the number of slots, `-Q` the queues."""
    queues = tuple(worker.app.amqp.queues.consume_from)
    settings: Settings = worker.app.settings
    return settings.model_copy(update={"slots": worker.concurrency, "queues": queues})


def open_drone(settings: Settings, hire: "Callable[[Settings], Crew]") -> "DroneProcess":
    """The only place that opens a worker's store."""
    from drone.worker.drone import DroneProcess
    from mcc.store.store import open_store

    try:
        store = open_store(settings.database, stale_days=settings.memory.stale_days)
    except ValueError as problem:
        print(f"MCC_DATABASE_URL: {problem}", file=sys.stderr)
        raise SystemExit(UNREACHABLE) from problem
    return DroneProcess(settings, store, lambda: hire(settings))


def restart_consumer(worker: Any) -> None:
    """Make Celery's consumer reconnect, by failing inside its loop as a lost connection would."""

    def break_off() -> None:
        raise ConnectionResetError("the drone's canary did not come back")

    worker.hub.call_soon(break_off)


def stop_worker(kind: "GivenUp") -> None:
    """End the worker with a code that tells a supervisor to start another."""
    state.should_stop = UNREACHABLE if kind == "unreachable" else BROKEN


def exit_in_time(drone: "DroneProcess", most_seconds: float) -> None:
    """Make the process exit once everything is handed back, and at most `most_seconds` after it was told to end: even
    if Celery hangs on a broker that does not answer, or the hand-back or the start on a database."""
    drone.told_to_end()
    over = time.monotonic() + most_seconds
    drone.drained.wait(most_seconds)
    threading.Event().wait(min(GONE_SECONDS, max(0.0, over - time.monotonic())))
    log.warning("the worker did not end in time")
    # `sys.exit` would end only this thread, and handlers at exit may hang on the same broker or database.
    os._exit(int(state.should_stop or 0))


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
"""The remote commands that `mcc doctor` and Flower need.

Anybody who can publish in Redis can send any of Celery's commands. All others change what a worker does: the queues it
reads, its pace, its size, whether it runs at all. Settings decide those, and a signal ends a drone.
"""


LOGINS_OF_BROKER = ("alternates", "transport_options")


def handlers() -> Mapping[str, Callable[..., Any]]:
    """Celery's remote commands; those that a drone does not obey answer with a sentence."""
    handlers = {name: handler if name in OBEYED else _refusal(name) for name, handler in Panel.data.items()}
    return {**handlers, "revoke": revoke, "stats": partial(_public_stats, Panel.data["stats"])}


def revoke(state: Any, task_id: object, terminate: object = False, **_: Any) -> Mapping[str, str]:
    """Flower's *Terminate* cancels an order that runs here, however it was claimed: its task has the order's id.

    *Revoke* without *Terminate* is refused: it would make workers drop the order's messages for hours, without ending
    the order.
    """
    if not terminate:
        refused: Mapping[str, str] = _refusal("revoke")(state)
        return refused
    drone: DroneProcess | None = state.app.drone
    for order_id in task_id if isinstance(task_id, list) else [task_id]:
        if drone is not None and isinstance(order_id, str):
            drone.cancel(order_id, "celery")
    return {"ok": "orders that run here are cancelled"}


def _public_stats(stats: Callable[..., Any], state: Any, **more: Any) -> Any:
    """Celery's statistics without a drone's messages to itself, which are no orders, and without the logins of the
    broker, which Celery leaves in what it says of other hosts and of Sentinels."""
    counted = stats(state, **more)
    broker = {name: told for name, told in counted["broker"].items() if name not in LOGINS_OF_BROKER}
    total = {name: count for name, count in counted["total"].items() if name != CANARY_TASK}
    return {**counted, "broker": broker, "total": total}


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(state: Any, **_: Any) -> Mapping[str, str]:
        log.warning("a remote command is not obeyed", command=name)
        return {"error": f"A drone does not obey {name}: change its settings, or send its process a signal."}

    return refuse


class RemoteControl(CelerysControl):  # type: ignore[misc]
    """The mailbox of remote commands."""

    def __init__(self, consumer: Any, **more: Any) -> None:
        super().__init__(consumer, **more)
        self.box.node.handlers = handlers()


class Consumer(CelerysConsumer):  # type: ignore[misc]
    """Counts refused messages: those without a task, with an unknown task, with a content type other than JSON, or with
    an unreadable body."""

    class Blueprint(CelerysConsumer.Blueprint):  # type: ignore[misc]
        default_steps = tuple(
            "drone.worker.components:RemoteControl" if step == "celery.worker.consumer.control:Control" else step
            for step in CelerysConsumer.Blueprint.default_steps
        )

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
    """Celery's pool of threads, which only wait: orders run on one event loop (docs/decisions/02)."""

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
        """`target`, wrapped to count messages without arguments as refused; only such messages make it raise."""

        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return target(*args, **kwargs)
            except (TypeError, ValueError) as problem:
                log.warning("a message without arguments was dropped", problem=repr(problem)[:LOGGED_CHARACTERS])
                self.app.message_refused()
                raise

        return run

    def on_stop(self) -> None:
        if self.app.drone is not None:
            self.app.drone.drain()
        super().on_stop()
