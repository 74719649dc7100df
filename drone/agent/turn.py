"""This room is for the turn: what all agents of one tree share, and what one of them is asked to do."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from drone.agent.artifacts import Artifacts
from drone.agent.controls.bridge import Bridge
from drone.agent.controls.standstill import Block, Standstill
from drone.agent.messages import Message
from drone.agent.past import Past
from drone.agent.ports import Journal
from drone.agent.report import Report
from drone.agent.spending.budget import Budget
from drone.agent.subagents.conversations import Conversations
from drone.agent.subagents.places import Places
from drone.agent.subagents.told import as_report, told
from drone.agent.threads import OwnThreads


@dataclass(frozen=True, slots=True)
class Turn:
    journal: Journal
    budget: Budget
    bridge: Bridge
    artifacts: Artifacts
    places: Places
    conversations: Conversations
    past: Past = field(default_factory=Past)
    """What an earlier drone did of this turn."""
    threads: OwnThreads = field(default_factory=OwnThreads)
    """Where whatever blocks is done for this turn."""
    beginning: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while an agent's set-up is kept, so that agents which are hired together begin in that order."""
    given_up: list[str] = field(default_factory=list)
    """Records of agents below a call that nobody waited for any longer; they are closed when the call ends."""

    @classmethod
    def begun(
        cls,
        journal: Journal,
        budget: Budget,
        bridge: Bridge | None = None,
        past: Past | None = None,
        threads: OwnThreads | None = None,
    ) -> "Turn":
        """`past`: that of a turn which goes on; what it spent is taken off the budget."""
        past = past or Past()
        budget.recall(past)
        bridge = bridge or Bridge(journal)
        bridge.expect(past)
        bridge.standstill.watch(budget.stand_still)
        return cls(
            journal,
            budget,
            bridge,
            _artifacts(journal, past),
            Places(budget.limits.concurrency),
            Conversations(),
            past=past,
            threads=threads or OwnThreads(),
        )

    @property
    def standstill(self) -> Standstill:
        return self.bridge.standstill

    @asynccontextmanager
    async def blocked(self, strand: str, record_id: str | None, block: Block) -> AsyncIterator[None]:
        """Inside, a strand (see `Standstill`) of this agent waits for a person or a clock, and others have its place.

        A tool that asks a person does it with its call's id: the order may be laid aside meanwhile, so the tool must be
        one that can be run again.
        """
        with self.standstill.still(strand):
            async with self.places.lent(record_id):
                with self.standstill.blocked(strand, block):
                    yield

    def reports_of(self, record_ids: Iterable[str]) -> list[Report]:
        """How those of these agents ended that an earlier drone brought to their end."""
        records = (self.past.record(record_id) for record_id in record_ids)
        return [record.report() for record in records if record is not None and record.finished is not None]


def _artifacts(journal: Journal, past: Past) -> Artifacts:
    """The kept texts of a turn that may have begun elsewhere."""
    artifacts = Artifacts(journal)
    for digest in past.artifacts:
        artifacts.know(digest)

    async def reports_again() -> None:
        for report in past.reports:
            await as_report(report, artifacts)
            await told(report, artifacts)

    if past.records:
        artifacts.remember_by(reports_again)
    return artifacts


@dataclass(frozen=True, slots=True)
class Task:
    """What an agent is asked to do, and where its record hangs in the tree.

    `earlier` is the conversation that goes before the prompt, of the record that `continues` names; `tools_removed` is
    what people took away from the agent in it.
    """

    prompt: str
    record_id: str
    title: str = ""
    parent_id: str | None = None
    call_id: str | None = None
    depth: int = 0
    continues: str | None = None
    earlier: tuple[Message, ...] = ()
    turn_number: int = 1
    tools_removed: tuple[str, ...] = ()


def title_of(prompt: str, characters: int = 60) -> str:
    """The first line of a prompt that has words, cut to a title."""
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"
