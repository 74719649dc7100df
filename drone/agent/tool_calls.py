"""Runs the tool calls of a reply concurrently and journals the start and end of each."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from drone.agent.background import BackgroundWork
from drone.agent.control.agent_control import AgentControl
from drone.agent.gates.gate import Evidence, GateVerdict, RunGate
from drone.agent.model_call import room_for_results
from drone.agent.offered import OfferedTools
from drone.agent.parts import AgentParts
from drone.agent.permission_gate import Approval, Decision, PermissionGate
from drone.agent.ports.artifacts import LEAST, TOGETHER, not_kept
from drone.agent.ports.receipts import CallReceipt, reading, recalled
from drone.agent.ports.report import describe_tool_error_or_raise, not_an_object
from drone.agent.spending.allowance import Allowance
from drone.agent.state.record import RecordState
from drone.agent.turns.call_ends import (
    NAME,
    READ_FIRST,
    FirstStarts,
    InOrder,
    ReadCall,
    available_tools,
    finished,
    outcome_unknown,
    read_call,
    refusal,
    unknown,
    what_is_left,
)
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Turn, wait_while_paused
from drone.agent.turns.writing import hold_workspace, must_hold, telling_of_changes
from drone.threads import side_by_side
from mcc.contracts.blocks import ToolCall
from mcc.contracts.fact import Fact
from mcc.contracts.journal import GateChecked, Outcome, ToolFinished, ToolStarted
from mcc.contracts.record import RecordStatus
from mcc.transcript.messages import Message, ToolSpec
from mcc.transcript.previews import READ_ARTIFACT
from mcc.transcript.replies import OpenReply
from mcc.transcript.setup import Setup


class ToolCalls:
    """Runs the tool calls of one run, at most `parallel_tool_calls` at a time."""

    def __init__(
        self,
        agent: AgentParts,
        turn: Turn,
        state: RecordState,
        allowance: Allowance,
        agent_control: AgentControl,
        finish: RunGate | None,
    ) -> None:
        self._model = agent.model
        self._tools = agent.tools
        self.offered = OfferedTools(agent, state, agent_control, finish)
        self._turn = turn
        self._state = state
        self._allowance = allowance
        self._background = BackgroundWork(agent, turn, state, allowance, agent_control)
        self._agent_control = agent_control
        self._finish = finish
        self._earlier: tuple[CallReceipt, ...] = ()
        self._roots = agent.hired.roots
        self._shared_room = TOGETHER
        self._shown = 0
        self._gate = PermissionGate(agent.permits, agent.tools, agent.hired.egress, turn, state)
        self._late_starts: dict[str, ToolStarted] = {}
        self._reads: dict[str, ReadCall] = {}
        self._starts = FirstStarts({})
        self._changed: dict[str, Sequence[str]] = {}

    def recall(self, earlier: Iterable[Message]) -> None:
        """Count the tool calls of the earlier conversation as evidence, too."""
        self._earlier = tuple(receipt for receipt in recalled(earlier) if receipt.tool not in self._state.finish_tools)

    def _outcome_unknown(self, open_reply: OpenReply) -> tuple[ToolFinished, ...]:
        """The ends of calls that a lost drone had started and that must not run again."""
        return tuple(
            outcome_unknown(call)
            for call in open_reply.started.values()
            if call.call_id not in open_reply.finished and not (call.idempotent or self._is_resumable(call.name))
        )

    def _is_resumable(self, name: str) -> bool:
        """Whether the tool, run again, continues what it had begun. Finish tools count: a check has no side effects."""
        spec = self.offered.names.get(name)
        return spec is None or spec.resumable or (self._finish is not None and self._finish.owns(name))

    def use_setup(self, setup: Setup) -> None:
        """Use the tools that a resumed run started with, or the turn before it had."""
        self._roots = setup.roots or self._roots
        self.offered.use_setup(setup)

    def _read(self, call: ToolCall, started: ToolStarted | None) -> ReadCall:
        """The call with the arguments that are judged, run and recorded: those that it was started with, if it was."""
        if started is not None:
            call = call.model_copy(update={"arguments": started.arguments})
        return read_call(call, self.offered.names.get(call.name), self._roots)

    def _starting(self, open_reply: OpenReply) -> tuple[Fact, ...]:
        """The start entries to commit before any call runs; calls that must wait for a decision start later."""
        calls = open_reply.calls
        starts = {
            call.call_id: self._reads[call.call_id].start(
                open_reply.reply.round,
                index,
                (spec := self.offered.names.get(call.name)) is not None and spec.idempotent,
            )
            for index, call in enumerate(calls)
            if call.call_id not in open_reply.started
        }
        self._late_starts = {late: starts.pop(late) for late in self._waiting_calls(calls) if late in starts}
        return tuple(fact for start in starts.values() for fact in self._reads[start.call_id].started(start))

    def _waiting_calls(self, calls: Iterable[ToolCall]) -> Iterator[str]:
        """Ids of the calls that may have to wait for a person or the workspace, and of ordered calls behind them."""
        waits = False
        for call in calls:
            spec, arguments = self.offered.names.get(call.name), self._reads[call.call_id].call.arguments
            if spec is None or call.name in self._state.finish_tools or not isinstance(arguments, Mapping):
                continue
            held = self._gate.word(spec, arguments) != "allow" or must_hold(self._turn, spec, self._state.origin)
            if held or (waits and spec.is_ordered):
                yield call.call_id
            waits = waits or (held and spec.is_ordered)

    async def act(self, open_reply: OpenReply) -> None:
        """Run the calls of a reply that have not ended, including those that an earlier drone had started.

        The starts are committed before any call runs, each result when it arrives, and the last ones with the run's
        next write. Calls of finish tools run after all others, so that the gate sees the others' results.
        """
        started, journal = open_reply.started, self._turn.journal
        self._starts = FirstStarts(open_reply.begun_at)
        self._shared_room = room_for_results(self._model, self._state)
        self._shown = sum(len(done.content) for done in open_reply.finished.values())
        self._reads = {call.call_id: self._read(call, started.get(call.call_id)) for call in open_reply.calls}
        await journal.write(self._state.origin, *self._outcome_unknown(open_reply), *self._starting(open_reply))
        wanted = [call for call in open_reply.calls if call.call_id not in open_reply.finished]
        last = [call for call in wanted if call.name in self._state.finish_tools]
        with self._turn.idle.waiting(self._state.origin.record_id):
            await self._side_by_side([call for call in wanted if call not in last])
        # The results are committed before a gate acts on them (docs/decisions/16).
        if last:
            await journal.write(self._state.origin)
        for call in last:
            journal.note(self._state.origin, *await self._submit(call))

    async def _side_by_side(self, calls: list[ToolCall]) -> None:
        width = asyncio.Semaphore(self._turn.budget.limits.parallel_tool_calls)
        # Most replies have one call, which needs neither a task of its own nor an order.
        if len(calls) == 1:
            self._end(*await self._run_when_allowed(calls[0], width))
            return
        specs = ((call, self.offered.names.get(call.name)) for call in calls)
        in_order = InOrder([call.call_id for call, spec in specs if spec is not None and spec.is_ordered])
        going, crowded = len(calls), len(calls) > self._turn.budget.limits.parallel_tool_calls

        async def one(call: ToolCall) -> None:
            nonlocal going
            async with in_order.turn_of(call.call_id):
                ended = await self._run_when_allowed(call, width, crowded=crowded)
            going -= 1
            self._end(*ended)
            # Each result is committed as it arrives; the last joins the next write (docs/decisions/08).
            if going:
                await self._turn.journal.write(self._state.origin)

        async with side_by_side() as start:
            for call in calls:
                start(partial(one, call))

    async def _run_when_allowed(
        self, call: ToolCall, width: asyncio.Semaphore, *, crowded: bool = False
    ) -> tuple[Fact, ...]:
        """Run a call once it may run; returns its last entries. A call that waits for a person does not take up one of
        the `parallel_tool_calls` slots. `crowded`: there are more calls than slots."""
        call, later = self._reads[call.call_id].call, self._late_starts.pop(call.call_id, None)
        if later is not None:
            return await self._run_after_decision(call, later, width)
        await self._hold_workspace(call)
        async with width:
            if crowded:
                # Of many calls that wait for nothing, each would begin as soon as the one before it has ended, and no
                # other order would get its turn.
                await asyncio.sleep(0)
            if (held_up := self._agent_control.held_up) is not None and call not in self._starts:
                refused = refusal(f"Not run, as the order waits: {held_up.message}. Make this call again.")
                return (finished(call, refused, time.monotonic(), untrusted=False),)
            await self._may_begin(call)
            return (await self._execute(call),)

    async def _run_after_decision(
        self, call: ToolCall, start: ToolStarted, width: asyncio.Semaphore
    ) -> tuple[Fact, ...]:
        """The same for a call that needs the permission gate's decision; its start is committed only after that."""
        began = time.monotonic()
        passed: Decision = self._refused(call)
        while not isinstance(passed, Output):
            # Each time: while the call waited for a person, its tool may have been removed.
            passed = self._removed(self.offered.names[call.name]) or await self._decide(call)
            if isinstance(passed, Output):
                break
            await self._hold_workspace(call)
            async with width:
                await self._may_begin(call)
                # What the call would do may have changed while it waited for a slot: then a person decides once more.
                if passed is None or await self._still_approved(passed, call):
                    approval_id = passed.approval_id if passed is not None else None
                    taken = start.model_copy(update={"approval_id": approval_id})
                    await self._turn.journal.write(self._state.origin, *self._reads[call.call_id].started(taken))
                    return (await self._execute(call, taken=True),)
        begun = self._reads[call.call_id].started(start)
        return (*begun, finished(call, passed, began, untrusted=False))

    async def _hold_workspace(self, call: ToolCall) -> None:
        """Wait until the order may write in its workspace, if this call may."""
        origin, control = self._state.origin, self._agent_control
        if must_hold(self._turn, self.offered.names.get(call.name), origin):
            self._changed[call.call_id] = await hold_workspace(self._turn, call.call_id, origin, control)

    async def _decide(self, call: ToolCall) -> Decision:
        spec = self.offered.names[call.name]
        try:
            return await self._gate.decide(self._as_call(call), spec)
        except BaseException as error:
            said = describe_tool_error_or_raise(error)
            return refusal(f"{call.name} was not run: its permission could not be checked: {said}", Outcome.DENIED)

    async def _still_approved(self, approval: Approval, call: ToolCall) -> bool:
        """Whether the approval still covers the call, checked right before it starts."""
        try:
            return await self._gate.still_covers(approval, self._as_call(call), self.offered.names[call.name])
        except BaseException as error:
            # For what it raises: errors of the run itself. After any other, the approval covers nothing any more.
            describe_tool_error_or_raise(error)
            return False

    def _as_call(self, call: ToolCall) -> StartedCall:
        assert isinstance(call.arguments, Mapping)
        return StartedCall(call.call_id, call.name, call.arguments, self._state.origin, self._turn, self._gate.egress)

    def _end(self, *ended: Fact) -> None:
        for fact in ended:
            if isinstance(fact, ToolFinished):
                self._allowance.tool_call_ended(fact.call_id)
        self._turn.journal.note(self._state.origin, *ended)

    async def _may_begin(self, call: ToolCall) -> None:
        """Wait out a pause. A resumed call that only continues its agents does not wait: each of them does itself."""
        if not (call in self._starts and self._is_resumable(call.name)):
            await wait_while_paused(self._turn, self._agent_control, call.call_id)

    async def _execute(self, call: ToolCall, *, taken: bool = False) -> ToolFinished:
        """The call's end; whatever the tool does becomes a result for the model. `taken`: the allowance has counted the
        call already.

        Raises `JournalError` and `Exhausted`.
        """
        with self._turn.idle.moving(call.call_id, self._agent_control.block):
            return await self._run_to_end(call, None if taken else self._refused(call))

    async def _run_to_end(self, call: ToolCall, refused: Output | None) -> ToolFinished:
        started = self._starts.of(call)
        try:
            output = self._reads[call.call_id].telling(refused or await self._run(call))
            output = telling_of_changes(output, self._changed.pop(call.call_id, ()))
            await self._close_abandoned()
        except BaseException as error:
            # What concerns the run itself (cancellation, journal) is raised again here: it says nothing of the tool.
            output = Output(
                f"The tool {call.name[:NAME]} broke: {describe_tool_error_or_raise(error)}", True, Outcome.ERROR
            )
            await self._close_abandoned()
        spec = self.offered.names.get(call.name)
        # As the output says itself, else as its tool's spec says.
        untrusted = spec is None or spec.untrusted if output.untrusted is None else output.untrusted
        outside = spec is not None and spec.reaches_outside(self._gate.egress)
        return finished(call, output, started, untrusted=untrusted, outside=outside)

    async def _close_abandoned(self) -> None:
        """Close the records of agents that the tool's code started and then stopped waiting for."""
        abandoned = self._turn.abandoned
        while abandoned:
            why = "the call that it worked for did not wait for it any longer"
            await self._turn.journal.close(RecordStatus.CANCELLED, why, under=abandoned.pop())

    async def _run(self, call: ToolCall) -> Output:
        # Checked right before the effect: the lease may have expired since the start was committed.
        await self._turn.journal.confirm_held()
        output = await self._tools.call(self._as_call(call))
        artifacts = self.offered.names.get(READ_ARTIFACT)
        readable = artifacts is not None and self.offered.is_available(artifacts)
        room = max(LEAST, self._shared_room - self._shown)
        spec = self.offered.names.get(call.name)
        if spec is not None and spec.max_result is not None:
            room = min(room, spec.max_result)
        self._shown += min(len(output.content), room)
        if output.subagent_ids and len(output.content) <= room:  # reports (JSON) were shortened when they were built
            return output
        try:
            content, artifact = await self._turn.artifacts.fitted_output(
                output.content, readable=readable, room=room, artifact=output.artifact
            )
        except Exception as error:
            # The call has had its effect: that its whole text cannot be kept takes only the text away.
            why = describe_tool_error_or_raise(error)
            self._turn.hold_up(why)
            return replace(output, content=not_kept(output.content, room, why))
        return output if artifact is None else replace(output, content=content, artifact=artifact)

    def _refused(self, call: ToolCall) -> Output | None:
        """Why the call does not run, as a result for the model; None when it does, which reserves a tool call."""
        if self._state.spending.landing is not None:
            return refusal("Not run: that was your last reply, and no tool runs any more.", Outcome.DENIED)
        spec = self.offered.names.get(call.name)
        if spec is None:
            return refusal(unknown(call.name, self.offered.usable(), has_gate=self._finish is not None))
        if (taken := self._removed(spec)) is not None:
            return taken
        if not isinstance(call.arguments, Mapping):
            return refusal(not_an_object(call.name, call.arguments))
        if not self._allowance.take_tool_call(call.call_id):
            reached = f"The limit tool_calls ({self._allowance.share.tool_calls}) is reached"
            return refusal(f"{reached}: {what_is_left(self.offered.finish_specs)} with what you have.", Outcome.DENIED)
        return None

    def _removed(self, spec: ToolSpec) -> Output | None:
        if self.offered.is_available(spec):
            return None
        taken = f"A person took the tool {spec.name} away from you. {available_tools(self.offered.usable())}"
        return refusal(taken, Outcome.DENIED)

    async def accept_again(self, call: ToolCall) -> GateChecked | None:
        """Let the gate check again what it accepted under another drone; the entry if it no longer accepts it."""
        assert self._finish is not None
        return await self._finish.accept_again(call, self._evidence())

    async def accept_reply(self) -> GateChecked | None:
        """The entry that accepts the last reply, whose text spells the result; None where it does not."""
        assert self._finish is not None
        spelled = self._finish.spelled(self._state.answer)
        return None if spelled is None else await self._finish.reply(spelled, self._evidence())

    async def best(self) -> GateVerdict | None:
        """The verdict on the best submission that was not accepted."""
        return None if self._finish is None else await self._finish.best(self._evidence())

    async def _submit(self, call: ToolCall) -> tuple[Fact, ...]:
        """Let the gate check a submission; returns the entries. With unread mail, the gate is not asked."""
        assert self._finish is not None
        started = self._starts.of(call)
        if not self._finish.only_checks(call) and await self._background.has_news():
            return (finished(call, refusal(READ_FIRST), started, untrusted=False),)
        checked, output = await self._finish.call(call, self._evidence())
        done = finished(call, output, started, untrusted=False)
        return (done,) if checked is None else (checked, done)

    def _evidence(self) -> Evidence:
        state, tree = self._state, self._turn.tree
        return Evidence(
            task=state.conversation.task,
            receipts=(*map(tree.receipt, self._earlier), *state.receipts),
            children=tuple(tree.reports_of(state.children.ids)),
            usage=state.spending.spent,
            reading=reading(self.offered.usable()),
            threads=self._turn.threads,
            below=tuple(tree.receipts_of(state.children.ids)),
            roots=self._roots,
            kept=self._turn.journal.kept,
        )
