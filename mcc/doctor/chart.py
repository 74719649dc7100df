"""This room is for the chart: everything that was seen, beside each other, before anybody judges it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from mcc.store.examined import Examined, SeenDrone, SeenOrder


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what may pass. `grace_seconds`: two looks, and a sweep, never happen at one moment.

    `stuck_seconds` None: as long as the order's own limits allow a call to take.
    """

    lease_seconds: float = 12.0
    renew_seconds: float = 1.0
    grace_seconds: float = 5.0
    queued_seconds: float = 30.0
    stuck_seconds: float | None = None

    @property
    def heartbeat_seconds(self) -> float:
        """A heartbeat that is older is late."""
        return max(4 * self.renew_seconds, 3.0)


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A message that a worker works on; `order_id` None: its argument is not the id of an order."""

    order_id: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Node:
    """A Celery worker that answered. `pid` None: it did not say."""

    name: str
    pid: int | None
    tasks: Sequence[RunningTask] = ()
    queues: Sequence[str] = ()


class Life(StrEnum):
    """What this machine knows of the process of a drone."""

    RUNS = "runs"
    STOPPED = "stopped"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that was begun and has no answer; `waits_seconds`: a pause before the next try was announced."""

    kind: str
    name: str
    agent: str
    since: datetime
    waits_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Silence:
    """Why an order that runs may be silent."""

    calls: Sequence[OpenCall] = ()
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """`nodes` None: Celery could not be asked. `known`: the orders that tasks name. `lives`: by incarnation."""

    examined: Examined
    patience: Patience = Patience()
    nodes: Sequence[Node] | None = None
    known: Mapping[str, SeenOrder] = field(default_factory=dict)
    silences: Mapping[str, Silence] = field(default_factory=dict)
    lives: Mapping[str, Life] = field(default_factory=dict)

    def ago(self, moment: datetime) -> float:
        """Seconds before the look, by the store's clock."""
        return (self.examined.now - moment).total_seconds()

    def drone(self, incarnation: str | None) -> SeenDrone | None:
        return next((one for one in self.examined.drones if one.incarnation == incarnation), None)

    def life(self, drone: SeenDrone) -> Life:
        return self.lives.get(drone.incarnation, Life.UNKNOWN)

    def processes(self, node: Node) -> Sequence[SeenDrone]:
        """The incarnations that the process behind this node was, or is."""
        near = [drone for drone in self.examined.drones if _same_pid(node, drone) and _same_name(node, drone)]
        return near or [drone for drone in self.examined.drones if node.pid is not None and node.pid == drone.pid]

    def answers(self, drone: SeenDrone) -> bool:
        return any(drone in self.processes(node) for node in self.nodes or ())


def _same_pid(node: Node, drone: SeenDrone) -> bool:
    return node.pid is None or node.pid == drone.pid


def _same_name(node: Node, drone: SeenDrone) -> bool:
    """`drone work` calls its node NAME@drone, Celery's own command celery@HOST."""
    name, _, host = node.name.partition("@")
    return name == drone.name or (node.pid is not None and host.partition(".")[0] == drone.host.partition(".")[0])
