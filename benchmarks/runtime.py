"""The runtime's own cost: CPU per model call, and many turns at once in one process."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.stored import stored_turns
from benchmarks.workload import (
    CALLS,
    PATH,
    Spent,
    bare_httpx,
    fake_provider,
    measured,
    models,
    order_id,
    our_turn,
    side_by_side,
    table,
)
from drone.agent.journal import MemoryJournal
from drone.agent.model import Model
from mcc.store.resources import calm

REPEATS = 5


async def cpu_per_call(address: str, turns: int = 12) -> None:
    """No latency, one turn after another; the contenders take turns, so that a busy machine meets all alike."""
    rows = []
    for stream in (False, True):
        figures = await _alternating(address, stream, turns)
        bare = figures["bare httpx loop"]
        hold = {"runtime, memory journal": "<= 1.0", "runtime, SQLite store": "<= 1.6"}
        for name, milliseconds in figures.items():
            rows.append(
                (
                    "SSE" if stream else "plain",
                    name,
                    f"{milliseconds:.2f} ms",
                    f"{milliseconds / bare:.2f}",
                    hold.get(name, ""),
                )
            )
    table("CPU per model call (38 calls a turn, no latency)", ("wire", "what", "CPU", "ratio", "hold"), rows)


async def _alternating(address: str, stream: bool, turns: int) -> dict[str, float]:
    ours = models(address, latency_ms=0, stream=stream)
    model = ours.get("fake")
    with TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / 'bench.db'}"
        async with bare_httpx(address, latency_ms=0, stream=stream) as hand, stored_turns(database, model) as stored:
            contenders: dict[str, Callable[[], Awaitable[object]]] = {
                "bare httpx loop": hand.turn,
                "runtime, memory journal": partial(in_memory, model),
                "runtime, SQLite store": stored,
            }
            figures = await _repeated(contenders, turns)
    await ours.aclose()
    return figures


async def _repeated(contenders: Mapping[str, Callable[[], Awaitable[object]]], turns: int) -> dict[str, float]:
    """Median milliseconds of CPU per model call, four turns at a time."""
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


async def many_turns(address: str, latency_ms: int = 200) -> None:
    """Turns at once in one process; ideal is the critical path of 11 calls.

    A process has one core: when it is busy all the time, its CPU per call is the floor of the wall clock.
    """
    ideal = PATH * latency_ms / 1000
    rows = []
    for stream in (False, True):
        for count, hold in ((50, "<= 1.2"), (200, "<= 1.8")):
            for what in ("bare httpx, a client a turn", "runtime, memory journal", "runtime, SQLite store"):
                spent = await _at_once(address, latency_ms, stream, count, what)
                wire = "SSE" if stream else "plain"
                rows.append((wire, count, what, *_columns(spent, count, ideal, hold if "memory" in what else "")))
    head = ("wire", "turns", "what", "wall", "wall/ideal", "hold", "floor", "busy", "CPU per call", "memory per turn")
    table(f"Turns at once in one process ({latency_ms} ms a call, ideal {ideal:.1f} s)", head, rows)
    print("  Floor: what the CPU time alone, on the one core that a process has, makes of wall/ideal.")
    print("  Memory per turn: hold <= 200 KB; 0 where memory of the turns before was used again.")


async def _at_once(address: str, latency_ms: int, stream: bool, count: int, what: str) -> Spent:
    ours = models(address, latency_ms=latency_ms, stream=stream)
    model = ours.get("fake")

    async def bare() -> None:
        async with bare_httpx(address, latency_ms=latency_ms, stream=stream) as hand:
            await hand.turn()

    with TemporaryDirectory() as folder:
        async with stored_turns(f"sqlite:///{Path(folder) / 'bench.db'}", model) as stored:
            turns = {"runtime, memory journal": partial(in_memory, model), "runtime, SQLite store": stored}
            turn = turns.get(what, bare)
            await turn()
            spent = await measured(partial(side_by_side, turn, count, count))
    await ours.aclose()
    return spent


def _columns(spent: Spent, count: int, ideal: float, hold: str) -> tuple[str, ...]:
    return (
        f"{spent.wall:.2f} s",
        f"{spent.wall / ideal:.2f}",
        hold,
        f"{max(1.0, spent.cpu / ideal):.2f}",
        f"{spent.cpu / spent.wall:.0%}",
        f"{spent.cpu / (count * CALLS) * 1000:.2f} ms",
        f"{spent.kilobytes / count:.0f} KB",
    )


def main() -> None:
    calm()
    with fake_provider() as address:
        asyncio.run(cpu_per_call(address))
        asyncio.run(many_turns(address))


if __name__ == "__main__":
    main()
