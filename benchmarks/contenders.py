"""Our contenders at many turns at once: the runtime with its journal in memory, with the store, and a bare loop."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from benchmarks.peers.contender import Game, Player, Turn, run
from benchmarks.runtime import in_memory
from benchmarks.stored import stored_turns
from benchmarks.workload import bare_httpx, models
from mcc.store.resources import tune_allocator, tune_collector


@asynccontextmanager
async def bare(game: Game) -> AsyncIterator[Turn]:
    """A client a turn: with one for all, httpx's pool is what takes the time."""

    async def turn() -> None:
        async with bare_httpx(game.server, latency_ms=game.latency_ms, stream=game.stream) as hand:
            await hand.turn()

    yield turn


@asynccontextmanager
async def memory(game: Game) -> AsyncIterator[Turn]:
    ours = models(game.server, latency_ms=game.latency_ms, stream=game.stream)
    yield partial(in_memory, ours.get("fake"))
    await ours.aclose()


@asynccontextmanager
async def sqlite(game: Game) -> AsyncIterator[Turn]:
    ours = models(game.server, latency_ms=game.latency_ms, stream=game.stream)
    with TemporaryDirectory() as folder:
        async with stored_turns(f"sqlite:///{Path(folder) / 'bench.db'}", ours.get("fake")) as turn:
            yield turn
    await ours.aclose()


PLAYERS: dict[str, Player] = {"bare": bare, "memory": memory, "sqlite": sqlite}

if __name__ == "__main__":
    tune_allocator()
    tune_collector()
    # Ours run on the event loop that a drone has; the bare loop is httpx as it comes.
    run(PLAYERS[sys.argv[1]], None if sys.argv[1] == "bare" else uvloop.new_event_loop)
