"""Requests of people at awkward moments: at every place of an order's life, and without Redis."""

import time

from tests.faults.campaigns.drones import OF_DRONES, OF_NOBODY
from tests.faults.campaigns.redis import without_redis
from tests.faults.campaigns.stage import Stage, pause
from tests.faults.members import NotInTime, until

ASKED_AT = tuple(place for place in OF_DRONES if place not in OF_NOBODY)
AT_ONCE = 5
HELD_SECONDS = 0.5


def cancelled_everywhere(stage: Stage) -> None:
    """Cancel while an order is held at a place; pause and resume it at another; cancel twice; cancel without Redis."""
    places = ASKED_AT if stage.whole else stage.dice.sample(ASKED_AT, AT_ONCE)
    for place in places:
        _asked_at(stage, place, "cancel")
    for place in stage.dice.sample(ASKED_AT, 3):
        _asked_at(stage, place, "pause")
    twice = stage.submit("twice", steps=10, linger_seconds=0.5)
    stage.family.clients.control(twice, "cancel")
    stage.family.clients.control(twice, "cancel")
    _cancelled_without_redis(stage)
    stage.quiet()


def _asked_at(stage: Stage, place: str, kind: str) -> None:
    family, key = stage.family, f"{kind}-{place}"
    armed = family.failpoints.arm(place, "sleep", order=key, seconds=HELD_SECONDS)
    order_id = stage.submit(key, children=2, steps=6, linger_seconds=0.2)
    try:
        until(lambda: family.failpoints.fired(armed), 20.0, place)
    except NotInTime:
        return
    family.told(kind, order_id, place=place)
    if family.clients.control(order_id, kind) is None or kind == "cancel":
        return
    pause(1.0)
    family.clients.control(order_id, "resume")


def _cancelled_without_redis(stage: Stage) -> None:
    family = stage.family
    order_ids = stage.crowd("unheard", 3, steps=12, linger_seconds=1.5)
    until(lambda: all(family.state(one).attempt for one in order_ids), 30.0, "all three run")
    with without_redis(family, stage.dice.choice(("redis KILL, empty afterwards", "redis silent"))):
        for order_id in order_ids:
            stage.without_redis.add(order_id)
            family.clients.control(order_id, "cancel")
        asked = time.monotonic()
        try:
            until(lambda: all(family.state(one).final for one in order_ids), 20.0, "all three are cancelled")
        except NotInTime as late:
            stage.wish(False, f"without Redis: {late}")
        stage.measured["end after a cancel without Redis"].append(time.monotonic() - asked)
