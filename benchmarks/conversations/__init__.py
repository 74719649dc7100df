"""Whether a session is as good at turn 1,000 as at turn 10: how much of each request repeats the one before, and what a
turn costs.

    python -m benchmarks conversations [--turns 1000] [--database sqlite,postgresql]

A real drone's parts with the shipped master agent in a workspace, and a scripted model that answers at once; every
other turn reads a file. The share is measured twice: by what the journal says, and by comparing the requests.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa

from benchmarks.conversations.counted import Counter, forwarded, read_from_files
from benchmarks.journal import postgres_url
from benchmarks.summary import Promise
from benchmarks.workload import table
from drone.agent.ports.messages import UserMessage
from drone.agent.ports.model import Ask
from drone.agent.ports.opening import PUT_AWAY
from drone.agent.ports.prefix import PREFIX_CHANGED
from drone.agent.ports.transcript import request_in
from drone.crew import Crew
from drone.definitions import Definitions
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.settings import Settings
from mcc.contracts.journal import AgentStarted, AgentStep
from mcc.contracts.model_facts import ModelReplied
from mcc.store.database.migrate import upgrade
from mcc.store.store import Store, open_store
from tests.drone.worker.bench_of_orders import Bench
from tests.parity.world import OneModel

TURNS, EARLY, SESSIONS = 1_000, 10, 8
WINDOW, PART = 100_000, 15
"""Tokens of the model's context, of which each turn takes one part: the tenth turn is the last one that all fits."""
FILL = "The gardener wrote down what grew where. "
SHARE, RATIO = 0.995, 1.5
NEAR = 0.06
"""Turns that show so nearly the same number of tokens are compared."""


class Answering(ScriptedModel):
    """Answers at once, and compares each request with the one before: bytes of that, and those in common."""

    context_tokens: int | None = None

    def __init__(self, *, compares: bool) -> None:
        super().__init__(self._answer)
        self._before: list[bytes] = []
        self._compares = compares
        self.bytes_before = self.bytes_same = self.pairs = self.breaks = 0

    def _answer(self, ask: Ask) -> Said:
        if self._compares:
            self._compare(ask)
        self.asks.clear()
        last = ask.messages[-1]
        reads = isinstance(last, UserMessage) and request_in(last.text).startswith("read")
        return Line("I look.", (call("read_file", path="README.md"),)) if reads else "It is all written down."

    def _compare(self, ask: Ask) -> None:
        tools = [repr((tool.name, tool.description, tool.parameters)).encode() for tool in ask.tools]
        pieces = [ask.system.encode(), *tools, *(repr(message).encode() for message in ask.messages)]
        same = 0
        for old, new in zip(self._before, pieces, strict=False):
            if old != new:
                break
            same += len(old)
        if self._before:
            before = sum(map(len, self._before))
            self.pairs, self.bytes_before = self.pairs + 1, self.bytes_before + before
            self.bytes_same, self.breaks = self.bytes_same + same, self.breaks + (same < before)
        self._before = pieces


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn showed and cost."""

    shown_tokens: int
    shortened: bool
    cpu_ms: float
    bytes_read: int


@dataclass(slots=True)
class Journaled:
    """What the journals say of the requests of a session."""

    same: int = 0
    before: int = 0
    told: int = 0
    _last: int | None = field(default=None)

    def add(self, store: Store, order_id: str) -> tuple[int, bool]:
        """Read a turn's journal; the tokens that it was shown, and whether anything was shortened for it."""
        tokens, shortened = 0, False
        for entry in store.journal.read(order_id):
            fact = entry.data
            if isinstance(fact, AgentStarted) and fact.context is not None:
                tokens = fact.context.tokens
            elif isinstance(fact, AgentStep):
                self.told += fact.name == PREFIX_CHANGED
                if fact.name == PUT_AWAY:
                    shortened, self._last = True, None
            elif isinstance(fact, ModelReplied) and fact.prefix is not None:
                if self._last is not None:
                    self.same, self.before = self.same + fact.prefix.same_bytes, self.before + self._last
                self._last = fact.prefix.bytes
        return tokens, shortened


class Talk(Bench):
    def __init__(self, store: Store, folder: Path, model: Answering, counter: Counter) -> None:
        settings = Settings(workspace_roots=(folder,))
        models: Any = OneModel(model)
        super().__init__(store, crew=Crew(settings, Definitions.load(settings.prompts_dir), models))
        self.folder = folder
        self.counter = counter
        self.journaled = Journaled()

    async def say(self, prompt: str, session_id: str | None) -> tuple[str, Turn]:
        """One turn; answers its session and what it cost."""
        order = self.place(prompt, session_id=session_id, workspace=str(self.folder))
        self.store.leases.renew(self.trust.incarnation or "", lease_seconds=3_600, active=0)
        read, began = self.counter(), time.process_time()
        if await self.runner.work(order.id) is None:
            raise RuntimeError(f"an order of the benchmark was not run: {self.store.orders.get(order.id)}")
        cost = 1000 * (time.process_time() - began), self.counter() - read
        tokens, shortened = self.journaled.add(self.store, order.id)
        return order.session_id, Turn(tokens, shortened, *cost)


