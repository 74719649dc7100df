"""Triggers: what from outside becomes an order, and the deliveries that came."""

from typing import Literal

from pydantic import Field

from mcc.contracts.shape import Closed, Identifier, JsonObject, Moment, Text

KEPT_DAYS = 90
"""How long a delivery is remembered, so that the same one starts nothing twice."""

TriggerVerdict = Literal["placed", "repeated", "no_match", "own", "refused"]
"""`repeated`: the same one came before. `own`: it tells of what this service wrote itself."""


class TriggerAnswer(Closed):
    """What became of a delivery, as its sender is told. `why`: a sentence where there is no order."""

    verdict: TriggerVerdict
    order_id: Identifier | None = None
    why: Text | None = None


class TriggerDelivery(Closed):
    """A delivery that came. `key`: what it is known by, its id or the digest of its body."""

    key: Text
    verdict: TriggerVerdict
    order_id: Identifier | None = None
    why: Text = ""
    at: Moment


class Trigger(Closed):
    """A table [triggers.NAME] of mcc.toml. `url`: where its deliveries are sent. `reply`: where the answers of
    its orders go, with CEL in braces. `last`: the newest delivery. `counts`: how many deliveries of the last 24 hours
    came to what; repeated ones are not counted."""

    name: Text
    url: Text
    path: Text
    scheme: Text
    principal: Text
    when: Text | None = None
    session: Text | None = None
    reply: JsonObject | None = None
    order: JsonObject
    turns_an_hour: int
    max_body_mb: float
    last: TriggerDelivery | None = None
    counts: dict[TriggerVerdict, int] = Field(default_factory=dict)
