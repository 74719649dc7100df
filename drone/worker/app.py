"""The Celery application of a drone: settings, logs, two tasks, the guard of its Flower, and `drone work`."""

import logging
import sys
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import structlog
from celery import Task
from celery.app.log import Logging
from celery.loaders.app import AppLoader

from drone.settings import Settings, load
from drone.worker.components import DroneStep
from drone.worker.redis_transport import WorkerMessaging
from mcc.addresses import is_loopback
from mcc.configuration.settings import BadSettings
from mcc.contracts.ids import is_identifier
from mcc.contracts.wire import CANARY_TASK, RUN_ORDER_TASK, worker_name
from mcc.dispatch.broker import RedisAt, celery_settings
from mcc.dispatch.transport import App
from mcc.logs import log_crashes, set_up_logs
from mcc.redaction import Redactor

if TYPE_CHECKING:
    from drone.crew import Crew
    from drone.worker.drone import DroneProcess

log = structlog.get_logger("drone.app")

USAGE = 2
LOOPBACK = "127.0.0.1"


def set_up_logging(level: str, redactor: Callable[[], Redactor] = Redactor) -> None:
    """Coloured lines where standard error is a terminal, else JSON."""
    set_up_logs(level, redactor, on_terminal=sys.stderr is not None and sys.stderr.isatty())


class DroneLogging(Logging):  # type: ignore[misc]
    """Replaces Celery's logging with that of a drone."""

    def setup(self, *_: Any, **__: Any) -> bool:
        settings = self.app.settings
        set_up_logging(settings.log_level, lambda: settings.redactor)
        return True


class FlowerOptions(Protocol):
    """The part of Flower's options that decides who can reach it."""

    address: str
    auth: str
    basic_auth: list[str] | None


class OpenToAll(Exception):
    """Flower would show all workers and tasks to anybody; the message says what to do."""


class Loader(AppLoader):  # type: ignore[misc]
    """Checks Flower's options. Flower calls the loader between reading its options and listening; a worker calls it
    when it starts."""

    def import_default_modules(self) -> None:
        super().import_default_modules()
        if "flower.options" in sys.modules:
            try:
                keep_to_loopback(sys.modules["flower.options"].options)
            except OpenToAll as problem:
                print(problem, file=sys.stderr)
                raise SystemExit(USAGE) from problem
            # Flower offers no place for it: its application, with all its handlers, exists by now.
            sys.modules["flower.api.control"].WorkerShutDown.post = refuse_shutdown


async def refuse_shutdown(handler: Any, worker: str) -> None:
    """Flower's answer to *Shut Down*, in place of its own: it sends that command to a drone, which does not obey it,
    and reports success without waiting for an answer. `handler`: a `RequestHandler`."""
    handler.set_status(403)
    handler.write("Drones do not obey Shut Down: whoever started a drone ends it, by SIGTERM or its supervisor.")


def keep_to_loopback(options: FlowerOptions) -> None:
    """Set the loopback address where none is given: Flower would listen on all of them. Raises `OpenToAll` for another
    address without a login."""
    options.address = options.address or LOOPBACK
    if not (is_loopback(options.address) or has_login(options)):
        raise OpenToAll(
            f"Flower does not listen on {options.address} without a login: anybody there could see the workers and end "
            f"their tasks. Set FLOWER_BASIC_AUTH=NAME:PASSWORD (or --basic-auth, or OAuth with --auth), or leave "
            f"--address out to listen on {LOOPBACK}."
        )


def has_login(options: FlowerOptions) -> bool:
    """Whether Flower demands a password or OAuth; a login with an empty name or password does not count."""
    logins = [login.partition(":") for login in options.basic_auth or ()]
    return all(name and password for name, _, password in logins) if logins else bool(options.auth)


def crew_of(settings: Settings) -> "Crew":
    """The crew that these settings describe. Imported only when a worker starts, not when Flower loads the
    application."""
    from drone.crew import Crew

    return Crew.from_settings(settings)


