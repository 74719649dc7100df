"""The loop of an agent: decides the next step from the state of its run and writes entries, until there is a result."""

import asyncio
from dataclasses import replace

from drone.agent.background import BackgroundWork
from drone.agent.beginning import RunBeginning
from drone.agent.compaction.compaction import Compactor
from drone.agent.control.agent_control import MOST_CHARACTERS, AgentControl
from drone.agent.gates.gate import GateVerdict, RunGate
from drone.agent.gates.verifier import Verifying, rejection
from drone.agent.model_call import ModelCall, ask, cut_short, failed
from drone.agent.parts import AgentParts
from drone.agent.ports.model import Ask, AskHint, AskLater, ContextOverflow, ModelError, PictureRefused, UnknownPrice
from drone.agent.ports.report import Cause, LimitReached, PriceUnknown, Report
from drone.agent.spending.allowance import Allowance
from drone.agent.spending.budget import Reservation, Share
from drone.agent.state.record import RecordState
from drone.agent.tool_calls import ToolCalls
from drone.agent.turns.turn import ProviderWait, Task, Turn, until_ready, wait_while_paused
from mcc.contracts.blocks import ToolCall
from mcc.contracts.fact import Fact
from mcc.contracts.journal import AgentStep, BudgetWarned, GateChecked
from mcc.contracts.record import AgentEnd, RecordStatus
from mcc.transcript.transcript import ANNOUNCED

_ENDS: dict[object, AgentEnd] = {"blocked": RecordStatus.BLOCKED, "failed": RecordStatus.FAILED}
"""The status of a run by the status in its accepted result."""


