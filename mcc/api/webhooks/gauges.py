"""How many deliveries there are, for Prometheus."""

from prometheus_client import CollectorRegistry, Gauge

from mcc.contracts.webhooks import DeliveryState
from mcc.store.doors.delivery_lists import DeliveryLoad


class DeliveryGauges:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._deliveries = Gauge(
            "mcc_deliveries",
            "Deliveries to webhooks by state; counted up to 100,000 of each.",
            ["state"],
            registry=registry,
        )
        self._oldest = Gauge(
            "mcc_oldest_delivery_seconds",
            "How long the oldest delivery to a webhook that is on has waited; 0 when none waits.",
            registry=registry,
        )

    def show(self, load: DeliveryLoad) -> None:
        for state in DeliveryState:
            self._deliveries.labels(state.value).set(load.counts.get(state.value, 0))
        self._oldest.set(load.oldest_seconds)
