"""Many subagents in the background, under drones that lose the order again and again.

`python -m tests.faults.simulation.background [--children 100000]`: each order hires many, and its drones lose it at
random commits. It ends with 1 when a report is delivered twice or never, and names the seed.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from random import Random

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import Fenced, MemoryJournal
from drone.agent.ports.model import Ask
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree
from drone.agent.subagents.children import Wanted
from drone.agent.subagents.delegation import Delegation
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, ToolFinished
from mcc.contracts.limits import Limits
from mcc.transcript.messages import AssistantMessage, UserMessage

ORDER = "order"
CROWD, CROWDS = 16, 8
"""Agents of one call, and calls of one order."""

LIMITS = Limits(
    concurrency=16, spawns=1_000, subagents_per_call=CROWD, total_tokens=10**9, output_tokens=10**9, rounds=1_000
)


class LostJournal(MemoryJournal):
    """A journal of a drone that loses its order after so many commits; None: never."""

    def __init__(self, entries: Sequence[Entry], commits: int | None) -> None:
        super().__init__(ORDER, entries=entries)
        self.left = commits

    async def write(self, origin: Origin, *facts: Fact) -> int:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Fenced("another drone has the order")
        return await super().write(origin, *facts)

    def defer(self, origin: Origin, *facts: Fact) -> None:
        # What is deferred by a drone that has lost its order is dropped.
        if self.left is None or self.left >= 0:
            super().defer(origin, *facts)


class Attempt:
    """One drone at work on the order of a seed."""

    def __init__(self, entries: Sequence[Entry], dice: Random, commits: int | None) -> None:
        self.journal = LostJournal(entries, commits)
        self.turn = Turn.begun(self.journal, Budget(LIMITS), tree=Tree.of(entries))
        self._dice = dice
        self._model = ScriptedModel(self._author, keep_asks=False)

    async def run(self) -> bool:
        """Whether the order was not lost."""
        try:
            report = await self._agent(Wanted("scout", 0)).run(Task("go", root_record_id(ORDER)), self.turn)
        except Fenced:
            return False
        assert report.completed, report.error
        return True

    def _agent(self, wanted: Wanted) -> AgentRuntime:
        below = Delegation(self.turn, {"scout": "Looks."}, self._agent, depth=wanted.depth)
        definition = AgentDefinition(name="scout", prompt="")
        return AgentRuntime(definition, model=self._model, tools=below, limits=LIMITS)

    async def _author(self, ask: Ask) -> Said:
        for _ in range(self._dice.randrange(12)):
            await asyncio.sleep(0)
        prompt = next(message.text for message in ask.messages if isinstance(message, UserMessage))
        if prompt != "go":
            return f"{prompt} is done."
        replies = sum(isinstance(message, AssistantMessage) for message in ask.messages)
        if replies >= CROWDS:
            return "All is done."
        crowd = [{"role": "scout", "task": f"{replies}.{number}"} for number in range(CROWD)]
        hire = call("subagents_run", agents=crowd, background=True, max_concurrency=self._dice.randint(1, CROWD))
        look = call("subagent_wait", first=True) if replies and self._dice.random() < 0.3 else None
        return Line(calls=(hire,) if look is None else (hire, look))


async def play(seed: int) -> tuple[list[Entry], int]:
    """The journal of the order of this seed, and how often it was lost."""
    dice, entries, lost = Random(seed), list[Entry](), 0
    while True:
        commits = dice.randint(1, 150) if lost < 40 else None
        attempt = Attempt(entries, dice, commits)
        over = await attempt.run()
        entries = attempt.journal.entries
        if over:
            return entries, lost
        lost += 1


def faults_in(entries: Sequence[Entry]) -> list[str]:
    """What the journal of an order that is over does not keep."""
    hired, brought, ended, faults = set[str](), Counter[str](), set[str | None](), list[str]()
    for entry in entries:
        fact, delivered = entry.data, tuple[str, ...]()
        if isinstance(fact, AgentFinished):
            ended.add(entry.record_id)
        elif isinstance(fact, AgentDelivered):
            delivered = (fact.child_id,)
        elif isinstance(fact, ToolFinished):
            hired.update(fact.background)
            delivered = fact.delivered
        brought.update(delivered)
        faults += [f"{child} is delivered before its end" for child in delivered if child not in ended]
    faults += [f"{child} is delivered {times} times" for child, times in brought.items() if times > 1]
    faults += [f"{child} is never delivered" for child in hired - brought.keys()]
    began = {entry.record_id for entry in entries if isinstance(entry.data, AgentStarted)}
    faults += [f"{record_id} has no end" for record_id in began - ended]
    return faults if len(hired) == CROWD * CROWDS else [*faults, f"{len(hired)} were hired"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.simulation.background", description=__doc__)
    parser.add_argument("--children", type=int, default=100_000, help="how many in all")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    asked = parser.parse_args(arguments)
    began, losses, seeds, broken = time.process_time(), 0, -(-asked.children // (CROWD * CROWDS)), 0
    for seed in range(asked.first, asked.first + seeds):
        entries, lost = asyncio.run(play(seed))
        losses += lost
        if faults := faults_in(entries):
            broken += 1
            print(f"seed {seed}: {'; '.join(faults[:5])}", flush=True)
    seconds, children = time.process_time() - began, seeds * CROWD * CROWDS
    print(f"{children:,} subagents in {seeds:,} orders, {losses:,} times lost, {seconds:.1f} s of CPU; {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
