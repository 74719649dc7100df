"""The probes of `make bench-compare`: each prints one figure of one checkout.

    .venv/bin/python benchmarks/probes.py NAME [TIMES]      # in the checkout to measure

It runs by its path, so that it imports the checkout in the current directory, which may be older than this file. What
an older checkout lacks raises ImportError; the comparison then shows "not measured". Renaming what is imported below
therefore ends the comparison with older commits.
"""

import os
import sys

sys.path[0] = os.getcwd()

import asyncio  # noqa: E402
import gc  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import time  # noqa: E402
from collections.abc import Awaitable, Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from tempfile import TemporaryDirectory  # noqa: E402

TURNS = 6


def imported(statement: str) -> float:
    """Milliseconds of CPU of a Python process that only runs this statement; the minimum of five."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", statement], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times) * 1000


def calls(*, stream: bool, stored: bool) -> float:
    """Milliseconds of CPU per model call, over whole turns."""
    from benchmarks.workload import CALLS, fake_provider

    with fake_provider() as address:
        return asyncio.run(_turns(address, stream, stored)) / (TURNS * CALLS) * 1000


async def _turns(address: str, stream: bool, stored: bool) -> float:
    from benchmarks.stored import stored_turns
    from benchmarks.workload import models, order_id, our_turn
    from drone.agent.ports.journal import MemoryJournal

    ours = models(address, latency_ms=0, stream=stream)
    model = ours.get("fake")

    async def in_memory() -> None:
        order = order_id()
        await our_turn(model, MemoryJournal(order), order)

    try:
        if not stored:
            return await _spent(in_memory)
        with TemporaryDirectory() as folder:
            async with stored_turns(f"sqlite:///{Path(folder) / 'probe.db'}", model) as turn:
                return await _spent(turn)
    finally:
        await ours.aclose()


async def _spent(turn: Callable[[], Awaitable[object]]) -> float:
    await turn()
    gc.collect()
    begun = time.process_time()
    for _ in range(TURNS):
        await turn()
    return time.process_time() - begun


def events(times: int) -> None:
    """Hot: parse the events of a streamed reply."""
    from drone.models.body import EventStreamParser

    piece = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":" token"}}]}\n\n' * 20
    for _ in range(times):
        EventStreamParser().feed(piece)


def entries(times: int) -> None:
    """Hot: build an entry, write it as JSON and read it again."""
    from mcc.contracts.entry import ORDER, Draft, Entry
    from mcc.contracts.journal import ToolFinished
    from mcc.contracts.shape import now, to_json

    at, content = now(), "what a tool says " * 20
    for number in range(times):
        fact = ToolFinished(call_id="c1", name="lookup", content=content, is_error=False)
        raw = to_json(Draft(at=at, origin=ORDER, data=fact).numbered("order-1", number + 1))
        Entry.model_validate_json(raw)


def folds(times: int) -> None:
    """Hot: apply the entries of one call to the record."""
    from mcc.contracts.entry import ORDER, Draft
    from mcc.contracts.fold import Fold
    from mcc.contracts.journal import AgentStep
    from mcc.contracts.shape import now

    fold, at = Fold("order-1"), now()
    for number in range(times):
        fold.add(Draft(at=at, origin=ORDER, data=AgentStep(name="step", message="on")).numbered("order-1", number + 1))


MILLISECONDS: dict[str, Callable[[], float]] = {
    "import": lambda: imported("import drone; drone.Agent"),
    "help": lambda: imported("import sys; sys.argv = ['mcc', '--help']; from mcc.cli.main import main; main()"),
    "call": lambda: calls(stream=False, stored=False),
    "call-sse": lambda: calls(stream=True, stored=False),
    "call-stored": lambda: calls(stream=True, stored=True),
}
HOT: dict[str, Callable[[int], None]] = {"events": events, "entries": entries, "folds": folds}


def main() -> None:
    name = sys.argv[1]
    if name in HOT:
        HOT[name](int(sys.argv[2]))
    else:
        print(MILLISECONDS[name]())


if __name__ == "__main__":
    main()
