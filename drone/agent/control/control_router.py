"""Delivers each control to the right agent of a turn, and its receipt back to the sender."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from drone.agent.control.agent_control import AgentControl, Mail
from drone.agent.control.idle_watch import Block, IdleWatch
from drone.agent.control.inbox import People, TurnInbox
from drone.agent.ports.journal import Journal, JournalError
from drone.agent.state.tree import Tree, TreeJournal
from mcc.contracts.control import Control, ControlKind, merged, metadata_problem
from mcc.contracts.entry import ORDER, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.inbox_facts import ApprovalDecided, QuestionAnswered
from mcc.contracts.journal import ControlApplied

NOBODY = "No agent with this record_id is at work in the order: it has finished, has not begun, or was never there."
OVER = "The turn is over: none of its agents is at work any more."
UNREAD = "The agent had ended before it read this."
ENDING = "The agent is being cancelled already, or one above it is."
PAUSED = "It is paused already."
NOT_PAUSED = "It is not paused, and waits for no provider."
PAUSED_ABOVE = "It is not paused itself: an agent above it is, or the whole order. Resume that."
ASKS_NO_MODEL = "The generator of a document asks no model and reads nothing: name the record of one of its agents."
NOTHING_ASKED = "A steer needs a message, or tools to remove."
NOTHING_SET = "A set_metadata needs metadata."

_HANDLING = "a control"
"""Activity name while a control is handled, so that the tree does not count as idle while a pause is being lifted."""


class Receipts(Protocol):
    """Receives the outcome of each control. Its methods neither block nor raise."""

    def applied(self, control_id: str, seq: int) -> None:
        """The control took effect; entry `seq` records it."""

    def refused(self, whose: Origin, control_id: str, why: str) -> None:
        """The control was taken for agent `whose`, and will never take effect; `why` is a sentence."""

    def carried(self, record_id: str, seq: int) -> None:
        """The request of entry `seq` shows this agent's model what the agent has read by then."""


class NoReceipts:
    """Discards every outcome."""

    def applied(self, control_id: str, seq: int) -> None:
        pass

    def refused(self, whose: Origin, control_id: str, why: str) -> None:
        pass

    def carried(self, record_id: str, seq: int) -> None:
        pass


class ControlJournal:
    """Writes the entries about controls, decisions and answers, and reports each as applied.

    Nothing it refers to refers back to it: without reference cycles the turn's memory is freed as soon as it ends.
    """

    def __init__(self, journal: TreeJournal, receipts: Receipts) -> None:
        self.receipts = receipts
        self._journal = journal
        self._writing: set[asyncio.Task[int]] = set()

    async def write(self, origin: Origin, *facts: Fact) -> None:
        """Write the facts, even if the caller is cancelled meanwhile: each control gets its receipt."""
        writing = asyncio.create_task(self._write_and_report(origin, facts))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        # Takes note of an error that no caller waits for any more; asyncio would report it as overlooked.
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(writing)

    async def _write_and_report(self, origin: Origin, facts: tuple[Fact, ...]) -> int:
        last = await self._journal.write(origin, *facts)
        for seq, fact in enumerate(facts, start=last - len(facts) + 1):
            if isinstance(fact, ControlApplied | ApprovalDecided | QuestionAnswered) and fact.control_id is not None:
                self.receipts.applied(fact.control_id, seq)
        return last

    async def settled(self) -> None:
        """Wait until all writes that have begun are finished."""
        if self._writing:
            await asyncio.wait(self._writing)


