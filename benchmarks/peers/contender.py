"""Runs many concurrent turns of one contender in this process; `python -m benchmarks turns` starts one per contender.

It imports only the standard library, because it also runs in the environments of other frameworks. Reads a `Scenario`
as JSON from stdin and prints a `Spent` as JSON.
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

SAMPLE_SECONDS = 0.05


@dataclass(frozen=True)
class Scenario:
    """The turn, and how many run at once.

    An agent with the system prompt `master` and the user prompt `prompt` delegates to subagents through a tool
    `subagent(agent_type, prompt)`. Each subagent has the system prompt `child` and calls `lookup(q)`, which returns
    `fact`. `server`: the address of the fake provider, which answers a call after `latency_ms`.
    """

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
    """Totals of all turns: seconds of CPU, wall-clock seconds, peak growth of memory in kilobytes, and failed turns."""

    cpu: float
    wall: float
    kilobytes: float
    failed: int


Turn = Callable[[], Awaitable[object]]
Setup = Callable[[Scenario], AbstractAsyncContextManager[Turn]]


def run(setup: Setup, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
    """Run the scenario from stdin on a new event loop; `loop_factory` as in `asyncio.Runner`."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        spent = runner.run(_measured(Scenario(**json.load(sys.stdin)), setup))
    print(json.dumps(asdict(spent)), flush=True)


async def _measured(scenario: Scenario, setup: Setup) -> Spent:
    async with setup(scenario) as turn:
        await turn()
        gc.collect()
        before, peak, over = _resident(), _resident(), asyncio.Event()

        async def watch() -> None:
            nonlocal peak
            while not over.is_set():
                peak = max(peak, _resident())
                await asyncio.sleep(SAMPLE_SECONDS)

        watching = asyncio.create_task(watch())
        cpu, wall = time.process_time(), time.perf_counter()
        results = await asyncio.gather(*(turn() for _ in range(scenario.turns)), return_exceptions=True)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        over.set()
        await watching
    return Spent(cpu, wall, peak - before, sum(isinstance(one, BaseException) for one in results))


def _resident() -> float:
    """Kilobytes of this process that are in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024
