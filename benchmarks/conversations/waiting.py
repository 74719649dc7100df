"""Whether a request waits while a summary is written beside it, by the times in the journals."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from benchmarks.conversations.speaking import Speaking, prose
from benchmarks.conversations.talk import FILE, Place, Talk
from benchmarks.summary import Promise
from benchmarks.workload import table
from drone.agent.compaction.summary import AGENT as SUMMARY_AGENT
from drone.agent.ports.model import Ask
from drone.models.scripted import Line, Said, call
from mcc.contracts.callers import Actor
from mcc.contracts.entry import Entry
from mcc.contracts.journal import AgentFinished, AgentStarted
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import OrderKind, WorkOrder
from mcc.contracts.order_facts import OrderClaimed
from mcc.contracts.status import OrderStatus
from mcc.transcript.messages import ToolResults, UserMessage

WINDOW = 40_000
REPLY_SECONDS = 0.05
WAITS_SHARE = 0.75
"""A request has waited for a summary if the pause before it took in so much of the time in which that was written. The
tools of these turns take milliseconds, and the beginning of a turn some more."""

Span = tuple[float, float]
"""Seconds since 1970."""


class Kind(NamedTuple):
    """Turns of a session: how many, how many rounds each before its answer, characters of a prompt, after how many
    turns somebody asks for a compaction (0: never), for how many seconds the provider caches it (None: unknown), and
    how long a summary takes. Beside a turn that is longer than the turn's beginning, within one shorter than the turn.
    """

    name: str
    turns: int
    rounds: int
    characters: int
    asked_every: int = 0
    cache_seconds: int | None = None
    summary_seconds: float = 0.2


KINDS = (
    Kind("background", turns=70, rounds=6, characters=4_500),
    Kind("asked", turns=25, rounds=2, characters=4_000, asked_every=5, summary_seconds=1.5),
    # What its provider forgets at once is due as soon as a turn has ended.
    Kind("idle", turns=40, rounds=2, characters=6_000, cache_seconds=0, summary_seconds=1.5),
    Kind("full", turns=60, rounds=0, characters=4_000),
)


class Working(Speaking):
    """Reads a few times before it answers; `summing`: it was asked for a summary."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(WINDOW, kind.summary_seconds)
        self.cache_seconds = kind.cache_seconds
        self._rounds = kind.rounds
        self.summing = asyncio.Event()

    def reply(self, ask: Ask) -> Said:
        own = takewhile(lambda message: not isinstance(message, UserMessage), reversed(ask.messages))
        rounds = sum(isinstance(message, ToolResults) for message in own)
        if rounds < self._rounds:
            look = call("read_file", path=FILE, start_line=rounds + 1, end_line=rounds + 2)
            return Line("I look.", (look,), delay_seconds=REPLY_SECONDS)
        return Line("It is all written down.", delay_seconds=REPLY_SECONDS)

    def summary(self, ask: Ask) -> Said:
        self.summing.set()
        return super().summary(ask)


@dataclass(frozen=True, slots=True)
class Pause:
    """What lay before a request of an agent, since its last reply or the order's claim. `waited`: the largest part of
    the time in which a summary was written that it took in."""

    seconds: float
    waited: float


def summaries(entries: Sequence[Entry]) -> Iterator[Span]:
    """When summaries were written, by the records of their requests."""
    began: dict[str | None, float] = {}
    for entry in entries:
        if entry.agent == SUMMARY_AGENT and isinstance(entry.data, AgentStarted):
            began[entry.record_id] = entry.at.timestamp()
        elif isinstance(entry.data, AgentFinished) and entry.record_id in began:
            yield began[entry.record_id], entry.at.timestamp()


def pauses(entries: Sequence[Entry], written: Sequence[Span]) -> Iterator[Pause]:
    """The pauses before all requests of an order's own agent; `written`: when summaries were."""
    since = 0.0
    for entry in entries:
        at = entry.at.timestamp()
        match entry.data:
            # Not its tools' ends: what is written together with a request has that request's time.
            case OrderClaimed():
                since = at
            case ModelReplied() if entry.parent_id is None:
                since = at
            case ModelStarted() if entry.parent_id is None:
                shares = ((min(at, end) - max(since, begin)) / (end - begin) for begin, end in written if end > begin)
                yield Pause(at - since, max(shares, default=0.0))
            case _:
                pass


async def measured(database: str, place: Place, _: int) -> Sequence[Promise]:
    """Sessions that outgrow their window: by turns of many rounds, with orders that compact them beside their turns,
    and by turns of one request, of which some have to wait."""
    rows: list[tuple[object, ...]] = []
    promises = []
    for kind in KINDS:
        found, moments = await _talked(place, kind)
        waited = sum(one.waited > WAITS_SHARE for one in found)
        longest = max(one.seconds for one in found)
        listed = ", ".join(f"{name} {moments[name]}" for name in sorted(moments))
        rows.append((kind.name, listed, f"{len(found):,}", f"{longest:.3f} s", waited))
        if kind.name != "full":
            promises.append(
                Promise(f"requests that wait for a summary, {kind.name}, {database}", waited, 0, note=listed)
            )
    head = ("session", "compactions", "requests", "longest pause before one", "waited for a summary")
    table(f"Requests beside summaries, {database}", head, rows)
    return promises


async def _talked(place: Place, kind: Kind) -> tuple[list[Pause], Counter[str]]:
    """The pauses of a session of this kind, and its compactions by when they were made."""
    model, found, session_id = Working(kind), list[Pause](), None
    async with Talk(place, model) as talk:
        for number in range(kind.turns):
            compacting, written = None, list[Span]()
            if session_id is not None and (order := _to_compact(talk, kind, number, session_id)) is not None:
                compacting = await _compacting(talk, model, order)
            turn, _ = await talk.say(f"note {number}: {prose(number, kind.characters)}", session_id)
            session_id = turn.session_id
            if compacting is not None:
                done = await compacting
                talk.journaled.add(talk.store, done.id)
                written += summaries(talk.journal(done.id))
            entries = talk.journal(turn.id)
            # A full window makes its agent wait, in whichever session.
            if kind.name == "full" or not any(getattr(entry.data, "reason", "") == "full" for entry in entries):
                found += pauses(entries, [*written, *summaries(entries)])
    return found, talk.journaled.moments


def _to_compact(talk: Talk, kind: Kind, number: int, session_id: str) -> WorkOrder | None:
    """The order that compacts the session before its next turn, if there is one: somebody asks for it, or the turn
    before has placed it."""
    if kind.asked_every and number % kind.asked_every == 0:
        return talk.store.compactions.ask(session_id, by=Actor("ann")).order
    orders = talk.store.orders.list(kind=OrderKind.COMPACT).items if kind.cache_seconds is not None else ()
    return next((one for one in orders if one.compacts == session_id and one.status is OrderStatus.QUEUED), None)


async def _compacting(talk: Talk, model: Working, order: WorkOrder) -> "asyncio.Task[WorkOrder]":
    """The work on an order that compacts a session, as soon as its model writes the summary."""
    model.summing.clear()
    working = asyncio.create_task(talk.work(order))
    summing = asyncio.create_task(model.summing.wait())
    await asyncio.wait([working, summing], return_when=asyncio.FIRST_COMPLETED)
    summing.cancel()
    return working
