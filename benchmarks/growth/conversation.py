"""CPU of a model call by the number of the agent's earlier rounds, alone and in a drone's whole order."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.one_drone import drone_here, run
from benchmarks.summary import Promise
from benchmarks.workload import FACT, MASTER_PROMPT, fake_provider, lookup, models, table
from drone.agent.agent import AgentRuntime
from drone.agent.ports.model import Ask, Listener, Model, Reply
from drone.tools.frame.tool import FunctionTools
from drone.worker.drone import DroneProcess
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.callers import Actor
from mcc.contracts.limits import Limits
from mcc.contracts.order import NewOrder
from mcc.store.store import Store

ROUNDS = (10, 100, 400)
"""The target holds up to the second. With 400 rounds each call sends 200 KB, which costs as much as all the rest."""

WIDTH = 8
AGENTS = 5
IN_AN_ORDER = 400
"""Model calls measured for each length of a drone's orders: forty orders of 10 rounds, or one of 400."""

TARGET = 1.5
LIMITS = Limits(rounds=1_000, tool_calls=10_000, output_tokens=100_000_000, total_tokens=1_000_000_000)


@dataclass(slots=True)
class MeteredModel:
    """A model that records the milliseconds of CPU between its calls, by the number of messages in the request."""

    inner: Model
    seen: dict[int, list[float]] = field(default_factory=dict)
    last: float = 0.0

    @property
    def name(self) -> str:
        return self.inner.name

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        now = time.process_time()
        if self.last:
            self.seen.setdefault(len(ask.messages), []).append((now - self.last) * 1000)
        self.last = now
        return await self.inner.ask(ask, listener)


def by_history() -> Sequence[Promise]:
    with fake_provider() as address:
        by_wire = asyncio.run(_by_history(address))
    drone = _by_order()
    found = {**by_wire, "drone": drone}
    rows = [(f"{n} rounds", *(f"{figures[n]:.2f} ms" for figures in found.values())) for n in ROUNDS]
    first, middle, last = ROUNDS
    for rounds in (middle, last):
        rows.append((f"{rounds} / {first}", *(f"{figures[rounds] / figures[first]:.2f}" for figures in found.values())))
    head = ("history", *(f"one more call, {wire}" for wire in by_wire), "a call in a drone's order of that length")
    table("CPU of a model call by the length of the conversation", head, rows)
    return [
        Promise(f"CPU of a model call, {middle} rounds / {first}, {name}", figures[middle] / figures[first], TARGET)
        for name, figures in found.items()
    ]


async def _by_history(address: str) -> dict[str, dict[int, float]]:
    """Milliseconds from one call to the next by wire and number of rounds, with the journal in memory."""
    found = {}
    for stream in (False, True):
        ours = models(address, latency_ms=0, stream=stream)
        model = MeteredModel(ours.get("fake"))
        definition = AgentDefinition(name="master", prompt=MASTER_PROMPT)
        agent = AgentRuntime(definition, model=model, tools=FunctionTools([lookup]), limits=LIMITS)
        for _ in range(AGENTS):
            model.last = 0.0
            report = await agent.run(f"Please look it all up. [[sub r={ROUNDS[-1] + WIDTH}]]")
            assert report.completed, report.error
        await ours.aclose()
        # Two messages per round: the tool call and its result.
        found["SSE" if stream else "plain"] = {rounds: _around(model, 2 * rounds) for rounds in ROUNDS}
    return found


def _around(model: MeteredModel, messages: int) -> float:
    """The figure at about `messages` messages: the median of the minima over all agents, since load only adds time."""
    return median(min(took) for count, took in model.seen.items() if abs(count - messages) <= WIDTH)


def _by_order() -> dict[int, float]:
    """Milliseconds of CPU of a whole drone per model call, over orders from claim to end, by number of rounds."""
    with drone_here() as (drone, store, work):
        for number in range(max(ROUNDS)):
            (work / f"fact number {number}").write_text(f"{number}: {FACT}\n", "utf-8")

        def measured(rounds: int, orders: int) -> float:
            return _orders_of(drone, store, work, rounds, orders)

        measured(1, 24)
        return {rounds: min(measured(rounds, IN_AN_ORDER // rounds) for _ in range(2)) for rounds in ROUNDS}


def _orders_of(drone: DroneProcess, store: Store, work: Path, rounds: int, orders: int) -> float:
    prompt = f"Read. [[sub r={rounds} tool=read_file]]"
    new_order = NewOrder(prompt=prompt, model="fake", workspace=str(work), limits=LIMITS)
    placed = [store.orders.place(new_order, by=Actor("bench")).order.id for _ in range(orders)]
    begun = time.process_time()
    run(drone, store, [placed])
    return 1000 * (time.process_time() - begun) / (orders * (rounds + 1))
