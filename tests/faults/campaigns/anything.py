"""The soak: orders without end, and every few seconds some harm that was drawn."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Mapping

import redis

from mcc.contracts.wire import KEY_PREFIX
from tests.faults.campaigns.database import harms_here
from tests.faults.campaigns.redis import HARMS, LINK_HARMS, garbage, without_redis, worsen
from tests.faults.campaigns.stage import Stage, pause
from tests.faults.jsonlines import JsonLines

UNFINISHED = 8
FAULT_EVERY_LEASES = 1.7
"""Mean time between two faults, in leases: 20 s with the product's lease of 12 s."""

MODEL_FAULTS = 0.1
PLACES = ("F5", "F7", "F9", "F10", "F11", "F12", "F13", "F15", "F16", "F18", "F23")


def anything(stage: Stage) -> None:
    """Until `seconds` are over: keep orders coming, do harm at random, and start again whatever ended."""
    family = stage.family
    family.llm_orders(rate=MODEL_FAULTS, seed=stage.seed)
    began, number, due = time.monotonic(), 0, 0.0
    progress = JsonLines(family.places.directory / "progress.jsonl")
    while (now := time.monotonic()) < began + stage.seconds:
        number = _keep_coming(stage, number)
        if now >= due:
            name = stage.dice.choice(sorted(HARM))
            with contextlib.suppress(redis.RedisError, sqlite3.OperationalError):
                HARM[name](stage)
            family.restart_lost()
            mean = FAULT_EVERY_LEASES * family.plan.lease_seconds
            due = time.monotonic() + stage.dice.expovariate(1 / mean)
            progress.write({"seconds": round(time.monotonic() - began), "orders": number, "harm": name})
        pause(0.05)
    family.llm_orders()
    stage.quiet()


def _keep_coming(stage: Stage, number: int) -> int:
    unfinished = sum(not state.final for state in stage.family.observer.states())
    for _ in range(UNFINISHED - unfinished):
        number += 1
        stage.submit(f"order-{number}", watched=number % 5 == 0, linger_seconds=0.3)
    return number


def _killed(stage: Stage) -> None:
    stage.family.kill(stage.dice.choice(stage.family.members))


def _at_a_place(stage: Stage) -> None:
    action = stage.dice.choice(("kill9", "term", "exec_and_error", "stop"))
    stage.family.provoked_stale = False
    seconds = stage.family.plan.lease_seconds + 2.0
    place = stage.dice.choice(("F4", "F18")) if action == "exec_and_error" else stage.dice.choice(PLACES)
    stage.family.failpoints.arm(place, action, seconds=seconds)  # type: ignore[arg-type]


def _told_to_stop(stage: Stage) -> None:
    drone = stage.dice.choice(stage.family.drones)
    stage.family.told("term", drone.name)
    drone.term()
    drone.wait(20.0)


def _redis(stage: Stage) -> None:
    with without_redis(stage.family, stage.dice.choice(sorted(HARMS))):
        pause(stage.dice.uniform(0.5, 4.0))


def _link(stage: Stage) -> None:
    link, harm = stage.dice.choice(("drone-redis", "mcc-redis")), stage.dice.choice(LINK_HARMS)
    worsen(stage.family, link, harm, stage.dice)
    pause(stage.dice.uniform(0.5, 4.0))
    stage.family.link(link, "up")


def _database(stage: Stage) -> None:
    harms = harms_here(stage)
    name = stage.dice.choice(sorted(harms))
    stage.family.told(name, "*, blackhole of the database")
    harms[name](stage)


def _garbage(stage: Stage) -> None:
    with redis.Redis.from_url(stage.family.redis.url) as link:
        link.lpush(f"{KEY_PREFIX}default", stage.dice.choice(garbage(stage.dice)))
    stage.family.told("garbage in the queue", "redis")


def _cancelled(stage: Stage) -> None:
    running = [state.order_id for state in stage.family.observer.states() if not state.final]
    if running:
        order_id = stage.dice.choice(running)
        stage.family.told("cancel", order_id)
        stage.family.clients.control(order_id, "cancel")


HARM: Mapping[str, Callable[[Stage], None]] = {
    "kill": _killed,
    "place": _at_a_place,
    "term": _told_to_stop,
    "redis": _redis,
    "link": _link,
    "database": _database,
    "garbage": _garbage,
    "cancel": _cancelled,
}
