"""CPU of the agent runtime per model call. `benchmarks.turns` measures many concurrent turns."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.stored import stored_turns
from benchmarks.summary import Promise
from benchmarks.workload import (
    CALLS,
    bare_httpx,
    fake_provider,
    measured,
    models,
    order_id,
    our_turn,
    side_by_side,
    table,
)
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Model
from mcc.resources import tune_collector

REPEATS = 5
TARGETS = {"runtime, memory journal": 0.5, "runtime, SQLite store": 0.9}


async def cpu_per_call(address: str, turns: int = 12) -> list[Promise]:
    """Measure with a model that answers at once. The contenders alternate, so that load affects all of them alike."""
    rows, promises = [], []
    for stream in (False, True):
        figures = await _alternating(address, stream, turns)
        bare = figures["bare httpx loop"]
        wire = "SSE" if stream else "plain"
        promises += [
            Promise(f"CPU per model call, {name}, {wire}, x bare httpx", figures[name] / bare, target)
            for name, target in TARGETS.items()
        ]
        for name, milliseconds in figures.items():
            target = TARGETS.get(name)
            rows.append(
                (
                    wire,
                    name,
                    f"{milliseconds:.2f} ms",
                    f"{milliseconds / bare:.2f}",
                    "" if target is None else f"<= {target}",
                )
            )
    table("CPU per model call (38 calls a turn, no latency)", ("wire", "contender", "CPU", "ratio", "target"), rows)
    return promises


async def _alternating(address: str, stream: bool, turns: int) -> dict[str, float]:
    ours = models(address, latency_ms=0, stream=stream)
    model = ours.get("fake")
    with TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / 'bench.db'}"
        async with bare_httpx(address, latency_ms=0, stream=stream) as loop, stored_turns(database, model) as stored:
            contenders: dict[str, Callable[[], Awaitable[object]]] = {
                "bare httpx loop": loop.turn,
                "runtime, memory journal": partial(in_memory, model),
                "runtime, SQLite store": stored,
            }
            figures = await _repeated(contenders, turns)
    await ours.aclose()
    return figures


async def _repeated(contenders: Mapping[str, Callable[[], Awaitable[object]]], turns: int) -> dict[str, float]:
    """Median milliseconds of CPU per model call by contender, four turns at a time."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in contenders.values():
        await turn()
    for _ in range(REPEATS):
        for name, turn in contenders.items():
            gc.collect()
            spent = await measured(partial(side_by_side, turn, turns, 4))
            figures[name].append(spent.cpu / (turns * CALLS) * 1000)
    return {name: median(values) for name, values in figures.items()}


async def in_memory(model: Model) -> None:
    order = order_id()
    await our_turn(model, MemoryJournal(order), order)


def main() -> list[Promise]:
    tune_collector()
    with fake_provider() as address:
        return asyncio.run(cpu_per_call(address))


if __name__ == "__main__":
    main()
