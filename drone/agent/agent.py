"""`AgentRuntime`, the public entry point, and `Run`: one task of an agent, started or resumed, within its wall
clock."""

import asyncio
import logging
from dataclasses import replace

from drone.agent.background import ended_with
from drone.agent.beginning import RunBeginning, SessionBeginning
from drone.agent.compaction.conversation import Began
from drone.agent.control.agent_control import AgentControl
from drone.agent.control.approver import Approver, Asking
from drone.agent.loop import Loop
from drone.agent.parts import AgentParts, StoredSetup, ToldAtStart
from drone.agent.ports.journal import Journal, MemoryJournal
from drone.agent.ports.model import ModelError, context_tokens
from drone.agent.ports.prefix import PrefixWatch
from drone.agent.ports.report import Cause, LimitReached, Report, Stopped, describe_or_raise
from drone.agent.spending.budget import Budget
from drone.agent.state.prefix_of_run import PrefixOfRun
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task, Turn, title_of
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.journal import AgentFinished, AgentReused
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import unchecked
from mcc.transcript.messages import Message
from mcc.transcript.opening import fitted, notes_on
from mcc.transcript.setup import Setup
from mcc.transcript.transcript import messages_of, opening_message

log = logging.getLogger("drone.agent")


class Run:
    """One agent carrying out one task, at its place in the agent tree."""

    def __init__(self, agent: AgentParts, task: Task, turn: Turn) -> None:
        self._agent = agent
        self._turn = turn
        self._opening = agent.hired.session
        self._journal = turn.journal
        self._origin = unchecked(
            Origin,
            record_id=task.record_id,
            parent_id=task.parent_id,
            agent=task.agent or agent.definition.name,
            depth=task.depth,
        )
        self._state = turn.tree.record(self._origin)
        if (started := self._state.started) is not None:
            # A resumed run keeps the prompt of its journal: another version might phrase the same task differently.
            task = replace(task, prompt=started.prompt)
        self._task = task

    @property
    def conversation(self) -> tuple[Message, ...]:
        """All messages of this run and of the conversation before it; a follow-up run starts from them."""
        return self._state.conversation.transcript.messages

    @property
    def tools_removed(self) -> tuple[str, ...]:
        """Tools and tool groups that people removed from this agent; a follow-up run starts without them, too."""
        return tuple(sorted(self._state.restraints.tools_removed.union(self._task.tools_removed)))

    async def execute(self) -> Report:
        if self._state.finished is not None:
            self._open_transcript(None)
            return self._state.report()
        moving = self._turn.idle.moving
        with (
            self._turn.router.entered(self._origin) as agent_control,
            moving(self._task.record_id, agent_control.block),
        ):
            agent_control.remove(self._task.tools_removed)
            if self._state.started is None:
                beginning = await self._begin()
            else:
                beginning = self._beginning(await self._original_setup())
            self._open_transcript(beginning.setup)
            loop = Loop(self._agent, self._task, self._turn, self._state, agent_control, beginning)
            before = len(beginning.setup.session) * 2 if beginning.setup is not None else 0
            environment = self._agent.hired.environment.text
            began = Began(
                before,
                self._opening.shown,
                len(self._task.earlier) + 1,
                environment,
                earlier=self._agent.earlier_model,
                last_at=self._opening.last_at,
                rolled_back=self._opening.is_rolled_back,
            )
            loop.compaction.begin(began, self._agent.compaction)
            try:
                async with ended_with(self._turn, self._origin):
                    report = await self._run_rounds(loop, agent_control)
            except Stopped as stopped:
                report = await self._report_of_stop(loop, stopped)
            except ModelError as error:
                kept = await self._best_submission(loop, self._state.judged.revisions > 0)
                report = loop.report(RecordStatus.FAILED, f"{error}", Cause.MODEL, None, *kept)
            finally:
                loop.compaction.stop()
            await loop.compaction.end()
            # The last entry follows those of the run's controls, which may still be on their way.
            await self._turn.router.settled()
            # The end of the root joins the transaction that ends the order (docs/decisions/08).
            if self._task.parent_id is None:
                self._journal.defer(self._origin, *_ending(report))
            else:
                await self._journal.write(self._origin, *_ending(report))
            return report

    def _session_beginning(self) -> SessionBeginning:
        return SessionBeginning(self._agent, self._opening, self._origin.agent or "")

    def _beginning(self, setup: Setup | None) -> RunBeginning:
        """What this run sends, and compares with the requests before it: its own, or those that it continues."""
        state, session = self._state, self._session_beginning()
        runs, continued = [state], self._task.continues
        while continued and (run := self._turn.tree.records.get(continued)) is not None:
            runs.append(run)
            continued = run.started.continues if run.started is not None else None
        before = next((run.asking.prefix for run in runs if run.asking.prefix is not None), None)
        prefix = session.prefix(state) if before is None else PrefixOfRun(state, PrefixWatch(before))
        oldest = runs[-1]
        begun_before = (
            oldest.started.continues if oldest.started is not None and oldest.started.continues_order else None
        )
        return RunBeginning(setup, prefix, session.cache_key(begun_before or oldest.origin.record_id or ""))

    async def _begin(self) -> RunBeginning:
        agent, task = self._agent, self._task
        again = [AgentReused(message=task.prompt, turn=task.turn_number)] if task.continues else []
        besides = len(agent.system) + sum(len(spec.description) for spec in agent.specs) + len(task.prompt)
        self._opening = agent.hired.session
        # After a rollback compaction may do better than lines, and so may a model whose context is larger.
        if not self._opening.is_rolled_back:
            sizes = (context_tokens(model) for model in (agent.model, agent.earlier_model) if model is not None)
            window = max((tokens for tokens in sizes if tokens), default=None)
            self._opening = await fitted(self._opening, window, besides, self._journal.keep)
        if self._opening.put_away:
            self._turn.artifacts.put_away()
        beginning = self._session_beginning()
        setup = await beginning.setup(self._journal.kept)
        text = agent.setup if setup is None else agent.setup_with(setup.system, setup.specs)
        async with self._turn.beginning:
            digest = await self._journal.keep(text)
        specs = agent.specs if setup is None else setup.specs
        stored = StoredSetup(digest, beginning.key, tuple(spec.name for spec in specs))
        # A continued conversation already contains the environment.
        known = {} if task.continues else beginning.environment_told
        environment = "" if task.continues else agent.hired.environment.beyond(known)
        told = {**known, **agent.hired.environment.digests} if task.parent_id is None else {}
        # What its hirer was shown may stand in its prompt, and a conversation that it continues is shown again.
        hired_by_tainted = self._turn.tree.is_tainted(task.parent_id, task.continues)
        tainted = self._opening.tainted or bool(task.attachments) or hired_by_tainted
        at_start = ToldAtStart(environment, self._opening.context(told), tainted)
        started = agent.started(task, self._turn.budget.limits, stored, at_start)
        self._turn.budget.spawn_began(task.record_id)
        notes = (*notes_on(task.attachments), *agent.hired.notes, *self._opening.steps)
        self._journal.note(self._origin, started, *again, *notes)
        if task.parent_id is not None:
            # A control for a subagent is an entry of its record, so the start of that record must be committed first.
            await self._journal.write(self._origin)
        return self._beginning(setup)

    async def _original_setup(self) -> Setup | None:
        """The setup the run started with; None when the agent's current one is the same.

        A resumed run keeps the system prompt and tools it started with, whatever has changed since.
        """
        assert self._state.started is not None
        kept = await self._journal.kept(self._state.started.setup_digest)
        if kept is None or kept == self._agent.setup:
            return None
        try:
            return Setup.read(kept, self._agent.known_specs)
        except ValueError as problem:
            log.warning("the set-up of an agent cannot be read: %s", problem)
            return None

    def _open_transcript(self, setup: Setup | None) -> None:
        agent, task = self._agent, self._task
        system, before = (agent.system, ()) if setup is None else (setup.system, setup.session)
        extra_characters = len(system) + sum(len(spec.description) for spec in agent.specs)
        started = self._state.started
        environment, attachments = (started.environment, started.attachments) if started else ("", ())
        first = opening_message(environment, task.prompt, attachments)
        session = (shown.message for shown in self._opening.shown)
        opening = (*messages_of(before), *session, *task.earlier, first)
        for digest in self._opening.artifacts:
            self._turn.artifacts.register(digest)
        self._turn.artifacts.register_pictures(*self._opening.pictures)
        self._state.conversation.transcript.open(opening, extra_characters)

    async def _run_rounds(self, loop: Loop, agent_control: AgentControl) -> Report:
        """Run the rounds within the agent's wall clock, until they end or someone cancels the agent."""
        allowance = loop.allowance
        try:
            async with asyncio.timeout(max(0.0, allowance.seconds_left())) as scope:

                def keep_time(stands: bool) -> None:
                    """Stop the agent's wall clock while the whole tree is idle."""
                    # A timeout that has expired, or is about to, cannot be rescheduled.
                    if agent_control.is_cancelled or scope.expired():
                        return
                    left = max(0.0, allowance.seconds_left())
                    scope.reschedule(None if stands else asyncio.get_running_loop().time() + left)

                with agent_control.in_rounds(scope), self._turn.idle.watched(keep_time):
                    await self._turn.router.arrived(self._task.record_id)
                    return await loop.until_done()
        except TimeoutError as error:
            # A time limit of something inside, which is no end of this clock.
            if not scope.expired():
                raise
            # A cancel, too, ends the rounds by letting this clock expire.
            agent_control.check()
            raise LimitReached("wall_seconds", allowance.share.wall_seconds) from error

    async def _report_of_stop(self, loop: Loop, stopped: Stopped) -> Report:
        """The report of a run that was stopped. After a cancel or at the wall clock, its open calls and children are
        closed in the journal first."""
        await self._turn.router.settled()
        limit = stopped.limit if isinstance(stopped, LimitReached) else None
        if stopped.cause is Cause.CANCELLED or limit == "wall_seconds":
            await self._journal.close(stopped.status, str(stopped), self._task.record_id, limit)
        submitted = stopped.cause in (Cause.GATE, Cause.LIMIT) or self._state.judged.revisions > 0
        ended = stopped.cause is Cause.CANCELLED or limit == "wall_seconds"
        kept = await self._best_submission(loop, submitted and not ended)
        return loop.report(stopped.status, str(stopped), stopped.cause, limit, *kept)

    async def _best_submission(self, loop: Loop, submitted: bool) -> tuple[str, object]:
        """Text and result of the best submission that was not accepted; nothing when nothing was `submitted`."""
        best = await loop.best_unaccepted() if submitted else None
        return ("", None) if best is None else (best.text, best.result)


