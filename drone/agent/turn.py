"""The turn: what all agents of one tree share, and what one of them is asked to do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from drone.agent.artifacts import Artifacts
from drone.agent.child_report import as_report, as_text
from drone.agent.controls.agent_control import AgentControl
from drone.agent.controls.control_router import ControlRouter
from drone.agent.controls.idle_watch import Block, IdleWatch
from drone.agent.conversations import Conversations
from drone.agent.journal import Journal
from drone.agent.messages import Message
from drone.agent.model import AskLater
from drone.agent.spending.budget import Budget
from drone.agent.subagent_slots import SubagentSlots
from drone.agent.threads import OwnThreads
from drone.agent.tree import Tree, TreeJournal
from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason


@dataclass(frozen=True, slots=True)
class Turn:
    journal: TreeJournal
    budget: Budget
    router: ControlRouter
    artifacts: Artifacts
    slots: SubagentSlots
    conversations: Conversations
    threads: OwnThreads = field(default_factory=OwnThreads)
    """Where whatever blocks is done for this turn."""
    beginning: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while an agent's set-up is kept, so that agents which are hired together begin in that order."""
    given_up: list[str] = field(default_factory=list)
    """Records of agents below a call that nobody waited for any longer; they are closed when the call ends."""
    root: str | None = None
    """The record of the agent that goes on, in a turn that an earlier drone began."""

    @classmethod
    def begun(
        cls,
        journal: Journal,
        budget: Budget,
        router: ControlRouter | None = None,
        tree: Tree | None = None,
        threads: OwnThreads | None = None,
    ) -> "Turn":
        """`tree`: that of a turn which goes on, without a `router`, which knows its tree."""
        router = router or ControlRouter(journal, tree=tree)
        budget.follow(router.tree)
        router.idle.watch(budget.stand_still)
        written = TreeJournal(journal, router.tree)
        return cls(
            written,
            budget,
            router,
            _artifacts(written, router.tree),
            SubagentSlots(budget.limits.concurrency),
            Conversations(),
            threads=threads or OwnThreads(),
            root=router.tree.root,
        )

    @property
    def tree(self) -> Tree:
        """What the journal of this turn says."""
        return self.router.tree

    @property
    def idle(self) -> IdleWatch:
        return self.router.idle

    @asynccontextmanager
    async def blocked(self, activity: str, record_id: str | None, block: Block) -> AsyncIterator[None]:
        """Inside, an activity (see `IdleWatch`) of this agent waits for a person or a clock, and others have its place.

        A tool that asks a person does it with its call's id: the order may be laid aside meanwhile, so the tool must be
        one that can be run again.
        """
        with self.idle.still(activity):
            async with self.slots.lent(record_id):
                with self.idle.blocked(activity, block):
                    yield


def _artifacts(journal: Journal, tree: Tree) -> Artifacts:
    """The kept texts of a turn that may have begun elsewhere."""
    artifacts = Artifacts(journal)
    for digest in tree.artifacts:
        artifacts.know(digest)

    before = tree.reports

    async def reports_again() -> None:
        for report in before:
            await as_report(report, artifacts)
            await as_text(report, artifacts)

    if before:
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


async def unhindered(turn: Turn, agent_control: AgentControl) -> None:
    """Return once this agent has its place again and nobody holds it up. Raises `Ended`."""
    record_id = agent_control.origin.record_id or ""
    with turn.idle.still(record_id):
        await turn.slots.regained(record_id)
    await rest(turn, agent_control)


async def rest(turn: Turn, agent_control: AgentControl) -> None:
    """Wait until nobody holds this agent up; meanwhile others may have its place. Raises `Ended`."""
    record_id = agent_control.origin.record_id or ""
    agent_control.check()
    while (block := agent_control.block()) is not None:
        async with turn.blocked(record_id, record_id, block):
            await agent_control.passes()


async def leave_alone(turn: Turn, agent_control: AgentControl, refusal: AskLater) -> None:
    """Wait until the provider is to be asked again, or a person resumes the agent; others may have its place."""
    record_id = agent_control.origin.record_id or ""
    until = now() + timedelta(seconds=refusal.seconds)
    reason = WaitingReason.RATE_LIMIT if refusal.named else WaitingReason.PROVIDER
    block = Block(reason, str(refusal).rstrip("."), until)
    async with turn.blocked(record_id, record_id, block):
        await agent_control.wait_out(refusal.seconds)
