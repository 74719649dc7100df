"""What delegation costs: one more subagent, and gates and budgets on every agent."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.workload import (
    CALLS,
    CHILD_PROMPT,
    MASTER_PROMPT,
    PATH,
    fake_provider,
    lookup,
    measured,
    models,
    order_id,
    prompt_of_a_turn,
    side_by_side,
    table,
)
from drone.agent.agent import AgentRuntime
from drone.agent.gates.report_gate import gate_for
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Model
from drone.agent.spending.budget import Budget
from drone.agent.subagents.delegation import Delegation, Wanted
from drone.agent.turns.turn import Task, Turn
from drone.crew import Crew
from drone.local_run import order_from
from drone.models.scripted import Line, ScriptedModel, by_prompt, call
from drone.order_context import OrderContext
from drone.settings import Settings
from drone.tools.frame.tool import FunctionTools, Joined
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.ids import root_record_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import Rule
from mcc.view.figures import CHARACTERS_PER_TOKEN, saved_by_delegation

ROOT = Path(__file__).resolve().parents[1]
SPAWNS = 16
REPEATS = 5
LIMITS = Limits(concurrency=16, total_tokens=100_000_000, cost_usd=1_000.0)
"""Limits on everything, none of which is reached; reservations are made nevertheless."""

RULES = (
    Rule(cel='result.status != "completed" || size(result.summary) > 0', message="Say what you found."),
    Rule(cel='receipts.exists(r, r.tool == "lookup" && r.ok)', message="Look something up first."),
)


async def cost_of_subagents() -> None:
    """Compare turns of 16 subagents, of 16 tool calls and of 16 rounds: the cost of a subagent and of a model call."""
    model = ScriptedModel(by_prompt(_plan), keep_asks=False)
    agents = await _cpu(partial(_turn, model, "spawn"))
    tools = await _cpu(partial(_turn, model, "tools"))
    rounds = await _cpu(partial(_turn, model, "rounds"))
    spawn, one_round = (agents - tools) / SPAWNS, rounds / (SPAWNS + 1)
    rows = [
        ("a subagent with its one model call", f"{spawn:.2f} ms", f"{spawn / one_round:.2f}"),
        ("a round of an agent: model call, tool call", f"{one_round:.2f} ms", "1.00"),
    ]
    table("CPU of one more subagent (scripted model, memory journal)", ("step", "CPU", "ratio"), rows)


def _plan(prompt: str, replies: int) -> Line | str:
    if prompt == "spawn" and replies == 0:
        return Line(calls=tuple(call("subagent", agent_type="explore", prompt=f"part {n}") for n in range(SPAWNS)))
    if prompt == "tools" and replies == 0:
        return Line(calls=tuple(call("lookup", q=f"part {n}") for n in range(SPAWNS)))
    if prompt == "rounds" and replies < SPAWNS:
        return Line(calls=(call("lookup", q=f"part {replies}"),))
    return "Done."


async def _turn(model: Model, prompt: str) -> None:
    order = order_id()
    turn = Turn.begun(MemoryJournal(order), Budget(LIMITS))
    report = await _master(model, turn, gated=False).run(Task(prompt, root_record_id(order)), turn)
    assert report.completed, report.error


async def _cpu(turn: Callable[[], Awaitable[None]], turns: int = 40) -> float:
    """Median milliseconds of CPU of one turn."""
    await turn()
    figures = []
    for _ in range(REPEATS):
        gc.collect()
        spent = await measured(partial(side_by_side, turn, turns, 1))
        figures.append(spent.cpu / turns * 1000)
    return median(figures)


def _master(model: Model, turn: Turn, *, gated: bool) -> AgentRuntime:
    tools = FunctionTools([lookup])
    child = AgentDefinition(name="explore", prompt=CHILD_PROMPT, result="report" if gated else "text")
    child = child.model_copy(update={"rules": RULES}) if gated else child
    gate = gate_for(child, is_subagent=True)

    def create(wanted: Wanted) -> AgentRuntime:
        return AgentRuntime(child, model=model, tools=tools, limits=LIMITS, gate=gate)

    own = Joined(tools, Delegation(turn, {"explore": "Looks facts up."}, create, depth=0))
    definition = AgentDefinition(name="master", prompt=MASTER_PROMPT)
    return AgentRuntime(definition, model=model, tools=own, limits=LIMITS)


async def gated_turns(address: str, latency_ms: int = 200, count: int = 200) -> None:
    """The turn of 38 calls, bare and then with a CEL gate on every subagent and every limit set."""
    ideal = PATH * latency_ms / 1000
    rows = []
    for gated in (False, True):
        ours = models(address, latency_ms=latency_ms, stream=False)
        turn = partial(_workload, ours.get("fake"), gated)
        await turn()
        spent = await measured(partial(side_by_side, turn, count, count))
        await ours.aclose()
        what = "gates, rules and budgets" if gated else "none of them"
        cpu = spent.cpu / (count * CALLS) * 1000
        rows.append(
            (what, f"{spent.wall:.2f} s", f"{spent.wall / ideal:.2f}", f"{cpu:.2f} ms", f"{spent.cpu / spent.wall:.0%}")
        )
    head = ("with", "wall", "wall/ideal", "CPU per call", "busy")
    table(f"{count} concurrent turns of {CALLS} calls ({latency_ms} ms a call, target: wall/ideal <= 1.8)", head, rows)


async def _workload(model: Model, gated: bool) -> None:
    order = order_id()
    limits = LIMITS if gated else Limits(concurrency=16)
    turn = Turn.begun(MemoryJournal(order), Budget(limits))
    report = await _master(model, turn, gated=gated).run(Task(prompt_of_a_turn(), root_record_id(order)), turn)
    if not report.completed:
        raise RuntimeError(f"a turn of the benchmark failed: {report.error}")


async def context_savings() -> None:
    """How much of its subagents' work a parent reads: the shipped agents on this repository, with the offline model."""
    settings = Settings(workspace_roots=(ROOT,))
    crew = Crew.from_settings(settings)
    rows = []
    for prompt in ("Explain this repository", "Review this repository for security risks"):
        order = order_from(prompt, ROOT, "master", "offline", [])
        journal = MemoryJournal(order.id)
        await crew.run(order, OrderContext(journal))
        record = journal.fold.record()
        assert record is not None
        saved = saved_by_delegation(record)
        reported = f"{saved.reported // CHARACTERS_PER_TOKEN:,}"
        worked = f"{saved.worked // CHARACTERS_PER_TOKEN:,}"
        rows.append((prompt, len(record.subagent_history), worked, reported, f"{saved.tokens:,}", f"{saved.share:.0%}"))
    await crew.close()
    head = ("task", "subagents", "read by them", "reported to the parent", "saved", "share")
    table("Tokens of subagents' work that stay out of the parent's context (4 characters a token)", head, rows)


def main() -> None:
    asyncio.run(cost_of_subagents())
    asyncio.run(context_savings())
    with fake_provider() as address:
        asyncio.run(gated_turns(address))


if __name__ == "__main__":
    main()
