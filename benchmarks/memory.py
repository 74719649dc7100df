"""Memory of a drone and a service: over many short orders, under large transcripts, and with readers of a huge record.

    python -m benchmarks.memory [short | large] [--orders 10000] [--step 1000] [--side-by-side 6]

Without a name both are measured: about ten minutes on two quiet cores, of which the short orders take most.
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

from benchmarks.service import Place, place
from benchmarks.workload import table

ORDERS, STEP = 10_000, 1_000
WARM = 100
SIDE_BY_SIDE = 6
ROUNDS, CALLS, FILE_BYTES = 48, 4, 188_000
READERS = 20
SETTLE_SECONDS = 20.0
LOOK_SECONDS = 0.05
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Held:
    """Megabytes of one process: what is resident, and its proportional share of what it has in common with others."""

    rss: float
    pss: float

    @classmethod
    def of(cls, pid: int) -> "Held":
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        found = {line.split(":")[0]: int(line.split()[1]) / 1000 for line in lines if line.endswith("kB")}
        return cls(found["Rss"], found["Pss"])


class Peak:
    """The most that a process held while a block lasted, looked at every `LOOK_SECONDS`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._watching = True
        self.rss = Held.of(pid).rss

    def _look(self) -> None:
        pages = os.sysconf("SC_PAGE_SIZE")
        while self._watching:
            resident = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * pages / MEGABYTE
            self.rss = max(self.rss, resident)
            time.sleep(LOOK_SECONDS)

    @contextmanager
    def watched(self) -> Iterator["Peak"]:
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(self._look)
            try:
                yield self
            finally:
                self._watching = False
                looking.result()


def short_orders(count: int, step: int) -> None:
    """Two-call orders, at most `WARM` at once, with a look at both processes after every `step` of them."""
    seen: list[tuple[int, Held, Held]] = []
    with place() as here, ThreadPoolExecutor(4) as placing:
        for done in range(step, count + 1, step):
            for begun in range(0, step, WARM):
                list(placing.map(here.place, ["Look something up. [[sub r=1]]"] * min(WARM, step - begun)))
                here.until_done()
            seen.append((done, Held.of(here.drone), Held.of(here.service)))
    rows = [
        (f"{done:,}", *(f"{figure:.1f} MB" for figure in (drone.rss, drone.pss, service.rss, service.pss)))
        for done, drone, service in seen
    ]
    table("Short orders, two model calls each", ("orders", "drone RSS", "PSS", "service RSS", "PSS"), rows)
    (first, drone, service), (last, drone_then, service_then) = seen[0], seen[-1]
    grown = f"drone {drone_then.rss - drone.rss:+.1f} MB, service {service_then.rss - service.rss:+.1f} MB"
    print(f"\n  From order {first:,} to order {last:,}: {grown}. Hold: drone <= 5 MB from 1,000 to 10,000.")


def large_transcripts(side_by_side: int) -> None:
    """Orders that each read 36 MB of files, side by side; then readers of one of their records."""
    with place() as here:
        begin_with(here, 5)
        idle = Held.of(here.drone).rss
        peak = Peak(here.drone)
        with peak.watched():
            orders = [place_large(here, number) for number in range(side_by_side)]
            here.until_done()
        time.sleep(SETTLE_SECONDS)
        after = Held.of(here.drone).rss
        ended = [here.order(order_id) for order_id in orders]
        rows = [
            ("idle", f"{idle:.0f} MB", ""),
            ("peak", f"{peak.rss:.0f} MB", f"{peak.rss - idle:+.0f} MB"),
            (f"{SETTLE_SECONDS:.0f} s later", f"{after:.0f} MB", f"{after - idle:+.0f} MB"),
        ]
        megabytes = ROUNDS * CALLS * FILE_BYTES / MEGABYTE
        table(f"{side_by_side} transcripts of {megabytes:.0f} MB side by side", ("drone", "RSS", "over idle"), rows)
        print(f"\n  Ended: {', '.join(_end_of(order) for order in ended)}. Hold: <= 300 MB over idle.")
        readers_of(here, orders[0])


def _end_of(order: Mapping[str, Any]) -> str:
    return f"{order['status']} ({order['detail']})" if order["detail"] else str(order["status"])


def place_large(here: Place, number: int) -> str:
    """An order in a workspace of its own, which is made for it."""
    workspace = here.folder / f"large-{number}"
    workspace.mkdir()
    for index in range(ROUNDS * CALLS):
        text = f"{number} {index:4} what a file holds that is read as a whole, line after line\n"
        (workspace / f"fact number {index}").write_text(text * (FILE_BYTES // len(text)), "utf-8")
    return here.place(f"Read. [[sub r={ROUNDS} tool=read_file n={CALLS}]]", workspace=str(workspace))


def begin_with(here: Place, orders: int) -> None:
    """A few short orders, so that what every process loads at first use is there."""
    for _ in range(orders):
        here.place("Look something up. [[sub r=1]]")
    here.until_done()


def readers_of(here: Place, order_id: str) -> None:
    """Many read the record of a huge order at once, over connections of their own."""
    idle = Held.of(here.service).rss
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
            f"\n  {readers} readers of a record of {max(sizes) / MEGABYTE:.1f} MB: answered {statuses}, the last after "
            f"{max(seconds for _, _, seconds in answers):.1f} s; service {peak.rss - idle:+.0f} MB at most."
        )
    time.sleep(SETTLE_SECONDS)
    later = Held.of(here.service).rss - idle
    print(f"  {SETTLE_SECONDS:.0f} s later {later:+.0f} MB. Hold: <= 50 MB, no 503.")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--step", type=int, default=STEP)
    parser.add_argument("--side-by-side", type=int, default=SIDE_BY_SIDE)
    asked = parser.parse_args(arguments)
    names = asked.names or ["short", "large"]
    if "short" in names:
        short_orders(asked.orders, asked.step)
    if "large" in names:
        large_transcripts(asked.side_by_side)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
