"""This room is for acting: the tool calls of one reply, side by side, each with its entries."""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from drone.agent.artifacts import READ_ARTIFACT
from drone.agent.controls.helm import Helm
from drone.agent.gates.gate import VALIDATE, Evidence, Finish
from drone.agent.gates.receipts import Receipt, reading, recalled
from drone.agent.messages import Message, ToolResult, ToolSpec
from drone.agent.mishap import mishap_of_tool, no_object
from drone.agent.ports import Call, Output
from drone.agent.report import Report
from drone.agent.setup import SetUp
from drone.agent.side_by_side import side_by_side
from drone.agent.spending.allowance import Allowance
from drone.agent.spoken import REPLY
from drone.agent.turn import Turn
from mcc.contracts.fence import fenced
from mcc.contracts.journal import Fact, GateChecked, Origin, Outcome, ToolFinished, ToolStarted
from mcc.contracts.record import RecordStatus, ToolCall
from mcc.definitions.groups import TOOL_GROUPS
from mcc.rules.nearness import alike

if TYPE_CHECKING:
    from drone.agent.agent import Agent


OUTCOME_UNKNOWN = (
    "The outcome of this call is not known: the process that ran it was lost, and it may or may not have had its "
    "effect. It is not run again by itself. Look whether it had, before you repeat it."
)


@dataclass(frozen=True, slots=True)
class Acted:
    """Finished calls in the order of the reply. `unwritten` goes into the journal with the record's next entry.

    `refusals` are the errors of the last check of the gate that was meant as the end.
    """

    finished: tuple[ToolFinished, ...]
    unwritten: tuple[Fact, ...]
    refusals: tuple[str, ...] = ()

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(ToolResult(one.call_id, one.name, one.content, one.is_error) for one in self.finished)