class ControlRouter:
    """One per turn. Use on one event loop only.

    Each control is either applied, with an entry, or refused: immediately (the result of `take`), or through `receipts`
    when its agent ends without having read the message.
    """

    def __init__(
        self,
        journal: Journal,
        receipts: Receipts | None = None,
        idle: IdleWatch | None = None,
        tree: Tree | None = None,
        people: People | None = None,
    ) -> None:
        """`tree`: that of a resumed turn. Controls applied under an earlier drone stay in effect. Controls for an agent
        that had begun and has not been restarted yet wait for it; a resume of one that waited for its provider has its
        effect, too: the provider is asked again at once.
        """
        self.idle = idle or IdleWatch()
        self.tree = tree or Tree()
        self._journal = ControlJournal(TreeJournal(journal, self.tree), receipts or NoReceipts())
        self.inbox = TurnInbox(self.tree, self._journal.write, people)
        self.workspace_key = ""
        """Identifies the turn's workspace in approvals; set by the code that opens the workspace."""
        self._top = AgentControl(ORDER, None, self.tree.restraints)
        self._root: AgentControl | None = None
        self._over = False
        self._agent_controls: dict[str, AgentControl] = {}
        self._early_mail: dict[str, list[Mail]] = {}
        self._early_controls: dict[str, list[Control]] = {record_id: [] for record_id in self.tree.unfinished_agents}
        self._waited_for_provider: set[str | None] = set(self.tree.waiting_for_provider)
        self._one_at_a_time = asyncio.Lock()

    def hold_up(self, block: Block) -> None:
        """Let no agent of the turn go on until the order is parked."""
        self._top.hold_up(block)

    def report_to(self, receipts: Receipts) -> None:
        """Report outcomes to `receipts` from now on."""
        self._journal.receipts = receipts

    @contextmanager
    def entered(self, origin: Origin) -> Iterator[AgentControl]:
        """The controls of an agent while it runs. The root agent also reads the mail sent to the order as a whole.

        Raises ValueError for a second root agent.
        """
        assert origin.record_id is not None
        if origin.parent_id is None and self._root is not None and self._root.origin.record_id in self._agent_controls:
            raise ValueError("a turn is for one task at a time; give each run a turn of its own")
        above = self._agent_controls.get(origin.parent_id or "", self._top)
        restraints = self.tree.record(origin).restraints
        agent_control = self._agent_controls[origin.record_id] = AgentControl(origin, above, restraints)
        for mail in self._early_mail.pop(origin.record_id, ()):
            agent_control.mail.put(mail)
        if origin.parent_id is None:
            agent_control.mail = self._top.mail
            self._root, self._over = agent_control, False
        try:
            yield agent_control
        except JournalError:
            agent_control.mail.empty()  # not refused: the order's next holder may still deliver it
            self._early_controls.pop(origin.record_id, None)
            raise
        finally:
            del self._agent_controls[origin.record_id]
            self._over = self._over or agent_control is self._root
            for mail in agent_control.mail.empty():
                if mail.by != "parent":
                    self._journal.receipts.refused(agent_control.origin, mail.control_id, UNREAD)
            for control in self._early_controls.pop(origin.record_id, ()):
                self._journal.receipts.refused(origin, control.id, UNREAD)

    async def arrived(self, record_id: str | None) -> None:
        """An agent has entered its rounds: handle the controls that waited for it. Raises `JournalError`."""
        waiting = self._early_controls.pop(record_id or "", [])
        origin = self._agent_controls[record_id or ""].origin
        try:
            while waiting:
                control = waiting.pop(0)
                if why := await self.take(control):
                    self._journal.receipts.refused(origin, control.id, why)
        finally:
            for control in waiting:  # left over when one of them cancelled the agent
                self._journal.receipts.refused(origin, control.id, ENDING)
            self._waited_for_provider.discard(origin.record_id if origin.parent_id else None)

    def cancel(self, record_id: str, why: str) -> bool:
        """Cancel an agent and its descendants; False when it is not running, and nothing was done."""
        if agent_control := self._agent_controls.get(record_id):
            agent_control.cancel(why)
        return agent_control is not None

    def running(self, record_id: str | None) -> AgentControl | None:
        """The controls of an agent while it runs here."""
        return self._agent_controls.get(record_id or "")

    def tell(self, record_id: str, mail: Mail) -> None:
        """Put mail into an agent's box; one that is not running here yet finds it there when it begins."""
        if (agent_control := self._agent_controls.get(record_id)) is not None:
            agent_control.mail.put(mail)
        else:
            self._early_mail.setdefault(record_id, []).append(mail)

    @property
    def root(self) -> str | None:
        """Record id of the root agent; None before it has begun."""
        return self._root.origin.record_id if self._root is not None else None

    async def take(self, control: Control) -> str | None:
        """Carry out a control; returns a sentence that says why when it cannot be. Raises `JournalError`.

        A message is journaled when the agent reads it, everything else immediately. Tools are removed immediately.
        """
        # In the order of their arrival: a resume must not overtake its pause while entries are being committed.
        async with self._one_at_a_time:
            with self.idle.moving(_HANDLING):
                return await self._take(control)

    async def _take(self, control: Control) -> str | None:
        if control.kind is ControlKind.DECIDE:
            return OVER if self._over else await self.inbox.take(control)
        if not self._over and control.record_id in self._early_controls:
            self._early_controls[control.record_id].append(control)
            return None
        agent_control = self._addressed(control.record_id)
        if isinstance(agent_control, str):
            return agent_control
        if why := self._refusal(control, agent_control):
            return why
        await self._do(control, agent_control)
        return None

    async def read(self, agent_control: AgentControl, room: int) -> int:
        """Take an agent's unread mail, in order and as far as there is `room` for its characters, and commit an entry
        for each message, all at once. Answers the room that is left."""
        mail = agent_control.mail.take(room)
        if mail:
            await self._journal.write(agent_control.origin, *(one.entry() for one in mail))
        return room - sum(len(one.text) for one in mail)

    def asked(self, origin: Origin, seq: int) -> None:
        """A model call of this agent has begun with entry `seq`."""
        self._journal.receipts.carried(origin.record_id or "", seq)

    async def settled(self) -> None:
        """Wait for the entries about controls being written; an agent's last entry must follow them."""
        await self._journal.settled()

    def _addressed(self, record_id: str | None) -> AgentControl | str:
        """The agent addressed by a record id, or why there is none. The root's record and None mean the whole turn."""
        if record_id in (None, self.root):
            return OVER if self._over else self._top
        agent_control = self._agent_controls.get(record_id or "")
        return NOBODY if agent_control is None or not agent_control.at_work else agent_control

    def _refusal(self, control: Control, agent_control: AgentControl) -> str | None:
        """Why this agent cannot carry out the control; None when it can."""
        if agent_control.is_cancelled:
            return ENDING
        match control.kind:
            case ControlKind.STEER if control.message is None and not control.remove_tools:
                return NOTHING_ASKED
            case ControlKind.STEER if control.message is not None and self._is_modelless(agent_control):
                return ASKS_NO_MODEL
            case ControlKind.SET_METADATA if control.metadata is None:
                return NOTHING_SET
            case ControlKind.SET_METADATA:
                why = metadata_problem(merged(agent_control.metadata, control.metadata or {}))
                return f"The metadata that it would have then {why}." if why else None
            case ControlKind.PAUSE if agent_control.is_paused_itself:
                return PAUSED
            case ControlKind.RESUME if agent_control.paused and not agent_control.is_paused_itself:
                return PAUSED_ABOVE
            case ControlKind.RESUME if not agent_control.is_paused_itself and not self._waits_for_provider(
                agent_control
            ):
                return NOT_PAUSED
            case _:
                return None

    def _is_modelless(self, agent_control: AgentControl) -> bool:
        """Whether this is the whole turn and its root agent has no model: it only runs other agents."""
        root = self.tree.begun(self.tree.root)
        return agent_control is self._top and root is not None and root.started is not None and not root.started.model

    def _waits_for_provider(self, agent_control: AgentControl) -> bool:
        """Whether an agent there waits for its provider, or this one did under an earlier drone and has not restarted
        yet."""
        return agent_control.waits_for_provider or agent_control.origin.record_id in self._waited_for_provider

    async def _do(self, control: Control, agent_control: AgentControl) -> None:
        match control.kind:
            case ControlKind.STEER:
                agent_control.remove(control.remove_tools)
                if control.message is not None:
                    agent_control.mail.put(Mail.of(control))
                    return
                await self._applied(agent_control, control)
            case ControlKind.PAUSE | ControlKind.SET_METADATA:
                await self._applied(agent_control, control)
            case ControlKind.RESUME:
                await self._applied(agent_control, control)
                # After the entry, which lifts the pause: those who wait look at that.
                agent_control.resume()
            case ControlKind.CANCEL:
                why = f"a person cancelled it{f': {control.reason}' if control.reason else ''}"
                agent_control.cancel(why)
                # The order as a whole is in no rounds that could be ended; its root agent is.
                if agent_control is self._top and self._root is not None:
                    self._root.cancel(why)
                await self._applied(agent_control, control)

    async def _applied(self, agent_control: AgentControl, control: Control) -> None:
        fact = ControlApplied(
            control_id=control.id,
            control=control.kind.value,
            message=control.message,
            reason=control.reason,
            tools_removed=control.remove_tools,
            metadata=control.metadata,
            by=control.principal,
            door=control.door,
            at=control.requested_at,
        )
        await self._journal.write(agent_control.origin, fact)
