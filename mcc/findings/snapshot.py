"""The snapshot: the state of store, Celery workers and this machine's processes at one moment, for the checks."""

import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from mcc.contracts.entry import Entry
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import ControlApplied
from mcc.contracts.open_calls import OpenCall, OpenCallTracker
from mcc.contracts.status import OrderStatus
from mcc.store.rows.values import Examined, SeenDrone, SeenOrder
from mcc.store.store import Store

ENTRIES = 2_000
"""How many of an order's newest entries are read to find its open calls."""

QUIET_ORDERS, QUIET_SECONDS = 50, 20.0
"""Open calls are searched for in at most this many orders, those silent for longest first; and only in orders that have
been silent for this long."""

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
EARLIER_SECONDS = 5.0
"""A drone registers after its process starts. A process that started this much later than that reuses the pid."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Durations after which a state counts as wrong.

    `grace_seconds` allows for a sweep, and for the time between the two queries that are compared. `stuck_seconds`
    None: as long as the order's own limits allow a call to take.
    """

    lease_seconds: float = 12.0
    renew_seconds: float = 1.0
    grace_seconds: float = 5.0
    queued_seconds: float = 30.0
    stuck_seconds: float | None = None

    @property
    def heartbeat_seconds(self) -> float:
        """From this age on a heartbeat is late."""
        return max(4 * self.renew_seconds, 3.0)

    @property
    def lost_seconds(self) -> float:
        """After this time without a heartbeat a drone should have been declared lost."""
        return self.lease_seconds + self.grace_seconds


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A message that a worker has worked on for `seconds`. `order_id` None: its argument is not the id of an order."""

    order_id: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class CeleryNode:
    """A Celery worker that answered. `pid` None: its answer did not include it."""

    name: str
    pid: int | None
    tasks: Sequence[RunningTask] = ()
    queues: Sequence[str] = ()


class ProcessState(StrEnum):
    """The state of a drone's process; UNKNOWN on another host, or without /proc."""

    RUNS = "runs"
    STOPPED = "stopped"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OpenCalls:
    """The open calls of a running order, oldest first, and whether the whole order is paused."""

    calls: Sequence[OpenCall] = ()
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at one moment. `nodes` None: Celery could not be queried. `known`: orders that running tasks name, by
    id. `open_calls`: by order id.

    `processes`: the state of each incarnation's process, for incarnations on this host.
    """

    examined: Examined
    thresholds: Thresholds = Thresholds()
    nodes: Sequence[CeleryNode] | None = None
    known: Mapping[str, SeenOrder] = field(default_factory=dict)
    open_calls: Mapping[str, OpenCalls] = field(default_factory=dict)
    processes: Mapping[str, ProcessState] = field(default_factory=dict)

    def age(self, moment: datetime) -> float:
        """Seconds from `moment` to the time of the snapshot, by the store's clock."""
        return (self.examined.now - moment).total_seconds()

    def drone(self, incarnation: str | None) -> SeenDrone | None:
        return next((one for one in self.examined.drones if one.incarnation == incarnation), None)

    def process(self, drone: SeenDrone) -> ProcessState:
        return self.processes.get(drone.incarnation, ProcessState.UNKNOWN)

    def incarnations(self, node: CeleryNode) -> Sequence[SeenDrone]:
        """The incarnations that the process of `node` registered: those of its name and pid, else those of its pid."""
        # Processes of several hosts and containers share pids, so the name goes first.
        near = [
            drone
            for drone in self.examined.drones
            if (node.pid is None or node.pid == drone.pid) and _same_name(node, drone)
        ]
        return near or [drone for drone in self.examined.drones if node.pid is not None and node.pid == drone.pid]

    def answers(self, drone: SeenDrone) -> bool:
        """Whether the drone's process answered Celery."""
        return any(drone in self.incarnations(node) for node in self.nodes or ())


def _same_name(node: CeleryNode, drone: SeenDrone) -> bool:
    """Whether the names fit: `drone work` names its worker NAME@drone, Celery's own command celery@HOST."""
    name, _, host = node.name.partition("@")
    return name == drone.name or (node.pid is not None and host.partition(".")[0] == drone.host.partition(".")[0])


def take_snapshot(
    store: Store, nodes: Sequence[CeleryNode] | None, thresholds: Thresholds, *, host: str = ""
) -> Snapshot:
    """Take a snapshot of `store`. Query `nodes` before, so that the store's state is the newer one. `host`: the host
    whose processes are looked at, "" = this machine.

    Raises `StoreUnavailable`.
    """
    examined = store.examiner.look()
    named = [task.order_id for node in nodes or () for task in node.tasks if task.order_id is not None]
    least = min(thresholds.stuck_seconds or QUIET_SECONDS, QUIET_SECONDS)
    return Snapshot(
        examined=examined,
        thresholds=thresholds,
        nodes=nodes,
        known=store.examiner.orders(named) if named else {},
        open_calls={
            order.id: open_calls(
                store.journal.read(order.id, after=max(order.last_seq - ENTRIES, 0), limit=2 * ENTRIES)
            )
            for order in _quiet(examined, least)
        },
        processes=processes_of(examined.drones, host or socket.gethostname()),
    )


def _quiet(examined: Examined, seconds: float) -> Sequence[SeenOrder]:
    """The running orders without an entry for longer than `seconds`, those silent for longest first; QUIET_ORDERS of
    them."""
    running = [order for order in examined.orders if order.status is OrderStatus.RUNNING]
    quiet = [order for order in running if (examined.now - order.last_entry_at).total_seconds() > seconds]
    return sorted(quiet, key=lambda order: order.last_entry_at)[:QUIET_ORDERS]


def open_calls(entries: Iterable[Entry]) -> OpenCalls:
    """The calls that are open after `entries`, which may begin in the middle of a journal."""
    tracker, paused = OpenCallTracker(), False
    for entry in entries:
        tracker.add(entry)
        fact, concerns_order = entry.data, entry.record_id in (None, root_record_id(entry.order_id))
        if concerns_order and isinstance(fact, ControlApplied):
            paused = fact.paused(paused)
    begun = (call for call in tracker.calls if call.begun)
    return OpenCalls(tuple(sorted(begun, key=lambda call: call.since)), paused)


def processes_of(drones: Iterable[SeenDrone], host: str, proc: Path = PROC) -> Mapping[str, ProcessState]:
    """The state of each incarnation's process, for the drones of `host`."""
    return {drone.incarnation: process_state(drone, proc) for drone in drones if drone.host == host}


def process_state(drone: SeenDrone, proc: Path = PROC) -> ProcessState:
    """The state of a drone's process on this host, found by pid and start time; UNKNOWN where there is no /proc."""
    if not (proc / "uptime").exists():
        return ProcessState.UNKNOWN
    try:
        # The name of a program may contain blanks and brackets: only behind the last bracket are the fields countable.
        fields = (proc / str(drone.pid) / "stat").read_text().rpartition(")")[2].split()
        uptime = float((proc / "uptime").read_text().split()[0])
    # The process may end between the opening of its file and the reading.
    except (FileNotFoundError, ProcessLookupError):
        return ProcessState.GONE
    except (OSError, ValueError, IndexError):
        return ProcessState.UNKNOWN
    started = time.time() - uptime + int(fields[19]) / TICKS
    if fields[0] in ("Z", "X") or started > drone.started_at.timestamp() + EARLIER_SECONDS:
        return ProcessState.GONE
    return ProcessState.STOPPED if fields[0] in ("T", "t") else ProcessState.RUNS
