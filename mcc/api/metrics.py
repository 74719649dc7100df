"""This room is for figures about the service itself, in the format of Prometheus."""

from collections import Counter as Tally

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import Scope

from mcc.contracts.drones import DroneStatus
from mcc.contracts.status import OrderStatus
from mcc.store.ports import Store

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class Metrics:
    """A registry of its own per application, so that two in one process do not mix."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._orders = Gauge("mcc_orders", "Orders by status.", ["status"], registry=self._registry)
        self._drones = Gauge("mcc_drones", "Drones by status.", ["status"], registry=self._registry)
        self._slots = Gauge(
            "mcc_slots", "Slots of live drones, and how many are taken.", ["of"], registry=self._registry
        )
        self._refused = Gauge(
            "mcc_refused_messages",
            "Messages that live drones could not use, since each of them started.",
            registry=self._registry,
        )
        self._viewers = Gauge("mcc_viewers", "Event streams open in this process.", registry=self._registry)
        self._hints = Gauge("mcc_redis_connected", "1 while hints from Redis are heard.", registry=self._registry)
        labels = ["method", "route", "status"]
        self._requests = Counter("mcc_requests", "Requests answered.", labels, registry=self._registry)
        self._seconds = Histogram(
            "mcc_request_seconds",
            "Time until the answer was sent; event streams are left out.",
            ["method", "route"],
            buckets=SECONDS,
            registry=self._registry,
        )

    def answered(self, scope: Scope, status: int | None, seconds: float) -> None:
        """`status` None: the caller went away before an answer. Addresses that do not exist share one label."""
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = getattr(scope.get("route"), "path", "none")
        self._requests.labels(method, route, str(status or "gone")).inc()
        if not route.endswith("/events"):
            self._seconds.labels(method, route).observe(seconds)

    def text(self, store: Store, viewers: int, connected: bool | None) -> bytes:
        """All figures; those of orders and drones are read from `store` now. Raises `StoreUnavailable`."""
        counts = store.orders.counts()
        for status in OrderStatus:
            self._orders.labels(status.value).set(counts.get(status, 0))
        drones = store.leases.drones()
        tally = Tally(drone.status for drone in drones)
        for kind in DroneStatus:
            self._drones.labels(kind.value).set(tally[kind])
        live = [drone for drone in drones if drone.status is not DroneStatus.SILENT]
        self._slots.labels("all").set(sum(drone.slots for drone in live))
        self._slots.labels("active").set(sum(drone.active for drone in live))
        self._refused.set(sum(drone.refused_messages for drone in live))
        self._viewers.set(viewers)
        self._hints.set(1 if connected else 0)
        return generate_latest(self._registry)