class Hands:
    """Runs the tool calls of one run, at most `parallel_tool_calls` at a time, and keeps their receipts."""

    def __init__(
        self, agent: "Agent", turn: Turn, origin: Origin, allowance: Allowance, finish: Finish | None, task: str
    ) -> None:
        self._tools = agent.tools
        self._turn = turn
        self._origin = origin
        self._allowance = allowance
        self._finish = finish
        self._finish_specs = finish.specs() if finish else ()
        self._specs: dict[str, ToolSpec] = {spec.name: spec for spec in agent.specs}
        self._setup: SetUp | None = None
        self._helm = Helm(origin)
        self._receipts: list[Receipt] = []
        self._children: list[Report] = []
        self.task = task

    def recall(self, earlier: Iterable[Message]) -> None:
        """What the conversation did before this run counts as evidence too."""
        finish = {spec.name for spec in self._finish_specs}
        self._receipts = [receipt for receipt in recalled(earlier) if receipt.tool not in finish]

    def recall_calls(self, calls: Sequence[ToolCall], done: Sequence[ToolFinished]) -> None:
        """Calls of this very run that an earlier drone brought to their end."""
        for call, finished in zip(calls, done, strict=True):
            if self._finish is not None and self._finish.owns(call.name):
                continue
            self._allowance.recall_tool_call()
            self._receipts.append(Receipt.of(call, finished))
            self._children.extend(self._turn.reports_of(finished.subagent_ids))

    def outcome_unknown(
        self, started: Mapping[str, ToolStarted], finished: Mapping[str, ToolFinished]
    ) -> tuple[ToolFinished, ...]:
        """The ends of calls that a lost drone had begun and that must not be run again."""
        return tuple(
            ToolFinished(
                call_id=call.call_id,
                name=call.name,
                content=OUTCOME_UNKNOWN,
                is_error=True,
                outcome=Outcome.OUTCOME_UNKNOWN,
            )
            for call in started.values()
            if call.call_id not in finished and not (call.idempotent or self._is_resumable(call.name))
        )

    def _is_resumable(self, name: str) -> bool:
        """Whether the tool, run again, goes on with what it had begun; a check of the gate begins nothing."""
        spec = self._specs.get(name)
        return spec is None or spec.resumable or (self._finish is not None and self._finish.owns(name))

    def set_up(self, setup: SetUp) -> None:
        """The run was begun elsewhere, with these tools."""
        self._setup = setup
        self._specs = {spec.name: spec for spec in setup.specs}

    def steer_by(self, helm: Helm) -> None:
        self._helm = helm

    def may(self, spec: ToolSpec) -> bool:
        """Whether nobody took the tool away. The finish tools are not taken: without them no run could end."""
        owned = self._finish is not None and self._finish.owns(spec.name)
        return owned or self._helm.allows(spec.name, spec.group)

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools that may be called now: a tool set may change between rounds, and people take tools away."""
        there = (*self._tools.specs(), *self._finish_specs)
        if self._setup is not None:
            there = self._setup.now(there)
        self._specs = {spec.name: spec for spec in there}
        return tuple(filter(self.may, there)) if self._helm.narrowed else there

    def starting(self, calls: tuple[ToolCall, ...], round_number: int) -> tuple[ToolStarted, ...]:
        """The entries to commit before any of the calls runs."""
        return tuple(
            ToolStarted(
                call_id=call.call_id,
                provider_id=call.provider_id,
                round=round_number,
                index=index,
                name=call.name,
                arguments=call.arguments,
                idempotent=self._is_idempotent(call.name),
            )
            for index, call in enumerate(calls)
        )

    def _is_idempotent(self, name: str) -> bool:
        spec = self._specs.get(name)
        return spec is not None and spec.idempotent

    async def act(
        self,
        calls: tuple[ToolCall, ...],
        before: Mapping[str, ToolFinished] | None = None,
        begun: Collection[str] = (),
    ) -> Acted:
        """Run calls whose start is committed; each result is committed when it comes, the last ones by the caller.

        What hands a result in runs after all others, so that its rules see what they brought. `before`: results that
        are there already; `begun`: ids of calls that an earlier drone had begun.
        """
        finished: dict[str, ToolFinished] = dict(before or {})
        wanted = [call for call in calls if call.call_id not in finished]
        known = [call for call in calls if call.call_id in finished]
        self.recall_calls(known, [finished[call.call_id] for call in known])
        last = [call for call in wanted if self._finish is not None and self._finish.owns(call.name)]
        first = [call for call in wanted if self._finish is None or not self._finish.owns(call.name)]
        with self._turn.standstill.still(self._origin.record_id):
            unwritten: list[Fact] = list(await self._side_by_side(first, finished, begun))
        if last and unwritten:
            await self._turn.journal.write(self._origin, *unwritten)
            unwritten = []
        refusals: tuple[str, ...] = ()
        for call in last:
            checked, done = await self._hand_in(call)
            if checked is not None:
                unwritten.append(checked)
                refusals = refusals if call.name == VALIDATE else checked.errors
            unwritten.append(done)
            finished[call.call_id] = done
        return Acted(tuple(finished[call.call_id] for call in calls), tuple(unwritten), refusals)

    async def _side_by_side(
        self, calls: list[ToolCall], finished: dict[str, ToolFinished], begun: Collection[str]
    ) -> tuple[ToolFinished, ...]:
        """Answers the result that came last, which is not committed yet."""
        if len(calls) <= 1:
            for call in calls:
                await self._may_begin(call, begun)
            done = tuple([await self._one(call) for call in calls])
            finished.update((one.call_id, one) for one in done)
            return done
        complete = len(finished) + len(calls)
        width = asyncio.Semaphore(self._turn.budget.limits.parallel_tool_calls)

        async def one(call: ToolCall) -> None:
            async with width:
                await self._may_begin(call, begun)
                done = await self._one(call)
            finished[call.call_id] = done
            if len(finished) < complete:
                await self._turn.journal.write(self._origin, done)

        async with side_by_side() as start:
            for call in calls:
                start(partial(one, call))
        return (list(finished.values())[-1],)

    async def _may_begin(self, call: ToolCall, begun: Collection[str]) -> None:
        """Wait out a pause; but what only goes on with agents that it had begun lets each of them wait for itself."""
        if call.call_id in begun and self._is_resumable(call.name):
            return
        while (block := self._helm.block()) is not None:
            with self._turn.standstill.blocked(call.call_id, block):
                await self._helm.passes()
        self._helm.check()

    async def _one(self, call: ToolCall) -> ToolFinished:
        """The call's result; whatever the tool does, the model is told and the turn goes on.

        Raises `JournalError` and `Exhausted`.
        """
        with self._turn.standstill.moving(call.call_id, self._helm):
            return await self._done(call)

    async def _done(self, call: ToolCall) -> ToolFinished:
        started = time.monotonic()
        try:
            output = await self._run(call)
            await self._close_given_up()
        except BaseException as error:
            output = Output(f"The tool {call.name[:_NAME]} broke: {mishap_of_tool(error)}", True, Outcome.ERROR)
            await self._close_given_up()
        return self._noted(call, self._marked(call, output), started)

    def _marked(self, call: ToolCall, output: Output) -> Output:
        """The output with what strangers may have written within a fence; it says so itself, else its tool does."""
        spec = self._specs.get(call.name)
        untrusted = spec is None or spec.untrusted if output.untrusted is None else output.untrusted
        content = fenced(output.content, call.call_id) if untrusted else output.content
        return replace(output, content=content, untrusted=untrusted)

    async def _close_given_up(self) -> None:
        """A tool that does not wait for its agent any longer leaves no end of it behind."""
        given_up = self._turn.given_up
        while given_up:
            why = "the call that it worked for did not wait for it any longer"
            await self._turn.journal.close(RecordStatus.CANCELLED, why, under=given_up.pop())

    def _noted(self, call: ToolCall, output: Output, started: float) -> ToolFinished:
        done = _finished(call, output, started)
        self._receipts.append(Receipt.of(call, done))
        self._children.extend(output.children)
        return done

    async def _run(self, call: ToolCall) -> Output:
        refused = self._refused(call)
        if refused is not None:
            return refused
        assert isinstance(call.arguments, Mapping)
        wanted = Call(call.call_id, call.name, call.arguments, self._origin, self._turn)
        await self._turn.journal.cleared()
        output = await self._tools.call(wanted)
        readable = any(spec.name == READ_ARTIFACT and self.may(spec) for spec in self._specs.values())
        content, artifact = await self._turn.artifacts.fitted(output.content, readable=readable)
        return output if artifact is None else replace(output, content=content, artifact=artifact)

    def _refused(self, call: ToolCall) -> Output | None:
        """Why the call does not run, in words for the model; None when it does. Takes one call off the allowance."""
        spec = self._specs.get(call.name)
        if spec is None:
            return _error(self._unknown(call.name))
        if not self.may(spec):
            return _error(f"A person took the tool {call.name} away from you. {self._have()}", Outcome.DENIED)
        if not isinstance(call.arguments, Mapping):
            return _error(no_object(call.name, call.arguments))
        if not self._allowance.take_tool_call():
            reached = f"The limit tool_calls ({self._allowance.share.tool_calls}) is reached"
            return _error(f"{reached}: {self._still()} with what you have.", Outcome.DENIED)
        return None

    def _still(self) -> str:
        """What an agent can do that has no tool call left."""
        if not self._finish_specs:
            return "no tool runs any more. Answer"
        return f"no tool but {' and '.join(spec.name for spec in self._finish_specs)} runs any more. Finish"

    def _unknown(self, name: str) -> str:
        if name in _FINISH_TOOLS and self._finish is None:
            return f"You need no tool to finish: your reply without a tool call is your result. {self._have()}"
        near = alike(name[:_NAME], [spec.name for spec in self.specs()], n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"There is no tool {name[:_NAME]!r} here.{hint} {self._have()}"

    def _have(self) -> str:
        names = ", ".join(spec.name for spec in self.specs())
        return f"You have: {names}." if names else "You have no tools."

    async def hand_in_again(self, call: ToolCall) -> GateChecked | None:
        """Let the gate judge what it has accepted before; if it does not any more, the entry that tells the model."""
        checked, _ = await self._hand_in(call)
        return None if checked is None or checked.ok else checked.model_copy(update={"tool": REPLY})

    async def _hand_in(self, call: ToolCall) -> tuple[GateChecked | None, ToolFinished]:
        """Let the gate judge, unless somebody wrote to the agent meanwhile; the entries, no check when it did not."""
        assert self._finish is not None
        started = time.monotonic()
        if self._helm.mail and call.name != VALIDATE:
            return None, _finished(call, _error(_READ_FIRST), started)
        evidence = Evidence(
            task=self.task,
            receipts=tuple(self._receipts),
            children=tuple(self._children),
            usage=self._allowance.usage,
            reading=reading(self.specs()),
            threads=self._turn.threads,
        )
        checked, output = await self._finish.call(call, evidence)
        return checked, _finished(call, output, started)


_FINISH_TOOLS = frozenset(TOOL_GROUPS["finish"])

_NAME = 200
"""Characters of a tool's name, as a model wrote it, that are looked at and told."""

_READ_FIRST = "Not looked at yet: somebody wrote to you in the meantime. Read that, then hand your result in again."


def _error(said: str, outcome: Outcome = Outcome.ERROR) -> Output:
    """In the runtime's own words."""
    return Output(said, is_error=True, outcome=outcome, untrusted=False)


def _finished(call: ToolCall, output: Output, started: float) -> ToolFinished:
    return ToolFinished(
        call_id=call.call_id,
        name=call.name,
        content=output.content,
        is_error=output.is_error,
        outcome=output.outcome,
        seconds=round(time.monotonic() - started, 6),
        subagent_ids=output.subagent_ids,
        artifact=output.artifact,
        untrusted=bool(output.untrusted),
    )
