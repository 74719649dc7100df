"""Memory of a drone and a service: over many short orders, with large transcripts, and with readers of a huge record.

    python -m benchmarks.memory [short | large] [--orders 10000] [--step 1000] [--side-by-side 6]

Without a name it measures both, which takes about ten minutes on two idle cores, most of it for the short orders.
"""

import argparse
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.service import Installation, installed
from benchmarks.workload import table

ORDERS, STEP = 10_000, 1_000
WARM = 100
CONCURRENT = 6
ROUNDS, CALLS, FILE_BYTES = 48, 4, 188_000
READERS = 20
SETTLE_SECONDS = 20.0
SAMPLE_SECONDS = 0.05
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one process in megabytes: resident set, and proportional set (shared pages divided by their users)."""

    rss: float
    pss: float

    @classmethod
    def of(cls, pid: int) -> "Memory":
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        found = {line.split(":")[0]: int(line.split()[1]) / 1000 for line in lines if line.endswith("kB")}
        return cls(found["Rss"], found["Pss"])


class Peak:
    """The largest resident set of a process during a block, sampled every `SAMPLE_SECONDS`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._watching = True
        self.rss = Memory.of(pid).rss

    def _sample(self) -> None:
        pages = os.sysconf("SC_PAGE_SIZE")
        while self._watching:
            resident = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * pages / MEGABYTE
            self.rss = max(self.rss, resident)
            time.sleep(SAMPLE_SECONDS)

    @contextmanager
    def watched(self) -> Iterator["Peak"]:
        with ThreadPoolExecutor(1) as pool:
            sampling = pool.submit(self._sample)
            try:
                yield self
            finally:
                self._watching = False
                sampling.result()


def short_orders(count: int, step: int) -> None:
    """Orders of two calls, at most `WARM` at once; both processes are measured after every `step` orders."""
    samples: list[tuple[int, Memory, Memory]] = []
    with installed() as here, ThreadPoolExecutor(4) as placing:
        for done in range(step, count + 1, step):
            for begun in range(0, step, WARM):
                list(placing.map(here.place, ["Look something up. [[sub r=1]]"] * min(WARM, step - begun)))
                here.until_done()
            samples.append((done, Memory.of(here.drone), Memory.of(here.service)))
    rows = [
        (f"{done:,}", *(f"{figure:.1f} MB" for figure in (drone.rss, drone.pss, service.rss, service.pss)))
        for done, drone, service in samples
    ]
    table("Short orders, two model calls each", ("orders", "drone RSS", "PSS", "service RSS", "PSS"), rows)
    (first, drone, service), (last, drone_last, service_last) = samples[0], samples[-1]
    growth = f"drone {drone_last.rss - drone.rss:+.1f} MB, service {service_last.rss - service.rss:+.1f} MB"
    print(f"\n  From order {first:,} to order {last:,}: {growth}. Target: drone <= 5 MB from order 1,000 to 10,000.")


def large_transcripts(side_by_side: int) -> None:
    """Concurrent orders that each read 36 MB of files; then many readers of the record of one of them."""
    with installed() as here:
        warm_up(here, 5)
        idle = Memory.of(here.drone).rss
        peak = Peak(here.drone)
        with peak.watched():
            orders = [place_large(here, number) for number in range(side_by_side)]
            here.until_done()
        time.sleep(SETTLE_SECONDS)
        after = Memory.of(here.drone).rss
        ended = [here.order(order_id) for order_id in orders]
        rows = [
            ("idle", f"{idle:.0f} MB", ""),
            ("peak", f"{peak.rss:.0f} MB", f"{peak.rss - idle:+.0f} MB"),
            (f"{SETTLE_SECONDS:.0f} s later", f"{after:.0f} MB", f"{after - idle:+.0f} MB"),
        ]
        megabytes = ROUNDS * CALLS * FILE_BYTES / MEGABYTE
        table(f"{side_by_side} concurrent transcripts of {megabytes:.0f} MB", ("drone", "RSS", "over idle"), rows)
        print(f"\n  Results: {', '.join(_result_of(order) for order in ended)}. Target: <= 300 MB over idle.")
        read_record(here, orders[0])


def _result_of(order: Mapping[str, Any]) -> str:
    return f"{order['status']} ({order['detail']})" if order["detail"] else str(order["status"])


def place_large(here: Installation, number: int) -> str:
    """Create a workspace with files and place an order that reads them."""
    workspace = here.folder / f"large-{number}"
    workspace.mkdir()
    for index in range(ROUNDS * CALLS):
        text = f"{number} {index:4} what a file holds that is read as a whole, line after line\n"
        (workspace / f"fact number {index}").write_text(text * (FILE_BYTES // len(text)), "utf-8")
    return here.place(f"Read. [[sub r={ROUNDS} tool=read_file n={CALLS}]]", workspace=str(workspace))


def warm_up(here: Installation, orders: int) -> None:
    """Run a few short orders, so that every process has loaded what it loads at first use."""
    for _ in range(orders):
        here.place("Look something up. [[sub r=1]]")
    here.until_done()


def read_record(here: Installation, order_id: str) -> None:
    """Let many readers fetch the record of a huge order at once, each over its own connection."""
    idle = Memory.of(here.service).rss
    address = f"{here.client.base_url}orders/{order_id}/record"

    def read(_: int) -> tuple[int, int, float]:
        began, size = time.perf_counter(), 0
        with httpx.stream("GET", address, headers=here.client.headers, timeout=120) as answer:
            for piece in answer.iter_raw():
                size += len(piece)
        return answer.status_code, size, time.perf_counter() - began

    for readers in (1, READERS):
        peak = Peak(here.service)
        with peak.watched(), ThreadPoolExecutor(readers) as pool:
            answers = list(pool.map(read, range(readers)))
        statuses = ", ".join(sorted({str(status) for status, _, _ in answers}))
        sizes = {size for _, size, _ in answers}
        print(
            f"\n  {readers} readers of a record of {max(sizes) / MEGABYTE:.1f} MB: status {statuses}, the last after "
            f"{max(seconds for _, _, seconds in answers):.1f} s; peak of the service {peak.rss - idle:+.0f} MB."
        )
    time.sleep(SETTLE_SECONDS)
    later = Memory.of(here.service).rss - idle
    print(f"  {SETTLE_SECONDS:.0f} s later {later:+.0f} MB. Target: <= 50 MB, no 503.")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--step", type=int, default=STEP)
    parser.add_argument("--side-by-side", type=int, default=CONCURRENT)
    options = parser.parse_args(arguments)
    names = options.names or ["short", "large"]
    if "short" in names:
        short_orders(options.orders, options.step)
    if "large" in names:
        large_transcripts(options.side_by_side)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