class Loop:
    """The rounds of one run. All it knows is in `state`; everything new it writes as entries, which change the state.

    `beginning`: the original setup of a resumed run, or that of the turn before, where the agent's current one differs.
    """

    def __init__(
        self,
        agent: AgentParts,
        task: Task,
        turn: Turn,
        state: RecordState,
        agent_control: AgentControl,
        beginning: RunBeginning,
    ) -> None:
        self._agent = agent
        self._task = task
        self._turn = turn
        self._state = state
        self._agent_control = agent_control
        setup = beginning.setup
        self._system = setup.system if setup else agent.system
        gate, limits = agent.gate, turn.budget.limits
        finish = gate.finish if gate else None
        share = Share.of(limits, agent.definition.limits, task.depth).within(task.seconds)
        self.allowance = Allowance(turn.budget, share, state, finish=finish)
        self._finish = RunGate(gate, state) if gate else None
        self._asked = state.started.model_settings if state.started else None
        verifier = agent.hired.verifier
        self._verifying = Verifying(verifier, turn, self.allowance, finish) if verifier else None
        self._prefix = beginning.prefix
        self._cache_key = beginning.cache_key
        self._provider = ProviderWait(turn, agent_control, task.waits)
        self.compaction = Compactor(agent.model, self._provider, state, self.allowance, agent.summary_model)
        self._tool_calls = ToolCalls(agent, turn, state, self.allowance, agent_control, self._finish)
        self._tool_calls.recall(task.earlier)
        self._background = BackgroundWork(agent, turn, state, self.allowance, agent_control)
        if setup is not None:
            self._tool_calls.use_setup(setup)

    async def until_done(self) -> Report:
        """Take the next step that the state calls for, until there is a report. A resumed run may enter at any step.

        Raises `Stopped`, `ModelError`, `JournalError`.
        """
        state, finish = self._state, self._finish
        await self._background.restart()
        # The order of the branches is the order in which a run ends: what has begun comes before what could follow, a
        # result before the limits and faults that would end the run without one, and a new question last.
        while True:
            # Before anything else, as no step of a run whose attempts at the gate are used up can end it well.
            if finish is not None:
                finish.check_attempts()
            # Calls that have begun have effects, and the model reads their results: nothing overtakes them.
            if state.open is not None:
                if not state.open.started:  # started calls continue their children, which wait out pauses themselves
                    await self._wait_while_paused()
                await self._tool_calls.act(state.open)
            # Before a result of any kind: the agent reads what its subagents bring, and then answers again.
            elif self._replied_without_call and self._background.owes:
                await self._write()
                await self._background.wait()
                await self._background.deliver()
            # Before the limit: the last reply that a limit leaves may be the result, given as text.
            elif (accepted_text := await self._accepted_as_text()) is not None:
                await self._write(accepted_text)
            # After the calls and the text of that last reply, which may have handed in a result; before whatever would
            # send the agent back, as it has no reply left.
            elif (landing := self._landed_limit) is not None and state.gate.accepted is None:
                raise LimitReached(landing.limit, landing.allowed)
            # After the text was tried as the result: what is left is a reply that hands in nothing.
            elif finish is not None and self._replied_without_call:
                await self._wait_while_paused()
                await self._write(finish.reply_without_submission())
            # Before the result: this drone has not seen the verdict that the journal tells of, and needs it to report.
            elif (accepted := self._accepted_elsewhere()) is not None:
                await self._judge_again(accepted)
            # Before the stop, which does not undo a result that was accepted; an answer with a fault is no result here.
            elif (candidate := await self._result()) is not None:
                if (report := await self._verified(candidate)) is not None:
                    return report
            # Before the next question, unless mail has come: that may change what the fault was about.
            elif (stopped := state.course.stopped) is not None and not self._has_mail_after_answer:
                raise stopped.kind(stopped.said)
            # Nothing is open, handed in or wrong: the model says what comes next.
            else:
                await self._ask()

    @property
    def _landed_limit(self) -> BudgetWarned | None:
        """The warning after which one reply was left, once that reply has come."""
        spending = self._state.spending
        return spending.landing if spending.landed else None

    @property
    def _replied_without_call(self) -> bool:
        """Whether the last reply calls no tool, and has caused neither a nudge nor a stop."""
        state = self._state
        settled = state.course.nudge is None and state.course.stopped is None and state.gate.accepted is None
        return state.answer is not None and settled

    async def _accepted_as_text(self) -> GateChecked | None:
        """The entry that accepts the text of the last reply as the result, if that is what it is."""
        if self._finish is None or not self._replied_without_call or self._agent_control.mail:
            return None
        await self._wait_while_paused()
        return await self._tool_calls.accept_reply()

    @property
    def _has_mail_after_answer(self) -> bool:
        """Whether there is unread mail for an agent that has just answered: it reads that before it ends."""
        return self._state.answer is not None and bool(self._agent_control.mail)

    @property
    def _has_mail_after_verdict(self) -> bool:
        """Whether mail arrived while the verifier judged: the agent reads it before it ends."""
        return self._verifying is not None and bool(self._agent_control.mail)

    def _accepted_elsewhere(self) -> ToolCall | None:
        """The call whose result was accepted under an earlier drone, unless there is unread mail."""
        accepted = self._state.gate.accepted
        if (
            accepted is None
            or self._finish is None
            or self._agent_control.mail
            or self._finish.verdict(accepted) is not None
        ):
            return None
        return accepted

    async def _judge_again(self, accepted: ToolCall) -> None:
        await self._wait_while_paused()
        if not self._agent_control.mail and (refused := await self._tool_calls.accept_again(accepted)) is not None:
            await self._write(refused)

    async def _result(self) -> Report | None:
        """The report, if the agent has answered or its result was accepted; None: the run continues."""
        state = self._state
        if self._finish is not None:
            accepted = state.gate.accepted
            verdict = None if accepted is None or self._has_mail_after_verdict else self._finish.verdict(accepted)
            return None if verdict is None else self._accepted(verdict)
        if state.answer is None:
            return None
        await self._wait_while_paused()
        if self._has_mail_after_answer or state.course.nudge is not None or state.course.stopped is not None:
            return None
        return self.report(RecordStatus.COMPLETED)

    async def _verified(self, candidate: Report) -> Report | None:
        """The report, once its verifier has judged it; None: a verdict was written, and the state says what follows."""
        if self._verifying is None:
            return candidate
        checked = self._state.judged.checked
        if checked is None:
            await self._write()
            # The work is committed by now, since judging it may take long (docs/decisions/08).
            await self._write(await self._verifying.verdict(candidate))
            return None
        if checked.passed is False:
            return replace(candidate, status=RecordStatus.FAILED, error=rejection(checked), cause=Cause.VERIFIER)
        return candidate

    async def best_unaccepted(self) -> GateVerdict | None:
        """The best submission that was not accepted; None when there was none."""
        if (best := await self._tool_calls.best()) is not None:
            return best
        words = self._state.judged.sent_back
        return GateVerdict(text=words) if words and not self._state.spending.landed else None

    def _accepted(self, verdict: GateVerdict) -> Report:
        result = verdict.result
        claimed = result.get("status") if isinstance(result, dict) else None
        status = _ENDS.get(claimed, RecordStatus.COMPLETED) if isinstance(claimed, str) else RecordStatus.COMPLETED
        return self.report(status, text=verdict.text, result=result)

    async def _ask(self) -> None:
        """Ask the model, once the agent is not paused and the cost is reserved; the reply is added to the state."""
        if self._verifying is not None:
            await self._verifying.close_abandoned()
        await self._background.deliver()
        await self.compaction.fit(self._request)
        reserved = await self._ready_to_ask()
        state, model = self._state, self._agent.model
        call = ModelCall(self._turn.journal, state, model.name, reserved, self._prefix, self._turn.router.asked)
        try:
            self._add_notices()
            reply = await ask(model, self._request, call)
            self._note(*call.told, reply, *cut_short(reply), *self.allowance.unpriced(reply.usage, reply.model))
            if state.course.answer_check.remark:
                self._note(AgentStep(name=ANNOUNCED, message=state.course.answer_check.remark))
            return
        except ModelError as error:
            self._note(*self._lost_call(call, f"The model gave no reply: {error}"))
            if isinstance(error, UnknownPrice):
                raise PriceUnknown(str(error).removesuffix("."), self._turn.budget.limits.cost_usd or 0) from error
            if not isinstance(error, AskLater | ContextOverflow | PictureRefused) and not self.allowance.must_land:
                # The one reply that was left has failed: what ends the run is its limit.
                if (landing := state.spending.landing) is not None:
                    raise LimitReached(landing.limit, landing.allowed) from error
                raise
            refusal = error
        except asyncio.CancelledError:
            # Deferred, because a cancelled task must not wait for a commit.
            self._turn.journal.defer(
                self._state.origin, *self._lost_call(call, "The model was stopped before its reply was whole.")
            )
            raise
        finally:
            self.allowance.settle(reserved)
        if self.allowance.must_land:  # the call was cut off to leave time for the last one
            self._note(call.retry_entry(str(refusal), 0.0))
        elif isinstance(refusal, ContextOverflow):
            await self.compaction.shorten(refusal, self._request)
        elif isinstance(refusal, PictureRefused):
            await self.compaction.pictures.drop(refusal)
        elif isinstance(refusal, AskLater):
            await self._wait_for_provider(refusal, call)

    def _lost_call(self, call: ModelCall, why: str) -> tuple[Fact, ...]:
        """The entries about a call without a reply: what its request changed, and what it cost, if anything."""
        if (spent := call.spent) is None:
            return call.told
        return (*call.told, failed(why, spent), *self.allowance.unpriced(spent, call.model))

    async def _wait_for_provider(self, refusal: AskLater, call: ModelCall) -> None:
        """Wait until the provider can be asked again. Raises `ModelError` where the order may not wait that long."""
        if (final := self._provider.final(refusal)) is not None:
            raise final
        await self._write(call.retry_entry(str(refusal), refusal.seconds))
        await self._provider.until_over(refusal)

    async def _ready_to_ask(self) -> Reservation:
        """Wait out pauses, reserve, read mail; repeat until no pause came in between, and no mail that there is room
        for before this request."""
        room = MOST_CHARACTERS
        while True:
            # Committed before a wait that may be long: until it ends, nobody would see the last result.
            if (
                self._agent_control.paused
                or self.allowance.must_wait
                or self._turn.slots.lacks(self._state.origin.record_id or "")
            ):
                await self._write()
            await until_ready(self._turn, self._agent_control)
            try:
                reserved = await self.allowance.reserve()
            except LimitReached as reached:
                if (last := self.allowance.landing(reached)) is None:
                    raise
                self._note(last)
                continue
            ready = False
            try:
                if self._agent_control.mail.fits(room):
                    await self._write()
                    room = await self._turn.router.read(self._agent_control, room)
                self._agent_control.check()
                ready = not self._agent_control.paused and not self._agent_control.mail.fits(room)
            finally:
                if not ready:
                    self.allowance.settle(reserved)
            if ready:
                return reserved

    def _add_notices(self) -> None:
        """Add a pending nudge and due warnings to the transcript before the model is asked."""
        if self._state.course.nudge is not None:
            self._note(self._state.course.nudge)
        while (warning := self.allowance.warning()) is not None:
            self._note(warning)

    def _request(self) -> Ask:
        state = self._state
        asked = self._agent.model_settings if self._asked is None else self._asked
        return Ask(
            system=self._system,
            messages=state.conversation.transcript.messages,
            tools=self._tool_calls.offered.shown(),
            tool_choice="none" if state.spending.landing and not self._tool_calls.offered.usable() else "auto",
            max_output_tokens=self.allowance.output_cap(asked.max_output_tokens),
            temperature=asked.temperature,
            thinking=asked.thinking,
            service_tier=asked.service_tier,
            cache_key=self._cache_key,
            seconds=self.allowance.seconds_for_call(),
            call_seconds=self.allowance.share.model_call_seconds,
            waited_seconds=state.asking.waited_seconds,
            priced_only=self._turn.budget.priced_only,
            free_only=self._turn.budget.free_only,
            hint=AskHint(state.conversation.task, state.spending.landing is not None, self._agent.hired.form),
        )

    async def _wait_while_paused(self) -> None:
        """Wait out a pause, after committing what was noted. Raises `Ended`."""
        if self._agent_control.is_cancelled or self._agent_control.paused:
            await self._write()
            await wait_while_paused(self._turn, self._agent_control)

    def _note(self, *facts: Fact) -> None:
        self._turn.journal.note(self._state.origin, *facts)

    async def _write(self, *facts: Fact) -> None:
        await self._turn.journal.write(self._state.origin, *facts)

    def report(
        self,
        status: AgentEnd,
        error: str | None = None,
        cause: Cause | None = None,
        limit: str | None = None,
        text: str = "",
        result: object = None,
    ) -> Report:
        """The report of a run that ends now."""
        state = self._state
        return Report(
            status=status,
            text=text or state.text,
            record_id=state.origin.record_id or "",
            usage=state.used,
            error=error,
            limit=limit,
            cause=cause,
            result=result,
            agent=state.origin.agent or "",
            title=self._task.title,
            rounds=state.rounds,
            model=self._agent.model.name,
            checked=state.judged.checked,
            revisions=state.judged.revisions,
            remark=state.course.answer_check.remark,
        )
