"""Agents as parts of programs: `SubAgent`, `SubAgentTool` (an agent as a tool), `SubAgentSession` (a conversation)."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from drone.agent.agent import AgentRuntime
from drone.agent.gates.result_class import typed
from drone.agent.ports.conversations import Conversation
from drone.agent.ports.journal import Journal, MemoryJournal
from drone.agent.ports.report import Report
from drone.agent.subagents.assignments import GROUP
from drone.agent.subagents.children import (
    CannotSpawn,
    FinishedRun,
    HiringCall,
    check_depth,
    child_task,
    continued,
    report_output,
    run_child,
    take_spawn,
)
from drone.agent.turns.call_ends import refusal
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Task, Turn, title_of
from mcc.contracts.ids import derived_id, fresh_id, root_record_id
from mcc.contracts.journal import Outcome
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import to_json
from mcc.contracts.similar import hints_keywords
from mcc.rules.patterns import Pattern
from mcc.rules.schema import checked_schema
from mcc.transcript.messages import Message, ToolSpec

_SENDS: ContextVar[frozenset[object]] = ContextVar("sends", default=frozenset())
"""Identifies the `SubAgentSession.send` calls that the current code runs within."""

_NAME = Pattern(r"[A-Za-z0-9_-]{1,64}")

_INPUT: Mapping[str, object] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole task, with all context that it needs."}},
    "required": ["input"],
    "additionalProperties": False,
}


@hints_keywords
@dataclass(frozen=True, slots=True)
class SubAgent:
    """An agent with a name for journal and report, and a description; both default to the definition's.

    Raises ValueError for a name that is not valid for a tool, TypeError for something that is no agent.
    """

    agent: AgentRuntime
    name: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.agent, AgentRuntime):
            raise TypeError(
                f"SubAgent takes an Agent, not {type(self.agent).__name__}: SubAgent(Agent(definition, model=…))"
            )
        definition = self.agent.definition
        object.__setattr__(self, "name", self.name or definition.name)
        object.__setattr__(self, "description", self.description or definition.description)
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} cannot name a tool; use up to 64 letters, digits, _ and -")

    async def invoke(
        self, given: str | Mapping[str, object], caller: HiringCall | None = None, *, journal: Journal | None = None
    ) -> Report:
        """Run it once. `given`: the prompt, or values that become one, a line each.

        `caller`: the tool call below which it runs, in that call's tree, journal and limits; a tool's `ToolContext` is
        one. Without it the run has a turn of its own and writes to `journal`, by default in memory. Failures of the
        agent are in the report; raises `JournalError`, CancelledError, and `CannotSpawn` before any model is asked.
        """
        prompt = given if isinstance(given, str) else _rendered(given)
        turn = caller.turn if caller is not None else None
        if caller is None or turn is None:
            return typed((await self._alone(prompt, self.agent.turn(journal))).report, self.agent.gate)
        index = turn.invoked[caller.call_id]
        turn.invoked[caller.call_id] += 1
        return typed((await self._invoked(prompt, caller, turn, index)).report, self.agent.gate)

    async def _alone(self, prompt: str, turn: Turn) -> FinishedRun:
        check_depth(turn, 1)
        record_id = turn.root or root_record_id(fresh_id())
        return await run_child(self.agent, Task(prompt, record_id, title_of(prompt), depth=1, agent=self.name), turn)

    async def _invoked(self, prompt: str, caller: HiringCall, turn: Turn, index: int) -> FinishedRun:
        task = child_task(caller, prompt, title_of(prompt), index, self.name)
        with turn.idle.waiting(caller.call_id):
            return await _below(self.agent, task, caller, turn)


@hints_keywords
class SubAgentTool:
    """A tool set with one tool that runs the agent below its caller, in the caller's tree and limits.

    `parameters`: a JSON Schema of the arguments, which become the prompt, a line each; None = one text, `input`. Raises
    `SchemaError` for an invalid schema.
    """

    def __init__(self, sub: SubAgent, parameters: Mapping[str, object] | None = None) -> None:
        self.sub = sub
        self._schema = checked_schema(_INPUT if parameters is None else parameters)
        self._is_plain = parameters is None
        self._spec = ToolSpec(
            name=sub.name,
            description=sub.description or f"Ask the agent {sub.name} to do one piece of work.",
            parameters=self._schema.tool_parameters,
            group=GROUP,
            resumable=True,
            seconds=sub.agent.limits.wall_seconds,
        )

    def specs(self) -> Sequence[ToolSpec]:
        return (self._spec,)

    async def call(self, call: StartedCall) -> Output:
        if errors := self._schema.errors(self._schema.handed_in(call.arguments)):
            return refusal(f"The arguments of {call.name} do not fit: {'; '.join(errors)}")
        prompt = str(call.arguments["input"]) if self._is_plain else _rendered(call.arguments)
        turn = call.turn or self.sub.agent.turn()
        try:
            if call.turn is None:
                finished = await self.sub._alone(prompt, turn)
            else:
                finished = await self.sub._invoked(prompt, call, turn, 0)
        except CannotSpawn as error:
            return refusal(str(error), Outcome.DENIED)
        return await report_output(finished.report, turn.artifacts)


@hints_keywords
class SubAgentSession:
    """A conversation with one agent: each `send` is a run with a record of its own that continues the last one.

    Sends run one at a time, in order. Outside of a tool call, the session writes to its own journal (in memory unless
    one is given), and each send may use the agent's full limits.
    """

    def __init__(self, sub: SubAgent, *, journal: MemoryJournal | None = None) -> None:
        self.sub = sub
        self._id = fresh_id()
        self._journal = journal or MemoryJournal(self._id)
        self._began_in: Journal = self._journal
        self._sent = 0
        self._one_at_a_time = asyncio.Lock()
        self._under_way: object = None
        self._conversation = self._fresh()

    @property
    def journal(self) -> MemoryJournal:
        """The session's own journal; messages sent below a tool call are in that call's journal instead."""
        return self._journal

    @property
    def turns(self) -> int:
        """Messages answered since the last `reset`, failures included."""
        return self._conversation.turns

    @property
    def transcript(self) -> tuple[Message, ...]:
        return self._conversation.messages

    def reset(self) -> None:
        """Start a new conversation. A running send ends normally, and the new conversation does not contain it."""
        self._conversation = self._fresh()

    async def send(self, text: str, caller: HiringCall | None = None) -> Report:
        """Send the next message. `caller`: the tool call below which it runs, in that call's tree and limits.

        Failures of the agent are in the report. Raises `JournalError` and CancelledError; `CannotSpawn` where the
        caller's tree may not grow, or the agent's own limits allow no subagent; ValueError for a conversation that
        began in another journal, for a journal that another session is using, and for a message that the agent sends to
        its own session, which would wait for itself.
        """
        if self._under_way is not None and self._under_way in _SENDS.get():
            raise ValueError("This message cannot be sent: the session is at work on the very message that it is for.")
        async with self._one_at_a_time, self._sending():
            conversation = self._conversation
            turn = caller.turn if caller is not None else None
            # A conversation must stay in one journal, so that it can be read there as a whole.
            journal = turn.journal if turn is not None else self._journal
            if conversation.turns and journal is not self._began_in:
                raise ValueError(
                    "This conversation began in another journal: reset() the session before it goes on here."
                )
            self._began_in = journal
            if caller is None or turn is None:
                task = Task(text, self._record_id(self._id), title_of(text), depth=1, agent=self.sub.name)
                finished = await self._alone(self._next(task, conversation))
            else:
                below = child_task(caller, text, title_of(text), agent=self.sub.name)
                task = replace(below, record_id=self._record_id(caller.call_id))
                finished = await _below(self.sub.agent, self._next(task, conversation), caller, turn)
            conversation.record_id = finished.report.record_id
            conversation.turns += 1
            conversation.messages = finished.messages
            conversation.tools_removed = finished.tools_removed
            return typed(finished.report, self.sub.agent.gate)

    @asynccontextmanager
    async def _sending(self) -> AsyncIterator[None]:
        """Mark all code inside as running for this message, so that a send to the same session can be refused."""
        self._under_way = send = object()
        before = _SENDS.set(_SENDS.get() | {send})
        try:
            yield
        finally:
            _SENDS.reset(before)
            self._under_way = None

    def _next(self, task: Task, conversation: Conversation[AgentRuntime]) -> Task:
        return continued(task, conversation) if conversation.turns else task

    def _record_id(self, under: str) -> str:
        self._sent += 1
        return derived_id(under, "session", self._id, self._sent)

    async def _alone(self, task: Task) -> FinishedRun:
        if self._journal.in_use:
            raise ValueError("Another session is at work in this journal: give each session one of its own.")
        turn = self.sub.agent.turn(self._journal)
        check_depth(turn, task.depth)
        self._journal.in_use = True
        try:
            return await run_child(self.sub.agent, task, turn)
        except asyncio.CancelledError:
            await self._journal.close(RecordStatus.CANCELLED, "the message was called off", under=task.record_id)
            raise
        finally:
            self._journal.in_use = False

    def _fresh(self) -> Conversation[AgentRuntime]:
        return Conversation(self.sub.agent, None, "", self.sub.name, turns=0)


async def _below(agent: AgentRuntime, task: Task, caller: HiringCall, turn: Turn) -> FinishedRun:
    """Run an agent below a tool call. Raises `CannotSpawn` before any model is asked, else what `run_child` raises."""
    check_depth(turn, task.depth)
    async with turn.slots.lent(caller.origin.record_id), turn.slots.taken(task.record_id):
        if task.continues is None:
            take_spawn(turn, task)
        return await run_child(agent, task, turn)


def _rendered(arguments: Mapping[str, object]) -> str:
    """The prompt made from arguments: a line for each, in the given order."""
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else to_json(value).decode()}" for name, value in arguments.items()
    )
