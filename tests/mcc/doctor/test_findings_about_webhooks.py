"""What the doctor says of webhooks."""

import pytest

from mcc.contracts.shape import now
from mcc.contracts.webhooks import Webhook
from mcc.doctor.webhooks import webhook_findings
from mcc.store.doors.delivery_lists import DeliveryLoad
from mcc.store.doors.webhooks import BY_REQUEST, GONE, NO_SECRET


def webhook(why: str | None) -> Webhook:
    off_at = None if why is None else now()
    return Webhook(id="w", name="ci", principal="operator", created_at=now(), off_at=off_at, off_why=why)


def load(dead: int = 0, oldest: float = 0.0) -> DeliveryLoad:
    return DeliveryLoad({"pending": 1, "delivered": 1, "dead": dead}, oldest)


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        (GONE, ["mcc webhooks on ci"]),
        (NO_SECRET, ["mcc webhooks rotate ci"]),
        (BY_REQUEST, []),
        (None, []),
    ],
)
def test_an_endpoint_that_went_off_by_itself_is_told_with_the_way_back(why: str | None, advice: list[str]) -> None:
    assert [finding.advice for finding in webhook_findings([webhook(why)], load())] == advice


def test_what_is_dead_and_what_waits_for_long_is_told() -> None:
    assert list(webhook_findings([], load(oldest=600.0))) == []
    (dead,) = webhook_findings([], load(dead=1_200))
    assert dead.detail.startswith("1,200 deliveries") and "replay" in dead.advice
    (waits,) = webhook_findings([], load(oldest=7_200.0))
    assert "has waited for" in waits.detail
