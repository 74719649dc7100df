"""This room is for the agent: ask the model, act on its tool calls, ask again, until a reply needs no tools."""

import asyncio
from collections.abc import Sequence
from functools import cached_property

from drone.agent.acting import Hands
from drone.agent.asking import LAST_TOKENS, Ear, ask
from drone.agent.budget import Allowance, Budget, Share
from drone.agent.mail import Mailbox
from drone.agent.memory import MemoryJournal
from drone.agent.messages import AssistantMessage, Message, ToolResults, ToolSpec, UserMessage
from drone.agent.ports import Ask, Call, Model, ModelError, Output, ToolSet
from drone.agent.report import LimitReached, Report
from drone.agent.turn import Task, Turn, title_of
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, AgentStep, ModelReplied, Origin, Outcome, ToolFinished
from mcc.contracts.limits import Limits
from mcc.contracts.record import AgentEnd, ModelChoice, RecordStatus
from mcc.contracts.shape import digest, to_json


class NoTools:
    """A tool set with nothing in it."""

    def specs(self) -> Sequence[ToolSpec]:
        return ()

    async def call(self, call: Call) -> Output:
        return Output(f"There is no tool {call.name}: this agent has none.", is_error=True, outcome=Outcome.ERROR)


class Agent:
    """A definition with its model and tools (None = no tools). Runs tasks, several at once if asked; keeps nothing."""

    def __init__(
        self,
        definition: AgentDefinition,
        *,
        model: Model,
        tools: ToolSet | None = None,
        limits: Limits | None = None,
        requested_model: str | None = None,
    ) -> None:
        self.definition = definition
        self.model = model
        self.tools = tools or NoTools()
        self.limits = limits or Limits()
        self.specs = tuple(self.tools.specs())
        self._choice = ModelChoice(requested=requested_model or model.name, effective=model.name)

    @cached_property
    def system(self) -> str:
        """The system prompt: the definition's own, then its guidelines in their order."""
        guidelines = "".join(f"\n- {line}" for line in self.definition.guidelines)
        return self.definition.prompt + (f"\n\nGuidelines:{guidelines}" if guidelines else "")

    @cached_property
    def setup(self) -> str:
        """What a resumed run must use again, as JSON: system prompt, tool schemas, model and limits."""
        tools = [{"name": s.name, "description": s.description, "parameters": s.parameters} for s in self.specs]
        return to_json(
            {"system": self.system, "tools": tools, "model": self.model.name, "limits": self.limits}
        ).decode()

    @cached_property
    def definition_digest(self) -> str:
        return digest(self.definition)

    async def run(self, task: str | Task, turn: Turn | None = None) -> Report:
        """Do one task to its end. Without a turn this is a tree of its own, its journal in memory.

        Whatever the models and tools do is in the report; raises only `JournalError` and CancelledError.
        """
        if turn is None:
            order_id = fresh_id()
            turn = Turn(MemoryJournal(order_id), Budget(self.limits))
            task = Task(task, root_record_id(order_id, 1), title_of(task)) if isinstance(task, str) else task
        assert isinstance(task, Task)
        return await Run(self, task, turn).to_its_end()

    def started(self, task: Task, setup_digest: str) -> AgentStarted:
        return AgentStarted(
            title=task.title or title_of(task.prompt),
            call_id=task.call_id,
            prompt=task.prompt,
            model=self._choice,
            tools=tuple(spec.name for spec in self.specs),
            limits=self.limits,
            definition_digest=self.definition_digest,
            setup_digest=setup_digest,
        )


