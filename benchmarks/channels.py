"""CPU of an order of two calls that publishes its entries on Redis channels, beside one that publishes only hints."""

import asyncio
import gc
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.stored import stored_turns
from benchmarks.workload import LIMITS, fake_provider, lookup, measured, models, side_by_side, table
from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import Journal
from drone.agent.ports.model import Model
from drone.agent.spending.budget import Budget
from drone.agent.turns.turn import Task, Turn
from drone.tools.frame.tool import FunctionTools
from drone.worker.broadcaster import Broadcaster
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Entry
from mcc.contracts.ids import root_record_id
from mcc.dispatch.broker import RedisAt
from mcc.dispatch.publisher import AsyncPublisher
from mcc.local.redis import RedisBinary, find_redis, redis_answers, server_arguments, socket_in, socket_url

ORDERS = 150
REPEATS = 7
AT_ONCE = 4
TARGET = "<= 1.05"


class HintsOnly(Broadcaster):
    """Publishes hints about new entries, but not the entries."""

    def entries(self, entries: Iterable[Entry]) -> None:
        self._urgent.set()


async def two_calls(model: Model, journal: Journal, order_id: str) -> str:
    """A turn of one tool call and the final answer."""
    definition = AgentDefinition(name="explore", prompt="You look facts up.")
    agent = AgentRuntime(definition, model=model, tools=FunctionTools([lookup]), limits=LIMITS)
    turn = Turn.begun(journal, Budget(LIMITS))
    report = await agent.run(Task("Look it up. [[sub r=1]]", root_record_id(order_id)), turn)
    if not report.completed or report.rounds != 2:
        raise RuntimeError(f"a turn of the benchmark failed: {report.error}")
    return report.text


@contextmanager
def redis_server() -> Iterator[str]:
    """Start a Redis for this benchmark; answers its URL."""
    found = find_redis(None)
    assert isinstance(found, RedisBinary)
    with tempfile.TemporaryDirectory() as folder:
        address = socket_in(Path(folder))
        command = server_arguments(found.path, address, Path(folder))
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            try:
                while not redis_answers(address):
                    assert server.poll() is None
                yield socket_url(address)
            finally:
                server.terminate()


async def cpu_per_order(redis_url: str, provider: str) -> dict[str, float]:
    """Median milliseconds of CPU of this process per order, both kinds alternating."""
    figures: dict[str, list[float]] = {}
    turns: dict[str, Callable[[], Awaitable[None]]] = {}
    ours = models(provider, latency_ms=0, stream=True)
    async with AsyncExitStack() as stack:
        for name, kind in (("hints only", HintsOnly), ("entries and hints", Broadcaster)):
            publisher = AsyncPublisher(RedisAt(redis_url))
            stack.push_async_callback(publisher.close)
            broadcaster = kind(publisher)
            publishing = asyncio.create_task(broadcaster.run())
            stack.callback(publishing.cancel)
            database = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "bench.db"
            stored = stored_turns(f"sqlite:///{database}", ours.get("fake"), broadcaster, two_calls)
            turns[name] = await stack.enter_async_context(stored)
            await turns[name]()
        for _ in range(REPEATS):
            for name, turn in turns.items():
                gc.collect()
                spent = await measured(partial(side_by_side, turn, ORDERS, AT_ONCE))
                figures.setdefault(name, []).append(spent.cpu / ORDERS * 1000)
    await ours.aclose()
    return {name: median(values) for name, values in figures.items()}


def main() -> None:
    with redis_server() as redis_url, fake_provider() as provider:
        figures = asyncio.run(cpu_per_order(redis_url, provider))
    baseline = figures["hints only"]
    rows = [
        (name, f"{cpu:.2f} ms", f"{cpu / baseline:.3f}", TARGET if cpu != baseline else "")
        for name, cpu in figures.items()
    ]
    table(
        f"CPU of an order of two calls by what it publishes ({ORDERS} orders)",
        ("publishes", "CPU", "ratio", "target"),
        rows,
    )


if __name__ == "__main__":
    main()
