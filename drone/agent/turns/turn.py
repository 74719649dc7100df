"""The turn: what all agents of one tree share, the task of one of them, and `Steering` for programs."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from drone.agent.control.agent_control import AgentControl
from drone.agent.control.control_router import ControlRouter
from drone.agent.control.idle_watch import Block, IdleWatch
from drone.agent.control.inbox import People, TurnInbox
from drone.agent.ports.artifacts import Artifacts
from drone.agent.ports.conversations import Conversations, as_report, as_text
from drone.agent.ports.journal import Journal
from drone.agent.ports.model import AskLater, ModelError
from drone.agent.ports.permits import Permits
from drone.agent.ports.write_access import SharedWriting
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree, TreeJournal
from drone.agent.turns.background import Background
from drone.agent.turns.earlier import EarlierTurns
from drone.agent.turns.slots import SubagentSlots
from drone.threads import OwnThreads
from mcc.contracts.attachments import ShownAttachment
from mcc.contracts.control import Control, ControlKind, SteerMode, control_refusal
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import now
from mcc.contracts.similar import hints_keywords
from mcc.contracts.status import WaitingReason
from mcc.redaction import Redactor
from mcc.transcript.messages import Message


@dataclass(frozen=True, slots=True)
class Turn:
    """What all agents of one tree share."""

    journal: TreeJournal
    budget: Budget
    router: ControlRouter
    artifacts: Artifacts
    slots: SubagentSlots
    conversations: Conversations
    threads: OwnThreads = field(default_factory=OwnThreads)
    """Threads for this turn's blocking work."""
    beginning: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while an agent's setup is stored, so that agents hired together begin in that order."""
    abandoned: list[str] = field(default_factory=list)
    """Record ids of agents that a tool's code stopped waiting for; they are closed when the tool call ends."""
    background: dict[str, Background] = field(default_factory=dict)
    """The subagents in the background of each agent running here that has any, by its record id."""
    invoked: Counter[str] = field(default_factory=Counter)
    """Number of agents that the code of each tool call has run under this drone, by call id."""
    root: str | None = None
    """Record id of the root agent in a resumed turn; None in a new one."""
    redactor: Redactor = field(default_factory=Redactor)
    """Removes secrets from texts that tools show or store beside their result."""

    writing: SharedWriting | None = None
    """How its agents come to write in the workspace; None: whenever they like."""

    before: EarlierTurns | None = None
    """The turns of its session that it is shown; None: there are none."""

    permits: dict[str, Permits] = field(default_factory=dict)
    """The effective permission of each agent running here, by record id."""

    def permitted(self, origin: Origin, own: Permits) -> Permits:
        """The effective permission of the agent at `origin`: its own, restricted by its parent's."""
        above = self.permits.get(origin.parent_id or "")
        self.permits[origin.record_id or ""] = found = own if above is None else own.below(above)
        return found

    egress: dict[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    """The lists of hosts of each agent running here, as in `Call`, by record id."""

    def reachable(self, origin: Origin, own: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
        """The lists of hosts of the agent at `origin`: those of its parent, which its `own` may already begin with, and
        its own."""
        above = self.egress.get(origin.parent_id or "", ())
        known = tuple(own[: len(above)]) == tuple(above)
        self.egress[origin.record_id or ""] = found = own if known else (*above, *own)
        return found

    @classmethod
    def begun(
        cls,
        journal: Journal,
        budget: Budget,
        router: ControlRouter | None = None,
        tree: Tree | None = None,
        threads: OwnThreads | None = None,
        redactor: Redactor | None = None,
        people: People | None = None,
        writing: SharedWriting | None = None,
    ) -> "Turn":
        """`tree`: that of a resumed turn. `people`: who can be asked. Give both only without a `router`, which already
        has them."""
        router = router or ControlRouter(journal, tree=tree, people=people)
        budget.follow(router.tree)
        router.idle.watch(budget.set_idle)
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
            redactor=redactor or Redactor(),
            writing=writing,
        )

    @property
    def tree(self) -> Tree:
        """The state of this turn according to its journal."""
        return self.router.tree

    def in_background(self, record_id: str | None) -> bool:
        """Whether this agent, or one above it, runs in the background."""
        return any(
            self.tree.is_under(record_id, child_id) for known in self.background.values() for child_id in known.ids
        )

    @property
    def idle(self) -> IdleWatch:
        return self.router.idle

    @property
    def inbox(self) -> TurnInbox:
        return self.router.inbox

    def hold_up(self, why: str) -> None:
        """Nothing of this turn begins any more under this drone, and its order is parked: a call had its effect, which
        could not be recorded for this reason. A turn that cannot be parked goes on."""
        if self.idle.parks:
            self.router.hold_up(Block(WaitingReason.DISK, f"what a call did could not be recorded: {why}"))

    @property
    def workspace_key(self) -> str:
        """Identifies the workspace of its agents in approvals; "" without one."""
        return self.router.workspace_key

    @asynccontextmanager
    async def blocked(self, activity: str, record_id: str | None, block: Block) -> AsyncIterator[None]:
        """Context in which an activity (see `IdleWatch`) of this agent waits for a person or a clock, without its slot.

        A tool that asks a person passes its call's id as `activity`. The order may be parked meanwhile, so it must be a
        tool that can be run again.
        """
        with self.idle.waiting(activity):
            async with self.slots.lent(record_id):
                with self.idle.blocked(activity, block):
                    yield


def _artifacts(journal: Journal, tree: Tree) -> Artifacts:
    """The artifacts of a turn, those of a resumed one included."""
    artifacts = Artifacts(journal)
    for digest in tree.artifacts:
        artifacts.register(digest)
    artifacts.register_pictures(*tree.pictures)
    before = tree.reports

    async def reports_again() -> None:
        for report in before:
            await as_report(report, artifacts)
            await as_text(report, artifacts)

    if before:
        artifacts.on_unknown_handle(reports_again)
    return artifacts


@dataclass(frozen=True, slots=True)
class Task:
    """The task of an agent, what it is given with it, and the place of its record in the tree."""

    prompt: str
    record_id: str
    title: str = ""
    parent_id: str | None = None
    call_id: str | None = None
    depth: int = 0
    continues: str | None = None
    continues_order: str | None = None
    """The order of that record, where it is that of an earlier turn."""
    earlier: tuple[Message, ...] = ()
    """The conversation before the prompt, from the record that `continues` names."""
    turn_number: int = 1
    tools_removed: tuple[str, ...] = ()
    """Tools that people removed from the agent in that conversation."""
    agent: str = ""
    """The name it works under, empty = its definition's."""
    seconds: float | None = None
    """Wall clock granted by its caller, None = its own limits; it can only shorten those."""
    waits: bool = True
    """Whether it may wait for a provider for longer than a model call lasts."""
    node: str | None = None
    """Path of the document node that it works on."""
    attachments: tuple[ShownAttachment, ...] = ()


def title_of(prompt: str, characters: int = 60) -> str:
    """The first non-blank line of a prompt, cut to a title."""
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"


async def until_ready(turn: Turn, agent_control: AgentControl) -> None:
    """Wait until this agent has its slot again and is not paused. Raises `RunEnded`."""
    record_id = agent_control.origin.record_id or ""
    with turn.idle.waiting(record_id):
        await turn.slots.regained(record_id)
    await wait_while_paused(turn, agent_control)


async def wait_while_paused(turn: Turn, agent_control: AgentControl, activity: str | None = None) -> None:
    """Wait until this agent is not paused; its slot is lent out meanwhile. `activity`: what waits (see `IdleWatch`),
    None = its run. Raises `RunEnded`."""
    record_id = agent_control.origin.record_id or ""
    agent_control.check()
    while (block := agent_control.block()) is not None:
        async with turn.blocked(activity or record_id, record_id, block):
            await agent_control.until_resumed()


async def wait_for_provider(turn: Turn, agent_control: AgentControl, refusal: AskLater) -> None:
    """Wait until the provider can be asked again, or a person resumes the agent; its slot is lent out meanwhile."""
    record_id = agent_control.origin.record_id or ""
    until = now() + timedelta(seconds=refusal.seconds)
    reason = WaitingReason.RATE_LIMIT if refusal.named else WaitingReason.PROVIDER
    block = Block(reason, str(refusal).rstrip("."), until)
    async with turn.blocked(record_id, record_id, block):
        await agent_control.wait_for_provider(refusal.seconds)


@dataclass(frozen=True, slots=True)
class ProviderWait:
    """How an agent waits for its provider. `waits`: whether it may do so for longer than a model call lasts."""

    turn: Turn
    agent_control: AgentControl
    waits: bool = True

    def final(self, refusal: AskLater) -> ModelError | None:
        """The refusal as an error that ends what was asked, where the order may not wait that long; else None."""
        idle = self.turn.idle
        if not self.waits:
            return refusal.as_final("")
        if not idle.may_wait(refusal.seconds):
            return refusal.as_final("longer than its order may wait" if idle.parks else "")
        return None

    async def until_over(self, refusal: AskLater) -> None:
        """Wait until the provider can be asked again, and the agent may go on. Raises `RunEnded`."""
        await wait_for_provider(self.turn, self.agent_control, refusal)
        await until_ready(self.turn, self.agent_control)


@hints_keywords
class Steering:
    """Controls the agents of one turn. `record_id`: one agent with its descendants; None: the whole turn.

    Every method returns the control in its current state: applied at entry `applied_seq`, refused with a reason, or
    open: a message is open until its agent reads it, and its model is shown it with the request of entry
    `carried_seq`. `asked` has the latest state of each. Use it on the event loop that runs the turn. Raises
    `JournalError`.

    `takes`: the only kinds of controls that are accepted, besides cancelling the whole turn; None = all.
    """

    def __init__(self, turn: Turn, takes: Collection[ControlKind | str] | None = None) -> None:
        """Raises ValueError for an unknown kind."""
        self._takes = None if takes is None else [ControlKind(kind) for kind in takes]
        self._router = turn.router
        self._router.report_to(self)
        self._asked: dict[str, Control] = {}

    @property
    def asked(self) -> tuple[Control, ...]:
        """All controls so far, in order, with their current state."""
        return tuple(self._asked.values())

    async def steer(
        self,
        message: str,
        *,
        record_id: str | None = None,
        redirect: bool = False,
        remove_tools: tuple[str, ...] = (),
        reason: str | None = None,
    ) -> Control:
        """Send a message before the agent's next model call; `redirect`: the message is its new task."""
        mode = SteerMode.REDIRECT if redirect else SteerMode.INJECT
        return await self._ask(
            ControlKind.STEER, record_id, reason, message=message, mode=mode, remove_tools=remove_tools
        )

    async def remove_tools(self, *names: str, record_id: str | None = None, reason: str | None = None) -> Control:
        """Remove tools, by tool or group name, for good."""
        return await self._ask(ControlKind.STEER, record_id, reason, remove_tools=names)

    async def set_metadata(
        self, metadata: Mapping[str, Any], *, record_id: str | None = None, reason: str | None = None
    ) -> Control:
        """Merge these into what tools see as `ToolContext.metadata`; the value None removes a key."""
        return await self._ask(ControlKind.SET_METADATA, record_id, reason, metadata=metadata)

    async def pause(self, *, record_id: str | None = None, reason: str | None = None) -> Control:
        """Start no further model or tool call until resumed."""
        return await self._ask(ControlKind.PAUSE, record_id, reason)

    async def resume(self, *, record_id: str | None = None, reason: str | None = None) -> Control:
        """Continue after a pause; agents that wait for a provider ask it now."""
        return await self._ask(ControlKind.RESUME, record_id, reason)

    async def cancel(self, *, record_id: str | None = None, reason: str | None = None) -> Control:
        """Stop an agent and its descendants; its siblings continue, and its parent is told."""
        return await self._ask(ControlKind.CANCEL, record_id, reason)

    async def _ask(
        self,
        kind: ControlKind,
        record_id: str | None,
        reason: str | None,
        *,
        message: str | None = None,
        mode: SteerMode = SteerMode.INJECT,
        remove_tools: tuple[str, ...] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> Control:
        control = Control(
            id=fresh_id(),
            order_id="",
            number=len(self._asked) + 1,
            kind=kind,
            record_id=record_id,
            message=message,
            reason=reason,
            mode=mode,
            remove_tools=remove_tools,
            metadata=metadata,
            requested_at=now(),
        )
        self._asked[control.id] = control
        # The root's record stands for the whole turn.
        addressed = None if record_id == self._router.root else record_id
        if why := control_refusal(kind, addressed, self._takes) or await self._router.take(control):
            self._settle(control.id, refused=why)
        return self._asked[control.id]

    def applied(self, control_id: str, seq: int) -> None:
        """Called by the router (`Receipts`)."""
        self._settle(control_id, applied_seq=seq, applied_at=now())

    def refused(self, whose: Origin, control_id: str, why: str) -> None:
        """Called by the router (`Receipts`)."""
        self._settle(control_id, refused=why)

    def carried(self, record_id: str, seq: int) -> None:
        """Called by the router (`Receipts`)."""
        for control in self.asked:
            is_read = control.message is not None and control.applied_seq is not None and control.carried_seq is None
            if is_read and record_id == (control.record_id or self._router.root):
                self._settle(control.id, carried_seq=seq)

    def _settle(self, control_id: str, **how: object) -> None:
        if control_id in self._asked:
            self._asked[control_id] = self._asked[control_id].model_copy(update=how)
