"""Prometheus counters of what one process did: orders that it claimed and ended, model calls of its agents."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

from mcc.contracts.entry import Entry
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import FINAL, OrderStatus
from mcc.contracts.usage import Usage

WAITS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0)
DURATIONS = (0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
CALLS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0)

MOST_MODELS = 100
OTHER = "other"
"""Stands for further models: whoever places orders may name as many models as a provider has."""


class WorkMetrics:
    """Counts in a registry that its caller exposes. Call from any thread.

    A process counts what it did itself, so that the sums over all processes count nothing twice.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._models: set[str] = set()
        self._ended = Counter(
            "mcc_orders_ended",
            "Orders that this process ended; reason is empty for succeeded ones.",
            ["status", "reason"],
            registry=registry,
        )
        self._waited = Histogram(
            "mcc_order_wait_seconds",
            "From the moment at which an order was placed, or from its not_before, to its first claim.",
            buckets=WAITS,
            registry=registry,
        )
        self._lasted = Histogram(
            "mcc_order_seconds",
            "From the first claim of an order to its end, waiting for people included.",
            buckets=DURATIONS,
            registry=registry,
        )
        self._takeovers = Counter(
            "mcc_takeovers", "Orders that this process took from lost drones and queued again.", registry=registry
        )
        self._calls = Counter(
            "mcc_model_calls",
            "Model calls by outcome: replied, retried (the try failed, another follows), fell_back (another model "
            "is asked).",
            ["model", "outcome"],
            registry=registry,
        )
        self._seconds = Histogram(
            "mcc_model_seconds", "Duration of answered model calls.", ["model"], buckets=CALLS, registry=registry
        )
        self._tokens = Counter(
            "mcc_tokens",
            "Tokens by kind: input (cached_input and cache_write are parts of it), output (reasoning is part of it).",
            ["model", "kind"],
            registry=registry,
        )
        self._cost = Counter(
            "mcc_cost_usd", "Cost of model calls whose price is known, in US dollars.", ["model"], registry=registry
        )
        self._forges = Counter(
            "mcc_forge_errors",
            "Answers of forges that were no success; status 0: it did not answer.",
            ["forge", "status"],
            registry=registry,
        )

    def status_changed(self, order: WorkOrder) -> None:
        """Count a status that this process gave to an order."""
        if order.status in FINAL:
            self._ended.labels(order.status.value, order.reason or "").inc()
            if order.started_at is not None and order.finished_at is not None:
                self._lasted.observe((order.finished_at - order.started_at).total_seconds())
        elif order.status is OrderStatus.RUNNING and order.attempt == 1 and order.started_at is not None:
            due = max(order.created_at, order.not_before or order.created_at)
            self._waited.observe(max((order.started_at - due).total_seconds(), 0.0))

    def taken_over(self, orders: int) -> None:
        """Count orders of lost drones that this process queued again."""
        self._takeovers.inc(orders)

    def forge_failed(self, forge: str, status: int) -> None:
        """Count an answer of this forge that was no success; 0: there was none."""
        self._forges.labels(forge, status).inc()

    def committed(self, entries: Iterable[Entry]) -> None:
        """Count the model calls among entries that this process has committed."""
        for entry in entries:
            match entry.data:
                case ModelReplied(model=model, usage=usage, seconds=seconds):
                    self._replied(self._label(model), usage, seconds)
                case ModelRetried(model=model):
                    self._calls.labels(self._label(model), "retried").inc()
                case ModelFellBack(source=model):
                    self._calls.labels(self._label(model), "fell_back").inc()

    def _replied(self, model: str, usage: Usage, seconds: float) -> None:
        self._calls.labels(model, "replied").inc()
        self._seconds.labels(model).observe(seconds)
        for kind, count in (
            ("input", usage.input_tokens),
            ("cached_input", usage.cached_input_tokens),
            ("cache_write", usage.cache_write_tokens),
            ("output", usage.output_tokens),
            ("reasoning", usage.reasoning_tokens),
        ):
            self._tokens.labels(model, kind).inc(count)
        if usage.cost_usd is not None:
            self._cost.labels(model).inc(usage.cost_usd)

    def _label(self, model: str) -> str:
        if model in self._models or len(self._models) < MOST_MODELS:
            self._models.add(model)
            return model
        return OTHER
