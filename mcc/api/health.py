"""Liveness, readiness and Prometheus metrics for supervisors."""

import time
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import Response
from starlette.types import Scope

import mcc
from mcc.api.problems import RETRY_SECONDS, problem
from mcc.api.service import Service, ServiceHere, answer
from mcc.api.webhooks.gauges import DeliveryGauges
from mcc.contracts.approvals import ApprovalItem, NoteItem, OutlineItem, QuestionItem
from mcc.contracts.drones import DroneCounters, DroneStatus
from mcc.contracts.schedules import RunOutcome
from mcc.contracts.status import OrderStatus
from mcc.contracts.triggers import TriggerVerdict
from mcc.dispatch.work_metrics import WorkMetrics
from mcc.store.database.errors import StoreError
from mcc.store.doors.delivery_lists import DeliveryLoad
from mcc.store.store import Store
from mcc.store.upkeep.load import Load

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
KINDS = tuple(item.model_fields["kind"].default for item in (ApprovalItem, OutlineItem, QuestionItem, NoteItem))
COUNT_SHARE = 100
"""Counting orders may take at most one hundredth of the time."""

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})

router = APIRouter(tags=["health"])


class Metrics:
    """The Prometheus metrics of one application, in a registry of their own, so that two in one process do not mix."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.work = WorkMetrics(self._registry)
        self._counts: Mapping[OrderStatus, int] = {}
        self._load, self._delivering = Load({}, {}, 0), DeliveryLoad({}, 0.0)
        self._deliveries = DeliveryGauges(self._registry)
        self._count_at = float("-inf")
        self._orders = Gauge(
            "mcc_orders", "Orders by status, as last counted: of many, seldom.", ["status"], registry=self._registry
        )
        self._claimable = Gauge(
            "mcc_oldest_claimable_seconds",
            "How long the oldest order of a queue that a drone could claim has waited; 0 when none waits.",
            ["queue"],
            registry=self._registry,
        )
        self._pending = Gauge(
            "mcc_pending_items",
            "Items of the inbox that wait for a person, by kind.",
            ["kind"],
            registry=self._registry,
        )
        self._asked = Gauge(
            "mcc_oldest_pending_seconds", "How long the oldest item of the inbox has waited.", registry=self._registry
        )
        self._bytes = Gauge("mcc_database_bytes", "Size of the database.", registry=self._registry)
        self._drones = Gauge("mcc_drones", "Drones by status.", ["status"], registry=self._registry)
        self._slots = Gauge(
            "mcc_slots", "Slots of live drones, and how many are taken.", ["of"], registry=self._registry
        )
        self._counters = {
            counter: Gauge(f"mcc_{counter}", field.description or counter, registry=self._registry)
            for counter, field in DroneCounters.model_fields.items()
        }
        self._runs = Counter(
            "mcc_schedule_runs",
            "Runs of schedules that this process saw to, by outcome; missed ones by instants.",
            ["outcome"],
            registry=self._registry,
        )
        for outcome in get_args(RunOutcome):
            self._runs.labels(outcome)
        self._triggered = Counter(
            "mcc_trigger_deliveries", "Deliveries to triggers, by verdict.", ["verdict"], registry=self._registry
        )
        for verdict in get_args(TriggerVerdict):
            self._triggered.labels(verdict)
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

    def _count(self, store: Store) -> None:
        """Count orders by status, and what waits. That scans many rows, so what was counted serves for `COUNT_SHARE`
        times as long as the counting took."""
        begun = time.monotonic()
        if begun >= self._count_at:
            self._counts = store.orders.counts()
            self._load, self._delivering = store.load.load(), store.webhooks.lists.load()
            self._count_at = time.monotonic() + COUNT_SHARE * (time.monotonic() - begun)

    def _show_load(self, queues: Iterable[str]) -> None:
        for queue in {*queues, *self._load.oldest_claimable}:
            self._claimable.labels(queue).set(self._load.oldest_claimable.get(queue, 0.0))
        for kind in KINDS:
            waiting = self._load.pending.get(kind)
            self._pending.labels(kind).set(waiting.items if waiting else 0)
        self._asked.set(max((items.oldest_seconds for items in self._load.pending.values()), default=0.0))
        self._bytes.set(self._load.database_bytes)
        self._deliveries.show(self._delivering)

    def answered(self, scope: Scope, status: int | None, seconds: float) -> None:
        """Count an answered request. `status` None: the caller left before the answer. Unknown paths share a label."""
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = getattr(scope.get("route"), "path", "none")
        self._requests.labels(method, route, str(status or "gone")).inc()
        if not route.endswith(("/events", "/stream")):
            self._seconds.labels(method, route).observe(seconds)

    def fired(self, outcome: RunOutcome, count: int) -> None:
        """Count runs of schedules."""
        self._runs.labels(outcome).inc(count)

    def delivered(self, verdict: str) -> None:
        """Count a delivery to a trigger."""
        self._triggered.labels(verdict).inc()

    def text(self, store: Store, queues: Iterable[str], viewers: int, connected: bool | None) -> bytes:
        """All metrics in Prometheus' text format. Reads orders and drones from `store`. Raises `StoreUnavailable`."""
        self._count(store)
        for status in OrderStatus:
            self._orders.labels(status.value).set(self._counts.get(status, 0))
        self._show_load(queues)
        drones = store.leases.drones()
        tally = Tally(drone.status for drone in drones)
        for kind in DroneStatus:
            self._drones.labels(kind.value).set(tally[kind])
        live = [drone for drone in drones if drone.status is not DroneStatus.SILENT]
        self._slots.labels("all").set(sum(drone.slots for drone in live))
        self._slots.labels("active").set(sum(drone.active for drone in live))
        for counter, gauge in self._counters.items():
            gauge.set(sum(getattr(drone, counter) for drone in live))
        self._viewers.set(viewers)
        self._hints.set(1 if connected else 0)
        return generate_latest(self._registry)


@router.get("/healthz")
async def alive() -> Response:
    """The process answers."""
    return answer({"status": "ok", "version": mcc.__version__})


@router.get("/readyz")
async def ready(service: ServiceHere) -> Response:
    """The database is writable and has the right schema.

    Problems that only slow things down are reported but not fatal: Redis is unavailable or refuses commands, or the
    disk is nearly full.
    """
    try:
        trouble: str | None = service.trouble() or await service.offload(service.store.schema_problem)
    except StoreError as error:
        trouble = str(error)
    if trouble:
        return problem(503, trouble, headers={"Retry-After": str(RETRY_SECONDS)})
    shortage = service.reserve.shortage()
    answers: dict[str, Any] = {
        "status": "ok",
        "database": "ok",
        "redis": _redis(service),
        "disk": "degraded" if shortage else "ok",
    }
    return answer({**answers, "detail": shortage} if shortage else answers)


def _redis(service: Service) -> str:
    if service.feed.connected is None:
        return "none"
    return "ok" if service.feed.connected and not service.notices.trouble else "degraded"


@router.get("/metrics")
async def metrics(request: Request, service: ServiceHere) -> Response:
    """Metrics in the text format of Prometheus."""
    kept: Metrics = request.app.state.metrics
    text = await service.offload(
        kept.text, service.store, service.settings.queues, service.feed.viewers, service.feed.connected
    )
    return Response(text, media_type=CONTENT_TYPE_LATEST)