def _ending(report: Report) -> tuple[AgentFinished, ...]:
    """The last entry of a run; none where `Journal.close` has already written it (cancel, wall clock)."""
    if report.cause is Cause.CANCELLED or report.limit == "wall_seconds":
        return ()
    return (
        AgentFinished(
            status=report.status,
            answer=report.text,
            result=report.result,
            error=report.error,
            cause=report.cause and report.cause.value,
            limit=report.limit,
        ),
    )


async def report_of_crash(agent: AgentParts, task: Task, turn: Turn, error: BaseException) -> Report:
    """The report of a run that raised `error`; its open calls and children are closed in the journal.

    Re-raises errors that end the whole tree (`describe_or_raise`).
    """
    said = f"the agent broke: {describe_or_raise(error)}"
    log.error("an agent broke", exc_info=error)
    await turn.journal.close(RecordStatus.FAILED, said, under=task.record_id)
    name = task.agent or agent.definition.name
    return Report(RecordStatus.FAILED, "", task.record_id, error=said, cause=Cause.BROKE, agent=name)


class AgentRuntime(AgentParts):
    """Runs tasks, concurrently if called so; keeps no state between them."""

    async def run(self, task: str | Task, turn: Turn | None = None, *, approver: Approver | None = None) -> Report:
        """Run one task to its end. Without a turn, the run gets a tree of its own with a journal in memory.

        `approver` decides calls that need an approval in such a turn, and answers the tool `ask_user`; with None such
        calls are denied. Failures of models and tools are in the report; raises only `JournalError`, `Exhausted` and
        CancelledError.
        """
        if turn is None:
            turn = self.turn(approver=approver)
        if isinstance(task, str):
            task = Task(task, turn.root or root_record_id(fresh_id()), title_of(task))
        try:
            return await Run(self, task, turn).execute()
        except BaseException as error:
            return await report_of_crash(self, task, turn, error)

    def turn(self, journal: Journal | None = None, tree: Tree | None = None, approver: Approver | None = None) -> Turn:
        """A turn with this agent's limits for the whole tree, and a journal in memory unless one is given.

        `tree`: the state from the journal of an interrupted turn; `run` with the same task then resumes it.
        """
        journal = journal or MemoryJournal(fresh_id())
        people = None if approver is None else Asking(approver)
        return Turn.begun(journal, Budget(self.limits), tree=tree, people=people)
