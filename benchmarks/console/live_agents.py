"""Many agents at work in one order, and many entries a second, as the page shows them."""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from benchmarks.console.chromium import Window, chromium, origin, signed_in
from benchmarks.orders import Cpu
from benchmarks.service import Installation, installed
from benchmarks.summary import Promise
from benchmarks.workload import table
from benchmarks.writing import written_order
from drone.worker.journal import OrderJournal
from mcc.contracts.blocks import TextBlock
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentStarted, ToolFinished, ToolStarted
from mcc.contracts.limits import LimitChoice
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.record import ModelChoice
from mcc.contracts.usage import Usage

SECONDS = 15
TICK = 0.1
MOST_DROPPED = 1.0
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Shown:
    """What it took to show `agents` at work that write `rate` entries a second."""

    agents: int
    rate: int
    written: float
    """Entries a second that were written."""
    dropped: float
    """Per cent of the frames."""
    cpu: float
    """Of the page's main thread, in per cent of a processor."""
    service: float
    heap: int
    late: float
    """Seconds after the last entry until the page shows it."""


LOADS = ((10, 0), (10, 500), (500, 0), (500, 50), (500, 500))
"""Agents, and entries a second."""


def live_agents() -> Sequence[Promise]:
    with installed(0) as here:
        found = [asyncio.run(_shown(here, agents, rate)) for agents, rate in LOADS]
    rows = [
        (
            one.agents,
            f"{one.written:.0f}",
            f"{one.dropped:.1f} %",
            f"{one.cpu:.0f} %",
            f"{one.service:.0f} %",
            f"{one.heap / MEGABYTE:.0f} MB",
            f"{one.late:.1f} s" if one.rate else "",
        )
        for one in found
    ]
    head = ("agents", "entries/s", "dropped frames", "CPU of the page", "of the service", "heap", "last shown after")
    table(f"Agents at work in one order, over {SECONDS} s", head, rows)
    quiet, fast, still, many, both = found
    return [
        Promise("dropped frames, 500 entries/s of 10 agents", fast.dropped, MOST_DROPPED, "%", note=_beside(quiet)),
        Promise("dropped frames, 500 agents, 50 entries/s", many.dropped, MOST_DROPPED, "%", note=_beside(still)),
        Promise("dropped frames, 500 agents, 500 entries/s", both.dropped, MOST_DROPPED, "%", note=_beside(still)),
    ]


def _beside(quiet: Shown) -> str:
    return f"{quiet.dropped:.1f} % while nothing is written"


async def _shown(here: Installation, agents: int, rate: int) -> Shown:
    async with chromium() as browser, written_order(here) as journal:
        master = Origin(record_id=root_record_id(journal.order_id), agent="master")
        origins = [_child(master, number) for number in range(agents)]
        begun = ToolStarted(call_id="hire", round=1, index=0, name="subagents_run", arguments={}, idempotent=False)
        await journal.write(master, begun)
        for number, child in enumerate(origins):
            await journal.write(child, _started(number))
        context = await signed_in(browser, here)
        window = await Window.of(context)
        await window.page.goto(f"{origin(here)}/orders/{journal.order_id}")
        await window.page.locator(".agent-row").nth(agents - 1).wait_for(state="attached", timeout=120_000)
        # Until each has asked for its rows.
        asked = 0
        while asked < window.requests:
            asked = window.requests
            await window.page.wait_for_timeout(3_000)
        before, service = await window.work(), Cpu.of([here.service])
        began = time.perf_counter()
        writing = asyncio.create_task(_write(journal, origins, rate))
        dropped = 100 * await window.dropped(SECONDS)
        passed = time.perf_counter() - began
        after, used = await window.work(), Cpu.of([here.service]).since(service).own
        written = await writing
        ended = time.perf_counter()
        if rate:
            await journal.write(master, *_replied(99, "The last words of all."))
            await window.page.get_by_text("The last words of all.").wait_for(timeout=120_000)
        late = time.perf_counter() - ended
        await context.close()
    cpu = 100 * (after.seconds - before.seconds) / passed
    return Shown(agents, rate, written / SECONDS, dropped, cpu, 100 * used / passed, after.heap, late)


def _child(master: Origin, number: int) -> Origin:
    record = str(uuid5(UUID(master.record_id), str(number)))
    return Origin(record_id=record, parent_id=master.record_id, agent=f"agent-{number}", depth=1)


def _started(number: int) -> Fact:
    return AgentStarted(
        title=f"Side {number} of it",
        call_id="hire",
        prompt=f"Look at side {number}.",
        model=ModelChoice(requested="offline", effective="offline"),
        tools=(),
        limits=LimitChoice(),
        definition_digest="",
        setup_digest="",
    )


def _replied(at_round: int, text: str) -> Sequence[Fact]:
    return (
        ModelStarted(round=at_round, attempt=1, model="offline"),
        ModelReplied(
            round=at_round,
            attempt=1,
            model="offline",
            blocks=(TextBlock(text=text),),
            finish_reason="stop",
            usage=Usage(input_tokens=1_000, output_tokens=100, model_calls=1),
            first_token_ms=100.0,
        ),
    )


def _facts(number: int) -> Iterator[Fact]:
    """What an agent writes, round after round: a reply, and a call of a tool."""
    for at_round in itertools.count(1):
        yield from _replied(at_round, f"Agent {number} has found out more, in round {at_round}: **all is well**.")
        call = f"call-{number}-{at_round}"
        given = {"path": f"src/{at_round}.py"}
        yield ToolStarted(call_id=call, round=at_round, index=0, name="read_file", arguments=given, idempotent=True)
        yield ToolFinished(call_id=call, name="read_file", content="text", is_error=False, seconds=0.1)


async def _write(journal: OrderJournal, origins: Sequence[Origin], rate: int) -> int:
    """Write so many entries a second, of one agent after the other; answers how many."""
    telling = itertools.cycle([(child, _facts(number)) for number, child in enumerate(origins)])
    began, written = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < SECONDS:
        due = int(passed * rate) - written
        await asyncio.gather(*(journal.write(child, next(facts)) for child, facts in itertools.islice(telling, due)))
        written += due
        await asyncio.sleep(TICK)
    return written
