"""Triggers in: a sender repeats each delivery until it is answered; one delivery is one order."""

import hashlib
import hmac
import json
from pathlib import Path

import httpx

from tests.faults.doors.house import DoorHouse, DoorTally, answered

SECRET = "a-secret-of-the-cut-hook"
SETTINGS = """
[triggers.cut]
path = "cut"
scheme = "github"
secret_env = ["CUT_HOOK_SECRET"]
order = {prompt = "Do {payload.number}", labels = ["cut"]}
"""


def cut_triggers(directory: Path, cuts: int, kills: int, seed: int) -> DoorTally:
    tally = DoorTally("triggers", seed)
    with (
        DoorHouse(directory, SETTINGS, {"CUT_HOOK_SECRET": SECRET}) as house,
        house.proxy(("127.0.0.1", house.port), f"triggers {seed}") as proxy,
    ):
        said: dict[int, str] = {}
        _deliver(house, proxy.port, 0, said)
        proxy.share, proxy.cuts, proxy.kills = 0.6, cuts, kills
        number = 0
        while not proxy.is_over:
            number += 1
            _deliver(house, proxy.port, number, said)
        proxy.share = 0.0
        tally.cut, tally.killed = proxy.cut, proxy.killed
        house.judge(tally)
        _judge(house, tally, said)
    return tally


def _deliver(house: DoorHouse, port: int, number: int, said: dict[int, str]) -> None:
    """Send one delivery until it is answered; what it was answered with."""
    body = json.dumps({"number": number, "text": "x" * (number % 700)}).encode()
    headers = {
        "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest(),
        "X-GitHub-Event": "issues",
        "X-GitHub-Delivery": f"delivery-{number}",
        "Content-Type": "application/json",
    }
    with httpx.Client(timeout=20.0, trust_env=False) as client:
        for _ in range(200):
            answer = answered(lambda: client.post(f"http://127.0.0.1:{port}/hooks/cut", content=body, headers=headers))
            if answer is not None and answer.status_code in (200, 202):
                said[number] = answer.json()["order_id"]
                return
            house.revive()
    raise AssertionError(f"delivery {number} was never answered")


def _judge(house: DoorHouse, tally: DoorTally, said: dict[int, str]) -> None:
    rows = house.rows("SELECT key, verdict, order_id FROM trigger_deliveries WHERE trigger = 'cut'")
    known = {key.removeprefix("id:delivery-"): order_id for key, _, order_id in rows}
    tally.wish(len(rows) == len(said), f"{len(said)} deliveries were sent, {len(rows)} are known")
    placed = {row[0] for row in house.rows("SELECT id FROM orders WHERE door = 'trigger/cut'")}
    surplus = placed - set(known.values())
    tally.twice += len(surplus)
    tally.wish(not surplus, f"orders without a delivery of theirs: {sorted(surplus)[:3]}")
    for number, order_id in said.items():
        lost = known.get(str(number)) != order_id or order_id not in placed
        tally.lost += lost
        tally.wish(
            not lost, f"delivery {number} was answered with {order_id}, and is known as {known.get(str(number))}"
        )
