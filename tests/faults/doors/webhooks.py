"""Webhooks out: the service tries again what was cut; a receiver that keeps ids hears each end once, and in order."""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

from tests.faults.doors.cutting import CuttingProxy
from tests.faults.doors.house import DoorHouse, DoorTally, answered
from tests.faults.members import until
from tests.ports import free_port

ENDPOINTS = 8
"""Each hears of every order; so many, as a service tries four at once for each."""

WAVE = 64
"""So many connections are cut before they are let through: what was cut is tried again after 5 s, and what was cut
twice only after a minute."""

STILL_SECONDS, WAVE_SECONDS, LAST_SECONDS = 1.0, 120.0, 900.0
TYPES = ("order.queued", "order.finished")


@dataclass
class Heard:
    """What arrived at a receiver that does nothing for an id that it knows."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    """By id, of the first time."""
    changed: set[str] = field(default_factory=set)
    """Ids that came again with other bytes."""
    ids: defaultdict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    """By endpoint and order, in the order in which they first came."""
    again: int = 0

    def hear(self, path: str, message_id: str, body: bytes, order_id: str) -> None:
        if message_id in self.bodies:
            self.again += 1
            if self.bodies[message_id] != body:
                self.changed.add(message_id)
            return
        self.bodies[message_id] = body
        self.ids[path, order_id].append(message_id)


@contextmanager
def receiving(heard: Heard) -> Iterator[int]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(length := int(self.headers["Content-Length"]))
            if len(body) < length:
                return  # It was cut: half a message is none.
            with lock:
                heard.hear(self.path, self.headers["webhook-id"], body, _order_of(body))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (OSError, TypeError, ValueError):
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _order_of(body: bytes) -> str:
    return str(json.loads(body)["data"]["order"]["id"])


def cut_webhooks(directory: Path, cuts: int, kills: int, seed: int) -> DoorTally:
    tally, heard = DoorTally("webhooks", seed), Heard()
    with receiving(heard) as receiver:
        port = free_port()
        settings = f'[webhooks]\nallow_private = ["127.0.0.1:{port}"]\n'
        with (
            DoorHouse(directory, settings, {}) as house,
            house.proxy(("127.0.0.1", receiver), f"webhooks {seed}", port=port) as proxy,
            house.client() as client,
        ):
            for number in range(ENDPOINTS):
                new = {"name": f"cut-{number}", "url": f"http://127.0.0.1:{port}/{number}", "types": list(TYPES)}
                assert client.post("/webhooks", json=new).status_code == 201
            _place(house, "warm-up", 1)
            _delivered(house, LAST_SECONDS)
            _harm(house, proxy, cuts, kills)
            tally.cut, tally.killed = proxy.cut, proxy.killed
            _delivered(house, LAST_SECONDS)
            house.judge(tally)
            _judge(house, tally, heard)
    return tally


def _harm(house: DoorHouse, proxy: CuttingProxy, cuts: int, kills: int) -> None:
    """In waves, as what was cut is tried again only after some seconds: each has a kill while there are any left."""
    wave = 0
    while proxy.cut < cuts or proxy.killed < kills:
        wave += 1
        proxy.cuts, proxy.kills = min(cuts, proxy.cut + WAVE), min(kills, proxy.killed + 1)
        proxy.share = 1.0
        more = map(str, count())
        _place(house, f"wave-{wave}-{next(more)}", 2)
        seen, since = proxy.cut, time.monotonic()

        def enough() -> bool:
            nonlocal seen, since
            house.revive()
            if proxy.cut != seen:
                seen, since = proxy.cut, time.monotonic()
            elif time.monotonic() - since > STILL_SECONDS:
                _place(house, f"wave-{wave}-{next(more)}", 1)  # noqa: B023
                since = time.monotonic()
            return proxy.is_over

        until(enough, WAVE_SECONDS, lambda: f"wave {wave}: {proxy.cut} cut, {proxy.killed} killed")  # noqa: B023
        proxy.share = 0.0


def _place(house: DoorHouse, name: str, most: int) -> None:
    """Place orders, each by its key, whatever happens to the service."""
    with house.client() as client:
        for number in range(most):
            key = {"Idempotency-Key": f"{name}-{number}"}
            for _ in range(50):
                answer = answered(lambda: client.post("/orders", json={"prompt": name}, headers=key))  # noqa: B023
                if answer is not None and answer.status_code in (200, 201):
                    break
                house.revive()


def _delivered(house: DoorHouse, seconds: float) -> None:
    """Nothing waits to be told or delivered."""
    house.revive()
    house.quiet()
    pending = "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending'"
    left = f"SELECT (SELECT count(*) FROM webhook_events) + ({pending})"
    until(lambda: house.rows(left)[0][0] == 0, seconds, lambda: f"{house.rows(left)[0][0]} wait to be delivered")


def _judge(house: DoorHouse, tally: DoorTally, heard: Heard) -> None:
    dead = house.rows("SELECT count(*) FROM webhook_deliveries WHERE state = 'dead'")[0][0]
    tally.wish(dead == 0, f"{dead} deliveries are dead")
    tally.wish(not heard.changed, f"{len(heard.changed)} messages came again with other bytes")
    for (order_id,) in house.rows("SELECT id FROM orders"):
        for number in range(ENDPOINTS):
            told = [json.loads(heard.bodies[one])["type"] for one in heard.ids[f"/{number}", order_id]]
            tally.lost += len(set(TYPES) - set(told))
            tally.twice += len(told) - len(set(told))
            tally.wish(told == list(TYPES), f"endpoint {number} heard of order {order_id}: {told}")
