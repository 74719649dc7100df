"""Runs child agents: hires them, checks the tree's limits, runs them to their end, keeps their conversations."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from drone.agent.agent import Run, report_of_crash
from drone.agent.parts import AgentParts
from drone.agent.ports.artifacts import Artifacts
from drone.agent.ports.conversations import Conversation, as_content
from drone.agent.ports.report import Cause, Report
from drone.agent.state.record import RecordState
from drone.agent.state.tree import Tree
from drone.agent.subagents.assignments import SUBAGENTS_RUN, Assignment, BadAssignment, assignment_of, assignments_of
from drone.agent.subagents.past import past_conversation
from drone.agent.turns.toolset import Output
from drone.agent.turns.turn import Task, Turn
from mcc.contracts.entry import Origin
from mcc.contracts.fence import noticed
from mcc.contracts.ids import child_record_id
from mcc.contracts.journal import Outcome
from mcc.transcript.messages import Message


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request for a child agent. `groups`: tool groups it may have; `model`: its model; None = as its definition
    says."""

    agent_type: str
    depth: int
    groups: tuple[str, ...] | None = None
    model: str | None = None


class CannotHire(Exception):
    """The requested agent is not available here; the message says what to do."""


Hire: TypeAlias = Callable[[Wanted], AgentParts]
"""Assembles an agent of an offered type. Raises `CannotHire`."""


class CannotSpawn(Exception):
    """The tree may not grow here; the message says what to do.

    CannotSpawn
    ├── DepthExceeded     the child would be deeper than the turn allows
    ├── SpawnsExceeded    the tree has used up its subagents
    └── TimeIsUp          the call has no time left for the child
    """


class TimeIsUp(CannotSpawn):
    """The call that wants the child has no time left for it."""


class DepthExceeded(CannotSpawn):
    """The child would be deeper than `Limits.depth`; no model was asked."""

    def __init__(self, allowed: int) -> None:
        super().__init__(f"The limit depth ({allowed}) is reached: do this work yourself.")
        self.allowed = allowed


class SpawnsExceeded(CannotSpawn):
    """The tree has used up its `Limits.spawns` subagents."""

    def __init__(self, allowed: int) -> None:
        super().__init__(f"The limit spawns ({allowed}) is reached: do this work yourself.")
        self.allowed = allowed


def check_depth(turn: Turn, depth: int) -> None:
    """Raises `DepthExceeded` when no agent may run at this depth (0 = the root)."""
    if depth > turn.budget.limits.depth:
        raise DepthExceeded(turn.budget.limits.depth)


def take_spawn(turn: Turn, task: Task) -> None:
    """Reserve one subagent, unless an earlier drone had begun it. Raises `SpawnsExceeded`."""
    if turn.tree.begun(task.record_id) is None and not turn.budget.take_spawn(task.record_id):
        raise SpawnsExceeded(turn.budget.limits.spawns)


class HiringCall(Protocol):
    """The tool call that runs a child. `turn` None: outside of any run."""

    @property
    def call_id(self) -> str: ...

    @property
    def origin(self) -> Origin: ...

    @property
    def turn(self) -> Turn | None: ...


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """The report of a finished run, and what a follow-up run needs."""

    report: Report
    messages: tuple[Message, ...]
    tools_removed: tuple[str, ...]


async def run_child(agent: AgentParts, task: Task, turn: Turn) -> FinishedRun:
    """Run a child to its end. All that happens in the run is in the report; raises only `JournalError`,
    `ProcessExhausted`, CancelledError, and `CannotHire` where the agent's own working directory cannot be created."""
    # Runs in its parent's task and event loop, not in a Celery task of its own: docs/decisions/09.
    isolation = agent.hired.isolation
    if isolation is not None:
        await isolation.enter(task, turn)
    run = Run(agent, task, turn)
    try:
        report = await run.execute()
    except asyncio.CancelledError as error:
        # Closed by the tool call at its end: a cancelled task must not wait for a commit.
        turn.abandoned.append(task.record_id)
        report = await report_of_crash(agent, task, turn, error)
    except BaseException as error:
        report = await report_of_crash(agent, task, turn, error)
    finally:
        turn.conversations.forget(task.record_id)
    if isolation is not None:
        report = replace(report, worktree=await isolation.leave(task, turn, report))
    finished = FinishedRun(report, run.conversation, run.tools_removed)
    turn.tree.records[task.record_id].conversation.transcript.clear()
    return finished


def child_task(caller: HiringCall, prompt: str, title: str, index: int = 0, agent: str = "") -> Task:
    """A task one level below the caller, for child number `index` of its call; `agent`: the name it works under."""
    return Task(
        prompt=prompt,
        record_id=child_record_id(caller.call_id, index),
        title=title,
        parent_id=caller.origin.record_id,
        call_id=caller.call_id,
        depth=caller.origin.depth + 1,
        agent=agent,
    )


def continued(task: Task, conversation: Conversation[Any]) -> Task:
    """The same task as the next turn of this conversation."""
    told_first = f"{noticed(conversation.told_first)}\n\n" if conversation.told_first else ""
    return replace(
        task,
        prompt=f"{told_first}{task.prompt}",
        continues=conversation.record_id,
        continues_order=conversation.order_id,
        earlier=conversation.messages,
        turn_number=conversation.turns + 1,
        tools_removed=conversation.tools_removed,
    )


