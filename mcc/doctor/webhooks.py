"""Findings about webhooks: endpoints that are off, deliveries that are dead or wait for long."""

from collections.abc import Iterator, Sequence

from mcc.contracts.webhooks import DeliveryState, Webhook
from mcc.findings.finding import Finding, duration
from mcc.store.doors.delivery_lists import DEAD_DAYS, DeliveryLoad
from mcc.store.doors.webhooks import BY_REQUEST, NO_SECRET

LONG_SECONDS = 3_600.0
"""A delivery that waits for longer has failed five times."""


def webhook_findings(webhooks: Sequence[Webhook], load: DeliveryLoad) -> Iterator[Finding]:
    """Nothing where no endpoint and no delivery is."""
    for webhook in webhooks:
        # Who turned it off knows.
        if webhook.off_at is not None and webhook.off_why != BY_REQUEST:
            way = "rotate" if webhook.off_why == NO_SECRET else "on"
            detail = f"{webhook.name} is off: {webhook.off_why}"
            yield Finding("webhooks", "warning", detail, f"mcc webhooks {way} {webhook.name}")
    if dead := load.counts[DeliveryState.DEAD]:
        detail = f"{dead:,} deliveries of the last {DEAD_DAYS} days are dead"
        yield Finding("webhooks", "warning", detail, "mcc webhooks deliveries --state dead, then mcc webhooks replay")
    if load.oldest_seconds > LONG_SECONDS:
        detail = f"a delivery has waited for {duration(load.oldest_seconds)}"
        yield Finding("webhooks", "warning", detail, "mcc webhooks deliveries --state pending says why")
