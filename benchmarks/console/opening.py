"""Opening an order of 100,000 entries in a browser, beside one of 100."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from playwright.async_api import Browser

from benchmarks.console.chromium import Window, chromium, origin, signed_in
from benchmarks.service import Installation, installed
from benchmarks.summary import Promise
from benchmarks.workload import table
from mcc.contracts.blocks import TextBlock
from mcc.contracts.callers import Actor
from mcc.contracts.fact import Fact
from mcc.contracts.journal import ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import NewOrder
from mcc.contracts.usage import Usage
from mcc.store.store import open_store
from mcc.testing.hand_drone import HandDrone

FEW, MANY = 100, 100_000
A_ROUND = 4
BYTES = 2_000
"""Of each reply and each result, so that an entry has 1,000 on average."""

IN_A_COMMIT = 1_000
MOST_MS = 1_000.0
TIMES = 5


@dataclass(frozen=True, slots=True)
class Opened:
    ms: float
    bytes: int
    requests: int
    largest: int


def opening() -> Sequence[Promise]:
    with installed(0) as here:
        few, many = written(here, FEW), written(here, MANY)
        return asyncio.run(_opened(here, few, many))


def written(here: Installation, entries: int) -> str:
    """An order with so many entries, rounds of one call each; answers its id."""
    store = open_store(here.settings.database_url)
    placed = store.orders.place(NewOrder(prompt="bench", model="offline"), by=Actor("operator")).order
    held = HandDrone(store).claim(placed.id)
    held.start()
    words = "A sentence that an agent has written about what it has found. " * (BYTES // 62)
    facts: list[Fact] = []
    for number in range(entries // A_ROUND):
        facts += _round(number, words)
        if len(facts) >= IN_A_COMMIT:
            held.write(*facts)
            facts = []
    held.write(*facts)
    held.finish("done")
    store.close()
    return placed.id


def _round(number: int, words: str) -> Sequence[Fact]:
    text = f"Round {number}. {words}"
    used = Usage(input_tokens=1_000, output_tokens=100, model_calls=1)
    return (
        ModelStarted(round=number + 1, attempt=1, model="offline"),
        ModelReplied(
            round=number + 1,
            attempt=1,
            model="offline",
            blocks=(TextBlock(text=text),),
            finish_reason="stop",
            usage=used,
            first_token_ms=100.0,
        ),
        ToolStarted(
            call_id=f"call-{number}",
            round=number + 1,
            index=0,
            name="read_file",
            arguments={"path": f"src/module_{number}.py"},
            idempotent=True,
        ),
        ToolFinished(call_id=f"call-{number}", name="read_file", content=text, is_error=False, seconds=0.1),
    )


async def _opened(here: Installation, few: str, many: str) -> Sequence[Promise]:
    async with chromium() as browser:
        await _open(browser, here, few)
        first = await _open(browser, here, many)
        read_whole(here, many)
        shorter = [await _open(browser, here, few) for _ in range(TIMES)]
        longer = [await _open(browser, here, many) for _ in range(TIMES)]
    small, large = _median(shorter), _median(longer)
    rows = [
        (name, f"{one.ms:.0f} ms", f"{one.bytes / 1_000:,.0f} KB", one.requests, f"{one.largest / 1_000:,.0f} KB")
        for name, one in ((f"{FEW} entries", small), (f"{MANY:,}, for the first time", first), (f"{MANY:,}", large))
    ]
    head = ("an order of", "first rows after", "bytes asked for", "requests", "largest answer")
    table("Opening an order in a browser whose cache is empty", head, rows)
    note = f"{small.ms:.0f} ms with {FEW} entries; {large.bytes / 1_000:,.0f} KB asked for"
    return [
        Promise(f"{MANY:,} entries → first rows", large.ms, MOST_MS, "ms", note=note),
        Promise(f"{MANY:,} entries → first rows, for the first time", first.ms, MOST_MS, "ms", note=note),
        Promise(f"the same beside {FEW} entries", large.ms / small.ms, 2.0),
        Promise("largest answer to the page", large.largest / 1e6, 2.0, "MB"),
    ]


def read_whole(here: Installation, order_id: str) -> None:
    """Ask as a page does until the service has read the whole journal in short, which it keeps."""
    is_read = False
    while not is_read:
        index = here.client.get(f"/orders/{order_id}/overview").raise_for_status().json()["index"]
        is_read = index["to"] == index["of"]


async def _open(browser: Browser, here: Installation, order_id: str) -> Opened:
    context = await signed_in(browser, here)
    window = await Window.of(context)
    await window.page.goto(f"{origin(here)}/orders/{order_id}")
    await window.page.locator(".line").first.wait_for(timeout=60_000)
    await window.page.wait_for_timeout(1_000)
    ms = float(await window.page.evaluate("noted.first"))
    opened = Opened(ms, window.bytes, window.requests, window.largest)
    await context.close()
    return opened


def _median(opened: Sequence[Opened]) -> Opened:
    return sorted(opened, key=lambda one: one.ms)[len(opened) // 2]