@dataclass(frozen=True, slots=True)
class Children:
    """Runs the children of one agent. `offered`: agent types with descriptions; `keeps`: whether their conversations
    can be continued."""

    turn: Turn
    offered: Mapping[str, str]
    hire: Hire
    keeps: bool

    async def run(
        self,
        caller: HiringCall,
        wanted: Assignment,
        prompt: str,
        index: int = 0,
        begin: Callable[[str], float | None] | None = None,
    ) -> Report:
        """Hire one child and run it once a slot is free. `begin` is then called with its record id and returns its wall
        clock in seconds, None = as its limits say.

        Raises `SpawnsExceeded`, `CannotHire`, and what `begin` raises, before any model is asked.
        """
        depth = caller.origin.depth + 1
        if wanted.role not in self.offered:
            known = ", ".join(self.offered)
            raise CannotHire(f"There is no subagent {wanted.role[:100]!r} here: the role must be one of {known}.")
        agent = self.hire(Wanted(wanted.role, depth, wanted.groups, wanted.model))
        task = child_task(caller, prompt, wanted.display_name, index)
        async with self.turn.slots.taken(task.record_id):
            if begin is not None:
                task = replace(task, seconds=begin(task.record_id))
            # Only now: a child that never got a slot has used up nothing.
            take_spawn(self.turn, task)
            if not self.keeps:
                return (await run_child(agent, task, self.turn)).report
            conversation = Conversation(agent, task.parent_id, task.record_id, task.title)
            self.turn.conversations.begin(conversation)
            return await self._run_and_keep(conversation, task)

    async def send(self, caller: HiringCall, record_id: str, message: str) -> Report:
        """Continue a child's conversation under a new record id. Raises `CannotContinue`, `CannotHire`."""
        if not self.turn.conversations.knows(record_id):
            await self._restore(caller, record_id)
        conversation = self.turn.conversations.find(record_id, caller.origin.record_id)
        task = continued(child_task(caller, message, conversation.title), conversation)
        self.turn.conversations.resume(conversation, task.record_id)
        # No spawn is counted: a continued child is no additional one (docs/decisions/13).
        async with self.turn.slots.taken(task.record_id):
            return await self._run_and_keep(conversation, task)

    async def _restore(self, caller: HiringCall, record_id: str) -> None:
        """Rebuild a conversation of this caller from the journal, if it took place under an earlier drone, or in an
        earlier turn. Raises `CannotContinue`, `CannotHire`, `JournalError`."""
        parent_id, conversations = caller.origin.record_id, self.turn.conversations
        past = await past_conversation(self.turn, parent_id, record_id, without=child_record_id(caller.call_id))
        if past is None or conversations.knows(record_id):  # another call has rebuilt it meanwhile
            return
        oldest, last = past.records[0], past.records[-1]
        wanted = _assignment_in(past.first, oldest, self.offered, self.turn.budget.limits.subagents_per_call)
        if wanted is None and past.order_id is not None:
            raise CannotHire(f"There is no subagent {oldest.origin.agent!r} here any more.")
        if wanted is None:
            return
        agent = self.hire(Wanted(wanted.role, caller.origin.depth + 1, wanted.groups, wanted.model))
        ids = [record.origin.record_id or "" for record in past.records]
        conversation = Conversation(agent, parent_id, ids[0], oldest.report().title)
        conversations.begin(conversation)
        for later in ids[1:]:
            conversations.resume(conversation, later)
        conversation.order_id, conversation.told_first = past.order_id, past.told_first
        removed = {tool for record in past.records for tool in record.restraints.tools_removed}
        conversations.end(conversation, last.report().status, past.messages, tuple(sorted(removed)))

    async def _run_and_keep(self, conversation: Conversation[AgentParts], task: Task) -> Report:
        finished = await run_child(conversation.agent, task, self.turn)
        self.turn.conversations.end(conversation, finished.report.status, finished.messages, finished.tools_removed)
        return finished.report


def _assignment_in(tree: Tree, child: RecordState, offered: Collection[str], most: int) -> Assignment | None:
    """The assignment of a child, from its parent's tool call; None when the journal does not have it."""
    parent, call_id = tree.begun(child.origin.parent_id), child.started.call_id if child.started else None
    if parent is None or call_id is None:
        return None
    call = next((receipt for receipt in parent.receipts if receipt.call_id == call_id), None)
    if call is None:
        return None
    try:
        if call.tool != SUBAGENTS_RUN:
            return assignment_of(call.arguments, offered)
        agents = assignments_of(call.arguments, most).agents
    except BadAssignment:
        return None
    ids = (child_record_id(call_id, index) for index in range(len(agents)))
    return next(
        (agent for agent, record_id in zip(agents, ids, strict=True) if record_id == child.origin.record_id), None
    )


async def report_output(report: Report, artifacts: Artifacts) -> Output:
    """The result of a tool call that ran one child; if shortened, the whole is stored. Raises `JournalError`."""
    content, digest = await as_content(report, artifacts)
    return Output(
        content,
        is_error=report.error is not None,
        outcome=_outcome(report),
        subagent_ids=(report.record_id,),
        children=(report,),
        artifact=digest,
    )


def _outcome(report: Report) -> Outcome:
    if report.error is None:
        return Outcome.OK
    return Outcome.CANCELLED if report.cause is Cause.CANCELLED else Outcome.ERROR
