"""Eight tabs of one browser, which share a stream; and ten thousand that come and go."""

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

import httpx

from benchmarks.console.chromium import Window, chromium, origin, signed_in
from benchmarks.orders import Cpu
from benchmarks.service import Installation, installed
from benchmarks.summary import Promise
from benchmarks.workload import table
from benchmarks.writing import written_order
from mcc.contracts.entry import Origin
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentStep

TABS, ENTRIES = 8, 200
COMING, AT_ONCE = 10_000, 100
MOST_RATIO, MOST_GROWN_MB = 2.0, 5.0
MOST_DESCRIPTORS = 10
"""More than before: connections of the database, which are made when many ask at once, and kept."""


def tabs() -> Sequence[Promise]:
    with installed(0) as here:
        one, many = asyncio.run(_together(here, 1)), asyncio.run(_together(here, TABS))
        rows = [(1, f"{one:.2f} ms"), (TABS, f"{many:.2f} ms")]
        table(f"CPU of the service by tabs of one browser ({ENTRIES} entries)", ("tabs", "an entry"), rows)
        return [Promise(f"an entry, {TABS} tabs / 1", many / one, MOST_RATIO), *_come_and_go(here)]


def viewers(here: Installation) -> int:
    """How many streams are open."""
    metrics = here.client.get(f"{origin(here)}/metrics").raise_for_status().text
    (line,) = [line for line in metrics.splitlines() if line.startswith("mcc_viewers ")]
    return int(float(line.split()[1]))


async def _together(here: Installation, count: int) -> float:
    """Milliseconds of the service's CPU for an entry that so many tabs show. RuntimeError: they share no stream."""
    async with chromium() as browser, written_order(here) as journal:
        master = Origin(record_id=root_record_id(journal.order_id), agent="master")
        context = await signed_in(browser, here)
        windows = [await Window.of(context) for _ in range(count)]
        for window in windows:
            await window.page.goto(f"{origin(here)}/orders/{journal.order_id}?tab=journal")
            await window.page.wait_for_selector("nav.rail")
        await windows[0].page.wait_for_timeout(3_000)
        before = Cpu.of([here.service])
        for number in range(ENTRIES):
            await journal.write(master, AgentStep(name="note", message=f"step {number} " * 20))
            await asyncio.sleep(0.02)
        used = Cpu.of([here.service]).since(before).own
        if (streams := viewers(here)) != 1:
            raise RuntimeError(f"{count} tabs have {streams} streams")
        await context.close()
    return 1_000 * used / ENTRIES


def _come_and_go(here: Installation) -> Sequence[Promise]:
    """Streams that are opened and dropped without a word, half of them before their first byte has come."""
    process = Path(f"/proc/{here.service}")
    asyncio.run(_dropped(here, 1_000))
    before = _left(here, process)
    began, cpu = time.perf_counter(), Cpu.of([here.service])
    asyncio.run(_dropped(here, COMING))
    seconds, used = time.perf_counter() - began, Cpu.of([here.service]).since(cpu).own
    after = _left(here, process)
    rows = [("before", *before), ("after", *after)]
    table(
        f"{COMING:,} streams opened and dropped in {seconds:.0f} s, {1_000 * used / COMING:.1f} ms of CPU each",
        ("", "streams", "descriptors", "memory, MB"),
        rows,
    )
    return [
        Promise("streams that are left over", after[0], 0),
        Promise("descriptors that are left over", after[1] - before[1], MOST_DESCRIPTORS),
        Promise(f"memory after {COMING:,} tabs", after[2] - before[2], MOST_GROWN_MB, "MB"),
    ]


def _left(here: Installation, process: Path) -> tuple[int, int, float]:
    """Open streams, descriptors, and megabytes in memory, once all streams have ended."""
    give_up = time.monotonic() + 60
    while viewers(here) and time.monotonic() < give_up:
        time.sleep(0.1)
    pages = int((process / "statm").read_text().split()[1])
    return viewers(here), len(os.listdir(process / "fd")), round(pages * os.sysconf("SC_PAGESIZE") / 1e6, 1)


async def _dropped(here: Installation, count: int) -> None:
    url = here.client.base_url
    # The pace of one browser is bounded, so there are several.
    cookies = [_cookie(here) for _ in range(1 + count // 2_000)]
    heads = [
        f"GET {url.path}stream HTTP/1.1\r\nHost: {url.host}:{url.port}\r\nCookie: {cookie}\r\n\r\n".encode()
        for cookie in cookies
    ]
    for start in range(0, count, AT_ONCE):
        await asyncio.gather(
            *(_drop(here, heads[number % len(heads)], number % 2 == 0) for number in range(start, start + AT_ONCE))
        )


async def _drop(here: Installation, head: bytes, is_read: bool) -> None:
    url = here.client.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port or 80)
    writer.write(head)
    if is_read:
        await reader.readuntil(b"event: snapshot")
    writer.transport.abort()


def _cookie(here: Installation) -> str:
    code = here.client.post("/signin/links", json={}).raise_for_status().json()["url"].partition("#")[2]
    signed = httpx.post(f"{here.client.base_url}signin", json={"code": code}).raise_for_status()
    return "; ".join(f"{name}={value}" for name, value in signed.cookies.items())