class Run:
    """One agent doing one task: its transcript, its allowance, its place in the tree."""

    def __init__(self, agent: Agent, task: Task, turn: Turn) -> None:
        self._agent = agent
        self._task = task
        self._journal = turn.journal
        self._origin = Origin(
            record_id=task.record_id, parent_id=task.parent_id, agent=agent.definition.name, depth=task.depth
        )
        limits = turn.budget.limits
        self._allowance = Allowance(turn.budget, Share.of(limits, agent.definition.limits, task.depth))
        self._hands = Hands(agent.tools, turn.journal, self._origin, self._allowance, limits.parallel_tool_calls)
        self._transcript: list[Message] = [UserMessage(task.prompt)]
        self._mail = turn.mail if task.depth == 0 else Mailbox()
        self._text = ""

    async def to_its_end(self) -> Report:
        setup_digest = await self._journal.keep(self._agent.setup)
        await self._journal.write(self._origin, self._agent.started(self._task, setup_digest))
        try:
            report = await self._in_time()
        except LimitReached as reached:
            report = self._stopped(RecordStatus.LIMIT_REACHED, str(reached), reached.limit)
            if reached.limit == "wall_seconds" and self._task.depth == 0:
                await self._journal.close(report.status, str(reached))
                return report
        except ModelError as error:
            report = self._stopped(RecordStatus.FAILED, str(error))
        await self._journal.write(
            self._origin, AgentFinished(status=report.status, answer=report.text, error=report.error)
        )
        return report

    async def _in_time(self) -> Report:
        """The rounds. The wall clock of the master cuts the whole tree off; a child looks at its own between rounds."""
        if self._task.depth > 0:
            return await self._rounds()
        try:
            async with asyncio.timeout(self._allowance.seconds_left()) as wall:
                return await self._rounds()
        except TimeoutError as error:
            if not wall.expired():
                raise
            raise LimitReached("wall_seconds", self._allowance.share.wall_seconds) from error

    async def _rounds(self) -> Report:
        number, unwritten = 1, tuple[ToolFinished, ...]()
        while True:
            reply = await self._ask(number, unwritten)
            calls = reply.tool_calls
            self._text = reply.text or self._text
            if not calls:
                await self._write_last(reply)
                if not self._mail:
                    return self._stopped(RecordStatus.COMPLETED, None)
                self._transcript.append(AssistantMessage(reply.text, reply.thinking, reply.thoughts))
                number, unwritten = number + 1, ()
                continue
            await self._journal.write(self._origin, reply, *self._hands.starting(calls, number))
            acted = await self._hands.act(calls)
            self._transcript.append(AssistantMessage(reply.text, reply.thinking, reply.thoughts, calls))
            self._transcript.append(ToolResults(acted.results))
            number, unwritten = number + 1, (acted.unwritten,)

    async def _ask(self, number: int, unwritten: tuple[ToolFinished, ...]) -> ModelReplied:
        await self._check(number, unwritten)
        mail = self._mail.take()
        self._transcript.extend(UserMessage(one.text) for one in mail)
        agent = self._agent
        ear = Ear(self._journal, self._origin, number, agent.model.name)
        reply = await ask(agent.model, self._question(), ear, *unwritten, *(one.read() for one in mail))
        self._allowance.charge(reply.usage)
        return reply

    async def _check(self, number: int, unwritten: tuple[ToolFinished, ...]) -> None:
        try:
            self._allowance.before_round(number)
        except LimitReached:
            if unwritten:
                await self._journal.write(self._origin, *unwritten)
            raise

    def _question(self) -> Ask:
        definition, left = self._agent.definition, self._allowance.output_tokens_left()
        return Ask(
            system=self._agent.system,
            messages=self._transcript,
            tools=self._agent.specs,
            max_output_tokens=left if left < LAST_TOKENS else None,
            temperature=definition.temperature,
            thinking=definition.thinking,
            seconds=self._allowance.model_call_seconds(),
        )

    async def _write_last(self, reply: ModelReplied) -> None:
        if reply.finish_reason in ("length", "content_filter"):
            cut = AgentStep(name="cut_short", message=f"The model's last reply ended early: {reply.finish_reason}.")
            await self._journal.write(self._origin, reply, cut)
        else:
            await self._journal.write(self._origin, reply)

    def _stopped(self, status: AgentEnd, error: str | None, limit: str | None = None) -> Report:
        return Report(status, self._text, self._task.record_id, self._allowance.usage, error, limit)