@contextmanager
def stores(database: str) -> Iterator[tuple[Store, Path, Counter]]:
    """An empty store, a workspace, and the count of bytes read."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="mcc-")))
        url, counter = f"sqlite:///{folder / 'mcc.db'}", read_from_files
        if database == "postgresql":
            url, counter = stack.enter_context(forwarded(stack.enter_context(postgres_url())))
        upgrade(url)
        work = folder / "work"
        work.mkdir()
        (work / "README.md").write_text("# A garden\n" + "Roses and tulips.\n" * 40)
        store = open_store(url)
        if database == "sqlite":
            sa.event.listen(store.database.engine, "connect", without_cache)
        stack.callback(store.close)
        yield store, work, counter


def without_cache(connection: Any, _: object) -> None:
    """Let every page that is read come from the file."""
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("PRAGMA mmap_size = 0")


async def identical(database: str, turns: int) -> Sequence[Promise]:
    """A session of which everything is shown: the share of each request that the next one repeats."""
    model = Answering(compares=True)
    with stores(database) as (store, work, counter):
        async with Talk(store, work, model, counter) as talk:
            session_id = None
            for number in range(turns):
                word = "read" if number % 2 else "note"
                session_id, _ = await talk.say(f"{word} number {number}: {FILL * 4}", session_id)
    told, share = talk.journaled, model.bytes_same / model.bytes_before
    rows = [
        ("by comparing requests", f"{model.pairs:,}", f"{share:.4%}", f"{model.breaks}"),
        ("by the journal", "", f"{told.same / told.before:.4%}", f"{told.told} told"),
    ]
    table(
        f"Bytes of a request that the next one repeats, {turns:,} turns, {database}",
        ("", "pairs", "same", "breaks"),
        rows,
    )
    return [
        Promise(f"request repeated by the next one, {turns:,} turns, {database}", share, SHARE, at_least=True),
        Promise(f"rewrites that no entry tells of, {database}", max(0, model.breaks - told.told), 0),
    ]


async def growing(database: str, turns: int) -> Sequence[Promise]:
    """Turns of a fixed part of the window: what an early and a late one cost that show the same number of tokens."""
    model = Answering(compares=False)
    model.context_tokens = WINDOW
    prompt = FILL * (WINDOW * 4 // PART // len(FILL))
    with stores(database) as (store, work, counter):
        async with Talk(store, work, model, counter) as talk:
            early: list[Turn] = []
            for _ in range(SESSIONS):
                early += await _session(talk, prompt, EARLY)
            shown = max(turn.shown_tokens for turn in early if not turn.shortened)
            late = (await _session(talk, prompt, turns))[-turns // 5 :]
    alike = [_alike(some, shown) for some in (early, late)]
    figures = [(median(turn.cpu_ms for turn in some), median(turn.bytes_read for turn in some)) for some in alike]
    rows: list[tuple[object, ...]] = [
        (name, len(some), f"{cpu:.1f} ms", f"{read / 1000:,.0f} KB")
        for name, some, (cpu, read) in zip((f"up to {EARLY}", f"up to {turns:,}"), alike, figures, strict=True)
    ]
    (cpu, read), (cpu_late, read_late) = figures
    rows.append(("ratio", "", f"{cpu_late / cpu:.2f}", f"{read_late / read:.2f}"))
    table(f"A turn that shows about {shown:,} tokens, {database}", ("turn", "measured", "CPU", "read"), rows)
    return [
        Promise(f"CPU of turn {turns:,} / turn {EARLY}, {database}", cpu_late / cpu, RATIO),
        Promise(f"bytes read by turn {turns:,} / turn {EARLY}, {database}", read_late / read, RATIO),
    ]


async def _session(talk: Talk, prompt: str, turns: int) -> list[Turn]:
    session_id, costs = None, []
    for number in range(turns):
        session_id, turn = await talk.say(f"note {number}: {prompt}", session_id)
        costs.append(turn)
    return costs


def _alike(turns: Sequence[Turn], shown: int) -> list[Turn]:
    return [turn for turn in turns if not turn.shortened and abs(turn.shown_tokens - shown) <= NEAR * shown]


def main() -> Sequence[Promise]:
    parser = argparse.ArgumentParser(prog="benchmarks conversations", description=__doc__)
    parser.add_argument("figure", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--database", type=lambda text: text.split(","), default=["sqlite", "postgresql"])
    options = parser.parse_args()
    promises: list[Promise] = []
    for database in options.database:
        promises += asyncio.run(identical(database, options.turns))
        promises += asyncio.run(growing(database, options.turns))
    return promises
