"""Memory of a drone over many short orders, without Celery and service."""

import gc
import os
import time
from collections.abc import Sequence

from benchmarks.memory import Held
from benchmarks.one_drone import drone_here, placed, run
from benchmarks.summary import Promise
from benchmarks.workload import table

ORDERS, STEP, FIRST = 10_000, 500, 1_000
SIDE_BY_SIDE = 12
MOST_SECONDS = 240.0
HOLD = 5


def by_orders(orders: int) -> Sequence[Promise]:
    """Stops after `MOST_SECONDS`; what 10,000 orders would have added is then told from the orders after `FIRST`."""
    seen: list[tuple[int, float, int]] = []
    with drone_here() as (drone, store, _):
        until = time.monotonic() + MOST_SECONDS
        done = 0
        while done < orders and (done < 2 * FIRST or time.monotonic() < until):
            run(drone, store, placed(store, STEP, [None] * SIDE_BY_SIDE))
            done += STEP
            gc.collect()
            seen.append((done, Held.of(os.getpid()).rss, len(gc.get_objects())))
    rows = [(f"{count:,}", f"{rss:.1f} MB", f"{objects:,}") for count, rss, objects in seen]
    table("A drone over short orders of two calls each", ("orders", "RSS", "objects"), rows)
    first, last = next(one for one in seen if one[0] >= FIRST), seen[-1]
    between = max(last[0] - first[0], 1)
    grown = (last[1] - first[1]) * max((ORDERS - FIRST) / between, 1)
    note = f"measured over {between:,} orders, {(last[2] - first[2]) / between:+.2f} objects each"
    return [Promise(f"a drone over {ORDERS:,} short orders, after {FIRST:,}", grown, HOLD, "MB", note=note)]
