"""MCC's own contenders for `turns`: the runtime with its journal in memory, with the store, and a bare httpx loop."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from benchmarks.peers.contender import Scenario, Setup, Turn, run
from benchmarks.runtime import in_memory
from benchmarks.stored import stored_turns
from benchmarks.workload import bare_httpx, models
from mcc.resources import tune_allocator, tune_collector


@asynccontextmanager
async def bare(scenario: Scenario) -> AsyncIterator[Turn]:
    """One client per turn: with a single client for all turns, httpx's connection pool takes most of the time."""

    async def turn() -> None:
        async with bare_httpx(scenario.server, latency_ms=scenario.latency_ms, stream=scenario.stream) as loop:
            await loop.turn()

    yield turn


@asynccontextmanager
async def memory(scenario: Scenario) -> AsyncIterator[Turn]:
    ours = models(scenario.server, latency_ms=scenario.latency_ms, stream=scenario.stream)
    yield partial(in_memory, ours.get("fake"))
    await ours.aclose()


@asynccontextmanager
async def sqlite(scenario: Scenario) -> AsyncIterator[Turn]:
    ours = models(scenario.server, latency_ms=scenario.latency_ms, stream=scenario.stream)
    with TemporaryDirectory() as folder:
        async with stored_turns(f"sqlite:///{Path(folder) / 'bench.db'}", ours.get("fake")) as turn:
            yield turn
    await ours.aclose()


SETUPS: dict[str, Setup] = {"bare": bare, "memory": memory, "sqlite": sqlite}

if __name__ == "__main__":
    tune_allocator()
    tune_collector()
    # The runtime runs on uvloop, as in a drone; the bare loop runs on asyncio's own event loop, as httpx users have it.
    run(SETUPS[sys.argv[1]], None if sys.argv[1] == "bare" else uvloop.new_event_loop)
