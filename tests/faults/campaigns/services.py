"""Harm to control services and to those who watch: cuts, nonsense to resume from, kills, races."""

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx

from tests.faults.campaigns.stage import Stage, pause
from tests.faults.family import Family
from tests.faults.script import prompt_of

VIEWERS = 4
IDLE = 50
WHOLE_ORDERS, SOME_ORDERS = 40, 6
BAD_REQUEST, NOTHING_MORE = 400, 204
WRONG_PLACES = ("garbage", "-5", "1e9", "999999999999999999999", "99999")
"""What a viewer may say it has seen. The last one is a number; of an order that is over there is nothing beyond it."""

RACES = 8
AT_ONCE = 4


def streams_are_cut(stage: Stage) -> None:
    """Viewers that leave at random, say nonsense, read slowly or not at all, while services are killed under them."""
    family = stage.family
    count = WHOLE_ORDERS if stage.whole else SOME_ORDERS
    placed = stage.crowd("seen", count, linger_seconds=0.3)
    for order_id in placed:
        for _ in range(VIEWERS):
            family.watch(order_id, seed=stage.dice.randrange(10_000))
    with contextlib.ExitStack() as open_ones:
        for index in range(IDLE):
            open_ones.enter_context(_idle(family, placed[index % len(placed)], index))
        _nonsense(stage, placed[0])
        family.kill(stage.dice.choice(family.mccs))
        pause(1.0)
        family.restart_lost()
        stage.quiet()
    stage.succeeded(placed, "only those who watched had trouble")
    stage.measured["connections of viewers"].append(sum(viewer.connections for viewer in family._viewers))


@contextlib.contextmanager
def _idle(family: Family, order_id: str, index: int) -> Iterator[None]:
    """A client that asks for a stream and then reads nothing."""
    there = urlsplit(family.urls[index % len(family.urls)])
    with socket.create_connection((there.hostname, there.port), timeout=10.0) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        path = f"/api/v1/orders/{order_id}/events"
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {family.token}\r\n\r\n"
        link.sendall(head.encode())
        yield


def _nonsense(stage: Stage, order_id: str) -> None:
    with httpx.Client(headers={"Authorization": f"Bearer {stage.family.token}"}, timeout=10.0) as client:
        for index, said in enumerate(WRONG_PLACES):
            url = f"{stage.family.urls[index % len(stage.family.urls)]}/api/v1/orders/{order_id}/events"
            with client.stream("GET", url, headers={"Last-Event-ID": said}) as answer:
                got = answer.status_code
            right = (BAD_REQUEST, NOTHING_MORE) if said == WRONG_PLACES[-1] else (BAD_REQUEST,)
            stage.wish(got in right, f"Last-Event-ID {said!r} was answered with {got}")
            stage.family.told("Last-Event-ID that is none", order_id, said=said)


def services_die(stage: Stage) -> None:
    """kill -9 while an order is accepted, and clients that race for one key: one order each."""
    family = stage.family
    placed = []
    for place in stage.dice.sample(("F1", "F2", "F3"), 3):
        family.failpoints.arm(place, "kill9", order=place)
        placed.append(stage.submit(place))
        family.restart_lost()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for race in range(RACES):
            prompt = prompt_of(f"race-{race}", race, steps=2, children=0)
            posts = [pool.submit(family.clients.post, prompt, via=via) for via in range(AT_ONCE)]
            answers = [post.result() for post in posts]
            ids = {answer for answer in answers if answer is not None}
            stage.wish(len(ids) == 1, f"{AT_ONCE} posts under one key were answered with {len(ids)} orders")
            family.told("race for a key", f"race-{race}", posts=AT_ONCE)
            placed += ids
    stage.quiet()
    stage.succeeded(placed, "only services were killed")
