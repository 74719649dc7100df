"""Many turns at once in this process, by whoever plays them; `python -m benchmarks turns` starts one per contender.

Runs in environments of other frameworks too, so it knows nothing but the standard library. Reads a `Game` as JSON from
stdin, prints what it spent as JSON.
"""

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Game:
    """One turn: a master with `prompt` delegates to children with a tool `subagent(agent_type, prompt)`, and each of
    them calls `lookup(q)`, whose answer is `fact`. `server` is the address of the fake provider, which answers a call
    after `latency_ms`."""

    server: str
    latency_ms: int
    turns: int
    stream: bool
    master: str
    child: str
    prompt: str
    fact: str

    @property
    def address(self) -> str:
        return f"{self.server}/L{self.latency_ms}/T20/G0/v1"


@dataclass(frozen=True)
class Spent:
    """Of all turns: seconds of CPU and on the wall, kilobytes of memory at the most over what was there before."""

    cpu: float
    wall: float
    kilobytes: float
    failed: int


Turn = Callable[[], Awaitable[object]]
Player = Callable[[Game], AbstractAsyncContextManager[Turn]]


def run(player: Player, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
    """Plays the game of stdin, on a loop of its own; `loop_factory` as in `asyncio.Runner`."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        spent = runner.run(_played(Game(**json.load(sys.stdin)), player))
    print(json.dumps(asdict(spent)), flush=True)


async def _played(game: Game, player: Player) -> Spent:
    async with player(game) as turn:
        await turn()
        gc.collect()
        before, peak, over = _resident(), _resident(), asyncio.Event()

        async def watch() -> None:
            nonlocal peak
            while not over.is_set():
                peak = max(peak, _resident())
                await asyncio.sleep(LOOK_SECONDS)

        watching = asyncio.create_task(watch())
        cpu, wall = time.process_time(), time.perf_counter()
        ends = await asyncio.gather(*(turn() for _ in range(game.turns)), return_exceptions=True)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        over.set()
        await watching
    return Spent(cpu, wall, peak - before, sum(isinstance(end, BaseException) for end in ends))


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024
