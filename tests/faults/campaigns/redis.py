"""Harm to Redis and to the links to it, and for what strangers put into its queues."""

import base64
import json
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import redis as client

from mcc.contracts.wire import KEY_PREFIX, RUN_ORDER_TASK
from mcc.dispatch.broker import DispatchUnavailable, RedisAt
from mcc.dispatch.nudge import Nudger
from tests.faults.campaigns.stage import Stage, pause
from tests.faults.family import Family

Harm = Callable[[Family], None]

ANSWER_SECONDS = 3.0
"""A request may wait so long while Redis is away, on a machine that is busy."""

HEALED_WITHIN = 15.0
COUNTED_WITHIN = 10.0

TRIES = 10
"""Of one nudge."""

GIANT = "x" * 5_000_000


def _gone(number: int) -> Harm:
    def harm(family: Family) -> None:
        family.redis.member.signal(number)
        family.redis.member.wait(5.0)

    return harm


def _says(*words: str) -> Harm:
    def harm(family: Family) -> None:
        family.redis.command(*words)

    return harm


def _nothing(family: Family) -> None:
    """It is well again by itself."""


def _starts(family: Family) -> None:
    family.redis.start()


HARMS: Mapping[str, tuple[Harm, Harm]] = {
    "redis TERM": (_gone(signal.SIGTERM), _starts),
    "redis KILL, empty afterwards": (_gone(signal.SIGKILL), _starts),
    "FLUSHALL": (_says("FLUSHALL"), _nothing),
    "CLIENT KILL pubsub": (_says("CLIENT", "KILL", "TYPE", "pubsub"), _nothing),
    "CLIENT KILL normal": (_says("CLIENT", "KILL", "TYPE", "normal"), _nothing),
    "redis silent": (lambda family: family.redis.member.stop(), lambda family: family.redis.member.go_on()),
    "redis OOM": (_says("CONFIG", "SET", "maxmemory", "1"), _says("CONFIG", "SET", "maxmemory", "0")),
    "redis READONLY": (_says("REPLICAOF", "127.0.0.1", "1"), _says("REPLICAOF", "NO", "ONE")),
}
"""What is done to the server, and what makes it well."""

LINK_HARMS = ("reset", "blackhole", "half_open", "slicer", "latency", "down")


@contextmanager
def without_redis(family: Family, harm: str) -> Iterator[None]:
    """The harm is done; on leaving it is undone."""
    do, undo = HARMS[harm]
    family.told(harm, "redis")
    do(family)
    try:
        yield
    finally:
        undo(family)


def redis_suffers(stage: Stage) -> None:
    """Three harms in turn under load. Orders are accepted and done meanwhile, and reading goes on."""
    placed = stage.crowd("before", 4, linger_seconds=0.5)
    chosen = stage.dice.sample(sorted(HARMS), len(HARMS) if stage.whole else 3)
    for number, harm in enumerate(chosen):
        with without_redis(stage.family, harm):
            for turn in range(2):
                placed.append(_served(stage, f"during-{number}-{turn}", harm))
            pause(stage.dice.uniform(1.0, 3.0))
        placed.append(taken(stage, f"after-{number}", "claim after Redis is back"))
    stage.quiet()
    stage.succeeded(placed, f"Redis had {', '.join(chosen)}")


def _served(stage: Stage, key: str, harm: str) -> str:
    began = time.monotonic()
    order_id = stage.submit(key)
    posted = time.monotonic() - began
    status, _ = stage.family.clients.get(f"/orders/{order_id}")
    read = time.monotonic() - began - posted
    stage.measured["POST without Redis"].append(posted)
    stage.measured["GET without Redis"].append(read)
    stage.wish(status == 200 and read <= ANSWER_SECONDS, f"{harm}: reading answered {status} after {read:.1f} s")
    stage.wish(posted <= 2 * ANSWER_SECONDS, f"{harm}: posting took {posted:.1f} s")
    return order_id


def taken(stage: Stage, key: str, figure: str) -> str:
    """Place an order and wait until a drone has it."""
    order_id = stage.submit(key)
    began = time.monotonic()
    while stage.family.state(order_id).attempt < 1 and time.monotonic() - began < HEALED_WITHIN:
        pause(0.02)
    took = time.monotonic() - began
    stage.measured[figure].append(took)
    stage.wish(took < HEALED_WITHIN, f"{figure}: nobody took {order_id} within {took:.0f} s")
    return order_id


