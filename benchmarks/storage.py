"""Bytes of an order in the database when new, packed and pruned, and the CPU of packing."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.stored import stored_turns
from benchmarks.summary import Promise
from benchmarks.workload import fake_provider, models, side_by_side, table
from mcc.store.store import Store, open_store
from mcc.store.upkeep.retention import Cleared

TURNS = 40
TARGET_KILOBYTES = 60
"""The most that a packed order should take."""


async def _turns(file: Path, address: str) -> None:
    ours = models(address, latency_ms=0, stream=False)
    async with stored_turns(f"sqlite:///{file}", ours.get("fake")) as turn:
        await side_by_side(turn, TURNS, 4)
    await ours.aclose()


def _pages(file: Path) -> dict[str, int]:
    """Bytes of the pages of each table and index. Needs an SQLite built with `dbstat`."""
    with closing(sqlite3.connect(file)) as link:
        return dict(link.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC"))


def _kilobytes(size: float) -> str:
    return f"{size / TURNS / 1000:.1f} KB"


def _pack(store: Store) -> float:
    """Pack all orders; answers milliseconds of CPU per order."""
    begun = time.process_time()
    count = len(list(store.packing.pack(store.database.clock.now())))
    return (time.process_time() - begun) / count * 1_000


def main() -> list[Promise]:
    with TemporaryDirectory() as folder, fake_provider() as address:
        file = Path(folder) / "bench.db"
        asyncio.run(_turns(file, address))
        store = open_store(f"sqlite:///{file}")
        try:
            new = _compacted_pages(store, file)
            cost = _pack(store)
            packed = _compacted_pages(store, file)
            sum(store.retention.clear(store.database.clock.now()), Cleared())
            pruned = _compacted_pages(store, file)
        finally:
            store.close()
    stages = (new, packed, pruned)
    names = [name for name in new | packed | pruned if max(when.get(name, 0) for when in stages) > TURNS * 500]
    rows = [(name, *(_kilobytes(when.get(name, 0)) for when in stages)) for name in names]
    rows.append(("total", *(_kilobytes(sum(when.values())) for when in stages)))
    head = ("table or index", "new", "packed", "pruned")
    table(f"Bytes per order of 38 model calls ({TURNS} orders, SQLite)", head, rows)
    print(f"  Packing takes {cost:.1f} ms of CPU per order, in the service, an hour after the order ended.")
    return [
        Promise("disk of an order of 38 calls, packed", sum(packed.values()) / TURNS / 1000, TARGET_KILOBYTES, "KB")
    ]


def _compacted_pages(store: Store, file: Path) -> dict[str, int]:
    store.retention.compact()
    return _pages(file)


if __name__ == "__main__":
    main()
