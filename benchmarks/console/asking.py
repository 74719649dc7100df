"""How soon a person sees what an agent asks, and how soon the agent goes on once it is answered."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from benchmarks.console.chromium import Window, chromium, origin, signed_in
from benchmarks.service import Installation, installed
from benchmarks.summary import Promise
from benchmarks.workload import table

ORDERS = 60
PARK = "DRONE_PARK_AFTER_SECONDS"
PARK_SECONDS = "0.2"
"""After which an order that waits gives its slot back: each is begun anew by a drone once it is answered."""

SHOWN_MS, RUNNING_MS = 1_000.0, 2_000.0
PROMPT = "Ask before you run it. [[sub r=1 tool=run_shell]]"

ASKS = {"run_shell": "ask"}

T = TypeVar("T")


def asking() -> Sequence[Promise]:
    before = os.environ.get(PARK)
    os.environ[PARK] = PARK_SECONDS
    try:
        with installed(1) as here:
            shown, running, placed = asyncio.run(_asked(here))
    finally:
        del os.environ[PARK]
        if before is not None:
            os.environ[PARK] = before
    rows = [
        ("asked → in the inbox of an open page", *_percentiles(shown)),
        ("answered → running again, parked before", *_percentiles(running)),
        ("placed → running, beside it", *_percentiles(placed)),
    ]
    table(f"What people and agents wait for ({ORDERS} orders, one after the other)", ("interval", "p50", "p99"), rows)
    note = f"placed → running {_percentile(placed, 0.99):.0f} ms"
    return [
        Promise("asked → in the inbox, p99", _percentile(shown, 0.99), SHOWN_MS, "ms", note=note),
        Promise("answered → running, p99", _percentile(running, 0.99), RUNNING_MS, "ms", note=note),
    ]


async def _asked(here: Installation) -> tuple[list[float], list[float], list[float]]:
    shown, running, placed = [], [], []
    async with chromium() as browser:
        context = await signed_in(browser, here)
        window = await Window.of(context)
        await window.page.goto(f"{origin(here)}/")
        await window.page.wait_for_selector("nav.rail")
        # The list holds still while a pointer is in it.
        await window.page.mouse.move(1, 1)
        await window.page.wait_for_timeout(2_000)
        for _ in range(ORDERS):
            began = time.time()
            order_id = here.place(PROMPT, agent="general", workspace=str(here.folder), on_ask="wait", permission=ASKS)
            asked = (await _until(lambda: _entries(here, order_id, "approval.requested")))[-1]  # noqa: B023
            item = asked["data"]["approval_id"]
            row = window.page.locator(f'[id="{item}"]')
            await row.wait_for(timeout=30_000)
            seen = await window.page.evaluate("(id) => noted.shown[id]", item)
            claimed = _entries(here, order_id, "order.claimed")[-1]
            shown.append(seen - 1_000 * _at(asked))
            placed.append(1_000 * (_at(claimed) - began))
            await _until(lambda: here.order(order_id)["status"] == "waiting")  # noqa: B023
            here.client.post(f"/approvals/{item}", json={"decision": "deny"}).raise_for_status()
            answered = time.time()
            again = await _until(lambda: _entries(here, order_id, "order.claimed")[1:])  # noqa: B023
            running.append(1_000 * (_at(again[0]) - answered))
        await context.close()
    return shown, running, placed


async def _until(look: Callable[[], T]) -> T:
    """What `look` answers once that is something."""
    while not (found := look()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return found


def _entries(here: Installation, order_id: str, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        here.client.get(f"/orders/{order_id}/journal", params={"kind": kind}).raise_for_status().json()["items"]
    )
    return found


def _at(entry: dict[str, Any]) -> float:
    return datetime.fromisoformat(entry["at"]).timestamp()


def _percentiles(milliseconds: Sequence[float]) -> tuple[str, str]:
    return f"{_percentile(milliseconds, 0.5):.0f} ms", f"{_percentile(milliseconds, 0.99):.0f} ms"


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
