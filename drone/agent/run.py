"""This room is for one run of an agent: ask the model, act on its tool calls, ask again, until there is a result."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from drone.agent.acting import Acted, Hands
from drone.agent.asking import Ear, ask, cut_short, failed
from drone.agent.controls.helm import Helm
from drone.agent.gates.gate import Finish, Verdict
from drone.agent.messages import AssistantMessage, Message, ToolResults, UserMessage
from drone.agent.mishap import mishap
from drone.agent.past import RecordPast
from drone.agent.ports import Ask, AskLater, ModelError
from drone.agent.progress import Progress
from drone.agent.recollection import Open, Recollection
from drone.agent.report import Cause, LimitReached, Report, Stopped
from drone.agent.session import messages_of
from drone.agent.setup import SetUp
from drone.agent.spending.allowance import Allowance
from drone.agent.spending.budget import Reservation, Share
from drone.agent.transcript import Transcript
from drone.agent.turn import Task, Turn
from drone.agent.waiting import leave_alone, rest, unhindered
from mcc.contracts.journal import AgentFinished, AgentReused, AgentStep, Fact, ModelReplied, Origin
from mcc.contracts.order import EarlierTurn
from mcc.contracts.record import AgentEnd, RecordStatus

if TYPE_CHECKING:
    from drone.agent.agent import Agent

log = logging.getLogger("drone.agent")

_ENDS: dict[object, AgentEnd] = {"blocked": RecordStatus.BLOCKED, "failed": RecordStatus.FAILED}
"""How a run ended whose accepted result has this status."""


class Run:
    """One agent doing one task: its transcript, its allowance, its place in the tree."""

    def __init__(self, agent: "Agent", task: Task, turn: Turn) -> None:
        past = turn.past.record(task.record_id)
        if past is not None:
            # The question stands in the journal: a later version might put it in other words.
            task = replace(task, prompt=past.started.prompt)
        self._agent = agent
        self._task = task
        self._turn = turn
        self._journal = turn.journal
        self._origin = Origin(
            record_id=task.record_id, parent_id=task.parent_id, agent=agent.definition.name, depth=task.depth
        )
        self._helm = Helm(self._origin)
        self._allowance = Allowance(
            turn.budget,
            Share.of(turn.budget.limits, agent.definition.limits, task.depth),
            finish=agent.gate.finish if agent.gate else None,
            told=turn.budget.told_to(task.record_id, task.continues),
        )
        self._finish = Finish(agent.gate) if agent.gate else None
        self._hands = Hands(agent, turn, self._origin, self._allowance, self._finish, task.prompt)
        self._hands.recall(task.earlier)
        self._progress = Progress(self._finish)
        self._system = agent.system
        self._transcript = self._begun_with(agent.session)
        self._unwritten: tuple[Fact, ...] = ()
        self._nudge: AgentStep | None = None
        self._open: Open | None = None
        self._tries = 0
        self._rounds = 0
        self._text = ""

    @property
    def conversation(self) -> tuple[Message, ...]:
        """Everything that was said in this run and before it, for whoever continues it."""
        return tuple(self._transcript.messages)

    @property
    def tools_removed(self) -> tuple[str, ...]:
        """What people took away from this agent, for whoever continues it."""
        return self._helm.removed

    async def to_its_end(self) -> Report:
        past = self._turn.past.record(self._task.record_id)
        if past is not None and past.finished is not None:
            self._recall(past)
            return past.report()
        moving = self._turn.standstill.moving
        with self._turn.bridge.entered(self._origin) as self._helm, moving(self._task.record_id, self._helm):
            self._helm.remove(self._task.tools_removed)
            self._hands.steer_by(self._helm)
            await (self._begin() if past is None else self._restore(past))
            try:
                if past is not None:
                    self._recall(past)
                report = await self._in_scope()
            except Stopped as stopped:
                report = await self._stopped(stopped)
            except ModelError as error:
                report = self._without_reply(error)
            await self._turn.bridge.settled()
            await self._write(*self._ending(report))
            return report

    def _begun_with(self, session: Iterable[EarlierTurn]) -> Transcript:
        agent, task = self._agent, self._task
        beside = len(self._system) + sum(len(spec.description) for spec in agent.specs)
        return Transcript((*messages_of(session), *task.earlier, UserMessage(task.prompt)), beside)

    async def _begin(self) -> None:
        agent, task = self._agent, self._task
        async with self._turn.beginning:
            setup_digest = await self._journal.keep(agent.setup)
        again = [AgentReused(message=task.prompt, turn=task.turn_number)] if task.continues else []
        started = agent.started(task, self._turn.budget.limits, setup_digest)
        await self._journal.write(self._origin, started, *again, *agent.notes)

    async def _restore(self, past: RecordPast) -> None:
        """Ask as the run was begun: with the system prompt and the tools of its beginning, whatever came since."""
        kept = await self._journal.kept(past.started.setup_digest)
        if kept is None or kept == self._agent.setup:
            return
        try:
            setup = SetUp.read(kept, self._agent.specs)
        except ValueError as problem:
            log.warning("the set-up of an agent cannot be read: %s", problem)
            return
        self._system = setup.system
        self._transcript = self._begun_with(setup.session)
        self._hands.set_up(setup)

    def _recall(self, past: RecordPast) -> None:
        """Go on where an earlier drone left the agent. Raises `NoProgress`."""
        read = Recollection(self._transcript, self._hands, self._helm, self._allowance, self._progress, self._finish)
        read.read(past)
        self._rounds, self._text, self._nudge, self._open = read.rounds, read.text, read.nudge, read.open
        self._tries = read.tries
        if past.finished is not None:
            read.end()
        elif read.stopped is not None:
            raise read.stopped

    async def _go_on(self) -> Report | None:
        """Bring to its end what an earlier drone could not: a result that was accepted, or a reply."""
        if self._finish is not None and self._finish.accepted_before is not None:
            await self._held(())
            if (refused := await self._hands.hand_in_again(self._finish.accepted_before)) is not None:
                await self._write(refused)
                self._transcript.hear(refused)
            return None if self._finish.accepted is None else self._accepted(self._finish.accepted)
        return None if self._open is None else await self._deal_with(self._open)

    async def _deal_with(self, begun: Open) -> Report | None:
        """Deal with the reply that an earlier drone could not deal with to its end."""
        reply, calls = begun.reply, begun.reply.tool_calls
        if not calls:
            return await self._answered(reply, ())
        unknown = self._hands.outcome_unknown(begun.started, begun.finished)
        starting = [fact for fact in self._hands.starting(calls, self._rounds) if fact.call_id not in begun.started]
        await self._write(*unknown, *starting)
        before = {**begun.finished, **{one.call_id: one for one in unknown}}
        return await self._acted(reply, await self._hands.act(calls, before, begun.started))

    async def _in_scope(self) -> Report:
        """The rounds, within the wall clock of this agent, and until someone cancels it."""
        try:
            async with asyncio.timeout(max(0.0, self._allowance.seconds_left())) as scope:
                with self._helm.steering(scope), self._turn.standstill.watched(partial(self._keep_time, scope)):
                    await self._turn.bridge.arrived(self._task.record_id)
                    return await self._until_done()
        except TimeoutError as error:
            if not scope.expired():
                raise
            self._helm.check()
            raise LimitReached("wall_seconds", self._allowance.share.wall_seconds) from error

    def _keep_time(self, scope: asyncio.Timeout, stands: bool) -> None:
        """The wall clock of this agent stops while the tree stands still."""
        if self._helm.ending or scope.expired():
            return
        left = max(0.0, self._allowance.seconds_left())
        scope.reschedule(None if stands else asyncio.get_running_loop().time() + left)

    async def _until_done(self) -> Report:
        if self._finish is not None:
            self._finish.check_attempts()
        if (report := await self._go_on()) is not None:
            return report
        while True:
            self._rounds += 1
            reply = await self._ask()
            self._text = reply.text or self._text
            report = await (self._act(reply) if reply.tool_calls else self._answered(reply, (reply, *cut_short(reply))))
            if report is not None:
                return report

    async def _ask(self) -> ModelReplied:
        """Ask, once nobody holds the agent up and what it may cost is reserved; anew when that was asked for later."""
        while True:
            reserved = await self._go_ahead()
            ear = Ear(self._journal, self._origin, self._rounds, self._agent.model.name, reserved, self._tries + 1)
            self._tries = 0
            try:
                return await self._ask_once(reserved, ear)
            except AskLater as refusal:
                await self._wait_out(refusal, ear)
                self._tries = ear.attempt

    async def _ask_once(self, reserved: Reservation, ear: Ear) -> ModelReplied:
        usage, model = None, ""
        try:
            said = self._to_say()
            self._transcript.hear(*said)
            reply = await ask(self._agent.model, self._question(), ear, *self._taken(), *said)
            usage, model = reply.usage, reply.model
            return reply
        except ModelError as error:
            usage, model = error.usage, self._agent.model.name
            raise
        finally:
            self._allowance.settle(reserved, usage, model)

    async def _wait_out(self, refusal: AskLater, ear: Ear) -> None:
        """Wait until the provider is to be asked again. Raises `ModelError` where that is longer than may be."""
        standstill, seconds = self._turn.standstill, refusal.seconds
        if not standstill.may_wait(seconds):
            raise refusal.given_up("longer than its order may wait" if standstill.parks else "")
        await self._write(*failed(refusal), ear.put_off(str(refusal), seconds))
        await leave_alone(self._turn, self._helm, refusal)

    async def _go_ahead(self) -> Reservation:
        """Wait out pauses, reserve, read what waits: until nothing came in between that holds the agent up again."""
        while True:
            if self._helm.paused or self._allowance.must_wait or self._turn.places.lacks(self._task.record_id):
                await self._write()
            await unhindered(self._turn, self._helm)
            reserved = await self._allowance.reserve(self._rounds, self._transcript.characters)
            ready = False
            try:
                await self._read_mail()
                self._helm.check()
                ready = not self._helm.paused and not self._helm.mail
            finally:
                if not ready:
                    self._allowance.settle(reserved, None)
            if ready:
                return reserved

    async def _read_mail(self) -> None:
        if not self._helm.mail:
            return
        await self._write()
        for mail in await self._turn.bridge.read(self._helm):
            self._transcript.hear(mail.read())
            if mail.redirects:
                self._hands.task = mail.text

    def _to_say(self) -> list[Fact]:
        """What the model is told before it is asked, beside people's mail: a nudge, a warning."""
        said: list[Fact] = []
        if self._nudge is not None:
            said.append(self._nudge)
            self._nudge = None
        while warning := self._allowance.warning(self._rounds):
            said.append(warning)
        return said

    def _question(self) -> Ask:
        definition = self._agent.definition
        return Ask(
            system=self._system,
            messages=tuple(self._transcript.messages),
            tools=self._hands.specs(),
            max_output_tokens=self._allowance.output_cap(),
            temperature=definition.temperature,
            thinking=definition.thinking,
            seconds=self._allowance.model_call_seconds(),
        )

    async def _act(self, reply: ModelReplied) -> Report | None:
        """Do what the reply asks for; the report once a result is accepted."""
        calls = reply.tool_calls
        facts = await self._held((reply, *cut_short(reply), *self._allowance.untold()))
        await self._write(*facts, *self._hands.starting(calls, self._rounds))
        return await self._acted(reply, await self._hands.act(calls))

    async def _acted(self, reply: ModelReplied, acted: Acted) -> Report | None:
        calls = reply.tool_calls
        self._unwritten = acted.unwritten
        self._transcript.add(AssistantMessage(reply.text, reply.thinking, reply.thoughts, calls))
        self._transcript.add(ToolResults(acted.results))
        if self._finish is not None:
            self._finish.check_attempts(acted.refusals)
            if self._finish.accepted is not None:
                return self._accepted(self._finish.accepted)
        self._nudge = self._progress.saw(calls, acted.finished, reply)
        return None

    async def _answered(self, reply: ModelReplied, facts: tuple[Fact, ...]) -> Report | None:
        """A reply without tool calls: the result of an agent without a gate, sent back to one that has a gate.

        `facts` are what is to be written of it.
        """
        facts = await self._held(facts)
        self._transcript.add(AssistantMessage(reply.text, reply.thinking, reply.thoughts))
        if self._finish is not None:
            refused = self._finish.not_handed_in()
            await self._write(*facts, refused)
            self._transcript.hear(refused)
            self._finish.check_attempts(refused.errors)
            return None
        self._unwritten = facts
        if self._helm.mail:
            return None
        self._nudge = self._progress.answered(reply.text)
        return self._report(RecordStatus.COMPLETED) if self._nudge is None else None

    async def _held(self, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
        """Wait out a pause; answers what of these facts is still to be written. Raises `Ended`."""
        if self._helm.ending:
            await self._write(*facts)
            self._helm.check()
        if not self._helm.paused:
            return facts
        await self._write(*facts)
        await rest(self._turn, self._helm)
        return ()

    def _accepted(self, verdict: Verdict) -> Report:
        result = verdict.result
        claimed = result.get("status") if isinstance(result, dict) else None
        self._text = verdict.text or self._text
        status = _ENDS.get(claimed, RecordStatus.COMPLETED) if isinstance(claimed, str) else RecordStatus.COMPLETED
        return self._report(status, result=result)

    def _without_reply(self, error: ModelError) -> Report:
        """What the model gave up on; what its tries cost all the same is an entry."""
        self._unwritten = (*self._unwritten, *failed(error))
        return self._report(RecordStatus.FAILED, f"{error}", Cause.MODEL)

    async def _stopped(self, stopped: Stopped) -> Report:
        """Close what the run left open below it, when it was cut off in the midst of something."""
        await self._turn.bridge.settled()
        limit = stopped.limit if isinstance(stopped, LimitReached) else None
        if stopped.cause is Cause.CANCELLED or limit == "wall_seconds":
            await self._write(*self._allowance.untold())
            await self._journal.close(stopped.status, str(stopped), under=self._task.record_id)
        return self._report(stopped.status, str(stopped), stopped.cause, limit)

    def _ending(self, report: Report) -> tuple[Fact, ...]:
        if report.cause is Cause.CANCELLED or report.limit == "wall_seconds":
            return ()
        end = AgentFinished(
            status=report.status,
            answer=report.text,
            result=report.result,
            error=report.error,
            cause=report.cause and report.cause.value,
            limit=report.limit,
        )
        return (*self._allowance.untold(), end)

    async def _write(self, *facts: Fact) -> None:
        """Commit what waits to be, then these facts."""
        waiting = self._taken()
        if waiting or facts:
            await self._journal.write(self._origin, *waiting, *facts)

    def _taken(self) -> tuple[Fact, ...]:
        """What waits to be committed; it is the caller's now, for a write that is cut off may yet have happened."""
        waiting, self._unwritten = self._unwritten, ()
        return waiting

    def _report(
        self,
        status: AgentEnd,
        error: str | None = None,
        cause: Cause | None = None,
        limit: str | None = None,
        result: object = None,
    ) -> Report:
        return Report(
            status=status,
            text=self._text,
            record_id=self._task.record_id,
            usage=self._allowance.usage,
            error=error,
            limit=limit,
            cause=cause,
            result=result,
            agent=self._agent.definition.name,
            title=self._task.title,
            rounds=self._rounds,
            model=self._agent.model.name,
        )


async def broken(agent: "Agent", task: Task, turn: Turn, error: BaseException) -> Report:
    """The report of a run that raised this, everything of it closed; raises again what ends the whole tree."""
    said = f"the agent broke: {mishap(error)}"
    log.error("an agent broke", exc_info=error)
    await turn.journal.close(RecordStatus.FAILED, said, under=task.record_id)
    return Report(RecordStatus.FAILED, "", task.record_id, error=said, cause=Cause.BROKE, agent=agent.definition.name)