class DroneApp(App):
    """A drone as a Celery application. Creating one neither reads settings nor connects to anything: settings are read
    when Celery first needs its configuration. `drone` is set while a worker runs.
    """

    drone: "DroneProcess | None" = None
    amqp_cls = WorkerMessaging

    def __init__(self, load: Callable[[], Settings], hire: "Callable[[Settings], Crew]" = crew_of) -> None:
        super().__init__("drone", set_as_current=False, log=DroneLogging, loader=Loader)
        self.hire = hire
        self._load = load
        self.add_defaults(self._configuration)
        self.steps["worker"].add(DroneStep)
        # No retries by Celery: an order that is left over is nudged for again by a sweep (docs/decisions/01).
        self.task(run_order, base=OrderTask, name=RUN_ORDER_TASK, bind=True, ignore_result=True, max_retries=0)
        self.task(canary_returned, name=CANARY_TASK, bind=True, ignore_result=True, max_retries=0, send_events=False)

    @cached_property
    def settings(self) -> Settings:
        """The settings; bad settings end the process with a message on standard error and exit code 2."""
        try:
            return self._load()
        except BadSettings as problem:
            stop(str(problem), USAGE)

    def message_refused(self) -> None:
        """Count a message that names no order and is no canary."""
        if self.drone is not None:
            self.drone.message_refused()

    def _configuration(self) -> dict[str, object]:
        return {
            **celery_settings(RedisAt(self.settings.redis_url, self.settings.redis_prefix), self.settings.queues),
            "worker_pool": "drone.worker.components:TaskPool",
            "worker_consumer": "drone.worker.components:Consumer",
            "worker_concurrency": self.settings.slots,
        }


def stop(sentence: str, code: int) -> NoReturn:
    """End the process with a message on standard error."""
    print(sentence, file=sys.stderr)
    raise SystemExit(code)


class TaskBroke(Exception):
    """Reports an error of a drone to Celery, redacted; the drone's log has the whole error."""


class OrderTask(Task):  # type: ignore[misc]
    """Base of the task `run_order`: counts a message as refused when the task fails because it names no order.

    Celery's own events are off, because they describe the message; `TaskEvents` reports the order itself.
    """

    send_events = False

    def on_failure(self, exc: Exception, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        if kwargs or not isinstance(args, list | tuple) or len(args) != 1 or not may_name_an_order(args[0]):
            self.app.message_refused()


def may_name_an_order(argument: object) -> bool:
    return isinstance(argument, str) and is_identifier(argument)


def run_order(task: Any, order_id: object) -> None:
    """Hand the order to the drone and wait. The message grants nothing: the order's row decides what happens
    (docs/decisions/01)."""
    if not may_name_an_order(order_id):
        raise ValueError("the argument of this task is the id of an order")
    # The drone has closed and its worker is about to exit: a sweep nudges again for this order.
    if task.app.drone is None:
        return
    try:
        task.app.drone.work(order_id)
    except Exception as problem:
        log.exception("the task of an order broke", order_id=order_id)
        said = task.app.settings.redactor.text(f"{type(problem).__name__}: {problem}")
        # `from None`: Celery publishes message and traceback of an error to every monitor, so the cause must not show.
        raise TaskBroke(said) from None


def canary_returned(task: Any, token: object) -> None:
    """Report to the drone that a message it sent to itself has come back."""
    if task.app.drone is not None:
        task.app.drone.canary_seen(str(token))


def work(settings: Settings, hire: "Callable[[Settings], Crew]" = crew_of) -> int:
    """Carry out orders until told to stop. Answers the exit code: 0 stopped in good order, 3 no usable database, others
    for a drone that gave up."""
    return serve(DroneApp(lambda: settings, hire))


def serve(app: DroneApp) -> int:
    """As `work`, with this application."""
    settings = app.settings
    set_up_logging(settings.log_level, lambda: settings.redactor)
    log_crashes(logging.getLogger("drone"))
    worker = app.Worker(
        hostname=worker_name(settings.name),
        loglevel=settings.log_level.upper(),
        queues=",".join(settings.queues),
        quiet=True,
        # Drones learn from the database who else is up; no worker has to read the events of all others.
        without_gossip=True,
        without_mingle=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


app = DroneApp(load)
"""For Celery's command line: `celery -A drone.worker.app worker`, or `flower`."""
