"""This room is for one child: its place in the tree taken, its run brought to an end, its conversation kept."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from drone.agent.messages import Message
from drone.agent.report import Report
from drone.agent.run import Run, broken
from drone.agent.subagents.assignments import Assignment
from drone.agent.subagents.conversations import Conversation
from drone.agent.subagents.remembered import Spawner, assignment_in, chain_of
from drone.agent.subagents.spawning import take_spawn
from drone.agent.subagents.wanted import CannotHire, Hire, Wanted
from drone.agent.turn import Task, Turn
from mcc.contracts.ids import child_record_id
from mcc.contracts.journal import Origin

if TYPE_CHECKING:
    from drone.agent.agent import Agent


class Caller(Protocol):
    """The tool call that runs a child. `turn` None: outside of every run."""

    @property
    def call_id(self) -> str: ...

    @property
    def origin(self) -> Origin: ...

    @property
    def turn(self) -> Turn | None: ...


@dataclass(frozen=True, slots=True)
class Lived:
    """A run at its end: its report, and what whoever continues it needs."""

    report: Report
    messages: tuple[Message, ...]
    tools_removed: tuple[str, ...]


async def run_child(agent: "Agent", task: Task, turn: Turn) -> Lived:
    """Whatever happens in the run is in the report; raises only `JournalError`, `Exhausted` and CancelledError."""
    run = Run(agent, task, turn)
    try:
        report = await run.to_its_end()
    except asyncio.CancelledError as error:
        turn.given_up.append(task.record_id)
        report = await broken(agent, task, turn, error)
    except BaseException as error:
        report = await broken(agent, task, turn, error)
    finally:
        turn.conversations.forget(task.record_id)
    return Lived(report, run.conversation, run.tools_removed)


def child_task(caller: Caller, prompt: str, title: str, index: int = 0) -> Task:
    """A task one level below the caller, for the child at `index` of its call's children."""
    return Task(
        prompt=prompt,
        record_id=child_record_id(caller.call_id, index),
        title=title,
        parent_id=caller.origin.record_id,
        call_id=caller.call_id,
        depth=caller.origin.depth + 1,
    )


def continued(task: Task, conversation: Conversation) -> Task:
    """The same task as the next turn of this conversation."""
    return replace(
        task,
        continues=conversation.record_id,
        earlier=conversation.messages,
        turn_number=conversation.turns + 1,
        tools_removed=conversation.tools_removed,
    )


@dataclass(frozen=True, slots=True)
class Children:
    """What one agent may hire. `offered`: types with their descriptions; `keeps`: their conversations may go on."""

    turn: Turn
    offered: Mapping[str, str]
    hire: Hire
    keeps: bool

    async def run(
        self,
        caller: Caller,
        wanted: Assignment,
        prompt: str,
        index: int = 0,
        begun: Callable[[str], None] | None = None,
    ) -> Report:
        """Hire and run one child, once there is a place for it; `begun` is told its record's id.

        Raises `SpawnsExceeded` and `CannotHire` before any model is asked.
        """
        depth = caller.origin.depth + 1
        if wanted.role not in self.offered:
            known = ", ".join(self.offered)
            raise CannotHire(f"There is no subagent {wanted.role[:100]!r} here: the role must be one of {known}.")
        agent = self.hire(Wanted(wanted.role, depth, wanted.groups, wanted.model))
        task = child_task(caller, prompt, wanted.display_name, index)
        async with self.turn.places.taken(task.record_id):
            take_spawn(self.turn, task)
            if begun is not None:
                begun(task.record_id)
            if not self.keeps:
                return (await run_child(agent, task, self.turn)).report
            conversation = Conversation(agent, task.parent_id, task.record_id, task.title)
            self.turn.conversations.begin(conversation)
            return await self._kept(conversation, task)

    async def send(self, caller: Caller, record_id: str, message: str) -> Report:
        """Go on with a child's conversation, under a new record. Raises `CannotContinue`."""
        if not self.turn.conversations.knows(record_id):
            await self._remember(caller, record_id)
        conversation = self.turn.conversations.find(record_id, caller.origin.record_id)
        task = continued(child_task(caller, message, conversation.title), conversation)
        self.turn.conversations.resume(conversation, task.record_id)
        async with self.turn.places.taken(task.record_id):
            return await self._kept(conversation, task)

    async def _remember(self, caller: Caller, record_id: str) -> None:
        """Read a conversation back that was held before a drone took over, when it was one of this caller's."""
        past = self.turn.past
        chain = chain_of(past, record_id, without=child_record_id(caller.call_id))
        asked = (
            assignment_in(past, chain[0], self.offered, self.turn.budget.limits.subagents_per_call) if chain else None
        )
        if asked is None or chain[0].origin.parent_id != caller.origin.record_id:
            return
        index, wanted = asked
        agent = self.hire(Wanted(wanted.role, caller.origin.depth + 1, wanted.groups, wanted.model))
        conversation: Conversation | None = None
        for place, record in enumerate(chain):
            spawner = Spawner(record.started.call_id or "", caller.origin, self.turn)
            task = child_task(spawner, record.started.prompt, record.started.title, 0 if place else index)
            if conversation is None:
                conversation = Conversation(agent, task.parent_id, task.record_id, task.title)
                self.turn.conversations.begin(conversation)
            else:
                task = continued(task, conversation)
                self.turn.conversations.resume(conversation, task.record_id)
            await self._kept(conversation, task)

    async def _kept(self, conversation: Conversation, task: Task) -> Report:
        lived = await run_child(conversation.agent, task, self.turn)
        self.turn.conversations.end(conversation, lived.report.status, lived.messages, lived.tools_removed)
        return lived.report
