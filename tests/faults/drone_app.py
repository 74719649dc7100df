"""A drone under test: a Celery worker made as the product's, its ports wrapped with failpoints.

python -m tests.faults.drone_app        # settings from the environment; see `tests.faults.assembly`
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from drone.crew import Crew
from drone.definitions import Definitions
from drone.settings import Settings, load
from drone.worker.app import DroneApp, serve
from drone.worker.components import DroneStep
from drone.worker.drone import DroneProcess
from drone.worker.redis_transport import (
    WorkerChannel,
    WorkerConnection,
    WorkerMessaging,
    WorkerSentinelChannel,
    WorkerSentinelTransport,
    WorkerTransport,
)
from mcc.contracts.wire import RUN_ORDER_TASK
from mcc.definitions.rights import TOOL_GROUPS
from mcc.store.store import open_store
from tests.faults.assembly import Places, places_of_this_process
from tests.faults.clock import set_wrong
from tests.faults.failpoints import Failpoints
from tests.faults.ledger import Ledger
from tests.faults.poison import DEAF, GLANCE, HOLD
from tests.faults.ports import FailingModels, LedgerToolbox, failing
from tests.faults.script import IDEM, LINGER, ONCE

GROUPS = {**TOOL_GROUPS, "ledger": (ONCE, IDEM, LINGER), "poison": (HOLD, DEAF, GLANCE)}


def hiring(places: Places, points: Failpoints) -> Callable[[Settings], Crew]:
    """A crew with the ledger's tools and failing models."""

    def hired(settings: Settings) -> Crew:
        toolbox = LedgerToolbox.around(Ledger(places.ledger), points, settings.prompts_dir)
        definitions = Definitions.load(settings.prompts_dir, GROUPS)
        return Crew(settings, definitions, FailingModels(settings, points), toolbox)

    return hired


def step(points: Failpoints) -> type[DroneStep]:
    """The worker's step, whose drone has a failing store."""

    class FailingStep(DroneStep):
        def opened(self, settings: Settings, hire: Callable[[Settings], Crew]) -> DroneProcess:
            store = failing(open_store(settings.database, connections=4), points)
            return DroneProcess(settings, store, lambda: hire(settings))

    return FailingStep


def messaging(points: Failpoints) -> type[WorkerMessaging]:
    """The broker's connections, which hit F20 before an order's message is acknowledged."""

    class FailingChannel(WorkerChannel):
        def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
            named = order_named(self.qos.get(delivery_tag).headers)
            if named is not None:
                points.hit("F20", named)
            super().basic_ack(delivery_tag, multiple)  # type: ignore[no-untyped-call]

    class FailingSentinelChannel(FailingChannel, WorkerSentinelChannel):
        pass

    class FailingTransport(WorkerTransport):
        Channel = FailingChannel

    class FailingSentinelTransport(WorkerSentinelTransport):
        Channel = FailingSentinelChannel

    class FailingConnection(WorkerConnection):
        transports = FailingTransport, FailingSentinelTransport

    class FailingMessaging(WorkerMessaging):
        connection_type = FailingConnection

    return FailingMessaging


def order_named(headers: Mapping[str, Any]) -> str | None:
    """The id of the order in a message's headers; None when it is another kind of message."""
    return str(headers.get("argsrepr", "")).strip("[]()',") if headers.get("task") == RUN_ORDER_TASK else None


class FailingApp(DroneApp):
    """The product's application with failing parts in it."""

    def __init__(self, settings: Settings, places: Places, points: Failpoints) -> None:
        super().__init__(lambda: settings, hiring(places, points))
        self.amqp_cls = messaging(points)
        self.steps["worker"].discard(DroneStep)
        self.steps["worker"].add(step(points))


def main() -> int:
    set_wrong()
    settings = load()
    places, points = places_of_this_process()
    return serve(FailingApp(settings, places, points))


if __name__ == "__main__":
    sys.exit(main())
