"""Memory of a drone over many short orders, without Celery and without the service."""

import gc
import os
import time
from collections.abc import Sequence

from benchmarks.memory import Memory
from benchmarks.one_drone import drone_here, placed, run
from benchmarks.summary import Promise
from benchmarks.workload import table

ORDERS, STEP, FIRST = 10_000, 500, 1_000
CONCURRENT = 12
MOST_SECONDS = 240.0
TARGET_MEGABYTES = 5


def by_orders(orders: int) -> Sequence[Promise]:
    """Run orders for at most `MOST_SECONDS`; the growth over 10,000 orders is extrapolated from those after `FIRST`."""
    samples: list[tuple[int, float, int]] = []
    with drone_here() as (drone, store, _):
        deadline = time.monotonic() + MOST_SECONDS
        done = 0
        while done < orders and (done < 2 * FIRST or time.monotonic() < deadline):
            run(drone, store, placed(store, STEP, [None] * CONCURRENT))
            done += STEP
            gc.collect()
            samples.append((done, Memory.of(os.getpid()).rss, len(gc.get_objects())))
    rows = [(f"{count:,}", f"{rss:.1f} MB", f"{objects:,}") for count, rss, objects in samples]
    table("Memory of a drone over short orders of two calls each", ("orders", "RSS", "objects"), rows)
    first, last = next(one for one in samples if one[0] >= FIRST), samples[-1]
    between = max(last[0] - first[0], 1)
    growth = (last[1] - first[1]) * max((ORDERS - FIRST) / between, 1)
    note = f"measured over {between:,} orders, {(last[2] - first[2]) / between:+.2f} objects each"
    return [
        Promise(
            f"growth of a drone from short order {FIRST:,} to {ORDERS:,}", growth, TARGET_MEGABYTES, "MB", note=note
        )
    ]
