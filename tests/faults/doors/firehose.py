"""Firehose: readers of all entries are cut; a reader that is not is told each entry once, and no order minds."""

import contextlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.faults.doors.cutting import CuttingProxy
from tests.faults.doors.house import DoorHouse, DoorTally, answered
from tests.faults.members import until

READERS = 6
BUSY_SECONDS = 900.0
STREAM_BYTES = 6_000
"""Of the server's bytes so many are drawn from: some five orders from their beginnings to their ends."""

LINES = {"Accept": "application/x-ndjson"}


@dataclass
class ReadEntries:
    """What one connection has told: by order, the numbers of its entries."""

    numbers: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    torn: int = 0
    is_open: bool = False

    def hear(self, line: str) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            self.torn += 1  # It was cut within it.
            return
        if "order_id" in said:
            self.numbers[said["order_id"]].append(said["seq"])

    def problems(self) -> list[str]:
        """Each order's entries come one after the other, without a gap."""
        found = [
            f"entries of order {order_id} came as {numbers}"
            for order_id, numbers in self.numbers.items()
            if numbers != list(range(numbers[0], numbers[0] + len(numbers)))
        ]
        return found + [f"{self.torn} lines are no JSON"] * (self.torn > 1)


class FirehoseReaders:
    """Threads that read all entries through a proxy, and come back when they are cut."""

    def __init__(self, house: DoorHouse, proxy: CuttingProxy, count: int) -> None:
        self._house = house
        self._proxy = proxy
        self._stopped = threading.Event()
        self.connections: list[ReadEntries] = []
        self._threads = [threading.Thread(target=self._read_on, daemon=True) for _ in range(count)]

    def __enter__(self) -> "FirehoseReaders":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            while thread.is_alive():
                self._house.background.run(self._proxy.drop())
                thread.join(0.2)

    def _read_on(self) -> None:
        with self._house.client(self._proxy.port) as client:
            while not self._stopped.is_set():
                self.connections.append(read := ReadEntries())
                with contextlib.suppress(httpx.HTTPError):
                    read_entries(client, read)
                self._stopped.wait(0.02)


def read_entries(client: httpx.Client, read: ReadEntries) -> None:
    """Until the connection ends. Raises `httpx.HTTPError`."""
    with client.stream("GET", "/events", headers=LINES) as answer:
        if answer.status_code != 200:
            return
        read.is_open = True
        for line in answer.iter_lines():
            read.hear(line)


def cut_firehose(directory: Path, cuts: int, kills: int, seed: int) -> DoorTally:
    tally = DoorTally("firehose", seed)
    at = "127.0.0.1"
    with (
        DoorHouse(directory, "", {}) as house,
        house.proxy((at, house.port), f"firehose {seed}", lengths=(0, STREAM_BYTES)) as proxy,
        house.proxy((at, house.port), f"steady {seed}") as passing,
    ):
        proxy.share = 1.0
        placed: set[str] = set()
        with FirehoseReaders(house, passing, 1) as steady:
            until(lambda: steady.connections and steady.connections[0].is_open, 30.0, "a reader reads")
            proxy.cuts = cuts
            with FirehoseReaders(house, proxy, READERS) as readers:
                placed |= _busy(house, "cut", lambda: proxy.is_over)
            house.quiet()
            _judge_steady(house, tally, steady.connections, placed)
        proxy.kills = kills
        with FirehoseReaders(house, proxy, READERS) as later:
            placed |= _busy(house, "kill", lambda: proxy.is_over)
        house.revive()
        tally.cut, tally.killed = proxy.cut, proxy.killed
        for read in (*readers.connections, *later.connections):
            tally.problems += read.problems()
        until(lambda: _viewers(house) == 0, 60.0, lambda: f"{_viewers(house)} streams of readers that are gone")
        house.judge(tally)
        tally.lost += len(placed) - tally.orders
        tally.wish(len(placed) == tally.orders, f"{len(placed)} orders were accepted, {tally.orders} are there")
    return tally


def _busy(house: DoorHouse, name: str, is_over: Callable[[], bool]) -> set[str]:
    """Place orders one after the other until it is over; the ids of those that were accepted."""
    placed: set[str] = set()
    end = time.monotonic() + BUSY_SECONDS
    with house.client() as client:
        number = 0
        while not is_over():
            assert time.monotonic() < end, "the readers are not cut any more"
            number += 1
            key = {"Idempotency-Key": f"{name}-{number}"}
            for _ in range(100):
                answer = answered(lambda: client.post("/orders", json={"prompt": name}, headers=key))  # noqa: B023
                if answer is not None and answer.status_code in (200, 201):
                    placed.add(answer.json()["id"])
                    break
                house.revive()
            time.sleep(0.02)
    return placed


def _judge_steady(house: DoorHouse, tally: DoorTally, connections: list[ReadEntries], placed: set[str]) -> None:
    """A reader that nobody cut has heard all of each order, once."""
    last = dict(house.rows("SELECT order_id, last_seq FROM order_state"))
    wanted = {order_id: list(range(1, int(last[order_id]) + 1)) for order_id in placed}
    read = connections[0]

    def whole() -> bool:
        return {order_id: read.numbers.get(order_id) for order_id in placed} == wanted

    with contextlib.suppress(AssertionError):
        until(whole, 20.0, "all was told")
    tally.wish(len(connections) == 1, "a reader that nobody cut was cut")
    for order_id in placed:
        told = read.numbers.get(order_id, [])
        tally.lost += len(set(wanted[order_id]) - set(told))
        tally.twice += len(told) - len(set(told))
        tally.wish(told == wanted[order_id], f"of order {order_id} a steady reader was told {told}")


def _viewers(house: DoorHouse) -> int:
    with house.client() as client:
        answer = client.get(f"{house.url}/metrics")
    lines = [line for line in answer.text.splitlines() if line.startswith("mcc_viewers ")]
    return int(float(lines[0].rpartition(" ")[2]))