def redis_links_suffer(stage: Stage) -> None:
    """The links of drones and services to Redis fail in turn, each in two ways."""
    placed = stage.crowd("before", 4, linger_seconds=0.5)
    for number, harm in enumerate(stage.dice.sample(LINK_HARMS, len(LINK_HARMS) if stage.whole else 3)):
        for link in ("drone-redis", "mcc-redis"):
            worsen(stage.family, link, harm, stage.dice)
        placed.append(taken(stage, f"during-{number}", f"claim with the link to Redis bad: {harm}"))
        pause(stage.dice.uniform(1.0, 4.0))
        for link in ("drone-redis", "mcc-redis"):
            stage.family.link(link, "up")
        placed.append(taken(stage, f"after-{number}", "claim after the link to Redis is back"))
    stage.quiet()
    stage.succeeded(placed, "only links to Redis were bad")


def worsen(family: Family, link: str, harm: str, dice: random.Random) -> None:
    match harm:
        case "reset":
            family.link(link, "reset_peers")
        case "slicer":
            family.worsen(link, "slicer", slice_bytes=dice.choice((1, 7)))
        case "latency":
            family.worsen(link, "latency", latency_seconds=0.5, jitter_seconds=0.2)
        case _:
            family.link(link, harm)


def strangers_write(stage: Stage) -> None:
    """Garbage, repetitions, old ones and giants in the queue: no worker ends, and nothing runs twice."""
    family = stage.family
    done = stage.crowd("done", 2)
    stage.quiet()
    pids = {drone.name: drone.pid for drone in family.drones}
    running = stage.crowd("running", 4, linger_seconds=1.0)
    nudged = stage.dice.choices([*done, *running, "no-such-order", GIANT], k=50)
    nudger = Nudger(RedisAt(family.redis.url), ("default",))
    try:
        for order_id in nudged:
            _nudge(nudger, order_id)
    finally:
        nudger.close()
    family.told("repeated, stale and unknown messages", "redis", count=50)
    pieces = garbage(stage.dice)
    with client.Redis.from_url(family.redis.url) as link:
        for piece in pieces:
            link.lpush(f"{KEY_PREFIX}default", piece)
            family.told("garbage in the queue", "redis", size=len(piece))
    stage.quiet()
    stage.succeeded([*done, *running, *stage.crowd("after", 0)], "strangers wrote into the queue")
    stage.wish(pids == {drone.name: drone.pid for drone in family.drones}, "a drone ended of what it read")
    placed = taken(stage, "fresh", "claim behind garbage")
    stage.quiet()
    stage.succeeded([placed], "garbage was there before it")
    _counted(stage, len(pieces) + (GIANT in nudged))  # the same nudge again is not sent


def _nudge(nudger: Nudger, order_id: str) -> None:
    for _ in range(TRIES):
        with suppress(DispatchUnavailable):  # on a busy machine Redis answers later than a nudge waits
            nudger.nudge(order_id)
            return


def _counted(stage: Stage, least: int) -> None:
    """The drones tell with their heartbeats how many messages they refused: at least so many."""
    refused, began = 0, time.monotonic()
    while refused < least and time.monotonic() - began < COUNTED_WITHIN:
        _, listed = stage.family.clients.get("/drones")
        refused = sum(drone["refused_messages"] for drone in listed.get("items", ()))
        pause(0.1)
    stage.measured["messages refused"].append(refused)
    stage.wish(refused >= least, f"{refused} messages were counted as refused, and there were {least} at least")


def garbage(dice: random.Random) -> list[bytes]:
    """Messages that are none: no JSON, no body, another task, pickled, 5 MB, wrong types."""
    properties = {"delivery_tag": "x", "body_encoding": "base64", "delivery_info": {"routing_key": "default"}}

    def message(task: str, body: bytes, kind: str = "application/json", **more: object) -> bytes:
        headers = {"task": task, "id": f"stranger-{dice.randrange(10**9)}", "lang": "py"}
        whole = {"body": base64.b64encode(body).decode(), "content-type": kind, "content-encoding": "utf-8"}
        return json.dumps({**whole, "headers": headers, "properties": properties, **more}).encode()

    arguments = json.dumps([["x"], {}, {}]).encode()
    return [
        b"",
        b"no json at all \xff\xfe",
        b"{}",
        b"[1, 2, 3]",
        message("another.task", arguments),
        message(RUN_ORDER_TASK, b"\x80\x04K\x01.", "application/x-python-serialize"),
        message(RUN_ORDER_TASK, b"{"),
        message(RUN_ORDER_TASK, json.dumps([[{"deep": 1}], {}, {}]).encode()),
        message(RUN_ORDER_TASK, json.dumps([["x" * 5_000_000], {}, {}]).encode()),
        message(RUN_ORDER_TASK, arguments, properties=7),
    ]
