"""The turn: what all agents of one tree share, what one of them is asked to do, and its steering from outside."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from drone.agent.agent_control import AgentControl
from drone.agent.artifacts import Artifacts
from drone.agent.budget import Budget
from drone.agent.control_router import ControlRouter
from drone.agent.conversations import Conversations, as_report, as_text
from drone.agent.idle_watch import Block, IdleWatch
from drone.agent.inbox import Inbox, People
from drone.agent.journal import Journal
from drone.agent.messages import Message
from drone.agent.model import AskLater
from drone.agent.permits import Permits
from drone.agent.threads import OwnThreads
from drone.agent.tree import Tree, TreeJournal
from mcc.contracts.control import Control, ControlKind, SteerMode, control_refusal
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason
from mcc.redaction import Redactor


@dataclass(slots=True)
class _Slot:
    held: bool = True
    waiting: int = 0


class SubagentSlots:
    """The slots of one tree. Use on one event loop only.

    An agent that waits for agents of its own lends them its slot. So every slot that is taken belongs to an agent
    that can go on, and a tree never stands still, however deep it is and however few slots there are.
    """

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._slots: dict[str, _Slot] = {}

    @asynccontextmanager
    async def taken(self, record_id: str) -> AsyncIterator[None]:
        """A slot for this agent, once there is one."""
        await self._free.acquire()
        slot = self._slots[record_id] = _Slot()
        try:
            yield
        finally:
            del self._slots[record_id]
            if slot.held:
                self._free.release()

    @asynccontextmanager
    async def lent(self, record_id: str | None) -> AsyncIterator[None]:
        """The agent waits for others inside of this; it goes on once there is a slot for it again.

        What raises inside goes on without: the agent has `regained` it before it asks its model again.
        """
        slot = self._slots.get(record_id or "")
        if slot is None:
            yield
            return
        slot.waiting += 1
        if slot.held:
            slot.held = False
            self._free.release()
        try:
            yield
        finally:
            slot.waiting -= 1
        await self._return(slot)

    def lacks(self, record_id: str) -> bool:
        """Whether this agent's lending ended with an error, so that its slot did not come back."""
        slot = self._slots.get(record_id)
        return slot is not None and not slot.held and not slot.waiting

    async def regained(self, record_id: str) -> None:
        """Return once this agent has its slot again, when it lacks it."""
        if self.lacks(record_id):
            await self._return(self._slots[record_id])

    async def _return(self, slot: _Slot) -> None:
        """Another call of the same agent may wait by now, or have taken the slot back already."""
        if slot.held or slot.waiting:
            return
        await self._free.acquire()
        if slot.held or slot.waiting:
            self._free.release()
        else:
            slot.held = True


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
    invoked: Counter[str] = field(default_factory=Counter)
    """How many agents the code of each tool call has run here."""
    root: str | None = None
    """The record of the agent that goes on, in a turn that an earlier drone began."""
    redactor: Redactor = field(default_factory=Redactor)
    """What takes secrets out of texts, for tools that tell or keep some beside their result."""

    permits: dict[str, Permits] = field(default_factory=dict)
    """What each agent may call that runs here, by its record."""

    def permitted(self, origin: Origin, own: Permits) -> Permits:
        """What the agent at `origin` may call: what is its own, and no more than the agent above it may."""
        above = self.permits.get(origin.parent_id or "")
        self.permits[origin.record_id or ""] = found = own if above is None else own.below(above)
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
    ) -> "Turn":
        """`tree`: that of a turn which goes on, and `people` who can be asked; both without a `router`, which knows
        them."""
        router = router or ControlRouter(journal, tree=tree, people=people)
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
            redactor=redactor or Redactor(),
        )

    @property
    def tree(self) -> Tree:
        """What the journal of this turn says."""
        return self.router.tree

    @property
    def idle(self) -> IdleWatch:
        return self.router.idle

    @property
    def inbox(self) -> Inbox:
        return self.router.inbox

    @property
    def workspace_key(self) -> str:
        """What the directory is known by in which its agents work; "" without one."""
        return self.router.workspace_key

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
    what people took away from the agent in it. `agent` is the name that it works under, empty = its definition's.
    `node` is the path of the document's node that it works on.
    `seconds` are the wall clock that its caller gives it, None = what its own limits say; they never lengthen those.
    `waits`: it may wait for a provider that wants to be asked later than within a call.
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
    agent: str = ""
    seconds: float | None = None
    waits: bool = True
    node: str | None = None


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


class Steering:
    """Speaks to the agents of one turn. `record_id` names one of them, with all below it; None: the whole turn.

    Every call answers what was asked, as it stands then: applied at entry `applied_seq`, refused with why, or open: a
    message is open until its agent reads it. `asked` says what became of each. Use it on the loop that runs the turn.
    Raises `JournalError`.

    `takes`: the only kinds of controls that are done, besides the cancel of the whole turn; None = all.
    """

    def __init__(self, turn: Turn, takes: Collection[ControlKind | str] | None = None) -> None:
        """Raises ValueError for a kind that is none."""
        self._takes = None if takes is None else [ControlKind(kind) for kind in takes]
        self._router = turn.router
        self._router.answer_to(self)
        self._asked: dict[str, Control] = {}

    @property
    def asked(self) -> tuple[Control, ...]:
        """Everything that was asked, in its order."""
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
        """Say something before the agent's next model call; `redirect`: it is its task from now on."""
        mode = SteerMode.REDIRECT if redirect else SteerMode.INJECT
        return await self._ask(
            ControlKind.STEER, record_id, reason, message=message, mode=mode, remove_tools=remove_tools
        )

    async def remove_tools(self, *names: str, record_id: str | None = None, reason: str | None = None) -> Control:
        """Take tools (by their names, or those of groups) away, for good."""
        return await self._ask(ControlKind.STEER, record_id, reason, remove_tools=names)

    async def set_metadata(
        self, metadata: Mapping[str, Any], *, record_id: str | None = None, reason: str | None = None
    ) -> Control:
        """Merge these into what tools see as `ToolContext.metadata`; None takes a key away."""
        return await self._ask(ControlKind.SET_METADATA, record_id, reason, metadata=metadata)

    async def pause(self, *, record_id: str | None = None, reason: str | None = None) -> Control:
        """Begin no further model or tool call."""
        return await self._ask(ControlKind.PAUSE, record_id, reason)

    async def resume(self, *, record_id: str | None = None, reason: str | None = None) -> Control:
        """Go on after a pause; who waits until a provider wants to be asked again asks it now."""
        return await self._ask(ControlKind.RESUME, record_id, reason)

    async def cancel(self, *, record_id: str | None = None, reason: str | None = None) -> Control:
        """Stop an agent; those beside it go on, and its parent is told."""
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
        if why := control_refusal(kind, self._whole(record_id), self._takes) or await self._router.take(control):
            self._settle(control.id, refused=why)
        return self._asked[control.id]

    def _whole(self, record_id: str | None) -> str | None:
        """The root's record stands for the whole turn."""
        return None if record_id == self._router.root else record_id

    def applied(self, control_id: str, seq: int) -> None:
        """For the router."""
        self._settle(control_id, applied_seq=seq, applied_at=now())

    def refused(self, whose: Origin, control_id: str, why: str) -> None:
        """For the router."""
        self._settle(control_id, refused=why)

    def _settle(self, control_id: str, **how: object) -> None:
        if control_id in self._asked:
            self._asked[control_id] = self._asked[control_id].model_copy(update=how)
