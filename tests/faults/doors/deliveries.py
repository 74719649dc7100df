"""Git out: a family of `mcc up` whose drones push to a git server and ask a forge, both through proxies that cut, and
are killed with signal 9 at such bytes. Each order ends with one branch, one request and one end."""

import contextlib
import itertools
import json
import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.docs.shop import Shop, opened_shop
from tests.drone.delivery.forge import TOKEN
from tests.faults.doors.cutting import CuttingProxy
from tests.faults.doors.house import DoorTally, answered, judge_ends
from tests.faults.members import until
from tests.faults.observer import Observer
from tests.faults.services import Background

AT_ONCE = 10
GIT_SHARE, FORGE_SHARE = 0.25, 0.7
"""Of the connections that are cut: a push takes some ten of them, each with a TLS handshake, a request three."""

PLACING_SECONDS, LAST_SECONDS = 7_200.0, 900.0
SETTINGS = """
[[workspaces.git]]
address = "{address}/team/shop"
token_env = "HUB_TOKEN"

[forges.hub]
kind = "github"
token_env = "HUB_TOKEN"
retry_seconds = 300
{lines}
"""
SCRIPT: list[dict[str, Any]] = [
    {
        "match": "Mend",
        "replies": [
            {
                "tool_calls": [
                    {"name": "edit_file", "arguments": {"path": "totals.py", "old": "rows[:-1]", "new": "rows"}}
                ]
            },
            {"text": "The last row is counted now."},
        ],
    }
]


@dataclass
class DeliveringFamily:
    """The family, its database, and the proxies on the way to the git server and to the forge."""

    shop: Shop
    url: str
    token: str
    observer: Observer
    git: CuttingProxy
    forge: CuttingProxy

    def rows(self, query: str, **values: str) -> list[tuple[Any, ...]]:
        return self.observer._rows(query, **values)

    def kill(self) -> bool:
        """SIGKILL for the drone whose orders were taken over least often, and never three times: three in a row make
        an order poison. The family starts another drone."""
        held = (
            "SELECT d.registration_json FROM order_state s JOIN drones d ON d.incarnation = s.incarnation"
            " WHERE s.status = 'running' GROUP BY d.incarnation, d.registration_json HAVING max(s.takeovers) < 2"
            " ORDER BY max(s.takeovers), d.incarnation LIMIT 1"
        )
        for (registration,) in self.rows(held):
            with contextlib.suppress(ProcessLookupError):
                os.kill(json.loads(registration)["pid"], signal.SIGKILL)
                return True
        return False

    def open_orders(self) -> int:
        return sum(not state.final for state in self.observer.states())


@contextlib.contextmanager
def delivering(directory: Path, seed: int) -> Iterator[DeliveringFamily]:
    background, token = Background(), secrets.token_hex(24)
    with opened_shop(directory) as shop, contextlib.ExitStack() as stack:
        stack.callback(background.close)
        family: list[DeliveringFamily] = []
        proxies = []
        for name, port in (("git", shop.git.port), ("forge", shop.forge.port)):
            proxy = CuttingProxy(("127.0.0.1", port), f"{name} {seed}", lambda: family[0].kill())
            background.run(proxy.start())
            stack.callback(lambda proxy=proxy: background.run(proxy.stop()))  # type: ignore[misc]
            proxies.append(proxy)
        shop.git.port, shop.forge.port = (proxy.port for proxy in proxies)
        shop.configure(SETTINGS.format(address=shop.address, lines=shop.forge_lines), SCRIPT)
        data = directory / "data"
        told = {"HUB_TOKEN": TOKEN, "MCC_TOKEN": token, "MCC_DATA_DIR": str(data)}
        pace = {"MCC_LEASE_SECONDS": "3", "MCC_RENEW_SECONDS": "0.5", "MCC_SWEEP_SECONDS": "0.3"}
        shop.run("mcc up --detach --no-flower --drones 2 >/dev/null 2>&1", **told, **pace)
        stack.callback(lambda: shop.run("mcc down >/dev/null 2>&1", **told))
        observer = Observer(f"sqlite:///{data / 'mcc.db'}")
        stack.callback(observer.close)
        url = f"http://127.0.0.1:{shop.port}"
        family.append(DeliveringFamily(shop, url, token, observer, *proxies))
        yield family[0]


def cut_deliveries(directory: Path, cuts: int, kills: int, seed: int) -> DoorTally:
    tally = DoorTally("deliveries", seed)
    with delivering(directory, seed) as family:
        numbers = itertools.count()
        place(family, next(numbers))
        until(lambda: not family.open_orders(), LAST_SECONDS, "the first order has ended")
        for proxy, share, part in ((family.git, GIT_SHARE, cuts // 2), (family.forge, FORGE_SHARE, cuts - cuts // 2)):
            proxy.cuts, proxy.share = part, share
        family.git.kills, family.forge.kills = kills - kills // 2, kills // 2
        end = time.monotonic() + PLACING_SECONDS
        while not (family.git.is_over and family.forge.is_over):
            assert time.monotonic() < end, f"only {family.git.cut} and {family.forge.cut} connections were cut"
            if family.open_orders() < AT_ONCE:
                place(family, next(numbers))
            time.sleep(0.2)
        family.git.share = family.forge.share = 0.0
        until(
            lambda: not family.open_orders(),
            LAST_SECONDS,
            lambda: f"orders have ended: {[state for state in family.observer.states() if not state.final]}",
        )
        tally.cut = family.git.cut + family.forge.cut
        tally.killed = family.git.killed + family.forge.killed
        judge_ends(family.rows, tally)
        judge_deliveries(family, tally)
    return tally


def place(family: DeliveringFamily, number: int) -> None:
    body = {
        "prompt": f"Mend {number}",
        "workspace": f"{family.shop.address}/team/shop",
        "deliver": {"pull_request": True},
        "permission": {"deliver": "allow"},
    }
    headers = {"Authorization": f"Bearer {family.token}", "Idempotency-Key": f"mend-{number}"}
    with httpx.Client(timeout=20.0, trust_env=False, headers=headers) as client:
        answer = answered(lambda: client.post(f"{family.url}/api/v1/orders", json=body))
        assert answer is not None and answer.status_code in (200, 201), answer and answer.text


def judge_deliveries(family: DeliveringFamily, tally: DoorTally) -> None:
    """One branch and one request for each order, and none beside."""
    served = family.shop.served
    listed = served.git("for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads/mcc").splitlines()
    tips = dict(line.split(" ") for line in listed)
    requests = Counter(request["head"] for request in family.shop.forge.requests.values())
    tally.twice += sum(count - 1 for count in requests.values())
    orders = family.rows("SELECT id, session_id FROM orders")
    for order_id, session_id in orders:
        state = next(state for state in family.observer.states() if state.order_id == order_id)
        branch = f"mcc/{session_id[-8:]}"
        is_whole = state.status == "succeeded" and requests[branch] == 1 and branch in tips
        tally.lost += branch not in tips or not requests[branch]
        tally.wish(is_whole, f"{order_id} is {state.status} ({state.reason}); {requests[branch]} requests of {branch}")
        if branch in tips:
            ahead = served.git("rev-list", "--count", tips[branch], "^main")
            tally.wish(ahead == "1", f"{branch} has {ahead} commits")
    tally.wish(len(tips) == len(requests) == len(orders), f"{len(tips)} branches, {len(requests)} with requests")
